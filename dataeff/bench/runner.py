"""The runner: decides which cell is next, and gives each a process of its own."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import torch

from dataeff.bench.conditions import conditions_id
from dataeff.bench.results import (
    cell_folder,
    claimed,
    read_json,
    settled,
    write_csv,
    write_json,
    write_parquet,
    write_text,
)
from dataeff.bench.suite import Suite
from dataeff.data import load_dataset
from dataeff.models import build_model
from dataeff.plugins import Installed, Strategy, load_plugins
from dataeff.training.artefact import Shelf
from dataeff.training.cell import OnEpoch, train_cell
from dataeff.training.task import Task

# Slow to import: where this process needed one, the fork server imports it once for all cells.
_HEAVY = ("sklearn.datasets", "torchvision", "timm")


@dataclass(frozen=True)
class Settings:
    """How to run, as opposed to what: nothing here may change a cell's numbers."""

    results: Path = Path("results")
    device: str = "auto"
    data_root: Path | None = None
    plugin_dirs: tuple[Path, ...] = ()
    in_process: bool = False
    timeout: float = 3600.0


@dataclass(frozen=True)
class Cell:
    """One training run of a suite, and the folder below `root` that it fills.

    It is known by its task, the data's content, the strategy's parameters and source, the seed and
    the conditions: who changes one of them gets another cell.
    """

    root: Path
    suite: str
    task_name: str
    task: Task
    strategy: str
    seed: int
    data: str
    parameters: dict[str, dict[str, Any]] = field(repr=False)
    sources: dict[str, str] = field(repr=False)
    conditions: dict[str, Any] = field(repr=False)
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)
    """Commit and versions of plugins: worth knowing, but no other cell."""

    @property
    def title(self) -> str:
        """Return what a progress bar shows."""
        return f"{self.task_name} {self.strategy} seed {self.seed}"

    @cached_property
    def folder(self) -> Path:
        """Return its folder: readable, and unique by all that may change its numbers."""
        what = {"parameters": self.parameters, "sources": self.sources}
        stamp = conditions_id(self.conditions)
        key = [self.task_name, self.task.id, self.data, what, self.seed, stamp]
        identity = hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:8]
        return cell_folder(self.root, self.task_name, self.strategy, self.seed, identity)

    def shelf(self, results: Path) -> Shelf:
        """Return where it leaves, and finds, what other cells may reuse."""
        return Shelf(results / "artefacts", (self.data, conditions_id(self.conditions)))


def describe(parts: list[Strategy]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the parameters and the source hash of each part of a composition."""
    parameters = {part.entry.name: part.values for part in parts}
    return parameters, {part.entry.name: part.entry.digest for part in parts}


def check_task(task: Task, settings: Settings, installed: Installed) -> str:
    """Return the fingerprint of a task's data; fail with one sentence without data or model."""
    data = load_dataset(
        task.dataset, installed.datasets, root=settings.data_root, device=torch.device("cpu")
    )
    # A network that cannot be built without data is left to its first cell.
    with torch.device("meta"), suppress(NotImplementedError, RuntimeError):
        build_model(task.model, installed.models, classes=data.classes, shape=data.shape)
    return data.fingerprint


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


Again = Callable[[dict[str, Any] | None], bool]
"""Says of a cell's record, None where there is none, whether to start the cell anew."""


def never(record: dict[str, Any] | None) -> bool:
    """Start no finished cell anew."""
    return False


class Cells(Protocol):
    """Cells in order; more may join while they are run."""

    def __iter__(self) -> Iterator[Cell]: ...

    def __len__(self) -> int: ...


def run_cells(
    cells: Cells,
    settings: Settings,
    watch: Watcher,
    again: Callable[[dict | None], bool] = lambda record: False,
) -> None:
    """Run what is not finished yet; a cell that fails is recorded and the rest goes on.

    `again` says which cells to start anew.
    """
    for number, cell in enumerate(cells, 1):

        def tell(kind: str, share: float = 0.0, record: dict | None = None) -> None:
            watch(Event(kind, cell, number, len(cells), share, record or {}))  # noqa: B023

        def tell_epoch(epoch: int, epochs: float, line: Mapping[str, Any]) -> None:
            tell("epoch", min(1.0, epoch / epochs), dict(line))

        with claimed(cell.folder) as mine:
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
            execute = run_cell if settings.in_process else _run_apart
            execute(cell, settings, tell_epoch)
            tell("ended", record=read_json(cell.folder / "run.json"))


def empty(folder: Path) -> None:
    """Delete what a cell has left in its folder; the claim stays."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "claim":
            path.unlink()


def _run_apart(cell: Cell, settings: Settings, on_epoch: OnEpoch) -> None:
    """Run a cell in its own process; a crash or a hang ends that cell alone."""
    context = multiprocessing.get_context("forkserver")
    heavy = [name for name in _HEAVY if name in sys.modules]
    context.set_forkserver_preload(["dataeff.bench.preload", *heavy])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(cell, settings, theirs), daemon=False)
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


def _child(cell: Cell, settings: Settings, connection: Connection) -> None:
    # Ctrl-C reaches the whole group; the parent ends us, so that one of us speaks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    run_cell(cell, settings, lambda *line: connection.send(line))
    connection.close()


def _die_with_parent() -> None:
    """End this process with its parent, whose claim on the cell is gone then."""
    wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def run_cell(cell: Cell, settings: Settings, on_epoch: OnEpoch) -> None:
    """Train a cell and write its folder, whatever happens."""
    try:
        result = train_cell(
            cell.task,
            cell.strategy,
            cell.seed,
            installed=load_plugins(settings.plugin_dirs),
            device=settings.device,
            data_root=settings.data_root,
            folder=cell.folder,
            shelf=cell.shelf(settings.results),
            on_epoch=on_epoch,
        )
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
    record = {
        "status": "failed",
        "error": error,
        "strategy": cell.strategy,
        "parameters": cell.parameters,
        "task": cell.task.model_dump(mode="json"),
        "task_id": cell.task.id,
        "seed": cell.seed,
    }
    write_record(cell, record)


def write_record(cell: Cell, record: dict[str, Any]) -> None:
    """Write run.json: what was trained, under which conditions, and what came of it."""
    head = {"suite": cell.suite, "task_name": cell.task_name, "data": cell.data}
    tail = {
        "sources": cell.sources,
        "conditions_id": conditions_id(cell.conditions),
        "conditions": cell.conditions,
        "provenance": cell.provenance,
        "ended": datetime.now(UTC).isoformat(timespec="microseconds"),
    }
    write_json(cell.folder / "run.json", {**head, **record, **tail})


def write_suite(
    suite: Suite,
    data: dict[str, str],
    settings: Settings,
    command: str,
    solved: Iterable[str] = (),
) -> None:
    """Leave what was asked for beside the results, for the leaderboard to read.

    What an earlier command asked for on the same tasks stays: its results are in the table too.
    `solved` are what its patterns have become, as far as that is known: they take their place.
    """
    path = settings.results / suite.name / "suite.json"
    content = suite.model_dump(mode="json")
    content["strategies"] = list(dict.fromkeys([*suite.complete, *solved]))
    content["task_ids"] = {name: task.id for name, task in suite.tasks.items()}
    content["data"] = data
    content["reference"] = suite.reference
    content["commands"] = [command]
    same = ("task_ids", "data", "reference")
    before = read_json(path) or {}
    if all(before.get(key) == content[key] for key in same):
        for key in ("strategies", "commands"):
            content[key] = list(dict.fromkeys([*before.get(key, ()), *content[key]]))
        content["seeds"] = max(before["seeds"], content["seeds"])
        content["match"] = content["match"] or before.get("match")
    write_json(path, content)


def failures(cells: list[Cell]) -> list[str]:
    """Return one line per failed cell: which, why, and where its traceback is."""
    records = [(cell, read_json(cell.folder / "run.json")) for cell in cells]
    return [
        f"{cell.title}: {one_line(record['error'])} (see {cell.folder}/traceback.txt)"
        for cell, record in records
        if record and record["status"] == "failed"
    ]


def one_line(text: str) -> str:
    """Return the first line of a message that may have many."""
    return text.strip().split("\n")[0]
