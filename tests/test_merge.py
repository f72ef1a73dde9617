"""Merging: results of several machines in one folder, and what one machine would have had."""

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from benches import cells_of
from shell import call, mistake, ok

from dataeff.bench.asked import write_suite
from dataeff.bench.cells import write_record
from dataeff.bench.desk import Desk
from dataeff.bench.ended import amend
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.checked import digest, write_checked, write_entries
from dataeff.exchange import carrying
from dataeff.exchange.joining import joined
from dataeff.files import write_csv
from dataeff.forms import BUDGETS, RECORD, VERIFIED
from dataeff.lab import Lab
from dataeff.report.board import read_board
from dataeff.report.due import Looking
from dataeff.seals import Seals, key_file, seal

TASK = {"dataset": "synthetic[samples=40,classes=2]", "model": "tiny", "epochs": 2}
KEEP = "random_backprop[keep={}]"


class Machine:
    """A results folder whose cells are written by hand: the same cell always as it would come."""

    def __init__(self, root, installed):
        self.root, self._lab, self.luck = root, Lab(installed, "cpu"), 0.0

    @property
    def suite(self):
        return self.root / "try"

    def run(self, *keeps, seeds="0-1", sealed=True, **task):
        names = ["baseline", *(KEEP.format(keep) for keep in keeps or (0.5, 0.25))]
        content = {"name": "try", "seeds": seeds, "controls": False, "strategies": names}
        content |= {"tasks": {"blobs": TASK | task}}
        desk = Desk.beside(self._lab)
        looking, suite = Looking(self.suite), make_suite(content, desk, where="test")
        schedule = Schedule(suite, desk, self.root, False, looking)
        command = f"dataeff run try --seeds {seeds}"
        looking.before = lambda: write_suite(schedule, self.suite, command)
        looking.before()
        ran = [cell for cell in cells_of(schedule) if cell.record() is None]
        for cell in ran:
            self.write(cell, sealed)
        looking.make(schedule.stages.last)
        return [(cell.strategy, cell.seed) for cell in ran]

    def write(self, cell, sealed):
        cell.folder.mkdir(parents=True)
        share = float(cell.strategy.partition("=")[2].rstrip("]") or 1)
        line = {"epoch": [0], "prepare_seconds": 0.0, "train_seconds": 9 * share, "test_top1": 80.0}
        write_csv(cell.folder / "epochs.csv", pd.DataFrame(line))
        weights = f"{cell.strategy} {cell.seed}".encode()
        (cell.folder / "weights.pt").write_bytes(weights)
        record = {
            "status": "finished",
            "error": "",
            "metrics": {"test_top1": 80 + share + 0.1 * cell.seed + self.luck},
            "clocks": {"prepare": 0.0, "train": 9 * share + 0.1 * cell.seed, "evaluate": 1.0},
            "flops": 1000 * share,
            "rows": {"trained": 10},
            "ranked": True,
            "control": False,
            "network_form": "weights",
            "weights": digest(weights),
        }
        checksum = write_record(cell, record)
        if sealed:
            seal(cell.folder, checksum)

    def cells(self):
        return sorted(path.parent for path in self.suite.glob("*/run.json"))

    def table(self):
        return read_board(self.suite).table


@pytest.fixture
def machine(tmp_path, installed):
    return lambda name: Machine(tmp_path / name, installed)


@pytest.fixture
def two(machine):
    """Return two machines that have shared out the seeds."""
    a, b = machine("a"), machine("b")
    a.run(seeds="0-1")
    b.run(seeds="2-3")
    return a, b


def content(folder):
    """Return all that a folder holds, by name, but the empty files that are locked."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "held"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# What one machine would have had -----------------------------------------------------------------


def test_shared_out_seeds_make_the_table_of_one_machine(two, machine):
    a, b = two
    one, merged = machine("one"), machine("merged")
    one.run(seeds="0-3")
    said = ok("merge", merged.root, a.root, b.root)
    assert f"{a.suite}: 6 cells taken, 0 were there already." in said
    pd.testing.assert_frame_equal(merged.table(), one.table())
    asked = json.loads((merged.suite / "suite.json").read_text())
    assert asked["seeds"] == "0-3"
    assert asked["command"] == f"dataeff run try --seeds 0-3 --results {merged.root}"
    assert asked["commands"] == ["dataeff run try --seeds 0-1", "dataeff run try --seeds 2-3"]
    # And so do the looks of a plan, once it goes on.
    assert merged.run(seeds=4) == one.run(seeds=4) == []
    pd.testing.assert_frame_equal(merged.table(), one.table())


def test_a_run_goes_on_with_what_is_missing(two, machine):
    a, b = two
    b.cells()[0].joinpath("run.json").unlink()
    merged = machine("merged")
    ok("merge", merged.root, a.root, b.root)
    (missing,) = read_board(merged.suite).missing
    assert missing.command == f"dataeff run try --seeds 0-3 --results {merged.root}"
    assert (missing.cells, missing.of) == (1, 12)
    assert len(merged.run(seeds="0-3")) == 1
    assert {seed for _, seed in merged.run(seeds="0-4")} == {4}
    assert len(merged.cells()) == 15


def test_it_takes_folders_of_suites_as_well(two, tmp_path):
    a, b = two
    ok("merge", a.suite, b.suite)
    assert len(a.cells()) == 12
    # One that is not there yet is the suite's if it is called so, and else holds suites.
    ok("merge", tmp_path / "new" / "try", b.suite)
    ok("merge", tmp_path / "other", b.suite)
    assert (tmp_path / "new/try/suite.json").exists()
    assert (tmp_path / "other/try/suite.json").exists()


# Twice, and interrupted --------------------------------------------------------------------------


def test_twice_changes_nothing(two):
    a, b = two
    ok("merge", a.root, b.root)
    before, theirs = content(a.root), content(b.root)
    said = ok("merge", a.root, b.root)
    assert "0 cells taken, 6 were there already." in said
    assert content(a.root) == before
    assert content(b.root) == theirs


def test_who_is_interrupted_merges_again(two, tmp_path, monkeypatch):
    a, b = two
    ok("merge", tmp_path / "torn", a.root, b.root)
    whole, write, left = content(tmp_path / "torn"), carrying.write_bytes, [0]
    shutil.rmtree(tmp_path / "torn")

    def some(path, what):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        write(path, what)

    monkeypatch.setattr(carrying, "write_bytes", some)
    shutil.copytree(a.root, tmp_path / "torn")
    for count in (0, 1, 2, 3, 7):
        left[0] = count
        assert call("merge", tmp_path / "torn", a.root, b.root).exit_code == 130
        # What is there is whole: a table can be made of it.
        read_board(tmp_path / "torn/try")
    left[0] = 1000
    ok("merge", tmp_path / "torn", a.root, b.root)
    torn = content(tmp_path / "torn")
    assert {name: torn[name] for name in whole if "seals" not in name} == {
        name: what for name, what in whole.items() if "seals" not in name
    }
    assert not [name for name in torn if name.endswith(".partial")]


# Cells that are not as they should be ------------------------------------------------------------


def test_of_two_runs_of_one_cell_the_first_stays(machine):
    a, b = machine("a"), machine("b")
    b.luck = 1.0
    a.run(), b.run()
    before = content(a.suite)
    result = call("merge", a.root, b.root)
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0] == (
        f"{a.cells()[0]} and {b.cells()[0]} are one cell, and differ in metrics: the first stays; "
        "delete the one that you do not want, and type this again."
    )
    assert len(lines) == 6
    assert content(a.suite) == before


def test_runs_that_differ_in_times_alone_are_told_so(machine):
    a, b = machine("a"), machine("b")
    a.run(), b.run()
    assert "differ in what their clocks say" in call("merge", a.root, b.root).stderr


@pytest.mark.parametrize("name", ["epochs.csv", "weights.pt", "run.json"])
def test_a_damaged_cell_is_not_taken(two, name):
    a, b = two
    (b.cells()[0] / name).write_bytes(b"torn")
    lost = b.cells()[0].name
    result = call("merge", a.root, b.root)
    assert name in result.stderr
    assert "5 cells taken" in result.stdout
    assert not (a.suite / lost / "run.json").exists()
    assert len(read_board(a.suite).runs) == 11


def test_a_damaged_cell_of_ours_is_healed(two):
    a, b = two
    ok("merge", a.root, b.root)
    cell = a.suite / b.cells()[0].name
    (cell / "epochs.csv").write_bytes(b"torn")
    assert "1 cell taken" in ok("merge", a.root, b.root)
    assert (cell / "epochs.csv").read_bytes() == (b.cells()[0] / "epochs.csv").read_bytes()


def test_one_that_has_failed_gives_way_to_one_that_has_finished(machine):
    a, b = machine("a"), machine("b")
    b.run(sealed=False)
    shutil.copytree(b.root, a.root)
    cell = a.cells()[0]
    record = json.loads((cell / "run.json").read_text())
    whole = (cell / "run.json").read_bytes()
    failed = {k: v for k, v in record.items() if k not in ("metrics", "checksum", "schema")}
    (cell / "run.json").write_text(json.dumps(failed | {"status": "failed", "error": "no"}))
    (cell / "traceback.txt").write_text("no")
    assert "1 cell taken" in ok("merge", a.root, b.root)
    assert (cell / "run.json").read_bytes() == whole
    assert not (cell / "traceback.txt").exists()
    # And not the other way round.
    (b.cells()[0] / "run.json").write_text(json.dumps(failed | {"status": "failed", "error": "no"}))
    assert "0 cells taken, 6 were" in ok("merge", a.root, b.root)


def test_what_has_not_ended_stays(two):
    a, b = two
    cell = b.cells()[0]
    (cell / "run.json").unlink()
    (cell / "checkpoint.pt").write_bytes(b"half")
    result = call("merge", a.root, b.root)
    assert "1 cell has not ended, and stays there." in result.stderr
    assert not (a.suite / cell.name).exists()


def test_times_beside_copies_come_along(machine, tmp_path):
    a, b = machine("a"), machine("b")
    a.run()
    shutil.copytree(a.root, b.root)
    record = json.loads((b.cells()[0] / "run.json").read_text())
    told = {"clocks": {"prepare": 0.0, "train": 3.0}, "flags": []}
    cell = type("Cell", (), {"folder": b.cells()[0]})
    amend(cell, record, heats={"abc": told})
    assert "1 cell taken, 5 were" in ok("merge", a.root, b.root)
    assert json.loads((a.cells()[0] / "run.json").read_text())["heats"] == {"abc": told}
    assert Seals(a.suite).holds(a.cells()[0].name, checksum(a.cells()[0])) is True
    assert "0 cells taken" in ok("merge", a.root, b.root)


# Seals -------------------------------------------------------------------------------------------


def checksum(cell):
    return json.loads((cell / "run.json").read_text())["checksum"]


def states(machine):
    seals = Seals(machine.suite)
    return {seals.holds(cell.name, checksum(cell)) for cell in machine.cells()}


def test_what_was_sealed_by_our_key_stays_so(two):
    a, b = two
    ok("merge", a.root, b.root)
    assert states(a) == {True}


def test_what_another_key_has_sealed_has_no_seal_of_ours(two):
    a, b = two
    shutil.rmtree(a.root)
    key_file().write_bytes(os.urandom(32))
    a.run()
    ok("merge", a.root, b.root)
    assert states(a) == {True, None}
    assert read_board(a.suite).runs["status"].eq("finished").all()


def test_a_record_that_was_changed_under_our_key_is_refused(two):
    a, b = two
    cell = b.cells()[0]
    record = json.loads((cell / "run.json").read_text())
    write_checked(cell / "run.json", record | {"metrics": {"test_top1": 99.0}}, RECORD)
    result = call("merge", a.root, b.root)
    assert result.exit_code == 1
    assert f"{cell}: its record was changed after it was written." in result.stderr
    assert not (a.suite / cell.name / "run.json").exists()


def test_what_did_not_verify_does_not_do_so_here(two):
    a, b = two
    cell = b.cells()[0]
    finding = {"cell": cell.name, "strategy": "baseline", "seed": 2, "repeated": ""}
    finding |= {"outcome": "does not verify", "why": "as said", "checksum": checksum(cell)}
    write_entries(b.suite / "verified.json", [finding], VERIFIED)
    ok("merge", a.root, b.root)
    assert read_board(a.suite).runs["status"].tolist().count("unverified") == 1


# What belongs together ---------------------------------------------------------------------------


def test_other_suites_are_refused_before_anything_is_written(two, machine):
    a, b = two
    other = machine("other")
    other.run(epochs=3)
    before = content(a.root)
    assert mistake("merge", a.root, b.root, other.root) == (
        f"{a.suite} and {other.suite} hold results of different suites: the task blobs is another "
        f"one in {other.suite}; run both with one version of the suite, or name another INTO."
    )
    assert content(a.root) == before


def test_another_version_of_a_strategy_is_told_apart(two):
    a, b = two
    path = b.suite / "suite.json"
    for name in ("suite.json", "suite.json.copy"):
        asked = json.loads((b.suite / name).read_text())
        del asked["checksum"], asked["schema"]
        for versions in asked["counts"]["blobs"].values():
            versions.update(dict.fromkeys(versions, "0123456789ab"))
        path.with_name(name).write_text(json.dumps(asked))
    for cell in b.cells():
        record = json.loads((cell / "run.json").read_text())
        del record["checksum"], record["schema"]
        (cell / "run.json").write_text(json.dumps(record | {"version": "0123456789ab"}))
    ok("merge", a.root, b.root)
    board = read_board(a.suite)
    assert len(board.runs) == 6
    assert any("had another source, network or other defaults then" in note for note in board.notes)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("new", "gone"), "There is no folder gone; name one that holds results of suites."),
        (("new", "empty"), "There are no results in empty; name the folder of a suite, or one"),
        (("a", "a"), "a/try is where it would be merged into; leave it out."),
        (("a/try", "b"), "a/try is the folder of one suite; name the folders of that suite"),
    ],
)
def test_mistakes_say_what_to_type(two, words, told):
    Path("empty").mkdir()
    assert mistake("merge", *words).startswith(told)


def test_tables_without_cells_have_nothing_to_merge(two):
    a, b = two
    for cell in b.cells():
        shutil.rmtree(cell)
    assert "holds no cells, so there is nothing to merge" in call("merge", a.root, b.root).stderr


def test_other_budgets_of_the_line_are_told(two):
    a, b = two
    for one, budgets in ((a, [0.5, 0.75]), (b, [0.6, 0.8])):
        entry = {"task": "blobs", "conditions": "c", "budgets": budgets}
        write_entries(one.suite / "line.json", [entry], BUDGETS)
    said = call("merge", a.root, b.root)
    assert "at other shares of the time there (0.6, 0.8, not 0.5, 0.75)" in said.stderr
    assert "[0.5, 0.75]" in str(json.loads((a.suite / "line.json").read_text())["entries"])


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ("0-1", "2-3", "0-3"),
        ("4-5", "0-1", "0-5"),
        ("0-1", "auto", "auto"),
        ("auto", 5, "auto"),
        (3, 5, 5),
        (3, "7-9", 3),
    ],
)
def test_seeds_of_two_plans_are_one(ours, theirs, both):
    plain = {"strategies": ["a"], "commands": ["c"], "command": "dataeff run x --seeds 1"}
    one = joined(plain | {"seeds": ours}, plain | {"seeds": theirs})
    assert one["seeds"] == both
    assert joined(one, plain | {"seeds": theirs}) == one


# Run for real ------------------------------------------------------------------------------------

SUITE = """
strategies = ["baseline", "random_subset[keep=0.5]"]
controls = false
[tasks.blobs]
dataset = "synthetic[samples=60,test_samples=20,classes=3,size=8]"
model = "tiny"
epochs = 2
batch_size = 16
"""
# What no clock has a say in.
NUMBERS = ["task", "conditions", "n", "accuracy", "difference"]


@pytest.mark.long
def test_two_machines_come_to_what_one_does():
    Path("few.toml").write_text(SUITE)
    for results, seeds in (("a", "0-1"), ("b", "2-3"), ("one", "0-3")):
        ok("run", "few.toml", "--in-process", "--results", results, "--seeds", seeds)
    ok("merge", "merged", "a", "b")
    tables = [read_board(Path(name) / "few") for name in ("merged", "one")]
    runs = [board.runs.sort_values("folder").reset_index(drop=True) for board in tables]
    same = ["strategy", "seed", "test_top1", "train_loss", "flops", "steps", "folder"]
    pd.testing.assert_frame_equal(runs[0][same], runs[1][same])
    lines = [board.table.set_index("strategy").sort_index()[NUMBERS] for board in tables]
    pd.testing.assert_frame_equal(*lines)
    said = ok("run", "few.toml", "--in-process", "--results", "merged", "--seeds", "4")
    assert "8 finished cells were skipped" in said
    assert "strategy" in ok("leaderboard", "few", "--results", "merged", "--full")
