"""The runner: decides which cell is next, and gives each a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from dataeff.bench.cells import Again, Cell, Scene, Settings, never, write_record
from dataeff.bench.results import held, settled
from dataeff.composition import Composition
from dataeff.errors import one_line
from dataeff.files import read_json, write_csv, write_parquet, write_text
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.training.cell import OnEpoch
from dataeff.training.job import Place

# Slow to import: where this process needed one, the fork server imports it once for all cells.
_HEAVY = ("sklearn.datasets", "torchvision", "timm")


@dataclass
class Event:
    """What the runner tells whoever watches: a cell started, went on, or ended."""

    kind: str
    cell: Cell
    number: int
    total: int
    share: float = 0.0
    record: dict[str, Any] = field(default_factory=dict)


Watcher = Callable[[Event], None]


class Cells(Protocol):
    """Cells in order; more may join while they are run."""

    def __iter__(self) -> Iterator[Cell]: ...

    def __len__(self) -> int: ...


def run_cells(
    cells: Cells, lab: Lab, settings: Settings, watch: Watcher, again: Again = never
) -> None:
    """Run what is not finished yet; a cell that fails is recorded and the rest goes on.

    `again` says which cells to start anew.
    """
    for number, cell in enumerate(cells, 1):

        def tell(kind: str, share: float = 0.0, record: dict | None = None) -> None:
            watch(Event(kind, cell, number, len(cells), share, record or {}))  # noqa: B023

        def tell_epoch(epoch: int, epochs: float, line: Mapping[str, Any]) -> None:
            tell("epoch", min(1.0, epoch / epochs), dict(line))

        with held(cell.folder) as mine:
            if not mine:
                tell("elsewhere")
                continue
            record = read_json(cell.folder / "run.json")
            if again(record):
                empty(cell.folder)
            elif settled(record):
                tell("skipped", record=record)
                continue
            tell("started")
            (cell.folder / "run.json").unlink(missing_ok=True)
            if settings.in_process:
                run_cell(cell, lab, settings.results, tell_epoch)
            else:
                _run_apart(cell, settings, tell_epoch)
            tell("ended", record=read_json(cell.folder / "run.json"))


def empty(folder: Path) -> None:
    """Delete what a cell has left in its folder; what holds it stays."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "held":
            path.unlink()


def _run_apart(cell: Cell, settings: Settings, on_epoch: OnEpoch) -> None:
    """Run a cell in its own process; a crash or a hang ends that cell alone."""
    context = multiprocessing.get_context("forkserver")
    heavy = [name for name in _HEAVY if name in sys.modules]
    context.set_forkserver_preload(["dataeff.bench.preload", *heavy])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(Order.of(cell), settings, theirs), daemon=False)
    process.start()
    theirs.close()
    why = f"no epoch ended within {settings.timeout:g} seconds, so it was stopped; see --timeout"
    try:
        while ready := wait([ours, process.sentinel], settings.timeout):
            try:
                line = ours.recv() if ours in ready else None
            except (EOFError, OSError):
                line = None
            if line is None:
                process.join(settings.timeout)
                why = _cause_of_death(process.exitcode)
                break
            on_epoch(*line)
    finally:
        if process.is_alive():
            process.kill()
        process.join()
    if read_json(cell.folder / "run.json") is None:
        _fail(cell, why)


def _cause_of_death(code: int | None) -> str:
    if code is None or code >= 0:
        return f"the process ended with exit code {code} and left no result"
    name = signal.Signals(-code).name
    hint = "; usually that means that memory ran out" if name == "SIGKILL" else ""
    return f"the process was ended by {name}{hint}"


@dataclass(frozen=True)
class Order:
    """A cell as plain data: what a loose plugin defines has no name in another process."""

    root: Path
    suite: str
    scene: Scene
    parameters: dict[str, dict[str, Any]]
    seed: int

    @classmethod
    def of(cls, cell: Cell) -> Order:
        """Write a cell down."""
        return cls(cell.root, cell.suite, cell.scene, cell.composition.parameters, cell.seed)

    def cell(self, lab: Lab) -> Cell:
        """Read it again, with the strategies of this process."""
        composition = Composition.of(self.parameters, lab.installed)
        return Cell(self.root, self.suite, self.scene, composition, self.seed)


def _child(order: Order, settings: Settings, connection: Connection) -> None:
    # Ctrl-C reaches the whole group; the parent ends us, so that one of us speaks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    lab = Lab(load_plugins(settings.plugin_dirs), settings.device, settings.data_root)
    run_cell(order.cell(lab), lab, settings.results, lambda *line: connection.send(line))
    connection.close()


def _die_with_parent() -> None:
    """End this process with its parent, whose claim on the cell is gone then."""
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
    os._exit(1)


def run_cell(cell: Cell, lab: Lab, results: Path, on_epoch: OnEpoch) -> None:
    """Train a cell and write its folder, whatever happens."""
    place = Place(cell.folder, cell.shelf(results))
    try:
        result = lab.run(cell.task, cell.composition, cell.seed, place, on_epoch)
        write_csv(cell.folder / "epochs.csv", pd.DataFrame(result.epochs))
        columns = {name: column.numpy() for name, column in result.samples.items()}
        write_parquet(cell.folder / "samples.parquet", pd.DataFrame(columns))
    except Exception as error:
        _fail(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
        return
    (cell.folder / "traceback.txt").unlink(missing_ok=True)
    write_record(cell, result.record)
    _forget(cell)


def _forget(cell: Cell) -> None:
    (cell.folder / "checkpoint.pt").unlink(missing_ok=True)
    shutil.rmtree(cell.folder / "children", ignore_errors=True)


def _fail(cell: Cell, error: str, trace: str = "") -> None:
    write_text(cell.folder / "traceback.txt", trace or error + "\n")
    write_record(cell, {"status": "failed", "error": error})


def failures(cells: list[Cell]) -> list[str]:
    """Return one line per failed cell: which, why, and where its traceback is."""
    records = [(cell, read_json(cell.folder / "run.json")) for cell in cells]
    return [
        f"{cell.title}: {one_line(record['error'])} (see {cell.folder}/traceback.txt)"
        for cell, record in records
        if record and record["status"] == "failed"
    ]
