"""Suites: what a valid one gives, and errors that name the file, the key and the fix."""

from pathlib import Path

import pytest

from dataeff.bench.desk import Desk
from dataeff.bench.suite import load_suite, make_suite
from dataeff.errors import DataeffError, StrategyConflict, UnknownName
from dataeff.lab import Lab

BUNDLED = sorted((Path(__file__).parent.parent / "benchmarks" / "suites").glob("*.toml"))

VALID = """
title = "Two ways"
seeds = 2
strategies = ["baseline", "random_backprop[keep=0.25]"]

[tasks.blobs]
dataset = "synthetic[samples=90]"
model = "tiny"
epochs = 2
"""

PUBLISHED = """
[[published]]
strategy = "random_backprop[keep=0.250]"
task = "blobs"
accuracy = 91.5
source = "Nobody 2026"
"""


@pytest.fixture
def lab(installed):
    return Lab(installed, "cpu")


@pytest.fixture
def load(tmp_path, lab):
    """Write a suite file and load it."""

    def write_and_load(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return load_suite(str(path), Desk.beside(lab))

    return write_and_load


def test_a_valid_suite_is_loaded_as_written(load):
    suite = load(VALID + PUBLISHED)
    assert (suite.name, suite.title, suite.seeds) == ("mine", "Two ways", 2)
    assert suite.strategies == ["baseline", "random_backprop[keep=0.25]"]
    assert suite.reference == "baseline"
    task = suite.tasks["blobs"]
    assert (task.dataset, task.model, task.epochs) == ("synthetic[samples=90]", "tiny", 2)
    assert suite.published[0].accuracy == 91.5


def test_strategies_take_their_one_canonical_form(load):
    written = '"baseline", " random_backprop[ keep = 0.250 ]", "random_subset[keep=0.5]+amp"'
    text = VALID.replace('"baseline", "random_backprop[keep=0.25]"', written)
    suite = load(text + PUBLISHED)
    assert suite.strategies == [
        "baseline",
        "random_backprop[keep=0.25]",
        "random_subset[keep=0.5]+amp",
    ]
    assert suite.published[0].strategy == "random_backprop[keep=0.25]"


def test_a_registered_suite_is_found_by_its_name(tmp_path, lab):
    (tmp_path / "file.toml").write_text(VALID)
    lab.installed.suites.register("shown", tmp_path / "file.toml", source="test")
    assert load_suite("shown", Desk.beside(lab)).name == "shown"


def test_an_unknown_name_lists_close_ones(lab):
    with pytest.raises(UnknownName, match=r"'quickstrt'.*Did you mean quickstart\?.*suites"):
        load_suite("quickstrt", Desk.beside(lab))


def test_a_missing_file_is_named(lab):
    with pytest.raises(DataeffError, match=r"There is no suite file gone.toml; dataeff suites"):
        load_suite("gone.toml", Desk.beside(lab))


# Each line: what is replaced in the valid suite, by what, and the sentence that must come.
MISTAKES = {
    "unknown key of the suite": (
        "seeds = 2",
        "seed = 2",
        "there is no key 'seed'. Did you mean seeds?",
    ),
    "unknown key of a task": (
        "model =",
        "modell =",
        "there is no key 'tasks.blobs.modell'. Did you mean model?",
    ),
    "timing": (
        "seeds = 2",
        "seeds = 2\ntiming = 'both'",
        "timing: Input should be 'turns' or 'whole' (it is 'both').",
    ),
    "controls as a text": (
        "seeds = 2",
        "seeds = 2\ncontrols = 'all'",
        "controls: write true, false, or a list of names in brackets (it is 'all').",
    ),
    "a control that there is not": (
        "seeds = 2",
        "seeds = 2\ncontrols = ['baselin']",
        "controls: 'baselin' cannot be had at any cost. Known: random_backprop, short_schedule.",
    ),
    "unknown key, nothing close": (
        "seeds = 2",
        "zzz = 2",
        "there is no key 'zzz'. Known keys: title, seeds, margin, strategies, tasks, only, "
        "published, claims, controls, timing, match, names.",
    ),
    "unknown key of a published figure": (
        "source =",
        "sorce =",
        "there is no key 'published.0.sorce'. Did you mean source?",
    ),
    "a name inside the file": (
        "seeds = 2",
        'name = "other"',
        "there is no key 'name': the suite is called mine; use title for more.",
    ),
    "missing key": (
        'model = "tiny"',
        "",
        "the key 'tasks.blobs.model' is missing; add it.",
    ),
    "wrong value": (
        "epochs = 2",
        "epochs = 0",
        "tasks.blobs.epochs: Input should be greater than or equal to 0.001 (it is 0).",
    ),
    "wrong kind of value": (
        "seeds = 2",
        'seeds = "many"',
        "seeds: 'many' is no number of seeds; write auto, a number such as 5, or a range such as "
        "3-5 (it is 'many').",
    ),
    "wrong choice": (
        "epochs = 2",
        'epochs = 2\noptimizer = "sgdd"',
        "tasks.blobs.optimizer: Input should be 'sgd', 'adam' or 'adamw' (it is 'sgdd').",
    ),
    "nesterov with adam": (
        "epochs = 2",
        'epochs = 2\noptimizer = "adam"\nnesterov = true',
        'tasks.blobs: nesterov = true needs optimizer = "sgd" and momentum above 0.',
    ),
    "milestones without step": (
        "epochs = 2",
        "epochs = 2\nmilestones = [1]",
        'tasks.blobs: schedule = "step" and milestones = [...] go together.',
    ),
    "unknown strategy": (
        '"baseline"',
        '"basline"',
        "strategies: There is no strategy 'basline'. Did you mean baseline? "
        "See: dataeff strategies",
    ),
    "unknown parameter": (
        'random_backprop[keep=0.25]"]',
        'random_backprop[kep=0.25]"]',
        "strategies: strategy random_backprop has no parameter 'kep'. Did you mean keep? "
        "It takes: keep, mode.",
    ),
    "parameter out of range": (
        'random_backprop[keep=0.25]"]',
        'random_backprop[keep=2]"]',
        "strategies: strategy random_backprop: keep=2 is not valid, it should be less than or "
        "equal to 1.",
    ),
    "unreadable strategy": (
        'random_backprop[keep=0.25]"]',
        'random_backprop[keep=0.25"]',
        "strategies: Cannot read 'random_backprop[keep=0.25' at position 15; write name, "
        "name[key=value,key=value] or name+name.",
    ),
    "repeated strategy": (
        '"baseline", ',
        '"baseline", "random_backprop[keep=0.250]", ',
        "strategies: random_backprop[keep=0.25] is there twice; delete one.",
    ),
    "unknown dataset": (
        "synthetic[samples=90]",
        "synthetik",
        "tasks.blobs.dataset: There is no dataset 'synthetik'. Did you mean synthetic? "
        "See: dataeff datasets",
    ),
    "published for an unknown task": (
        'task = "blobs"',
        'task = "blob"',
        "published.0.task: there is no task 'blob'. Did you mean blobs?",
    ),
    "published for an unknown strategy": (
        'strategy = "random_backprop',
        'strategy = "random_backdrop',
        "published.0.strategy: There is no strategy 'random_backdrop'. Did you mean "
        "random_backprop? See: dataeff strategies",
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_file_key_and_fix(load, tmp_path, old, new, sentence):
    text = VALID + PUBLISHED
    assert text.count(old) == 1
    with pytest.raises(DataeffError) as caught:
        load(text.replace(old, new))
    assert str(caught.value) == f"{tmp_path}/mine.toml: {sentence}"


def test_strategies_that_conflict_are_refused_before_anything_runs(load):
    with pytest.raises(StrategyConflict, match=r"mine.toml: strategies: .*cannot run together"):
        load(VALID.replace('"baseline"', '"random_subset+random_subset[keep=0.3]"'))


def test_wrong_toml_is_told_with_its_line(load):
    with pytest.raises(DataeffError, match=r"mine.toml is not valid TOML: .*line 3"):
        load(VALID.replace("seeds = 2", "seeds ="))


def test_a_file_that_is_no_text_is_refused(tmp_path, lab):
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataeffError, match=r"mine.toml is not valid TOML"):
        load_suite(str(tmp_path / "mine.toml"), Desk.beside(lab))


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_every_bundled_suite_loads_by_its_name(path, lab):
    suite = load_suite(path.stem, Desk.beside(lab))
    assert suite.name == path.stem
    assert suite.title
    assert suite.reference == "baseline"


def test_there_is_a_bundled_suite():
    assert "quickstart" in [path.stem for path in BUNDLED]


def test_a_task_without_a_name_is_explained(lab):
    content = {"name": "s", "strategies": ["baseline"], "tasks": {"dataset": "digits"}}
    with pytest.raises(DataeffError, match=r"tasks\.dataset is no task; write \[tasks\.NAME\]"):
        make_suite(content, Desk.beside(lab), where="s.toml")


def test_endless_training_is_refused(lab):
    task = {"dataset": "digits", "model": "tiny", "epochs": float("inf")}
    content = {"name": "s", "strategies": ["baseline"], "tasks": {"a": task}}
    with pytest.raises(DataeffError, match=r"tasks\.a\.epochs: .*finite"):
        make_suite(content, Desk.beside(lab), where="s.toml")


# Strategies for some tasks ----------------------------------------------------------------------

TWO_TASKS = VALID + VALID[VALID.index("[tasks") :].replace("blobs", "others")


def test_a_strategy_may_be_for_some_tasks_only(load):
    suite = load(TWO_TASKS + '\n[only]\n"random_backprop[keep=0.250]" = ["others"]\n')
    assert suite.complete_on("blobs") == ["baseline"]
    assert suite.complete_on("others") == ["baseline", "random_backprop[keep=0.25]"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"baseline" = ["blobs"]', "only: baseline is needed on every task; leave it out here."),
        ('"random_backprop" = ["blob"]', "there is no task 'blob'. Did you mean blobs?"),
        ('"random_backprp" = ["blobs"]', "There is no strategy 'random_backprp'."),
    ],
)
def test_what_is_only_for_some_tasks_must_be_there(load, line, said):
    with pytest.raises(DataeffError) as mistake:
        load(TWO_TASKS + f"\n[only]\n{line}\n")
    assert said in str(mistake.value)
