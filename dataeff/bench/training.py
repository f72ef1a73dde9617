"""The process of a cell: trains it, and sends what it measured to the runner, who writes it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd

from dataeff.bench.boundary import Boundary
from dataeff.bench.conditions import conditions
from dataeff.bench.guest import Line
from dataeff.damage import listening
from dataeff.data.sharing import Shared
from dataeff.files import write_parquet
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.training.artefact import Shelf
from dataeff.training.cell import Result
from dataeff.training.fitting import more_that_fit
from dataeff.training.heap import steady_heap
from dataeff.training.job import Job, Place
from dataeff.training.meter import Meter
from dataeff.training.task import Task
from dataeff.training.weights import Packer


@dataclass(frozen=True)
class Order:
    """What a cell's process is given: what to train, on what, and what it may not open."""

    folder: Path
    task: Task
    strategy: str
    seed: int
    shelf: Shelf
    plugin_dirs: tuple[Path, ...]
    plugins: list[str] | None
    broken: dict[str, str]
    device: str
    timing: str
    energy: bool
    saves_every: float
    shared: Shared
    closed: dict[str, str]


class Remote:
    """The runner, as a run in another process has it for a host."""

    def __init__(self, line: Line, folder: Path, boundary: Boundary) -> None:
        self._line, self._folder, self._boundary = line, folder, boundary
        self._packer: Packer | None = None
        self._until = 0.0

    def turn(self, job: Job, meter: Meter, over: bool = False, passes: bool = False) -> None:
        """Wait, with clocks and loaders standing still, if another cell is to go on."""
        if not (over or passes) and perf_counter() < self._until:
            return
        told = {"progress": job.run.progress, "preparing": not job.prepared, "passes": passes}
        guard = job.guard.elsewhere() if job.guard else nullcontext()
        with meter.standing_still(), guard, _loaders_standing_still():
            self.wait({**told, "more": more_that_fit(job.run.device)})

    def wait(self, told: Mapping[str, Any]) -> None:
        """Hand the turn over, and wait for the next one."""
        try:
            answer = self._line.ask({"turn": dict(told)})
        except (EOFError, OSError):
            # Nobody is there to write what comes of this cell.
            os.killpg(0, signal.SIGKILL)
        self._until = perf_counter() + answer["seconds"]

    def test(self, job: Job, epoch: int, whole: bool) -> None:
        """Leave the weights in the cell's folder, and wait until they have been tested."""
        self._packer = self._packer or Packer(job)
        with job.meter.clock("evaluate"):
            form = self._packer.pack(self._folder)
            self._line.ask({"test": epoch, "form": form, "whole": whole})

    def mark(self, on_clock: bool) -> None:
        """Say that a clock which counts begins or ends here."""
        self._line.send({"mark": on_clock})

    def saved(self, epoch: int) -> None:
        """Say that a checkpoint was written."""
        self._line.send({"saved": epoch})

    def resumed(self, epoch: int) -> None:
        """Say that a checkpoint was read."""
        self._line.ask({"resumed": epoch})

    def epoch(self, number: int, epochs: float, line: Mapping[str, Any]) -> None:
        """Say that an epoch has ended; who has crossed the boundary in it ends here."""
        self._boundary.check()
        self._line.send({"epoch": number, "epochs": epochs, "line": dict(line)})


def train(line: Line, order: Order) -> None:
    """Train a cell; nothing but checkpoints, weights and samples.parquet is written here."""
    boundary = Boundary(order.closed)
    boundary.draw()
    with listening(lambda text: line.send({"said": text})):
        _train(line, order, boundary)


@contextmanager
def _loaders_standing_still() -> Iterator[None]:
    """Stop what reads ahead for this cell: it would do so on the turns of others."""
    workers = [worker.pid for worker in multiprocessing.active_children() if worker.pid]

    def tell(number: int) -> None:
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    tell(signal.SIGSTOP)
    yield
    tell(signal.SIGCONT)


def _train(line: Line, order: Order, boundary: Boundary) -> None:
    lab = Lab(load_plugins(order.plugin_dirs, order.broken, order.plugins), order.device)
    host = Remote(line, order.folder, boundary)
    host.wait({})
    lab.take(order.task, order.shared)
    place = Place(
        order.folder,
        order.shelf,
        host=host,
        energy=order.energy,
        saves_every=order.saves_every,
    )
    with steady_heap():
        composition = lab.composition(order.strategy)
        result = lab.run(order.task, composition, order.seed, place, host.epoch)
    boundary.check()
    write_samples(order.folder, result)
    found = conditions(lab.device) | result.in_force | {"timing": order.timing}
    line.send({"ended": result.record, "left": boundary.left_behind(), "conditions": found})


def write_samples(folder: Path, result: Result) -> None:
    """Write the table of a cell's samples."""
    columns = {name: column.numpy() for name, column in result.samples.items()}
    write_parquet(folder / "samples.parquet", pd.DataFrame(columns))
