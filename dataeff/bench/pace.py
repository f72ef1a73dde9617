"""The pace of a strategy on a task: set up as a cell does it, measured for a few steps."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Self

import torch

# Every optimizer asks for it: cells find it loaded, and so it must not be timed here.
import torch._dynamo

from dataeff.bench.runner import Cell, Settings
from dataeff.bench.trial import Epoch, Trial, reason, state_bytes, table_bytes
from dataeff.data import Dataset, load_dataset
from dataeff.errors import DataeffError, Refused
from dataeff.plugins import Installed, blaming, compose
from dataeff.training.cell import deterministic, make_run, pick_device
from dataeff.training.rng import derive, forked
from dataeff.training.run import Run
from dataeff.training.task import Task

# Seconds that the process of a cell takes beside what is measured: reading data, building the
# network, warming up, training. 0.4 on two cores, for its start, its plugins and its files.
_PROCESS = 0.4
# Bytes of run.json, from finished cells, beside what it repeats of the cell: all, and per class.
_RECORD, _CLASS = 2300, 40


@dataclass(frozen=True)
class Pace:
    """What was measured of one run, and how long that run is.

    `validation` and `test` are the seconds of one look at each, `looks` how often the test set is
    looked at; `disk` is without epochs.csv, which grows with the run.
    """

    epochs: float = math.nan
    epoch_count: int = 0
    looks: int = 0
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
        looks = math.ceil(count / run.task.test_every)
        return replace(self, epochs=run.epochs, epoch_count=count, looks=looks)


@dataclass(frozen=True, eq=False)
class Site:
    """A task with its data loaded, where runs are set up as cells do it; `start` is in seconds."""

    task: Task
    data: Dataset
    device: torch.device
    installed: Installed
    steps: int
    start: float

    @classmethod
    def of(cls, cell: Cell, settings: Settings, installed: Installed, steps: int) -> Self:
        """Load the data of the cell's task, once for all strategies."""
        task, device, begin = cell.task, pick_device(settings.device), perf_counter()
        data = load_dataset(
            task.dataset,
            installed.datasets,
            root=settings.data_root,
            device=device,
            workers=task.workers,
        )
        start = perf_counter() - begin + (0.0 if settings.in_process else _PROCESS)
        return cls(task, data, device, installed, steps, start)

    def pace(self, cell: Cell) -> Pace:
        """Measure the cell's strategy."""
        return self._with_run(cell, self._measure)

    def length(self, cell: Cell, known: Pace) -> Pace:
        """Give the cell's strategy the pace of another one, for as long as it trains itself."""
        bare = replace(known, prepare=0.0, trouble="")
        return self._with_run(cell, lambda run, cell, trial: bare.lasting_as(run))

    def refusal(self, cell: Cell) -> str:
        """Return what the cell's strategy has against this task; nothing where it takes it.

        What else goes wrong is left for the cell to report.
        """
        try:
            with self._run(cell):
                return ""
        except Refused as error:
            return str(error)
        except Exception:
            return ""

    @contextmanager
    def _run(self, cell: Cell) -> Iterator[Run]:
        """Set a run up."""
        strategies = compose(cell.strategy, self.installed)
        given = self.data, self.task, strategies, cell.seed, self.installed, self.device
        with forked(self.device), deterministic(self.task.deterministic), blaming(strategies):
            yield make_run(*given)

    def _with_run(self, cell: Cell, look: Callable[[Run, Cell, Trial], Pace]) -> Pace:
        """Set a run up and look at it; what goes wrong is said in the pace."""
        trial = Trial(self.task, self.device, self.steps)
        try:
            with self._run(cell) as run:
                return look(run, cell, trial)
        except Exception as error:
            return Pace(trouble=reason(error))

    def _measure(self, run: Run, cell: Cell, trial: Trial) -> Pace:
        run.warm_up()
        start = self.start + trial.now()
        torch.manual_seed(derive(cell.seed, "global"))
        trial.shorten(run)
        prepare, trouble = trial.prepare(run)
        try:
            epoch = trial.epoch(run)
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
            validation=trial.look(run, self.data.train, run.split("validation")),
            test=trial.look(run, self.data.test, tested),
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
    told = [cell.parameters, cell.sources, cell.conditions, cell.provenance]
    repeated = json.dumps([cell.task.model_dump(mode="json"), *told], indent=1, default=str)
    return _RECORD + _CLASS * classes + len(repeated)
