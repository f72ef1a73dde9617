"""A cell: task x strategy x seed, trained and measured. A pure function of the three."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dataeff.data import Dataset, Split, load_dataset
from dataeff.data.memory import MemorySplit
from dataeff.errors import DataeffError, Diverged
from dataeff.models import build_model
from dataeff.plugins import Installed, Strategy, blaming, canonical, compose
from dataeff.training.artefact import Shelf
from dataeff.training.evaluate import evaluate
from dataeff.training.loop import train
from dataeff.training.machine import Guard, computing_threads, snapshot
from dataeff.training.meter import peak_memory, reset_peak_memory
from dataeff.training.rng import derive, forked
from dataeff.training.run import Run
from dataeff.training.task import Task

OnEpoch = Callable[[int, float, Mapping[str, Any]], None]


@dataclass(eq=False)
class Result:
    """What a cell leaves behind: one record, one line per epoch, one line per sample."""

    record: dict[str, Any]
    epochs: list[dict[str, Any]]
    samples: dict[str, Tensor]
    run: Run


def pick_device(name: str = "auto") -> torch.device:
    """Return the named device; 'auto' takes the accelerator where there is one."""
    if name == "auto":
        if torch.accelerator.is_available():
            return torch.accelerator.current_accelerator()
        return torch.device("cpu")
    try:
        device = torch.device(name)
        # The zero is written and read: a device without data is none to train on.
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise DataeffError(
            f"Device {name!r} cannot be used here; try --device cpu or auto."
        ) from None
    return device


def train_cell(
    task: Task,
    strategy: str,
    seed: int,
    *,
    installed: Installed,
    device: str = "auto",
    data_root: Path | None = None,
    folder: Path | None = None,
    shelf: Shelf | None = None,
    on_epoch: OnEpoch = lambda epoch, epochs, record: None,
) -> Result:
    """Train one cell, from its start or from the checkpoint in its folder."""
    where = pick_device(device)
    data = load_dataset(
        task.dataset, installed.datasets, root=data_root, device=where, workers=task.workers
    )
    strategies = compose(strategy, installed)
    return train_on(
        data,
        task,
        strategies,
        seed,
        installed=installed,
        device=where,
        folder=folder,
        shelf=shelf,
        on_epoch=on_epoch,
    )


def train_on(
    data: Dataset,
    task: Task,
    strategies: list[Strategy],
    seed: int,
    *,
    installed: Installed,
    device: torch.device,
    folder: Path | None = None,
    shelf: Shelf | None = None,
    on_epoch: OnEpoch = lambda epoch, epochs, record: None,
) -> Result:
    """Train on data that is already loaded."""

    def look(run: Run, name: str) -> dict[str, Any]:
        split = data.test if name == "test" else data.train
        samples = torch.arange(len(data.test)) if name == "test" else run.split(name)
        with run.meter.clock("evaluate"):
            return evaluate(run.model, split, samples, task.batch_size)

    def look_at_test(run: Run) -> dict[str, Any]:
        for line in run.history:
            line.pop("test_classes", None)
        return _named("test", look(run, "test"))

    def measure(run: Run) -> dict[str, float]:
        number = run.epoch + 1
        validation = look(run, "validation")
        validation.pop("classes", None)
        line = _epoch_record(run) | _named("validation", validation)
        if number % task.test_every == 0 or number == run.epoch_count:
            line |= look_at_test(run)
        run.history.append(line)
        run.guard.sample()
        on_epoch(number, run.epochs, line)
        if not math.isfinite(validation.get("loss", 0.0)):
            raise Diverged(
                f"The validation loss of epoch {run.epoch} is not finite: lower the learning rate."
            )
        return validation

    if device.index is not None:
        torch.accelerator.set_device_index(device.index)
    with forked(device), deterministic(task.deterministic), blaming(strategies):
        run = make_run(data, task, strategies, seed, installed, device, folder, shelf)
        run.warm_up()
        torch.manual_seed(derive(seed, "global"))
        reset_peak_memory(device)
        run.guard = _guard(device, data.train, task)
        run.resume()
        status, error = "finished", ""
        try:
            train(run, measure)
        except Diverged as diverged:
            status, error = "diverged", str(diverged)
        if run.history and not any(key.startswith("test_") for key in run.history[-1]):
            # It ended early, between two looks.
            run.history[-1] |= look_at_test(run)
        record = _record(run, status, error)
    epochs = [_without(line, "test_classes") for line in run.history]
    return Result(record, epochs, sample_columns(run), run)


def make_run(
    data: Dataset,
    task: Task,
    strategies: list[Strategy],
    seed: int,
    installed: Installed,
    device: torch.device,
    folder: Path | None = None,
    shelf: Shelf | None = None,
) -> Run:
    """Set a run up; of the dataset it is given the training split only."""

    # Not the dataset itself: a run must not lead to the test set.
    classes, shape = data.classes, data.shape

    def build() -> nn.Module:
        return build_model(task.model, installed.models, classes=classes, shape=shape)

    return Run(
        task,
        strategies,
        train=data.train,
        shape=shape,
        build=build,
        seed=seed,
        device=device,
        folder=folder,
        shelf=shelf,
    )


def _guard(device: torch.device, split: Split, task: Task) -> Guard:
    streams = not isinstance(split, MemorySplit)
    return Guard(device, computing_threads(device) + streams * task.workers, streams=streams)


def _named(split: str, figures: Mapping[str, float]) -> dict[str, float]:
    return {f"{split}_{key}": value for key, value in figures.items()}


def _epoch_record(run: Run) -> dict[str, Any]:
    return {
        "epoch": run.epoch,
        "progress": run.progress,
        "lr": run.optimizer.param_groups[0]["lr"],
        "train_loss": run.train_loss,
        "kept": run.kept,
        "mixed": run.mixed,
        "prepare_seconds": run.meter.wall["prepare"],
        "train_seconds": run.meter.wall["train"],
        "rows_trained": run.meter.rows["trained"],
        "steps": run.meter.steps,
    }


def _record(run: Run, status: str, error: str) -> dict[str, Any]:
    meter = run.meter
    run.close_work()
    last = run.history[-1] if run.history else {}
    columns: dict[str, Any] = {}
    for part in run.hook.report(run=run):
        if clash := columns.keys() & part.keys():
            raise DataeffError(
                f"Two strategies report the column {sorted(clash)[0]!r}; rename one."
            )
        columns |= part
    return {
        "status": status,
        "error": error,
        "strategy": canonical(run.strategies),
        "parameters": {s.entry.name: s.values for s in run.strategies},
        "task": run.task.model_dump(mode="json"),
        "task_id": run.task.id,
        "seed": run.seed,
        "epochs": run.epoch,
        "metrics": {
            key: value
            for key, value in _without(last, "test_classes").items()
            if key.startswith(("test_", "validation_"))
        },
        **_classes(run, *last.get("test_classes", ([], []))),
        "train_loss": run.train_loss,
        "clocks": dict(meter.wall),
        "process_clocks": dict(meter.process),
        "energy": dict(meter.energy),
        "machine": run.guard.record(meter.process["train"], meter.wall["train"])
        | snapshot(run.device),
        "phases": dict(meter.seconds),
        "rows": dict(meter.rows),
        "steps": meter.steps,
        "flops": meter.flops,
        "peak_memory": peak_memory(run.device),
        "ranked": not any(clock.startswith("off_") for clock in meter.wall),
        "control": is_control(run.strategies),
        "no_effect": why_no_effect(run.strategies),
        "artefacts": run.artefacts,
        "columns": columns,
    }


def _without(line: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != name}


def _classes(run: Run, samples: list[int], right: list[int]) -> dict[str, Any]:
    """Return accuracy and use of each class, and how evenly training used them and the samples."""
    times, labels = run.ledger.times_trained.cpu(), run.labels.cpu()
    mine = run.trainable
    count = torch.bincount(labels[mine], minlength=len(samples)).double()
    trained = torch.bincount(labels[mine], weights=times[mine].double(), minlength=len(samples))
    share = trained / count / run.task.epochs
    known = share[count > 0]
    accuracy = [
        100 * hits / size if size else None for hits, size in zip(right, samples, strict=True)
    ]
    return {
        "classes": {"test": samples, "accuracy": accuracy, "trained": share.tolist()},
        "use": {
            "never_trained": float((times[mine] == 0).double().mean()),
            "class_balance": float(known.min() / known.max()) if trained.any() else None,
        },
    }


def is_control(strategies: Sequence[Strategy]) -> bool:
    """Say whether a composition is made of yardsticks only."""
    return bool(strategies) and all(getattr(s.plugin, "control", False) for s in strategies)


def why_no_effect(strategies: Sequence[Strategy]) -> str:
    """Return why a composition can do nothing here; nothing where a part of it can."""
    reasons = [getattr(strategy.plugin, "no_effect", "") for strategy in strategies]
    return "; ".join(dict.fromkeys(reasons)) if all(reasons) else ""


def sample_columns(run: Run) -> dict[str, Tensor]:
    """Return the columns of the per-sample table, on the CPU."""
    tables = {name: table.cpu() for name, table in run.ledger.tables().items()}
    return {
        "sample": torch.arange(len(run.labels)),
        "label": run.labels.cpu(),
        "trainable": run.trainable,
        **tables,
    }


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Have torch use deterministic algorithms inside, where that is wanted."""
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    # cuBLAS reads this once, when its first handle is made.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
