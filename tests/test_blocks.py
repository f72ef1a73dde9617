"""Cells that are alive together: the same numbers as alone, clocks of their own, and copies."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benches import Bench, numbers, record
from PIL import Image

from dataeff.bench.blocks import Cells, Track
from dataeff.bench.desk import open_desk
from dataeff.bench.guest import Died
from dataeff.bench.hosting import Berth, Hosting
from dataeff.bench.results import pairing
from dataeff.bench.runner import run_cells
from dataeff.errors import DiskFull
from dataeff.report.board import read_board
from dataeff.training.system import physical_cores

# Strategies that take their time, each in another way.
LOOSE = '''
"""Slow ones."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from dataeff import Strategy, hookimpl
from dataeff.data import stream

if Path("slow").exists():
    read = stream.read_rgb

    def read_slowly(path):
        time.sleep(0.05)
        return read(path)

    stream.read_rgb = read_slowly


@hookimpl
def register_strategies(register):
    register("slow", Slow)
    register("idler", Idler)
    register("scored", Scored)


@dataclass(eq=False)
class Slow(Strategy):
    """Take some seconds for each epoch."""

    seconds: float = 1.0

    @hookimpl
    def select_batch(self, run, batch):
        with run.timed("nap"):
            time.sleep(self.seconds / run.batches)

    @hookimpl
    def on_epoch_start(self, run, epoch):
        if epoch == 1 and Path("breaks").exists():
            raise ValueError("as asked")


@dataclass(eq=False)
class Idler(Strategy):
    """Compute beside, also when it is not its turn."""

    @hookimpl
    def setup(self, run):
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        while True:
            sum(range(10**5))


@dataclass(eq=False)
class Scored(Strategy):
    """Prepare scores that all seeds and variants share."""

    variant: int = 1

    @hookimpl
    def prepare(self, run):
        def make():
            child = run.train_child("scores", 0, 3, shared=True)
            return child.score_dataset(indices=torch.arange(len(run.labels)))

        self.scores = run.artefact(self, {}, make, reuse=True)
'''


@pytest.fixture
def bench(tmp_path, installed):
    return Bench(tmp_path, installed).with_loose_plugins(LOOSE).apart()


def untimed(cell):
    """Return the numbers of a cell without what its artefacts have cost."""
    rest, *tables = numbers(cell)
    return {key: value for key, value in rest.items() if key != "artefacts"}, *tables


def by_strategy(schedule):
    return {cell.strategy: cell for cell in schedule.cells}


@pytest.mark.long
def test_taking_turns_changes_no_number(bench):
    """Children, scoring passes and what is drained take turns too; some end, others go on."""
    strategies = (
        "baseline",
        "el2n[keep=0.5,models=2,epochs=2]",
        "selective_backprop",
        "kakurenbo",
        "mixtrain_cutmix",
        "short_schedule",
    )
    planned = bench.schedule(*strategies)
    bench.run(planned)
    together = [untimed(cell) for cell in planned.cells]
    assert len({record(cell)["heat"] for cell in planned.cells}) == 1
    bench.settings = replace(bench.settings, in_process=True)
    bench.run(planned.cells, fresh=True)
    assert [untimed(cell) for cell in planned.cells] == together
    assert "heat" not in record(planned.cells[0])


@pytest.mark.long
def test_a_clock_stands_still_while_others_have_their_turn(bench):
    planned = bench.schedule("baseline", "slow[seconds=0.7]", epochs=2)
    bench.run(planned)
    fast, slow = map(record, planned.cells)
    assert fast["clocks"]["train"] < 0.7
    assert slow["clocks"]["train"] >= 1.4
    # What a strategy times for itself stands still as well.
    assert slow["columns"]["nap_seconds"] == pytest.approx(1.4, abs=0.4)
    assert sum(slow["phases"].values()) == pytest.approx(slow["clocks"]["train"], rel=0.02)
    assert abs(slow["outside"]["on"] - slow["clocks"]["train"]) < 0.3


class Scripted:
    """A guest that says what it is told to, each time after some seconds."""

    where = ran = 0

    def __init__(self, clock, said):
        self._clock, self._said = clock, iter(said)

    def receive(self, limit, what):
        seconds, message = next(self._said)
        if seconds > limit:
            raise Died("", f"{what} within {limit:g} seconds, so it was stopped")
        self._clock.now += seconds
        return message

    def send(self, message):
        """Hear it."""


def test_the_limit_counts_what_a_cell_holds_of_the_turns(bench, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("dataeff.bench.hosting.monotonic", lambda: clock.now)
    (cell,) = bench.cells()
    cell.folder.mkdir(parents=True)
    berth = Berth(None, None, None, replace(bench.settings, timeout=10.0))
    host = Hosting(cell, "", berth, lambda *line: None)
    turn, epoch = {"turn": {}}, {"epoch": 1, "epochs": 3, "line": {"epoch": 0}}
    said = [(4.0, turn), (4.0, turn), (1.0, epoch), (4.0, turn), (5.0, turn), (2.0, turn)]
    host._guest = Scripted(clock, said)
    for _ in range(4):
        host.go(1.0)
        assert host.ended is None
        # The others have theirs.
        clock.now += 100.0
    host.go(1.0)
    assert host.ended == {
        "died": "no epoch ended within 10 seconds, so it was stopped; see --timeout"
    }


@pytest.mark.long
def test_one_that_fails_leaves_the_others_and_goes_on_beside_a_copy(bench):
    planned = bench.schedule("baseline", "slow[seconds=0.1]", "random_backprop")
    Path("breaks").touch()
    bench.run(planned)
    cells = by_strategy(planned)
    told = {name: record(cell) for name, cell in cells.items()}
    assert told["slow[seconds=0.1]"]["error"].endswith("as asked")
    assert told["baseline"]["status"] == told["random_backprop[keep=0.5]"]["status"] == "finished"
    before = numbers(cells["baseline"])
    Path("breaks").unlink()
    events = bench.run(planned)
    assert [e.record["epoch"] for e in events if e.kind == "epoch"] == [1, 2], "from its checkpoint"
    slow, base = record(cells["slow[seconds=0.1]"]), record(cells["baseline"])
    assert slow["heat"] != base["heat"]
    copy = base["heats"][slow["heat"]]
    assert copy["clocks"]["train"] > 0
    assert not [flag for flag in copy["flags"] if "weights" in flag]
    assert numbers(cells["baseline"]) == before, "its accuracy counts once"
    assert not (cells["baseline"].folder / "copies").exists()


@pytest.mark.long
def test_what_joins_later_is_compared_with_the_copy_beside_it(bench):
    bench.run(bench.schedule("baseline", "random_backprop"))
    planned = bench.schedule("baseline", "short_schedule")
    events = bench.run(planned)
    assert {event.cell.strategy for event in events if event.kind == "epoch"} == {
        "short_schedule[share=0.5]"
    }
    base, late = map(record, planned.cells)
    factor, why = pairing(late | {"machine": None}, base)
    flags = base["heats"][late["heat"]]["flags"]
    assert bool(why) == bool(flags)
    runs = read_board(bench.root).runs.set_index("strategy")
    if not flags:
        assert runs.loc["short_schedule[share=0.5]", "pace"] == factor
        seconds = sum(late["clocks"][name] for name in ("prepare", "train"))
        told = runs.loc["short_schedule[share=0.5]", "clocked_seconds"]
        assert told == pytest.approx(seconds * factor)


@pytest.mark.long
def test_of_those_that_need_a_shared_artefact_one_makes_it(bench):
    names = [f"scored[variant={number}]" for number in (1, 2, 3)]
    planned = bench.schedule("baseline", *names)
    bench.run(planned)
    told = [record(cell)["artefacts"][0] for cell in planned.cells[1:]]
    assert sorted(part["made"] for part in told) == [False, False, True]
    assert len({part["seconds"] for part in told}) == 1, "who reuses it pays in full"
    assert not list((bench.settings.results / "artefacts").glob("*.making"))


@pytest.mark.long
def test_who_computes_on_the_turns_of_others_is_told_on(bench):
    planned = bench.schedule("baseline", "idler", "slow[seconds=0.5]")
    bench.run(planned)
    flags = {cell.strategy: record(cell)["machine"]["flags"] for cell in planned.cells}
    said = "while it was the turn of others"
    assert [any(said in flag for flag in flags[name]) for name in ("baseline", "idler")] == [
        False,
        True,
    ]


@pytest.mark.long
def test_loaders_stand_still_with_their_cell(bench):
    """What is read ahead on the turns of others would be read for nothing."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 40), ("val", 2)):
        for label in ("ant", "bee"):
            (bench.folder / "photos" / part / label).mkdir(parents=True)
            for number in range(count):
                image = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
                image.save(bench.folder / "photos" / part / label / f"{number}.png")
    Path("slow").touch()
    photos = f"image_folder[path={bench.folder}/photos,size=8]"
    task = {"dataset": photos, "workers": 2, "validation": 0.0}
    names = ("slow[seconds=0.0]", "slow[seconds=1.2]")
    planned = bench.schedule("baseline", *names, epochs=1, batch_size=8, **task)
    bench.run(planned)
    told = record(planned.cells[1])
    assert told["status"] == "finished", told["error"]
    # 80 images of 50 ms each, by two workers, who have up to four batches of eight ready.
    assert told["clocks"]["train"] > 0.95 * 80 * 0.05 / 2


def test_a_cell_whose_line_is_closed_ends_at_once_and_writes_nothing(bench):
    planned = bench.schedule("slow[seconds=0.2]")
    (cell,) = planned.cells
    cell.folder.mkdir(parents=True)
    with open_desk(bench.settings) as desk:
        berth = Berth(desk.lanes[0], desk.evaluator, desk, bench.settings)
        host = Hosting(cell, "", berth, lambda *line: None)
        host.start()
        host.go(0.1)
        guest = host._guest
        guest._ours.close()
        guest._process.join(10)
        assert guest._process.exitcode == -9
        assert not {path.name for path in cell.folder.iterdir()} & {"run.json", "checkpoint.pt"}
        host._guest = None


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="pins processes to cores")
@pytest.mark.skipif(len(physical_cores()) < 2, reason="takes two cores")
def test_two_lanes_run_two_blocks_at_once_to_the_same_numbers(bench):
    bench.settings = replace(bench.settings, device="cpu*2")
    lanes = set()
    with open_desk(bench.settings) as desk:
        bench.desk = desk
        assert desk.device_line().startswith("2 lanes, each on cpu (")
        planned = bench.schedule("baseline", "slow[seconds=0.3]", seeds=3)
        run_cells(planned, desk, bench.settings, lambda event: lanes.add(event.lane))
    told = [record(cell) for cell in planned.cells]
    assert {one["status"] for one in told} == {"finished"}
    assert len(lanes) == 2
    assert max(one["lanes"] for one in told) == 2
    assert told[0]["conditions"]["cores"] == told[0]["conditions"]["threads"] == 1
    assert all(one["energy"] == {} for one in told), "they share a counter"
    with open_desk(bench.settings) as desk:
        desk.enter(desk.lanes[:1])
        planned, again = Cells(planned.cells), lambda cell, record: True
        run_cells(planned, desk, bench.settings, lambda event: None, again)
    assert [record(cell)["weights"] for cell in planned] == [one["weights"] for one in told]


def test_a_lane_that_breaks_ends_the_others_and_leaves_nothing(bench, monkeypatch):
    def breaks(self, todo):
        raise DiskFull("no room")

    monkeypatch.setattr(Track, "run", breaks)
    with pytest.raises(DiskFull, match="no room"):
        bench.run(bench.schedule())
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(not os.environ.get("DATAEFF_ALL"), reason="takes long; make soak does it too")
def test_a_killed_block_goes_on_in_its_heat_to_the_same_numbers(bench):
    names = ("baseline", "random_backprop", "slow[seconds=0.3]")
    planned = bench.schedule(*names)
    bench.settings = replace(bench.settings, in_process=True)
    bench.run(planned.cells)
    whole = sorted(record(cell)["weights"] for cell in planned.cells)
    program = "import sys; from dataeff.cli import main; sys.argv[0] = 'dataeff'; main()"
    task = ["--dataset", "synthetic[samples=90,test_samples=20,classes=4,size=8]"]
    task += ["--model", "tiny", "--epochs", "3", "--seeds", "1", "--no-controls", "--yes"]
    task += ["--set", "batch_size=16", "--set", "lr=0.05", "--device", "cpu", "--name", "other"]
    task += [word for name in names for word in ("-s", name)]
    command = [sys.executable, "-c", program, "run", *task, "--plugins-dir", "plugins"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder, end = bench.settings.results / "other", time.monotonic() + 60
    while not list(folder.glob("*slow*/checkpoint.pt")) and time.monotonic() < end:
        time.sleep(0.02)
    run.kill()
    run.wait()
    heats = {json.loads(path.read_text())["heat"] for path in folder.glob("*/books.json")}
    assert len(heats) == 1
    subprocess.run(command, check=True, capture_output=True)
    told = [json.loads(path.read_text()) for path in sorted(folder.glob("*/run.json"))]
    assert {record["heat"] for record in told} == heats
    assert sorted(record["weights"] for record in told) == whole
