"""The runner: decides which cell is next, and gives each a process of its own."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from dataeff.bench.conditions import conditions, conditions_id
from dataeff.bench.results import (
    cell_folder,
    claimed,
    is_done,
    read_json,
    write_csv,
    write_json,
    write_parquet,
    write_text,
)
from dataeff.bench.suite import Suite
from dataeff.data import load_dataset
from dataeff.models import build_model
from dataeff.plugins import Installed, compose, load_plugins
from dataeff.training.cell import pick_device, train_cell
from dataeff.training.task import Task


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
    """One training run of a suite, and the folder that it fills."""

    suite: str
    task_name: str
    task: Task
    strategy: str
    seed: int
    folder: Path
    conditions: dict[str, Any] = field(repr=False)

    @property
    def title(self) -> str:
        """Return what a progress bar shows."""
        return f"{self.task_name} {self.strategy} seed {self.seed}"


def suite_cells(suite: Suite, settings: Settings, installed: Installed) -> list[Cell]:
    """List the cells, seed by seed, so that drift of the machine hits all strategies alike."""
    stamp = conditions(pick_device(settings.device))
    root = settings.results / suite.name
    cells = []
    for task_name, task in suite.tasks.items():
        for seed in range(suite.seeds):
            for strategy in suite.strategies:
                parameters = [(s.entry.name, s.values) for s in compose(strategy, installed)]
                key = [task.id, parameters, seed, conditions_id(stamp)]
                identity = hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:8]
                folder = cell_folder(root, task_name, strategy, seed, identity)
                cells.append(Cell(suite.name, task_name, task, strategy, seed, folder, stamp))
    return cells


def check_tasks(suite: Suite, settings: Settings, installed: Installed) -> None:
    """Fail early, with one sentence, where data or a model of the suite cannot be had."""
    meta = torch.device("meta")
    for task in suite.tasks.values():
        data = load_dataset(
            task.dataset, installed.datasets, root=settings.data_root, device=torch.device("cpu")
        )
        with meta:
            build_model(task.model, installed.models, classes=data.classes, shape=data.shape)


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


def run_cells(cells: list[Cell], settings: Settings, watch: Watcher, fresh: bool = False) -> None:
    """Run what is not finished yet; a cell that fails is recorded and the rest goes on."""
    for number, cell in enumerate(cells, 1):

        def tell(kind: str, share: float = 0.0, record: dict | None = None) -> None:
            watch(Event(kind, cell, number, len(cells), share, record or {}))  # noqa: B023

        with claimed(cell.folder) as mine:
            if not mine:
                tell("elsewhere")
                continue
            if fresh:
                _empty(cell.folder)
            if is_done(cell.folder):
                tell("skipped", record=read_json(cell.folder / "run.json"))
                continue
            tell("started")
            execute = _run_here if settings.in_process else _run_apart
            for epoch, epochs, line in execute(cell, settings):
                tell("epoch", share=min(1.0, epoch / epochs), record=line)
            tell("ended", record=read_json(cell.folder / "run.json"))


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "claim":
            path.unlink()


def _run_here(cell: Cell, settings: Settings) -> Iterator[tuple[int, float, dict]]:
    lines: list[tuple[int, float, dict]] = []
    run_cell(cell, settings, lambda *line: lines.append(line))
    yield from lines


def _run_apart(cell: Cell, settings: Settings) -> Iterator[tuple[int, float, dict]]:
    """Run a cell in its own process; a crash or a hang ends that cell alone."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dataeff.bench.preload"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(cell, settings, theirs), daemon=False)
    process.start()
    theirs.close()
    try:
        deadline = time.monotonic() + settings.timeout
        while True:
            if not ours.poll(max(0.0, deadline - time.monotonic())):
                process.kill()
                process.join()
                minutes = settings.timeout / 60
                _fail(
                    cell,
                    f"no epoch ended within {minutes:g} minutes, so it was stopped; see --timeout",
                )
                return
            try:
                yield ours.recv()
            except EOFError:
                break
            deadline = time.monotonic() + settings.timeout
        process.join()
    finally:
        if process.is_alive():
            process.terminate()
            process.join()
    if read_json(cell.folder / "run.json") is None:
        code = process.exitcode
        why = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        _fail(cell, f"the process died with {why}; SIGKILL usually means that memory ran out")


def _child(cell: Cell, settings: Settings, connection: Connection) -> None:
    # Ctrl-C reaches the whole group; the parent ends us, so that one of us speaks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_cell(cell, settings, lambda *line: connection.send(line))
    connection.close()


def run_cell(cell: Cell, settings: Settings, on_epoch: Callable[..., None]) -> None:
    """Train a cell and write its folder, whatever happens."""
    (cell.folder / "run.json").unlink(missing_ok=True)
    try:
        result = train_cell(
            cell.task,
            cell.strategy,
            cell.seed,
            installed=load_plugins(settings.plugin_dirs),
            device=settings.device,
            data_root=settings.data_root,
            folder=cell.folder,
            on_epoch=on_epoch,
        )
    except Exception as error:
        _fail(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
        return
    write_csv(cell.folder / "epochs.csv", pd.DataFrame(result.epochs))
    columns = {name: column.numpy() for name, column in result.samples.items()}
    write_parquet(cell.folder / "samples.parquet", pd.DataFrame(columns))
    (cell.folder / "traceback.txt").unlink(missing_ok=True)
    _write_record(cell, result.record)
    (cell.folder / "checkpoint.pt").unlink(missing_ok=True)
    shutil.rmtree(cell.folder / "children", ignore_errors=True)


def _fail(cell: Cell, error: str, trace: str = "") -> None:
    write_text(cell.folder / "traceback.txt", trace or error + "\n")
    task = cell.task.model_dump(mode="json")
    record = {"status": "failed", "error": error, "strategy": cell.strategy, "seed": cell.seed}
    _write_record(cell, {**record, "task": task, "task_id": cell.task.id})


def _write_record(cell: Cell, record: dict[str, Any]) -> None:
    stamp = {"conditions_id": conditions_id(cell.conditions), "conditions": cell.conditions}
    head = {"suite": cell.suite, "task_name": cell.task_name}
    write_json(cell.folder / "run.json", {**head, **record, **stamp})


def write_suite(suite: Suite, settings: Settings, command: str) -> None:
    """Leave what was asked for beside the results, for the leaderboard to read."""
    folder = settings.results / suite.name
    content = suite.model_dump(mode="json")
    content["task_ids"] = {name: task.id for name, task in suite.tasks.items()}
    content["reference"] = suite.reference
    write_json(folder / "suite.json", {**content, "command": command})


def failures(cells: list[Cell]) -> list[str]:
    """Return one line per failed cell."""
    records = [(cell, read_json(cell.folder / "run.json")) for cell in cells]
    return [
        f"{cell.title}: {record['error']}"
        for cell, record in records
        if record and record["status"] == "failed"
    ]
