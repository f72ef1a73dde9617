"""A cell: task x strategy x seed, trained and measured."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dataeff.composition import Active
from dataeff.data import Split
from dataeff.data.memory import MemorySplit
from dataeff.errors import DataeffError, Diverged
from dataeff.training.devices import about_device, device_line
from dataeff.training.evaluate import evaluate, merits, take_test
from dataeff.training.job import Job
from dataeff.training.loop import train
from dataeff.training.machine import Guard, snapshot
from dataeff.training.meter import peak_memory, reset_peak_memory
from dataeff.training.numerics import in_force
from dataeff.training.rng import derive
from dataeff.training.run import Run
from dataeff.training.system import computing_threads
from dataeff.training.timetable import Timetable
from dataeff.training.warming import warm_up

OnEpoch = Callable[[int, float, Mapping[str, Any]], None]


@dataclass(eq=False)
class Result:
    """What a cell leaves behind: one record, one line per epoch, one line per sample.

    `in_force` is how torch computed at its end, for the conditions.
    """

    record: dict[str, Any]
    epochs: list[dict[str, Any]]
    samples: dict[str, Tensor]
    job: Job
    in_force: dict[str, Any]

    @property
    def run(self) -> Run:
        """Return the run, as its strategies saw it."""
        return self.job.run

    @property
    def hits(self) -> Tensor | None:
        """Return which test images it got right at its end, in their order; None without a test."""
        return self.job.final.get("whole", {}).get("hits")


def train_cell(job: Job, test: Split | None, on_epoch: OnEpoch | None = None) -> Result:
    """Train a run that is set up, from its start or from its checkpoint, and measure it.

    Where the run has a host, that one tests it, and nothing of the test set is returned; without a
    test set it is not tested.
    """
    run = job.run
    tests = None if test is None else _Tests(job, test)

    def measure(job: Job) -> dict[str, float]:
        number = run.epoch + 1
        job.turn()
        validation = validated(job)
        line = _epoch_record(job) | _named("validation", validation)
        ends = number == run.epoch_count
        if tests and (ends or tests.timetable.due(number)):
            line |= tests.take(run.epoch, ends)
        job.history.append(line)
        if job.guard:
            job.guard.sample()
        if on_epoch:
            on_epoch(number, run.epochs, line)
        if not math.isfinite(validation.get("loss", 0.0)):
            raise Diverged(
                f"The validation loss of epoch {run.epoch} is not finite: lower the learning rate."
            )
        return validation

    warm_up(job)
    torch.manual_seed(derive(run.seed, "global"))
    reset_peak_memory(run.device)
    job.guard = _guard(job)
    job.resume()
    # All cells of a block are warm before the first of them trains.
    job.turn(over=True)
    status, error = "finished", ""
    try:
        train(job, measure)
    except Diverged as diverged:
        status, error = "diverged", str(diverged)
    last = job.history[-1] if job.history else {}
    if tests and last and job.final.get("epoch") != last["epoch"]:
        # It ended early.
        last |= tests.take(last["epoch"], True)
    record = {"status": status, "error": error} | _record(job)
    return Result(record, job.history, sample_columns(run), job, in_force(job.task))


def validated(job: Job) -> dict[str, float]:
    """Return the validation metrics of a run as it stands: what strategies may see of it."""
    with job.meter.clock("evaluate"):
        samples = job.run.split("validation")
        return merits(evaluate(job.run.model, job.train, samples, job.task.batch_size))


class _Tests:
    """The tests of a run."""

    def __init__(self, job: Job, test: Split) -> None:
        self._job, self._test = job, test
        self.timetable = Timetable.of(job.task, len(job.train), len(test))

    def take(self, epoch: int, ends: bool) -> dict[str, float]:
        """Test it; return the figures of the part, and keep those of the whole set as it ends."""
        job, figures = self._job, dict[str, Any]()
        if host := job.place.host:
            with job.guard.elsewhere() if job.guard else nullcontext():
                host.test(job, epoch, ends)
        else:
            part = self.timetable.part(self._test.labels)
            with job.meter.clock("evaluate"):
                figures = take_test(job.run.model, self._test, part, ends, job.task.batch_size)
        if ends:
            job.final = {"epoch": epoch} | figures
        return _named("test", figures.get("part", {}))


def _guard(job: Job) -> Guard:
    device, streams = job.run.device, not isinstance(job.train, MemorySplit)
    threads = computing_threads(device) + streams * job.task.workers
    return Guard(device, threads, streams=streams, lived=job.meter.lived)


def _named(split: str, figures: Mapping[str, float]) -> dict[str, float]:
    return {f"{split}_{key}": value for key, value in figures.items()}


def _epoch_record(job: Job) -> dict[str, Any]:
    run, meter = job.run, job.meter
    return {
        "epoch": run.epoch,
        "progress": run.progress,
        "lr": run.optimizer.param_groups[0]["lr"],
        "train_loss": job.train_loss,
        "kept": job.kept,
        "mixed": job.mixed,
        "prepare_seconds": meter.wall["prepare"],
        "train_seconds": meter.wall["train"],
        "rows_trained": meter.rows["trained"],
        "steps": meter.steps,
    }


def _record(job: Job) -> dict[str, Any]:
    run, meter = job.run, job.meter
    job.close_work()
    last = job.history[-1] if job.history else {}
    figures = {key: last[key] for key in last if key.startswith("validation_")}
    whole = job.final.get("whole", {})
    memory, whose = peak_memory(run.device)
    return {
        "strategy": "+".join(part.label for part in run.strategies),
        "parameters": {part.entry.name: part.values for part in run.strategies},
        "task": run.task.model_dump(mode="json"),
        "task_id": run.task.id,
        "seed": run.seed,
        "epochs": run.epoch,
        "metrics": figures | _named("test", merits(whole)),
        "part": job.final.get("images"),
        **_classes(run, *whole.get("classes", ([], []))),
        "train_loss": job.train_loss,
        "clocks": dict(meter.wall),
        "process_clocks": dict(meter.process),
        "energy": dict(meter.energy),
        "machine": _machine(job),
        "phases": dict(meter.seconds),
        "rows": dict(meter.rows),
        "steps": meter.steps,
        "flops": meter.flops,
        "peak_memory": memory,
        "peak_memory_of": whose,
        "ranked": not any(clock.startswith("off_") for clock in meter.wall),
        "control": bool(run.strategies) and all(part.kind.control for part in run.strategies),
        "no_effect": why_no_effect(run.strategies),
        "artefacts": job.artefacts,
        "columns": _columns(job),
    }


def _machine(job: Job) -> dict[str, Any]:
    clocks = job.meter.process["train"], job.meter.wall["train"]
    seen = job.guard.record(*clocks) if job.guard else {}
    told = device_line(about_device(job.run.device))
    return seen | snapshot(job.run.device) | {"device_line": told}


def _columns(job: Job) -> dict[str, Any]:
    """Return what strategies report, and the seconds that were timed for them."""
    job.calls.checking = True
    columns = {f"{name}_seconds": seconds for name, seconds in job.meter.timed.items()}
    for part in job.calls.report(job.run):
        if clash := columns.keys() & part.keys():
            raise DataeffError(f"Two strategies report the column {min(clash)!r}; rename one.")
        columns |= part
    return columns


def _classes(run: Run, samples: list[int], right: list[int]) -> dict[str, Any]:
    """Return accuracy and use of each class, and how evenly training used them and the samples."""
    labels = run.labels.cpu()[run.trainable]
    times = run.ledger.times_trained.cpu()[run.trainable].double()
    count = torch.bincount(labels, minlength=len(samples)).double()
    trained = torch.bincount(labels, weights=times, minlength=len(samples))
    share = trained / count / run.task.epochs
    known = share[count > 0]
    return {
        "classes": {**tested_classes(samples, right), "trained": share.tolist()},
        "use": {
            "never_trained": float((times == 0).double().mean()),
            "class_balance": float(known.min() / known.max()) if trained.any() else None,
        },
    }


def tested_classes(samples: list[int], right: list[int]) -> dict[str, Any]:
    """Return the test samples and the accuracy of each class."""
    pairs = zip(right, samples, strict=True)
    accuracy = [100 * hits / size if size else None for hits, size in pairs]
    return {"test": samples, "accuracy": accuracy}


def why_no_effect(strategies: Sequence[Active]) -> str:
    """Return why a composition can do nothing here; nothing where a part of it can."""
    reasons = [strategy.plugin.no_effect for strategy in strategies]
    return "; ".join(dict.fromkeys(reasons)) if all(reasons) else ""


def sample_columns(run: Run) -> dict[str, Tensor]:
    """Return the columns of the per-sample table, on the CPU."""
    own = {"sample": torch.arange(len(run.labels)), "label": run.labels, "trainable": run.trainable}
    return {name: column.cpu() for name, column in (own | run.ledger.tables()).items()}
