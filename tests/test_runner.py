"""The runner: order, skipping, failures, crashes, resume, claims, and the files it leaves."""

import json
import linecache
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from dataeff.bench import runner
from dataeff.bench.conditions import conditions_id
from dataeff.bench.results import claimed
from dataeff.bench.runner import Settings
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.cli.running import _again
from dataeff.errors import DataeffError, UnknownName
from dataeff.plugins import load_plugins
from dataeff.report.board import read_board

TASK = {
    "dataset": "synthetic[samples=90,test_samples=20,classes=4,size=8]",
    "model": "tiny",
    "epochs": 3,
    "batch_size": 16,
    "lr": 0.05,
}
# What a second run of a cell may not reproduce: what a clock or the system says.
TIMES = (
    "clocks",
    "process_clocks",
    "phases",
    "peak_memory",
    "ended",
    "machine",
    "energy",
    "provenance",
)

# A strategy that misbehaves in the middle of epoch 1, once or always.
LOOSE = '''
"""Trouble."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from dataeff import hookimpl


@hookimpl
def register_strategies(register):
    register("trouble", Trouble)
    register("gauge", Gauge)


@dataclass(eq=False)
class Trouble:
    """Do what `kind` says."""

    kind: str = "raise"

    @hookimpl
    def on_epoch_start(self, run, epoch):
        if epoch == 1 and not Path("mended").exists():
            if self.kind == "raise":
                raise ValueError("as asked")
            if self.kind == "exit":
                os._exit(3)
            if self.kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)


@dataclass(eq=False)
class Gauge:
    """Report what it can."""

    @hookimpl
    def report(self, run):
        return {"nothing": float("nan"), "share": run.ledger.times_trained.float().mean()}
'''


@pytest.fixture
def bench(tmp_path, installed):
    """Return a function that runs a suite and returns its cells and the events it told."""
    return Bench(tmp_path, installed)


class Bench:
    def __init__(self, folder, installed):
        self.folder, self.installed = folder, installed
        self.settings = Settings(results=folder / "results", device="cpu", in_process=True)

    def with_loose_plugins(self):
        plugins = self.folder / "plugins"
        plugins.mkdir()
        (plugins / "trouble.py").write_text(LOOSE)
        self.settings = replace(self.settings, plugin_dirs=(plugins,))
        self.installed = load_plugins([plugins])
        return self

    def edit_loose_plugins(self, before, after):
        (plugins,) = self.settings.plugin_dirs
        (plugins / "trouble.py").write_text(LOOSE.replace(before, after))
        linecache.clearcache()
        self.installed = load_plugins([plugins])

    def apart(self, **options):
        self.settings = replace(self.settings, in_process=False, **options)
        return self

    def cells(self, *strategies, seeds=1, **task):
        content = {"name": "try", "seeds": seeds, "strategies": list(strategies or ["baseline"])}
        content["tasks"] = {"blobs": TASK | task}
        self.suite = make_suite(content, self.installed, where="test")
        schedule = Schedule(self.suite, self.settings, self.installed)
        runner.write_suite(self.suite, schedule.data, self.settings, command="dataeff run try")
        return schedule.cells

    def run(self, cells, fresh=False, on_event=lambda event: None):
        events = []

        def watch(event):
            events.append(event)
            on_event(event)

        runner.run_cells(cells, self.settings, watch, lambda record: fresh)
        return events

    @property
    def root(self):
        return self.settings.results / "try"


def record(cell):
    return json.loads((cell.folder / "run.json").read_text())


def numbers(cell):
    """Return all that must be the same whenever and wherever a cell runs."""
    epochs = pd.read_csv(cell.folder / "epochs.csv")
    epochs = epochs.drop(columns=["prepare_seconds", "train_seconds"])
    samples = pd.read_parquet(cell.folder / "samples.parquet").fillna(-1)
    rest = {key: value for key, value in record(cell).items() if key not in TIMES}
    return rest, epochs.to_dict("list"), samples.to_dict("list")


def kinds(events):
    return [event.kind for event in events]


# Order -----------------------------------------------------------------------------------------


def test_cells_come_seed_by_seed(bench):
    cells = bench.cells("baseline", "random_backprop", seeds=3)
    order = [(cell.seed, cell.strategy) for cell in cells]
    assert order == [
        (s, name) for s in range(3) for name in ("baseline", "random_backprop[keep=0.5]")
    ]
    assert len({cell.folder for cell in cells}) == 6


def test_events_tell_start_epochs_and_end(bench):
    cells = bench.cells("baseline", "short_schedule", epochs=3)
    events = bench.run(cells)
    assert kinds(events) == ["started", *["epoch"] * 3, "ended", "started", *["epoch"] * 2, "ended"]
    # 1.5 epochs: the second, of half the length, is not more than all of it.
    assert [round(e.share, 2) for e in events if e.kind == "epoch"] == [0.33, 0.67, 1, 0.67, 1]
    assert [(e.number, e.total) for e in events if e.kind == "ended"] == [(1, 2), (2, 2)]
    assert events[-1].record == record(cells[1])


# Files -----------------------------------------------------------------------------------------


def test_a_cell_leaves_the_files_of_the_design(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    assert {path.name for path in cell.folder.iterdir()} == {
        "claim",
        "epochs.csv",
        "run.json",
        "samples.parquet",
    }
    assert cell.folder.name.startswith("blobs-baseline-s0-")
    epochs = pd.read_csv(cell.folder / "epochs.csv")
    assert epochs["epoch"].tolist() == [0, 1, 2]
    # A tenth of the 90 samples is carved off for validation.
    assert epochs["rows_trained"].tolist() == [81, 162, 243]
    samples = pd.read_parquet(cell.folder / "samples.parquet")
    assert samples["sample"].tolist() == list(range(90))
    assert samples["trainable"].sum() == 81
    assert (samples["times_trained"] == 3 * samples["trainable"]).all()
    assert samples["label"].nunique() == 4


def test_run_json_says_what_was_asked_and_what_was_measured(bench):
    (cell,) = bench.cells("random_backprop[keep=0.25]")
    bench.run([cell])
    stored = record(cell)
    assert (stored["suite"], stored["task_name"]) == ("try", "blobs")
    assert (stored["strategy"], stored["seed"]) == ("random_backprop[keep=0.25]", 0)
    assert stored["parameters"] == {"random_backprop": {"keep": 0.25, "mode": "shrink"}}
    assert stored["task"]["lr"] == 0.05
    assert stored["task_id"] == cell.task.id
    assert stored["conditions_id"] == conditions_id(stored["conditions"])
    assert {"device", "torch", "threads"} <= set(stored["conditions"])
    assert stored["status"] == "finished"
    assert (
        stored["metrics"]["test_top1"]
        == pd.read_csv(cell.folder / "epochs.csv")["test_top1"].iloc[-1]
    )
    assert stored["clocks"]["train"] > 0
    assert stored["rows"]["trained"] == 3 * 20
    assert stored["ended"].endswith("+00:00")


def test_run_json_is_strict_and_takes_numbers_of_any_library(bench):
    (cell,) = bench.with_loose_plugins().cells("gauge")
    bench.run([cell])

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    stored = json.loads((cell.folder / "run.json").read_text(), parse_constant=refuse)
    assert stored["columns"] == {"nothing": None, "share": pytest.approx(3 * 81 / 90)}


def test_the_folder_of_a_cell_is_flat_whatever_its_names(bench):
    content = {"name": "try", "strategies": ["baseline"], "tasks": {"../a b/c": TASK}}
    suite = make_suite(content, bench.installed, where="test")
    (cell, *_) = Schedule(suite, bench.settings, bench.installed).cells
    assert cell.folder.parent == bench.root
    assert cell.folder.name.startswith("a-b-c-baseline-s0-")


# Skipping --------------------------------------------------------------------------------------


def stamps(cell):
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in cell.folder.iterdir()
        if path.name != "claim"
    }


def test_a_finished_cell_is_not_run_again(bench):
    cells = bench.cells("baseline", "random_backprop")
    bench.run(cells)
    before = [stamps(cell) for cell in cells]
    events = bench.run(cells)
    assert kinds(events) == ["skipped", "skipped"]
    assert events[0].record == record(cells[0])
    assert [stamps(cell) for cell in cells] == before


def test_fresh_runs_a_finished_cell_again_to_the_same_numbers(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    before, old = numbers(cell), stamps(cell)
    (cell.folder / "leftover").write_text("")
    assert kinds(bench.run([cell], fresh=True))[0] == "started"
    assert stamps(cell)["run.json"][0] > old["run.json"][0]
    assert numbers(cell) == before
    assert not (cell.folder / "leftover").exists()


def test_a_later_command_does_not_make_the_earlier_ones_unsaid(bench):
    def asked(command, *strategies, seeds):
        bench.cells(*strategies, seeds=seeds)
        data = json.loads((bench.root / "suite.json").read_text())["data"]
        runner.write_suite(bench.suite, data, bench.settings, command)
        return json.loads((bench.root / "suite.json").read_text())

    asked("dataeff run try", "baseline", "amp", seeds=3)
    told = asked("dataeff run try -s random_subset", "baseline", "random_subset", seeds=1)
    assert told["strategies"] == ["baseline", "amp", "random_subset[keep=0.5]"]
    assert told["seeds"] == 3
    assert told["commands"] == ["dataeff run try", "dataeff run try -s random_subset"]
    bench.cells("baseline", epochs=9)
    fresh = json.loads((bench.root / "suite.json").read_text())
    assert fresh["strategies"] == ["baseline"], "another task: nothing of the old one counts"


def test_only_what_is_asked_for_runs_again(bench):
    cells = bench.cells("baseline", "random_backprop")
    bench.run(cells)
    for cell, flags in zip(cells, (["others were busy"], []), strict=True):
        changed = record(cell) | {"machine": {"flags": flags}}
        (cell.folder / "run.json").write_text(json.dumps(changed))
    again = _again(fresh=False, flagged=True)
    events = []
    runner.run_cells(cells, bench.settings, events.append, again)
    assert [e.cell.strategy for e in events if e.kind == "ended"] == ["baseline"]
    assert [e.cell.strategy for e in events if e.kind == "skipped"] == ["random_backprop[keep=0.5]"]


def test_the_record_says_what_it_was_measured_on_and_how_the_machine_was(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    stored = record(cell)
    assert stored["conditions"] == cell.conditions
    assert {"commit", "versions"} <= set(stored["provenance"])
    assert {"load_high", "process_share", "foreign_cores", "flags"} <= set(stored["machine"])
    assert stored["sources"].keys() == {"baseline"}


def test_a_changed_task_is_a_new_cell_and_the_old_one_leaves_the_leaderboard(bench):
    (old,) = bench.cells()
    bench.run([old])
    (new,) = bench.cells(lr=0.02)
    assert new.folder != old.folder
    bench.run([new])
    assert old.folder.exists()
    assert read_board(bench.root).table["n"].tolist() == [1]
    assert read_board(bench.root).runs["task_id"].tolist() == [new.task.id]


def test_changed_conditions_are_a_new_cell_in_a_table_of_its_own(bench, monkeypatch):
    (here,) = bench.cells()
    bench.run([here])
    elsewhere = here.conditions | {"threads": 64}
    monkeypatch.setattr("dataeff.bench.schedule.conditions", lambda device: elsewhere)
    (there,) = bench.cells()
    assert there.folder != here.folder
    bench.run([there])
    table = read_board(bench.root).table
    assert sorted(table["conditions"]) == sorted(
        [conditions_id(here.conditions), conditions_id(elsewhere)]
    )
    assert table["n"].tolist() == [1, 1]


# Failures --------------------------------------------------------------------------------------


def test_a_cell_that_fails_says_so_and_the_rest_goes_on(bench):
    cells = bench.with_loose_plugins().cells("baseline", "trouble", "random_backprop")
    events = bench.run(cells)
    assert [e.record["status"] for e in events if e.kind == "ended"] == [
        "finished",
        "failed",
        "finished",
    ]
    failed = record(cells[1])
    assert failed["error"] == "StrategyError: trouble, in on_epoch_start: ValueError: as asked"
    assert (failed["strategy"], failed["task_name"], failed["seed"]) == ("trouble", "blobs", 0)
    trace = (cells[1].folder / "traceback.txt").read_text()
    assert 'raise ValueError("as asked")' in trace
    (line,) = runner.failures(cells)
    assert line == f"blobs trouble seed 0: {failed['error']} (see {cells[1].folder}/traceback.txt)"
    table = read_board(bench.root).table.set_index("strategy")
    assert table.loc["trouble", "trouble"] == "1 failed"


def test_a_failed_cell_is_run_again_from_its_last_epoch(bench):
    (cell,) = bench.with_loose_plugins().cells("trouble")
    bench.run([cell])
    Path("mended").touch()
    events = bench.run([cell])
    assert [e.record["epoch"] for e in events if e.kind == "epoch"] == [1, 2]
    assert record(cell)["status"] == "finished"
    assert not (cell.folder / "traceback.txt").exists()


def test_who_edits_a_strategy_gets_new_cells_and_only_those_in_the_table(bench):
    """Old code's results and checkpoints must not flow into those of the new code."""
    old = bench.with_loose_plugins().cells("baseline", "trouble")
    bench.run(old)
    bench.edit_loose_plugins("as asked", "as asked again")
    new = bench.cells("baseline", "trouble")
    assert new[0].folder == old[0].folder
    assert new[1].folder != old[1].folder
    bench.run(new)
    table = read_board(bench.root).runs
    assert table.strategy.tolist() == ["baseline", "trouble"]
    assert "again" in table.error.tolist()[1]


def test_a_diverged_cell_is_recorded_and_done(bench):
    (cell,) = bench.cells(lr=1e30)
    (ended,) = [e for e in bench.run([cell]) if e.kind == "ended"]
    assert ended.record["status"] == "diverged"
    assert "lower the learning rate" in ended.record["error"]
    assert not (cell.folder / "checkpoint.pt").exists()
    assert kinds(bench.run([cell])) == ["skipped"]
    assert read_board(bench.root).table["trouble"].tolist() == ["1 diverged"]
    assert runner.failures([cell]) == []


def test_data_or_a_model_that_cannot_be_had_is_told_before_anything_runs(bench):
    with pytest.raises(DataeffError, match="cifar10 needs a data folder"):
        bench.cells(dataset="cifar10")
    with pytest.raises(UnknownName, match=r"There is no model 'tinny'\. Did you mean tiny"):
        bench.cells(model="tinny")


def test_changed_data_gives_new_cells_and_only_those_in_the_table(bench, monkeypatch):
    (old,) = bench.cells()
    bench.run([old])
    monkeypatch.setattr("dataeff.bench.schedule.check_task", lambda *arguments: "other data")
    (new,) = bench.cells()
    assert new.folder != old.folder
    bench.run([new])
    assert read_board(bench.root).runs["folder"].tolist() == [new.folder.name]


# In processes of their own ---------------------------------------------------------------------


def test_a_process_of_its_own_gives_the_same_numbers_and_crashes_end_one_cell_alone(bench):
    bench.with_loose_plugins()
    strategies = ("trouble[kind=exit]", "baseline", "trouble[kind=kill]", "random_backprop")
    cells = bench.apart().cells(*strategies)
    bench.run(cells)
    exited, baseline, killed, last = map(record, cells)
    assert exited["error"] == "the process ended with exit code 3 and left no result"
    assert killed["error"].startswith("the process was ended by SIGKILL; usually")
    assert (cells[2].folder / "traceback.txt").read_text().startswith("the process was ended")
    assert [r["status"] for r in (exited, baseline, killed, last)] == [
        "failed",
        "finished",
        "failed",
        "finished",
    ]
    apart = numbers(cells[1])
    bench.settings = replace(bench.settings, in_process=True)
    bench.run([cells[1]], fresh=True)
    assert numbers(cells[1]) == apart


def test_a_hang_ends_by_timeout(bench):
    first, cell = bench.with_loose_plugins().apart().cells("baseline", "trouble[kind=hang]")
    bench.run([first])  # The fork server may take longer to start than the timeout.
    bench.apart(timeout=3)
    began = time.monotonic()
    events = bench.run([cell])
    assert time.monotonic() - began < 30
    assert kinds(events) == ["started", "epoch", "ended"]
    assert record(cell)["error"] == (
        "no epoch ended within 3 seconds, so it was stopped; see --timeout"
    )
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("others", ["", "random_subset[redraw=epoch]+random_backprop+"])
def test_a_killed_cell_resumes_to_the_same_numbers(bench, others):
    (cell,) = bench.with_loose_plugins().cells(f"{others}trouble[kind=kill]")
    Path("mended").touch()
    bench.run([cell])
    whole = numbers(cell)

    Path("mended").unlink()
    bench.apart()
    bench.run([cell], fresh=True)
    assert "SIGKILL" in record(cell)["error"]
    assert (cell.folder / "checkpoint.pt").exists()

    Path("mended").touch()
    events = bench.run([cell])
    assert [event.record["epoch"] for event in events if event.kind == "epoch"] == [1, 2]
    assert numbers(cell) == whole
    left = [path.name for path in cell.folder.iterdir()]
    assert sorted(left) == ["claim", "epochs.csv", "run.json", "samples.parquet"]
    assert pd.read_csv(cell.folder / "epochs.csv")["train_seconds"].is_monotonic_increasing


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="looks processes up in /proc")
def test_a_cell_ends_with_the_run_that_started_it_however_that_ends(bench):
    """An orphan would write into a folder that nobody claims any more."""
    bench.with_loose_plugins()
    command = [sys.executable, "-c", "from dataeff.cli import main; main()", "run"]
    task = ["--dataset", TASK["dataset"], "--model", "tiny", "--epochs", "3", "--seeds", "1"]
    loose = ["--plugins-dir", "plugins", "-s", "trouble[kind=hang]", "--name", "try"]
    run = subprocess.Popen([*command, *task, *loose])
    try:
        folder = wait_for(lambda: next(bench.root.glob("*/checkpoint.pt"), None)).parent
        assert processes_in(bench.folder, but=run.pid)
        with claimed(folder) as mine:
            assert not mine
    finally:
        run.kill()
        run.wait()
    assert wait_for(lambda: not processes_in(bench.folder, but=run.pid))
    with claimed(folder) as mine:
        assert mine
    assert not (folder / "run.json").exists()


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return value


def processes_in(folder, but):
    """Return the other processes whose working folder is this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").readlink() == folder and int(path.name) not in (but, os.getpid()):
                found.append(int(path.name))
        except OSError:
            continue
    return found


# Claims ----------------------------------------------------------------------------------------


def test_a_cell_that_another_process_has_is_left_alone(bench):
    cells = bench.cells("baseline", "random_backprop")
    with claimed(cells[0].folder) as mine:
        assert mine
        events = bench.run(cells)
    assert kinds(events)[:2] == ["elsewhere", "started"]
    assert not (cells[0].folder / "run.json").exists()
    assert record(cells[1])["status"] == "finished"
    assert kinds(bench.run(cells)) == ["started", *["epoch"] * 3, "ended", "skipped"]


def test_a_claim_goes_with_its_process(tmp_path):
    code = """
import sys, time
from pathlib import Path
from dataeff.bench.results import claimed
with claimed(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout.readline() == "True\n"
            with claimed(tmp_path) as mine:
                assert not mine
        finally:
            other.kill()
        other.wait()
        with claimed(tmp_path) as mine:
            assert mine
