"""The runner: decides which cell is next, and gives each a process of its own."""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pandas as pd

from dataeff.bench.cells import Again, Cell, Settings, never, write_record
from dataeff.bench.results import clear, empty, held, settled
from dataeff.bench.schedule import Schedule
from dataeff.composition import Composition
from dataeff.errors import DiskFull, one_line
from dataeff.files import write_bits, write_csv, write_parquet, write_text
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.training.cell import OnEpoch
from dataeff.training.heap import steady_heap
from dataeff.training.job import Place

# Slow to import: where this process needed one, the fork server imports it once for all cells.
_HEAVY = ("sklearn.datasets", "torchvision", "timm")
# With this exit code a cell's process says that there was no room to write to.
_FULL = 75


@dataclass
class Event:
    """What the runner tells whoever watches: a cell started, went on, or ended."""

    kind: str
    cell: Cell
    share: float
    record: dict[str, Any]
    number: int = 1
    total: int = 1


Watcher = Callable[[Event], None]


def run_cells(
    cells: Schedule, lab: Lab, settings: Settings, watch: Watcher, again: Again = never
) -> None:
    """Run what is not finished yet; a cell that fails is recorded and the rest goes on.

    More cells may join meanwhile. `again` says which ones to start anew.
    """
    for number, cell in enumerate(cells, 1):

        def tell(kind: str, share: float = 0.0, record: dict | None = None) -> None:
            watch(Event(kind, cell, share, record or {}, number, len(cells)))  # noqa: B023

        def tell_epoch(epoch: int, epochs: float, line: Mapping[str, Any]) -> None:
            tell("epoch", min(1.0, epoch / epochs), dict(line))

        with held(cell.folder) as mine:
            if not mine:
                tell("elsewhere")
                continue
            record = cell.record()
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
            tell("ended", record=cell.record())


def _run_apart(cell: Cell, settings: Settings, on_epoch: OnEpoch) -> None:
    """Run a cell in its own process; a crash or a hang ends that cell alone."""
    context = multiprocessing.get_context("forkserver")
    heavy = [name for name in _HEAVY if name in sys.modules]
    context.set_forkserver_preload(["dataeff.bench.preload", *heavy])
    ours, theirs = context.Pipe(duplex=False)
    # Strategies go as plain data: what a loose plugin defines has no name in another process.
    cell_of = partial(Cell, cell.root, cell.suite, cell.scene, seed=cell.seed)
    order = (cell_of, cell.composition.parameters, settings, theirs)
    process = context.Process(target=_child, args=order, daemon=False)
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
    if process.exitcode == _FULL:
        raise DiskFull.at(cell.folder)
    if cell.record() is None:
        _fail(cell, why)


def _cause_of_death(code: int | None) -> str:
    if code is None or code >= 0:
        return f"the process ended with exit code {code} and left no result"
    name = signal.Signals(-code).name
    hint = "; usually that means that memory ran out" if name == "SIGKILL" else ""
    return f"the process was ended by {name}{hint}"


def _child(
    cell_of: Callable[..., Cell], parameters: Any, settings: Settings, connection: Connection
) -> None:
    # Ctrl-C reaches the whole group; the parent ends us, so that one of us speaks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    lab = Lab(load_plugins(settings.plugin_dirs), settings.device, settings.data_root)
    cell = cell_of(composition=Composition.of(parameters, lab.installed))
    try:
        run_cell(cell, lab, settings.results, lambda *line: connection.send(line))
    except DiskFull:
        sys.exit(_FULL)
    connection.close()


def _die_with_parent() -> None:
    """End this process with its parent, whose hold of the cell is gone then."""
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
    os._exit(1)


def run_cell(cell: Cell, lab: Lab, results: Path, on_epoch: OnEpoch) -> None:
    """Train a cell and write its folder, whatever happens; unless there is no room to."""
    place = Place(cell.folder, cell.shelf(results))
    try:
        with steady_heap():
            result = lab.run(cell.task, cell.composition, cell.seed, place, on_epoch)
        write_csv(cell.folder / "epochs.csv", pd.DataFrame(result.epochs))
        columns = {name: column.numpy() for name, column in result.samples.items()}
        write_parquet(cell.folder / "samples.parquet", pd.DataFrame(columns))
        if result.hits is not None:
            write_bits(cell.folder / "hits.bin", result.hits.numpy())
    except DiskFull:
        raise
    except Exception as error:
        _fail(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
        return
    (cell.folder / "traceback.txt").unlink(missing_ok=True)
    write_record(cell, result.record)
    clear(cell.folder)


def _fail(cell: Cell, error: str, trace: str = "") -> None:
    write_text(cell.folder / "traceback.txt", trace or error + "\n")
    write_record(cell, {"status": "failed", "error": error})


def failures(cells: list[Cell]) -> list[str]:
    """Return one line per failed cell: which, why, and where its traceback is."""
    records = [(cell, cell.record()) for cell in cells]
    return [
        f"{cell.title}: {one_line(record['error'])} (see {cell.folder}/traceback.txt)"
        for cell, record in records
        if record and record["status"] == "failed"
    ]
