"""The pace of a strategy on a task: set up as a cell does it, measured for a few steps."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import torch

# Every optimizer asks for it: cells find it loaded, and so it must not be timed here.
import torch._dynamo

from dataeff.errors import DataeffError, Refused
from dataeff.foretell.steps import Epoch, ShortJob, Trial, reason, state_bytes, table_bytes
from dataeff.lab import Lab
from dataeff.training.rng import derive
from dataeff.training.run import Run

if TYPE_CHECKING:
    from dataeff.bench.cells import Cell

# Seconds that the process of a cell takes beside what is measured: reading data, building the
# network, warming up, training. 0.4 on two cores, for its start, its plugins and its files.
_PROCESS = 0.4
# Bytes of run.json, from finished cells, beside what it repeats of the cell: all, and per class.
_RECORD, _CLASS = 2300, 40


@dataclass(frozen=True)
class Pace:
    """What was measured of one run, and how long that run is.

    `validation` and `test` are the seconds of one evaluation on each, `tests` how many there are on
    the test set; `disk` is without epochs.csv, which grows with the run.
    """

    epochs: float = math.nan
    epoch_count: int = 0
    tests: int = 0
    epoch: Epoch | None = None
    start: float = math.nan
    prepare: float = math.nan
    validation: float = math.nan
    test: float = math.nan
    disk: int = 0
    checkpoint: int = 0
    trouble: str = ""

    @property
    def measured(self) -> bool:
        """Say whether training could be timed."""
        return self.epoch is not None

    def lasting_as(self, run: Run) -> Self:
        """Return this pace for the length of a run."""
        count = run.epoch_count
        tests = math.ceil(count / run.task.test_every)
        return replace(self, epochs=run.epochs, epoch_count=count, tests=tests)


class Site:
    """A task with its data loaded, where runs are set up as cells do it; `start` is in seconds."""

    def __init__(self, lab: Lab, cell: Cell, steps: int, apart: bool = True) -> None:
        self.lab, self.task, self.steps = lab, cell.task, steps
        self.data = lab.data(cell.task)
        self.start = lab.loading_seconds(cell.task) + _PROCESS if apart else 0.0

    def pace(self, cell: Cell) -> Pace:
        """Measure the cell's strategy."""
        return self._with_job(cell, self._measure)

    def length(self, cell: Cell, known: Pace) -> Pace:
        """Give the cell's strategy the pace of another one, for as long as it trains itself."""
        bare = replace(known, prepare=0.0, trouble="")
        return self._with_job(cell, lambda job, cell: bare.lasting_as(job.run))

    def refusal(self, cell: Cell) -> str:
        """Return what the cell's strategy has against this task; nothing where it takes it.

        What else goes wrong is left for the cell to report.
        """
        try:
            with self._job(cell):
                return ""
        except Refused as error:
            return str(error)
        except Exception:
            return ""

    @contextmanager
    def _job(self, cell: Cell) -> Iterator[ShortJob]:
        """Set a run up, short and timed."""
        trial = Trial(self.task, self.lab.device, self.steps)
        strategies = cell.composition.fresh()
        with self.lab.working(self.task, strategies):
            job = ShortJob(self.task, strategies, cell.seed, self.lab.ground(self.task))
            job.set_up()
            job.trial = trial
            yield job

    def _with_job(self, cell: Cell, look: Callable[[ShortJob, Cell], Pace]) -> Pace:
        """Set a run up and look at it; what goes wrong is said in the pace."""
        try:
            with self._job(cell) as job:
                return look(job, cell)
        except Exception as error:
            return Pace(trouble=reason(error))

    def _measure(self, job: ShortJob, cell: Cell) -> Pace:
        run, trial = job.run, job.trial
        job.warm_up()
        start = self.start + trial.now()
        torch.manual_seed(derive(cell.seed, "global"))
        prepare, trouble = trial.prepare(job)
        try:
            epoch = trial.epoch(job)
        except Exception:
            if not trouble:
                raise
            # Without what it should have prepared, it cannot train: that is not what went wrong.
            raise DataeffError(trouble) from None
        tested = torch.arange(len(self.data.test))
        return Pace(
            epoch=epoch,
            start=start,
            prepare=prepare,
            validation=trial.test(run, self.data.train, run.split("validation")),
            test=trial.test(run, self.data.test, tested),
            disk=table_bytes(run) + _record_bytes(cell, self.data.classes),
            checkpoint=state_bytes(run) + sum(trial.children),
            trouble=trouble,
        ).lasting_as(run)


def let_go(device: torch.device) -> None:
    """Leave memory and loader processes of what was set up to the cells."""
    # Runs, their hooks and their strategies hold one another.
    gc.collect()
    module = torch.get_device_module(device)
    if hasattr(module, "empty_cache"):
        module.empty_cache()


def _record_bytes(cell: Cell, classes: int) -> int:
    what, scene = cell.composition, cell.scene
    told = [what.parameters, what.sources, scene.conditions, scene.provenance]
    repeated = json.dumps([cell.task.model_dump(mode="json"), *told], indent=1, default=str)
    return _RECORD + _CLASS * classes + len(repeated)
