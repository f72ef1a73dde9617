"""Matching: what a strategy costs beside another one, measured in short pilots of both."""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from pathlib import Path
from statistics import fmean, median, stdev
from time import perf_counter

import torch

from dataeff.calls import blaming
from dataeff.composition import watching
from dataeff.cost import apart
from dataeff.foretell.pace import let_go
from dataeff.hookspecs import hookimpl
from dataeff.lab import Lab
from dataeff.strategy import Strategy
from dataeff.training.cell import validated
from dataeff.training.job import Job, Place
from dataeff.training.loop import batches, epoch, prepare
from dataeff.training.plan import Plan
from dataeff.training.rng import derive
from dataeff.training.task import Task
from dataeff.training.warming import warm_up

EPOCHS = 5
"""Epochs of a run that a pilot trains, spread over its schedule."""
# Short epochs are noisy, so a pilot goes through its own again: for so many seconds at least, and
# for more where passes disagree; but only so often.
_ENOUGH, _PATIENCE, _PASSES = 5.0, 15.0, 15
_AGREE = 0.01
# Plans are drawn again, to learn how many rows they have on average: so well, so often, so long.
_SURE, _PLANS, _PLANNING = 0.003, 500, 0.2
# A cost that is off by this factor need not be known well.
_FAR = math.log(1.2)


class Pilot:
    """Measures what strategies cost on a task, as shares of its reference, in throw-away runs.

    Of each run a few epochs are trained, the first one and others spread over the schedule, batch
    by batch in turn with as many of the reference, so that drift of the machine hits both alike.
    What happens only every so many epochs, or hangs on long training, is seen as far as these
    epochs show it; nothing stops early. What is prepared is prepared in full, but nested runs are
    kept for the next value.
    """

    def __init__(self, lab: Lab, task: Task, reference: str) -> None:
        self._lab, self._task, self._reference = lab, task, reference
        self._folder = tempfile.TemporaryDirectory(prefix="dataeff-pilot-")

    def close(self) -> None:
        """Leave disk, memory and loader processes to the cells."""
        self._folder.cleanup()
        let_go(self._lab.device)

    def cost(self, strategy: str, target: float) -> float:
        """Return the time of a whole run as a share of the reference's; far from the target, about.

        Where a pass is short, it is repeated until passes agree on their median.
        """
        return self._median(strategy, target, lambda time, work: time)

    def pace(self, strategy: str) -> float:
        """Return the time of a run over its counted work, both as shares of the reference's.

        Of a strategy whose work is known, that tells its time better than the clock of one run.
        """
        return self._median(strategy, None, lambda time, work: time / work)

    def _median(self, strategy: str, target: float | None, figure: Callable[..., float]) -> float:
        begin = perf_counter()
        figures: list[float] = []
        while len(figures) < _PASSES:
            figures.append(figure(*self._shares(strategy)))
            sure = len(figures) > 2 and _error(figures) <= _AGREE
            if perf_counter() - begin > (_ENOUGH if sure else _PATIENCE):
                break
            if target and apart(median(figures), target) > _FAR:
                break
        return median(figures)

    def _shares(self, strategy: str) -> tuple[float, float]:
        """Return time and counted work of one pass, as shares of the reference's."""
        # The folder is for nested runs: it is never saved itself.
        place = Place(Path(self._folder.name), saves=False)
        with self._lab.working(self._task, ()):
            texts = (strategy, self._reference)
            runs = [_Excerpt(self._lab, self._task, text, place) for text in texts]
            # Batch by batch, whoever is behind: what disturbs the machine disturbs both.
            for _ in merge(*(run.train() for run in runs)):
                pass
        ours, theirs = runs
        return ours.seconds / theirs.seconds, ours.flops / theirs.flops


class _Excerpt:
    """A run of which some epochs are trained, each for those around it.

    `seconds` and `flops` are those of the whole run.
    """

    def __init__(self, lab: Lab, task: Task, strategy: str, place: Place) -> None:
        self._named = lab.composition(strategy).fresh()
        self._plans = _Plans()
        watched = [watching(self._plans), *self._named]
        with blaming(self._named):
            self._job = job = Job(task, watched, 0, lab.ground(task), place)
            job.set_up()
            warm_up(job)
            torch.manual_seed(derive(0, "global"))
            prepare(job)
        self.epochs = spread(job.run.epochs)
        job.close_work()
        self.seconds: float = job.meter.wall["prepare"]
        self.flops = job.meter.flops

    def train(self) -> Iterator[float]:
        """Train the epochs batch by batch; yield how much of all is done."""
        for number, (place, stands_for) in enumerate(self.epochs):
            for share in self._train_epoch(place, stands_for):
                yield (number + share) / len(self.epochs)

    def _train_epoch(self, number: int, stands_for: float) -> Iterator[float]:
        job, run, meter = self._job, self._job.run, self._job.meter
        run.epoch, run.batch = number, 0
        before, span = (meter.wall["train"], meter.flops), run.span
        planned = epoch(job, validated)
        with blaming(self._named):
            plan = next(planned)
        plan, luck = self._plans.drawn_again(job, plan)
        going = batches(job, plan)
        while True:
            with blaming(self._named), meter.clock("train"):
                if next(going, None) is None:
                    break
            yield (run.batch + 1) / run.batches
        with blaming(self._named):
            next(planned, None)
        weight = stands_for / span / luck
        self.seconds += weight * (meter.wall["train"] - before[0])
        self.flops += weight * (meter.flops - before[1])


class _Plans(Strategy):
    """Looks at what plans are made from, to draw them again."""

    @hookimpl(wrapper=True)
    def plan_epoch(self, kept):
        self._kept = kept.clone()
        return (yield)

    def drawn_again(self, job: Job, plan: Plan) -> tuple[Plan, float]:
        """Return another plan of this epoch, and its rows as a share of what there are on average.

        Coins that are tossed for whole batches come out unevenly in a few epochs.
        """
        begin, rows, run = perf_counter(), [len(plan.rows)], job.run
        while len(rows) < _PLANS and perf_counter() - begin < _PLANNING:
            if len(rows) > 3 and _error(rows) <= _SURE:
                break
            drawn = job.calls.plan_epoch(run, run.epoch, self._kept.clone())
            # The last one is trained: it is what strategies remember.
            plan = drawn.head(run.span)
            rows.append(len(plan.rows))
        return plan, max(1, rows[-1]) / max(1.0, fmean(rows))


def _error(values: Sequence[float]) -> float:
    """Return how far off the mean of these may be: its standard error, as a share of it."""
    return stdev(values) / math.sqrt(len(values)) / fmean(values)


def spread(epochs: float, most: int = EPOCHS) -> list[tuple[int, float]]:
    """Return some epochs of a run, each with how many it stands for; all of them where few.

    The first stands for itself, because strategies that learn from training begin with all samples.
    The others lie in the middles of equal parts of the rest; of two that are as near, in turn the
    one before and the one after, so that what changes with progress comes out right.
    """
    # As a run counts them: 25 * 0.28 is a little above 7.
    count = math.ceil(epochs - 1e-6)
    if count <= most:
        return [(epoch, min(1.0, epochs - epoch)) for epoch in range(count)]
    width = (epochs - 1) / (most - 1)
    middles = [1 + (part + 0.5) * width for part in range(most - 1)]
    picked = [math.floor(m) if part % 2 else math.ceil(m) - 1 for part, m in enumerate(middles)]
    return [(0, 1.0), *((epoch, width) for epoch in picked)]
