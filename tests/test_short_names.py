"""Short names of strategies: given by a suite, kept in its results, used where there is no room."""

from pathlib import Path

import pytest
from benches import TASK, Bench
from boards import board
from records import Folder
from test_suite import VALID

from dataeff.bench.asked import write_suite
from dataeff.bench.desk import Desk
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import load_suite, make_suite
from dataeff.errors import DataeffError
from dataeff.lab import Lab
from dataeff.report.board import read_board
from dataeff.report.latex import latex
from dataeff.report.styles import labels_of

KEEP = "random_backprop[keep=0.25]"
LINE = "short_schedule[share=?]"


@pytest.fixture
def desk(installed):
    return Desk.beside(Lab(installed, "cpu"))


@pytest.fixture
def load(tmp_path, desk):
    """Load the valid suite with these names."""

    def write_and_load(names):
        path = tmp_path / "mine.toml"
        path.write_text(VALID.replace("seeds = 2", f"seeds = 2\nnames = {names}"))
        return load_suite(str(path), desk)

    return write_and_load


# In suites --------------------------------------------------------------------------------------


def test_any_spelling_of_a_strategy_is_given_its_name(load):
    names = load('{ "random_backprop[ keep=0.250 ]" = "RB", baseline = "SGD" }').names
    assert names == {KEEP: "RB", "baseline": "SGD"}


def test_a_kind_of_training_less_has_a_name_too(load):
    assert load(f'{{ "{LINE}" = "fewer epochs" }}').names == {LINE: "fewer epochs"}


MISTAKES = {
    "unknown strategy": (
        '{ random_backdrop = "RB" }',
        "names: There is no strategy 'random_backdrop'. Did you mean random_backprop? See: dataeff "
        "strategies",
    ),
    "strategy of another suite": (
        '{ "random_backprop[keep=0.35]" = "RB" }',
        "names: this suite does not run random_backprop[keep=0.35]. Did you mean "
        f"{KEEP} or random_backprop[keep=?,mode=accumulate]?",
    ),
    "nothing": (
        '{ baseline = " " }',
        "names: baseline: write a short name, of 40 letters at most (it is ' ').",
    ),
    "several lines": (
        '{ baseline = "a\\nb" }',
        "names: baseline: write a short name, of 40 letters at most (it is 'a\\nb').",
    ),
    "the same twice": (
        f'{{ baseline = "RB", "{KEEP}" = "RB" }}',
        "names: 'RB' is the name of several strategies; rename one.",
    ),
    "one strategy twice": (
        f'{{ "{KEEP}" = "RB", "random_backprop[keep=.25]" = "R" }}',
        f"names: {KEEP} is there twice; delete one.",
    ),
    "a number": ("{ baseline = 1 }", "names.baseline: write a text in quotes (it is 1)."),
    "a list": ('["RB"]', "names: write a table with keys (it is ['RB'])."),
}


@pytest.mark.parametrize(("names", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_says_what_to_type(load, tmp_path, names, sentence):
    with pytest.raises(DataeffError) as caught:
        load(names)
    assert str(caught.value) == f"{tmp_path}/mine.toml: {sentence}"


def test_a_suite_of_which_some_strategies_are_run_keeps_all_names(desk):
    content = {"name": "s", "strategies": ["baseline"], "names": {KEEP: "RB"}}
    suite = make_suite(content | {"tasks": {"blobs": TASK}}, desk, where="s.toml")
    assert suite.names == {KEEP: "RB"}


# In results -------------------------------------------------------------------------------------


def test_results_keep_names_and_the_last_command_renames(tmp_path, installed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bench = Bench(tmp_path, installed)
    for names in ({"baseline": "SGD", KEEP: "RB"}, {KEEP: "RB25"}):
        content = {"name": "try", "strategies": ["baseline", KEEP], "names": names}
        content |= {"seeds": 1, "controls": False, "tasks": {"blobs": TASK}}
        suite = make_suite(content, bench.desk, where="test")
        write_suite(Schedule(suite, bench.desk, Path("results")), Path("results/try"), "dataeff")
    assert read_names(Path("results/try")) == {"baseline": "SGD", KEEP: "RB25"}


def read_names(folder):
    from dataeff.report.read import read_suite

    return read_suite(folder)["names"]


def test_what_a_pattern_has_become_bears_its_name(tmp_path):
    folder = Folder(tmp_path / "results" / "hand", match="base", names={"ours[x=?]": "Ours"})
    folder.add("base", 0, 90.0).add("ours[x=0.5]", 0, 91.0)
    entry = {"task": "blobs", "conditions_id": "c1", "pattern": "ours[x=?]", "match": "base"}
    matched(folder.path, entry | {"strategy": "ours[x=0.5]"})
    assert read_board(folder.path).suite["names"]["ours[x=0.5]"] == "Ours"


def matched(path, entry):
    from dataeff.checked import write_entries
    from dataeff.forms import MATCHES

    rest = {"note": "", "value": 0.5, "ratio": 1.0, "pilots": [], "sources": {}, "data": ""}
    write_entries(path / "match.json", [rest | entry], MATCHES)


# Where there is no room -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["a[x=1]", "b[x=1]+c"], ["a", "b+c"]),
        (["a", "a[x=1]"], ["a", "a[x=1]"]),
        (["a[x=1,y=2]", "a[x=1,y=3]"], ["a[y=2]", "a[y=3]"]),
        (["a[x=1]", "a[x=1,by=class]"], ["a", "a[by=class]"]),
        (["a[x=1]+b[y=2]", "a[x=1]+b[y=3]", "b[y=2]"], ["a+b[y=2]", "a+b[y=3]", "b"]),
        (["a[x=1", "a[x=2"], ["a[x=1", "a[x=2"]),
    ],
)
def test_parameters_that_tell_nothing_apart_are_left_out(names, labels):
    assert list(labels_of({}, names).values()) == labels


def test_nobody_is_called_like_somebody_else():
    suite = {"names": {"a[x=1]": "b"}}
    assert labels_of(suite, ["a[x=1]", "b[y=1]"]) == {"a[x=1]": "b", "b[y=1]": "b[y=1]"}


def test_papers_use_short_names_and_keep_the_full_ones_beside():
    text = latex(board(names={"mixtrain_cutmix+amp": "Mixed & fast"}))
    (line,) = (line for line in text.splitlines() if line.startswith(r"Mixed \& fast & "))
    assert line.endswith(r"\\ % mixtrain_cutmix+amp")
