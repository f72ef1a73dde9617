"""Backends: who runs blocks. Here that is this process, or the lanes of this machine."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Protocol

from dataeff.bench.blocks import Block, Tell, Track, begin, copies_left, is_same, tell_epoch
from dataeff.bench.cells import Again, Cell, Settings
from dataeff.bench.desk import Desk
from dataeff.bench.ended import fail, finish
from dataeff.bench.evaluator import Evaluator
from dataeff.bench.hosting import Berth, Stopped
from dataeff.bench.lanes import Lane
from dataeff.bench.results import empty, held, settled
from dataeff.bench.training import write_samples
from dataeff.composition import Composition
from dataeff.errors import DiskFull
from dataeff.lab import Lab
from dataeff.training.cell import OnEpoch
from dataeff.training.heap import steady_heap
from dataeff.training.job import Place
from dataeff.training.weights import Packer


class Backend(Protocol):
    """Who runs blocks: they are submitted, and their cells are heard of."""

    lanes: int
    """How many blocks it runs at a time."""

    def submit(self, block: Block) -> None:
        """Have a block run, when there is a lane for it."""

    def finish(self, tell: Tell) -> None:
        """Wait until all that was submitted has ended, and tell what happens to the cells."""


@contextmanager
def open_backend(desk: Desk, settings: Settings, again: Again) -> Iterator[Backend]:
    """Yield who runs the cells of a desk; what runs there ends with the block, however that does.

    `again` says which finished cells to start anew.
    """
    if desk.lab:
        yield Here(desk.lab, settings, again)
        return
    lanes = Local(desk, settings, again)
    try:
        yield lanes
    finally:
        lanes.end()


def todo_of(block: Block, stack: ExitStack, tell: Tell, again: Again) -> list[Cell]:
    """Hold the cells of a block for this process, and return those that are to be run.

    Who has the reference has the block: its record says how long it took beside the others.
    """
    reference, todo = block.reference, []
    mine = reference is None or stack.enter_context(held(reference.folder))
    for cell in block.cells:
        if not (mine and (is_same(cell, reference) or stack.enter_context(held(cell.folder)))):
            tell("elsewhere", cell)
            continue
        record = cell.record()
        if again(cell, record):
            empty(cell.folder)
        elif settled(record):
            tell("skipped", cell, record=record)
            continue
        todo.append(cell)
    return todo


# The lanes of this machine -----------------------------------------------------------------------


class Local:
    """Lanes of this machine: a thread for each, which runs one block at a time."""

    def __init__(self, desk: Desk, settings: Settings, again: Again) -> None:
        self._desk, self._settings, self._again = desk, settings, again
        self.lanes = len(desk.lanes)
        self._blocks: SimpleQueue[Block | None] = SimpleQueue()
        self._heard: SimpleQueue[Any] = SimpleQueue()
        self._open, self._busy, self._lock = 0, 0, Lock()
        self._stopped = Event()
        self._tracks: dict[Lane, Track] = {}
        self._evaluators: list[Evaluator] = []
        self._threads = [Thread(target=self._work, args=(lane,)) for lane in desk.lanes]
        for thread in self._threads:
            thread.start()

    def submit(self, block: Block) -> None:
        """Have a block run, when there is a lane for it."""
        self._open += 1
        self._blocks.put(block)

    def finish(self, tell: Tell) -> None:
        """Wait until all that was submitted has ended, and tell what happens to the cells."""
        while self._open:
            heard = self._heard.get()
            if isinstance(heard, BaseException):
                raise heard
            if heard is None:
                self._open -= 1
            else:
                heard(tell)

    def end(self) -> None:
        """End the lanes; a cell that still runs is killed, and goes on with the next command."""
        self._stopped.set()
        for _ in self._threads:
            self._blocks.put(None)
        for thread in self._threads:
            while thread.is_alive():
                for host in [host for track in self._tracks.values() for host in track.alive]:
                    host.kill()
                thread.join(0.05)
        for evaluator in self._evaluators:
            evaluator.end()

    def _work(self, lane: Lane) -> None:
        """Run blocks on a lane, as long as there are any."""
        try:
            berth = self._berth(lane)
            while (block := self._blocks.get()) and not self._stopped.is_set():
                with self._counted():
                    self._run(block, berth)
                self._heard.put(None)
        except Stopped:
            pass
        except BaseException as error:
            self._heard.put(error)

    def _berth(self, lane: Lane) -> Berth:
        desk, settings = self._desk, self._settings
        evaluator = desk.evaluator
        assert evaluator, "who has lanes has an evaluator"
        if lane != desk.lanes[0]:
            # The test set is measured where the cell runs: on another lane it would disturb.
            evaluator = Evaluator(settings, desk.sources, lane)
            self._evaluators.append(evaluator)
        return Berth(lane, evaluator, desk, settings, lambda: self._busy, self._stopped)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def _run(self, block: Block, berth: Berth) -> None:
        def tell(*told: Any, **more: Any) -> None:
            self._heard.put(lambda listener: listener(*told, **more, lane=berth.lane.name))

        with ExitStack() as stack:
            todo = todo_of(block, stack, tell, self._again)
            if todo or copies_left(block.reference):
                track = self._tracks[berth.lane] = Track(block, berth, tell)
                track.run(todo)


# This process ------------------------------------------------------------------------------------


class Here:
    """This process, which runs one cell after another, for debugging."""

    lanes = 1

    def __init__(self, lab: Lab, settings: Settings, again: Again) -> None:
        self._lab, self._settings, self._again = lab, settings, again
        self._blocks: list[Block] = []

    def submit(self, block: Block) -> None:
        """Have a block run when it is waited for."""
        self._blocks.append(block)

    def finish(self, tell: Tell) -> None:
        """Run all that was submitted."""
        while self._blocks:
            with ExitStack() as stack:
                for cell in todo_of(self._blocks.pop(0), stack, tell, self._again):
                    begin(tell, cell)
                    run_cell(cell, self._lab, self._settings, partial(tell_epoch, tell, cell))
                    tell("ended", cell, record=cell.record())


def run_cell(cell: Cell, lab: Lab, settings: Settings, on_epoch: OnEpoch) -> None:
    """Train a cell in this process and write its folder, whatever happens; if there is room."""
    place = Place(cell.folder, cell.shelf(settings.results))
    try:
        with steady_heap():
            what = cell.composition
            composition = what if isinstance(what, Composition) else lab.composition(what.text)
            result = lab.run(cell.task, composition, cell.seed, place, on_epoch)
        write_samples(cell.folder, result)
        result.record["network_form"] = Packer(result.job).pack(cell.folder)
    except DiskFull:
        raise
    except Exception as error:
        fail(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
        return
    hits = [] if result.hits is None else result.hits.tolist()
    finish(cell, result.record | {"lanes": 1}, result.epochs, hits)
