"""Matching: the value at which a strategy takes as long as another one, found by short pilots."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev
from time import perf_counter

import torch

from dataeff.bench.pace import Site, let_go
from dataeff.bench.runner import Cell, Settings
from dataeff.bench.trial import reason
from dataeff.errors import DataeffError
from dataeff.hookspecs import hookimpl
from dataeff.plugins import Installed, blaming, compose
from dataeff.registry import Range
from dataeff.training.cell import deterministic, make_run
from dataeff.training.child import looking_on
from dataeff.training.evaluate import evaluate
from dataeff.training.loop import plan_epoch, trained_batches
from dataeff.training.plan import Plan
from dataeff.training.rng import derive, forked
from dataeff.training.run import Run

EPOCHS = 5
"""Epochs of a run that a pilot trains, spread over its schedule."""
PILOTS = 5
"""Values that are tried at most."""
# Short epochs are noisy, so a pilot goes through its own again: for so many seconds at least, and
# for more where passes disagree; but only so often.
_ENOUGH, _PATIENCE, _PASSES = 5.0, 15.0, 15
_AGREE = 0.01
# Plans are drawn again, to learn how many rows they have on average: so well, so often, so long.
_SURE, _PLANS, _PLANNING = 0.003, 500, 0.2

# Costs, as factors: what ends the search, what is as good as found, what tells a slope, what may be
# interpolated, and what need not be known well.
_HIT, _NEAR, _APART, _LOCAL, _FAR = (math.log(factor) for factor in (1.015, 1.03, 1.05, 1.1, 1.2))


# Solving ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solution:
    """The value found, whether it costs what it should, and what every value tried has cost."""

    value: float
    reached: bool
    costs: dict[float, float]

    def note(self, target: float, reference: str) -> str:
        """Say what there is to say where the target could not be reached."""
        if self.reached:
            return ""
        return (
            f"the nearest that was found takes {self.costs[self.value]:.2f} of {reference}'s time, "
            f"where {target:.2f} was wanted"
        )


def solve(
    cost: Callable[[float], float], target: float, within: Range, most: int = PILOTS
) -> Solution:
    """Find the value at which the cost is the target; it may rise or fall with the value.

    Costs are measured, so they are noisy: the search begins with two values a way apart, goes on
    by straight lines, and ends within 1.5%. A value that cannot be run narrows the range. Where the
    target is out of reach, the value whose cost is nearest is taken.
    """
    costs: dict[float, float] = {}
    failed: dict[float, Exception] = {}
    low, high = within.low, within.high
    waiting = list(dict.fromkeys(within.guesses))
    while waiting and len(costs) + len(failed) < most:
        value = waiting.pop(0)
        try:
            costs[value] = cost(value)
        except Exception as error:
            failed[value] = error
        if value in costs and _apart(costs[value], target) <= _HIT:
            break
        if not waiting and costs:
            below = [bad for bad in failed if bad < min(costs)]
            above = [bad for bad in failed if bad > max(costs)]
            low = within.nearest((max(below) + min(costs)) / 2) if below else low
            high = within.nearest((min(above) + max(costs)) / 2) if above else high
            value = within.nearest(_next(costs, target, low, high))
            waiting = [value] * (value not in costs and value not in failed)
    if not costs:
        raise DataeffError(reason(failed[min(failed)]))
    best = min(costs, key=lambda value: _apart(costs[value], target))
    if _apart(costs[best], target) > _NEAR and not _around(costs, target):
        return Solution(best, False, costs)
    return Solution(within.nearest(_refined(best, costs, target)), True, costs)


def _apart(a: float, b: float) -> float:
    return abs(math.log(a / b))


def _next(costs: Mapping[float, float], target: float, low: float, high: float) -> float:
    """Return the value to try next: on the line between two around the target, or beyond all."""
    points = sorted(costs.items())
    for (left, at_left), (right, at_right) in pairwise(points):
        if min(at_left, at_right) <= target <= max(at_left, at_right):
            return left + (right - left) * (target - at_left) / (at_right - at_left)
    (first, at_first), (last, at_last) = points[0], points[-1]
    if _apart(at_first, at_last) < _APART:
        # Too flat to tell which way: the ends show more.
        return high if high not in costs else low
    slope = (at_last - at_first) / (last - first)
    start = min(first, last, key=lambda value: _apart(costs[value], target))
    return min(max(start + (target - costs[start]) / slope, low), high)


def _local(costs: Mapping[float, float], target: float) -> list[float]:
    return [value for value in costs if _apart(costs[value], target) <= _LOCAL]


def _around(costs: Mapping[float, float], target: float) -> bool:
    """Say whether values near the target lie on both sides of it: it is between them."""
    above = {costs[value] > target for value in _local(costs, target)}
    return len(above) > 1


def _refined(best: float, costs: Mapping[float, float], target: float) -> float:
    """Return the mean of where the values near the target say that it is: that is less noisy.

    It stays among them, for costs may come in steps.
    """
    near = _local(costs, target)
    # From a way off, or the noise of two near ones would pass for a slope.
    far = [value for value in costs if _apart(costs[value], costs[best]) >= _LOCAL]
    if not far:
        return best
    other = min(far, key=lambda value: abs(value - best))
    slope = (costs[other] - costs[best]) / (other - best)
    mean = fmean(value + (target - costs[value]) / slope for value in near)
    return min(max(mean, min(near)), max(near))


# Measuring --------------------------------------------------------------------------------------


class Pilot:
    """Measures what strategies cost on a task, as shares of its reference, in throw-away runs.

    Of each run a few epochs are trained, the first one and others spread over the schedule, batch
    by batch in turn with as many of the reference, so that drift of the machine hits both alike.
    What happens only every so many epochs, or hangs on long training, is seen as far as these
    epochs show it; nothing stops early. What is prepared is prepared in full, but nested runs are
    kept for the next value.
    """

    def __init__(self, reference: Cell, settings: Settings, installed: Installed) -> None:
        self._site = Site.of(reference, settings, installed, steps=1)
        self._reference = reference
        self._folder = tempfile.TemporaryDirectory(prefix="dataeff-pilot-")

    def __enter__(self) -> Pilot:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave disk, memory and loader processes to the cells."""
        self._folder.cleanup()
        device = self._site.device
        del self._site
        let_go(device)

    def cost(self, strategy: str, target: float) -> float:
        """Return the time of a whole run as a share of the reference's; far from the target, about.

        Where a pass is short, it is repeated until passes agree on their median.
        """
        return self._median(strategy, lambda time, work: time, target)

    def pace(self, strategy: str) -> float:
        """Return the time of a run over its counted work, both as shares of the reference's.

        Of a strategy whose work is known, that tells its time better than the clock of one run.
        """
        return self._median(strategy, lambda time, work: time / work)

    def _median(
        self, strategy: str, figure: Callable[[float, float], float], target: float | None = None
    ) -> float:
        begin, figures = perf_counter(), []
        while len(figures) < _PASSES:
            figures.append(figure(*self._shares(strategy)))
            sure = len(figures) > 2 and _error(figures) <= _AGREE
            if perf_counter() - begin > (_ENOUGH if sure else _PATIENCE):
                break
            if target and _apart(median(figures), target) > _FAR:
                break
        return median(figures)

    def _shares(self, strategy: str) -> tuple[float, float]:
        """Return time and counted work of one pass, as shares of the reference's."""
        site = self._site
        with forked(site.device), deterministic(site.task.deterministic):
            runs = [
                _Sample(text, site, self._reference.seed, Path(self._folder.name))
                for text in (strategy, self._reference.strategy)
            ]
            going = {run.train(): 0.0 for run in runs}
            while going:
                # Batch by batch, whoever is behind: what disturbs the machine disturbs both.
                behind = min(going, key=going.get)
                going[behind] = next(behind, None)
                if going[behind] is None:
                    del going[behind]
        ours, theirs = runs
        return ours.seconds / theirs.seconds, ours.flops / theirs.flops


class _Sample:
    """A run of which some epochs are trained, each for those around it.

    `seconds` and `flops` are those of the whole run.
    """

    def __init__(self, strategy: str, site: Site, seed: int, folder: Path) -> None:
        self._named = compose(strategy, site.installed)
        self._plans = _Plans()
        watched = [looking_on(self._plans), *self._named]
        with self._blaming():
            # The folder is for nested runs: it is never saved itself.
            given = site.data, site.task, watched, seed, site.installed, site.device, folder
            self._run = run = make_run(*given)
            run.warm_up()
            torch.manual_seed(derive(seed, "global"))
            with run.meter.clock("prepare"):
                run.hook.prepare(run=run)
            run.prepared = True
        self.epochs = spread(run.epochs)
        run.close_work()
        self.seconds, self.flops = run.meter.wall["prepare"], run.meter.flops

    def _blaming(self) -> AbstractContextManager[None]:
        return blaming(self._named)

    def train(self) -> Iterator[float]:
        """Train the epochs as the loop does it, batch by batch; yield how much of all is done."""
        for number, (epoch, stands_for) in enumerate(self.epochs):
            for share in self._train_epoch(epoch, stands_for):
                yield (number + share) / len(self.epochs)

    def _train_epoch(self, epoch: int, stands_for: float) -> Iterator[float]:
        run, hook, clock = self._run, self._run.hook, self._run.meter.clock
        run.epoch, run.batch = epoch, 0
        before = run.meter.wall["train"], run.meter.flops
        with self._blaming(), clock("train"):
            plan = plan_epoch(run)
        plan, luck = self._plans.drawn_again(run, plan)
        going = trained_batches(run, plan)
        while True:
            with self._blaming(), clock("train"):
                if next(going, None) is None:
                    break
            yield (run.batch + 1) / run.batches
        with self._blaming():
            with clock("train"):
                run.batch = run.batches
                hook.end_epoch(run=run)
            run.close_epoch()
            metrics = evaluate(run.model, run.train, run.split("validation"), run.task.batch_size)
            metrics.pop("classes", None)
            with clock("train"):
                hook.on_epoch_end(run=run, epoch=epoch, metrics=metrics)
        weight = stands_for / run.span / luck
        self.seconds += weight * (run.meter.wall["train"] - before[0])
        self.flops += weight * (run.meter.flops - before[1])


class _Plans:
    """Looks at what plans are made from, to draw them again."""

    @hookimpl(wrapper=True)
    def plan_epoch(self, kept):
        self._kept = kept.clone()
        return (yield)

    def drawn_again(self, run: Run, plan: Plan) -> tuple[Plan, float]:
        """Return another plan of this epoch, and its rows as a share of what there are on average.

        Coins that are tossed for whole batches come out unevenly in a few epochs.
        """
        begin, rows = perf_counter(), [len(plan.rows)]
        while len(rows) < _PLANS and perf_counter() - begin < _PLANNING:
            if len(rows) > 3 and _error(rows) <= _SURE:
                break
            drawn = run.hook.plan_epoch(run=run, epoch=run.epoch, kept=self._kept.clone())
            # The last one is trained: it is what strategies remember.
            plan = drawn.head(run.span)
            rows.append(len(plan.rows))
        return plan, max(1, rows[-1]) / max(1.0, fmean(rows))


def _error(values: list[float]) -> float:
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
