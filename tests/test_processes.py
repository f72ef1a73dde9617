"""Cells in processes of their own: crashes, hangs, resume, and who holds a cell."""

import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from benches import TASK, Bench, kinds, numbers, record
from conftest import drawn

from dataeff.bench.results import held
from dataeff.damage import listening


@pytest.fixture
def bench(tmp_path, installed):
    return Bench(tmp_path, installed)


@pytest.mark.long
def test_a_process_of_its_own_gives_the_same_numbers_and_crashes_end_one_cell_alone(bench):
    bench.with_loose_plugins()
    strategies = ("trouble[kind=exit]", "baseline", "trouble[kind=kill]", "random_backprop")
    cells = bench.apart().cells(*strategies)
    bench.run(cells)
    exited, baseline, killed, last = map(record, cells)
    left = "the process ended with exit code 3 and left no result"
    assert exited["error"] == f"trouble[kind=exit], in on_epoch_start: {left}"
    ended = "trouble[kind=kill], in on_epoch_start: the process was ended by SIGKILL; usually"
    assert killed["error"].startswith(ended)
    assert (cells[2].folder / "traceback.txt").read_text().startswith(ended)
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


@pytest.mark.long
def test_a_hang_ends_by_timeout(bench):
    first, cell = bench.with_loose_plugins().apart().cells("baseline", "trouble[kind=hang]")
    bench.run([first])  # The fork server may take longer to start than the timeout.
    bench.apart(timeout=5)
    began = time.monotonic()
    events = bench.run([cell])
    assert time.monotonic() - began < 30
    assert kinds(events) == ["started", "epoch", "ended"]
    assert record(cell)["error"] == (
        "trouble[kind=hang], in on_epoch_start: no epoch ended within 5 seconds, so it was "
        "stopped; see --timeout"
    )
    assert multiprocessing.active_children() == []


@pytest.mark.long
@pytest.mark.parametrize("others", ["", "random_subset[redraw=epoch]+random_backprop+"])
def test_a_killed_cell_resumes_to_the_same_numbers(bench, others):
    (cell,) = bench.with_loose_plugins().cells(f"{others}trouble[kind=kill]")
    whole = bench.killed(cell)
    assert "SIGKILL" in record(cell)["error"]
    assert (cell.folder / "checkpoint.pt").exists()

    Path("mended").touch()
    events = bench.run([cell])
    assert [event.record["epoch"] for event in events if event.kind == "epoch"] == [1, 2]
    assert numbers(cell) == whole
    left = [path.name for path in cell.folder.iterdir()]
    assert sorted(left) == [
        *("epochs.csv", "held", "hits.bin", "run.json", "samples.parquet", "weights.pt")
    ]
    assert pd.read_csv(cell.folder / "epochs.csv")["train_seconds"].is_monotonic_increasing


@pytest.mark.long
@pytest.mark.parametrize("books", drawn(["", "gone", '{"schema": 1}'], 1))
def test_without_its_books_a_cell_begins_anew_to_the_same_numbers(bench, books):
    """Who tested what is not for the cell to say: what nobody knows is done again."""
    (cell,) = bench.with_loose_plugins().apart().cells("trouble[kind=kill]")
    bench.run([cell])
    path = cell.folder / "books.json"
    path.unlink() if books == "gone" else path.write_text(books)
    Path("mended").touch()
    with listening([].append):
        events = bench.run([cell])
    assert [event.record["epoch"] for event in events if event.kind == "epoch"] == [0, 1, 2]
    again = numbers(cell)
    bench.run([cell], fresh=True)
    assert numbers(cell) == again


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="looks processes up in /proc")
def test_a_cell_ends_with_the_run_that_started_it_however_that_ends(bench):
    """An orphan would write into a folder that nobody holds any more."""
    bench.with_loose_plugins()
    command = [sys.executable, "-c", "from dataeff.cli import main; main()", "run"]
    task = ["--dataset", TASK["dataset"], "--model", "tiny", "--epochs", "3", "--seeds", "1"]
    loose = ["--plugins-dir", "plugins", "-s", "trouble[kind=hang]", "--name", "try"]
    run = subprocess.Popen([*command, *task, *loose])
    try:
        folder = wait_for(lambda: next(bench.root.glob("*/checkpoint.pt"), None)).parent
        assert processes_in(bench.folder, but=run.pid)
        with held(folder) as mine:
            assert not mine
    finally:
        run.kill()
        run.wait()
    assert wait_for(lambda: not processes_in(bench.folder, but=run.pid))
    with held(folder) as mine:
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


# Holds -----------------------------------------------------------------------------------------


def test_a_cell_that_another_process_has_is_left_alone(bench):
    cells = bench.cells("baseline", "random_backprop")
    with held(cells[0].folder) as mine:
        assert mine
        events = bench.run(cells)
    assert kinds(events)[:2] == ["elsewhere", "started"]
    assert not (cells[0].folder / "run.json").exists()
    assert record(cells[1])["status"] == "finished"
    assert kinds(bench.run(cells)) == ["started", *["epoch"] * 3, "ended", "skipped"]


def test_what_a_killed_process_was_writing_goes_when_its_cell_is_held_again(tmp_path):
    nested = tmp_path / "children" / "el2n-0"
    nested.mkdir(parents=True)
    for folder in (tmp_path, nested):
        (folder / "checkpoint.pt").touch()
        (folder / "checkpoint.pt.4242.partial").touch()
    with held(tmp_path), held(tmp_path) as mine:
        assert not mine
    assert not list(tmp_path.rglob("*.partial"))
    assert len(list(tmp_path.rglob("checkpoint.pt"))) == 2


def test_a_hold_goes_with_its_process(tmp_path):
    code = """
import sys, time
from pathlib import Path
from dataeff.bench.results import held
from dataeff.damage import listening
with held(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout.readline() == "True\n"
            with held(tmp_path) as mine:
                assert not mine
        finally:
            other.kill()
        other.wait()
        with held(tmp_path) as mine:
            assert mine
