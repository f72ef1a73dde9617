"""The process of a cell: trains it, and sends what it measured to the runner, who writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
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
from dataeff.training.heap import steady_heap
from dataeff.training.job import Job, Place
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
    shared: Shared
    closed: dict[str, str]


class Remote:
    """The runner, as a run in another process has it for a host."""

    def __init__(self, line: Line, folder: Path, boundary: Boundary) -> None:
        self._line, self._folder, self._boundary = line, folder, boundary
        self._packer: Packer | None = None

    def test(self, job: Job) -> None:
        """Leave the weights in the cell's folder, and wait until they have been tested."""
        self._packer = self._packer or Packer(job)
        with job.meter.clock("evaluate"):
            form = self._packer.pack(self._folder)
            self._line.ask({"test": job.tested, "form": form})

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


def _train(line: Line, order: Order, boundary: Boundary) -> None:
    lab = Lab(load_plugins(order.plugin_dirs, order.broken, order.plugins), order.device)
    lab.take(order.task, order.shared)
    host = Remote(line, order.folder, boundary)
    place = Place(order.folder, order.shelf, host=host, energy=order.energy)
    with steady_heap():
        composition = lab.composition(order.strategy)
        result = lab.run(order.task, composition, order.seed, place, host.epoch)
    boundary.check()
    write_samples(order.folder, result)
    found = conditions(lab.device) | {"timing": order.timing}
    line.send({"ended": result.record, "left": boundary.left_behind(), "conditions": found})


def write_samples(folder: Path, result: Result) -> None:
    """Write the table of a cell's samples."""
    columns = {name: column.numpy() for name, column in result.samples.items()}
    write_parquet(folder / "samples.parquet", pd.DataFrame(columns))
