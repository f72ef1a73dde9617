"""A load: plain training for as long as is asked, to learn how much a lane gets done."""

from collections.abc import Iterator
from time import perf_counter

import torch

from dataeff.lab import Lab
from dataeff.training.job import Job
from dataeff.training.loop import batches
from dataeff.training.plan import Plan
from dataeff.training.task import Task
from dataeff.training.warming import warm_up


class Load:
    """A run of a task without strategies, in batches of a share of its rows; it never ends."""

    def __init__(self, lab: Lab, task: Task, share: float) -> None:
        self._lab, self._task = lab, task
        with lab.working(task, ()):
            self._job = Job(task, (), 0, lab.ground(task))
            self._job.set_up()
            warm_up(self._job)
        self._rows = self._trained(max(2, round(share * task.batch_size)))

    def pace(self, seconds: float) -> float:
        """Train for so long, a batch at least; return the rows per second."""
        job = self._job
        with self._lab.working(self._task, ()), job.meter.clock("train"):
            # What the caches have lost meanwhile is not counted.
            next(self._rows)
            begin, rows = self._now(), 0
            while not rows or perf_counter() - begin < seconds:
                rows += next(self._rows)
            return rows / (self._now() - begin)

    def _now(self) -> float:
        if self._lab.device.type != "cpu":
            torch.accelerator.synchronize(self._lab.device)
        return perf_counter()

    def _trained(self, size: int) -> Iterator[int]:
        """Train epoch by epoch, all at the rate of the first; yield the rows of each batch."""
        while True:
            for batch in batches(self._job, Plan.cut(self._job.run.split("train"), size)):
                yield batch.R
