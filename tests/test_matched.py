"""Matched values from end to end: the command, and what is said of them."""

import json
from pathlib import Path

import pytest
from records import Folder
from shell import call, ok
from ticking import ADHOC, SUITE, tick

from dataeff.foretell import preview
from dataeff.report import terminal
from dataeff.report.web import page

SHORT, SKIPPING = "short_schedule[share=?]", "minibatch_skipping[skip=?]"
RANDOM = "random_backprop[keep=?,mode=accumulate]"
MATCHED = ["-s", SHORT, "-s", RANDOM, "--match", "random_subset[keep=0.6]", "--seeds", "2"]
RUN = [*ADHOC, *MATCHED, "--no-controls"]


@pytest.fixture
def ticking(monkeypatch):
    tick(monkeypatch)


@pytest.mark.long
def test_a_suite_with_patterns_from_end_to_end(ticking):
    first = call(*RUN)
    assert first.exit_code == 0, first.output
    pilots = [line for line in first.stdout.splitlines() if line.startswith("pilot: ")]
    assert f"pilot: synthetic {SHORT} becomes short_schedule[share=" in first.stdout
    frozen = json.loads(Path("results/mine/match.json").read_text())["entries"]
    entries = {entry["pattern"]: entry for entry in frozen}
    # 48 of 81 samples are kept, so that 0.593 of the time is taken.
    for entry in (entries[SHORT], entries[RANDOM]):
        assert entry["target"] == pytest.approx(48 / 81)
        assert entry["value"] == pytest.approx(48 / 81, rel=0.02)
    labels = [entries[text]["strategy"] for text in (SHORT, RANDOM)]
    said = f"{labels[0]}: matched to random_subset[keep=0.6], 1.00x its time (1.00-1.00)."
    full = ok("leaderboard", "mine", "--full")
    assert said in full
    assert f"{labels[1]}: matched to random_subset[keep=0.6], " in full
    suite = json.loads(Path("results/mine/suite.json").read_text())
    assert suite["strategies"] == ["baseline", "random_subset[keep=0.6]", *labels]
    assert len(list(Path("results/mine").glob("*/run.json"))) == 8

    again = ok(*RUN)
    assert "pilot" not in again
    assert "8 finished cells were skipped" in again
    assert said in ok("leaderboard", "mine", "--full")
    assert said in ok("leaderboard", "mine", "--markdown")
    assert "matched to" in Path("results/mine/report.html").read_text()
    said = ok(*RUN, "--dry-run")
    assert "8 cells (8 finished), nothing to run." in said
    assert "?" not in said
    assert f" {SHORT} " in ok(*RUN, "--dry-run", "--fresh")
    fresh = ok(*RUN, "--fresh")
    assert [line for line in fresh.splitlines() if line.startswith("pilot: ")] == pilots


def test_a_dry_run_counts_what_is_to_be_found(ticking):
    said = ok(*RUN, "--dry-run")
    lines = [line.split()[1:4] for line in said.splitlines()[1:5]]
    assert lines == [
        ["baseline", "2", "0"],
        ["random_subset[keep=0.6]", "2", "0"],
        [SHORT, "2", "0"],
        [RANDOM, "2", "0"],
    ]
    assert "8 cells, about " in said
    assert (
        f"Values for {SHORT} and {RANDOM} are found by pilots of a few epochs, which come on "
        "top: up to "
    ) in said
    assert not Path("results").exists()


def test_a_long_run_is_asked_about_with_all_its_cells(ticking, monkeypatch):
    asked = []
    monkeypatch.setattr("dataeff.cli.run._someone_is_there", lambda: True)
    monkeypatch.setattr(preview, "ASK_ABOVE", 0.0)
    monkeypatch.setattr("click.confirm", lambda text, err: asked.append(text))
    assert call(*RUN).exit_code == 1
    assert asked[0].startswith("8 cells, about ")
    assert " Pilots take up to " in asked[0]


@pytest.mark.long
def test_what_is_matched_comes_along(tmp_path, ticking):
    path = tmp_path / "mine.toml"
    path.write_text(SUITE)

    def names(*options):
        said = ok("run", path, *options, "--dry-run", "--no-controls", "--device", "cpu")
        return [line.split()[1] for line in said.splitlines() if line.startswith("blobs ")]

    matched = names("-s", SKIPPING)
    assert sorted(matched) == ["baseline", SKIPPING, "random_subset[keep=0.6]"]
    assert sorted(names("-s", SKIPPING, "--match", "amp")) == ["amp", "baseline", SKIPPING]
    assert names("-s", "amp") == ["baseline", "amp"]


def test_a_pattern_without_a_value_is_a_failure(ticking, tmp_path):
    plugin = tmp_path / "plugins" / "odd.py"
    plugin.parent.mkdir()
    plugin.write_text(ODD)
    given = ["--plugins-dir", plugin.parent, "-s", "odd[keep=?]", "--match", "random_subset"]
    result = call(*ADHOC, *given, "--seeds", "1", "--no-controls")
    assert result.exit_code == 1
    line = result.stderr.splitlines()[-1]
    assert line == (
        "Failed: synthetic odd[keep=?]: odd[keep=0.333], in prepare: ValueError: as asked"
    )
    assert "random_subset" in result.stdout


ODD = '''
from dataclasses import dataclass
from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("odd", Odd)


@dataclass(eq=False)
class Odd(Strategy):
    """Fail at once."""

    keep: Share = 0.5

    @hookimpl
    def prepare(self):
        raise ValueError("as asked")
'''


# What is said ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "hand").fill("base", [90.0, 91.0, 92.0], [10.0, 10.0, 10.0])


def freeze(folder, **more):
    entry = {"task": "blobs", "conditions_id": "c1", "pattern": "skip[s=?]", "match": "mix"}
    entry |= {"strategy": "skip[s=0.3]", "note": ""} | more
    path = folder.path / "match.json"
    old = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*old, entry]))


@pytest.mark.parametrize(
    ("seconds", "note", "said"),
    [
        ([6.0, 6.0, 6.0], "", "1.00x its time (1.00-1.00)."),
        ([6.1, 6.1, 6.1], "", "1.02x its time (1.02-1.02)."),
        ([6.3, 6.0, 6.6], "", "1.05x its time (0.93-1.18), off by 5%."),
        ([5.7, 5.7, 5.7], "as near as it gets", "0.95x its time (0.95-0.95), off by 5%, as near"),
    ],
)
def test_the_achieved_ratio_is_said(folder, seconds, note, said):
    folder.fill("mix", [90.0] * 3, [6.0] * 3).fill("skip[s=0.3]", [88.0] * 3, seconds)
    freeze(folder, note=note)
    board = folder.board()
    text = f"skip[s=0.3]: matched to mix, {said}"
    (sentence,) = [line for line in board.notes if "matched" in line]
    assert sentence.startswith(text)
    assert sentence in terminal.plain_text(board)
    assert sentence in terminal.markdown(board)
    assert "matched to mix, " in page.page_text(board)


def test_ratios_are_paired_by_seed(folder):
    folder.fill("mix", [90.0] * 3, [6.0, 12.0, 3.0]).fill("skip[s=0.3]", [88.0] * 2, [6.0, 12.0])
    folder.add("skip[s=0.3]", 7, 88.0, 100.0).add("skip[s=0.3]", 2)
    freeze(folder)
    assert folder.board().notes[-1] == "skip[s=0.3]: matched to mix, 1.00x its time (1.00-1.00)."


def test_preparation_counts_and_one_seed_has_no_spread(folder):
    folder.add("mix", 0, 90.0, 6.0).add("skip[s=0.3]", 0, 88.0, (3.0, 3.0))
    freeze(folder)
    assert folder.board().notes[-1] == "skip[s=0.3]: matched to mix, 1.00x its time (one seed)."


def test_nothing_is_said_before_there_are_runs_of_both(folder):
    folder.fill("mix", [90.0] * 3, [6.0] * 3)
    freeze(folder)
    freeze(folder, conditions_id="c2")
    assert folder.board().notes == []


def test_tasks_and_conditions_are_named_where_there_are_several(folder):
    folder.suite(task_ids={"blobs": "t1", "others": "t2"})
    for place in ({"task_name": "blobs"}, {"task_name": "others", "task_id": "t2"}):
        folder.fill("mix", [90.0] * 2, [6.0] * 2, **place)
        folder.fill("skip[s=0.3]", [88.0] * 2, [6.0] * 2, **place)
    freeze(folder)
    freeze(folder, task="others")
    said = [line for line in folder.board().notes if "matched" in line]
    assert [line.split(",")[0] for line in said] == [
        "skip[s=0.3]: matched to mix on blobs",
        "skip[s=0.3]: matched to mix on others",
    ]


def test_published_figures_of_a_pattern_are_shown_beside_its_value(folder):
    line = {"accuracy": 70.0, "speedup": None, "source": "Nobody 2026", "strategy": "skip[s=?]"}
    published = [{**line, "task": None}, {**line, "task": "elsewhere", "accuracy": 10.0}]
    folder.suite(published=published, match="mix")
    folder.fill("mix", [90.0] * 2, [6.0] * 2).fill("skip[s=0.3]", [88.0] * 2, [6.0] * 2)
    freeze(folder)
    assert folder.lines()["published_accuracy"]["skip[s=0.3]"] == 70.0
