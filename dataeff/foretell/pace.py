"""The pace of a strategy on a task: set up as a cell does it, measured for a few steps."""

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

# Every optimizer asks for it: cells find it loaded, and so it must not be timed here.
import torch._dynamo

from dataeff.composition import Composition
from dataeff.errors import DataeffError, Refused
from dataeff.files import CHECKPOINTS
from dataeff.foretell.steps import ShortJob, Trial, reason, state_bytes, table_bytes
from dataeff.lab import Lab
from dataeff.training.rng import derive
from dataeff.training.run import Run
from dataeff.training.task import Task
from dataeff.training.timetable import Timetable
from dataeff.training.warming import warm_up

# Seconds that the process of a cell takes beside what is measured: reading data, building the
# network, warming up, training. 0.4 on two cores, for its start, its plugins and its files.
_PROCESS = 0.4
# Bytes of run.json, from finished cells, beside what it repeats of the cell: all, and per class.
_RECORD, _CLASS = 2300, 40
# Bytes of epochs.csv, from finished cells: its header, its lines, and what a test adds to one.
_HEADER, _LINE, _TEST = 200, 165, 60


@dataclass(frozen=True)
class Estimate:
    """What the cells of one strategy on one task take; seconds and bytes are those of one cell.

    `cells` are those still to run; `step` is the seconds of one step, `steps` how many there are in
    an epoch. What is not known is NaN, and `trouble` says why.
    """

    task: str
    strategy: str
    cells: int
    finished: int
    step: float = math.nan
    steps: float = math.nan
    epochs: float = math.nan
    start: float = math.nan
    prepare: float = math.nan
    train: float = math.nan
    evaluate: float = math.nan
    disk: int = 0
    checkpoint: int = 0
    trouble: str = ""

    @property
    def parts(self) -> tuple[float, ...]:
        """Return the seconds of a cell, part by part."""
        return self.start, self.prepare, self.train, self.evaluate

    @property
    def known(self) -> bool:
        """Say whether the time is known in all its parts."""
        return not self.cells or all(map(math.isfinite, self.parts))

    @property
    def seconds(self) -> float:
        """Return the seconds of all its cells, as far as they are known."""
        return self.cells * sum(filter(math.isfinite, self.parts))


class Setup(NamedTuple):
    """What is set up: a composition on a task; `record` is what its cell's record takes on disk."""

    task: Task
    composition: Composition
    seed: int
    record: int = 0


Pace = Callable[[Estimate, Run], Estimate]
"""Fills a line with what was measured of a strategy, for cells that are as long as a run."""


class Site:
    """Where runs of a task are set up as cells do it.

    `apart` says that each cell has a process of its own; `by_first`, that the first strategy whose
    pace can be measured gives it to all that follow.
    """

    def __init__(
        self, lab: Lab, steps: int = 1, apart: bool = True, by_first: bool = False
    ) -> None:
        self.lab, self.steps, self.apart, self.by_first = lab, steps, apart, by_first
        self._pace: Pace | None = None

    def fill(self, line: Estimate, cell: Setup) -> Estimate:
        """Measure the cell's strategy, and extrapolate; what goes wrong is said on the line."""
        try:
            with self._job(cell) as job:
                if self._pace and self.by_first:
                    return replace(self._pace(line, job.run), prepare=0.0, trouble="")
                self._pace = self._measure(job, cell)
                return self._pace(line, job.run)
        except Exception as error:
            return replace(line, trouble=reason(error))

    def refusal(self, cell: Setup) -> str:
        """Return what the cell's strategy has against this task; nothing where it takes it.

        What else goes wrong is left for the cell to report.
        """
        try:
            with self._job(cell):
                return ""
        except Exception as error:
            return str(error) if isinstance(error, Refused) else ""

    @contextmanager
    def _job(self, cell: Setup) -> Iterator[ShortJob]:
        """Set a run up, short and timed."""
        # Before the clock starts: loading is counted by itself, as each process pays it.
        self.lab.data(cell.task)
        trial = Trial(cell.task, self.lab.device, self.steps)
        strategies = cell.composition.fresh()
        with self.lab.working(cell.task, strategies):
            job = ShortJob(cell.task, strategies, cell.seed, self.lab.ground(cell.task))
            # Before `setup`, which may score as well.
            job.trial = trial
            job.set_up()
            yield job

    def _measure(self, job: ShortJob, cell: Setup) -> Pace:
        trial, data = job.trial, self.lab.data(cell.task)
        warm_up(job)
        start = trial.now()
        if self.apart:
            start += self.lab.loading_seconds(cell.task) + _PROCESS
        torch.manual_seed(derive(cell.seed, "global"))
        prepare, trouble = trial.prepare(job)
        try:
            epoch = trial.epoch(job)
        except Exception:
            if not trouble:
                raise
            # Without what it should have prepared, it cannot train: that is not what went wrong.
            raise DataeffError(trouble) from None
        validation = trial.test(job.run, data.train, job.run.split("validation"))
        # By training samples: the test set need not be in this process.
        test = trial.test(job.run, data.train, torch.arange(len(data.test)) % len(data.train))
        test /= len(data.test)
        timetable = Timetable.of(cell.task, len(data.train), len(data.test))
        disk = table_bytes(job.run) + cell.record + _RECORD + _CLASS * data.classes + _HEADER
        # A bit per test image.
        disk += len(data.test) // 8
        # The weights are kept, to be verified.
        disk += sum(value.nbytes for value in job.run.model.state_dict().values())
        checkpoint = len(CHECKPOINTS) * (state_bytes(job.run) + sum(trial.children))

        def fill(line: Estimate, run: Run) -> Estimate:
            count = run.epoch_count
            tests = sum(map(timetable.due, range(1, count)))
            images = len(data.test) + tests * timetable.images
            return replace(
                line,
                step=epoch.row * epoch.rows / epoch.steps,
                steps=epoch.steps,
                epochs=run.epochs,
                start=start,
                prepare=prepare,
                train=epoch.seconds(run.epochs, count),
                evaluate=count * validation + images * test,
                disk=disk + count * _LINE + (tests + 1) * _TEST,
                checkpoint=checkpoint,
                trouble=trouble,
            )

        return fill


def let_go(device: torch.device) -> None:
    """Leave memory and loader processes of what was set up to the cells."""
    # Runs, their hooks and their strategies hold one another.
    gc.collect()
    module = torch.get_device_module(device)
    if hasattr(module, "empty_cache"):
        module.empty_cache()
