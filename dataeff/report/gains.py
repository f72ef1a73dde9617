"""Gains: how far methods are above the line, which is what just training less reaches.

Training less comes in kinds: shorter schedules, random choice. Each is run at a few budgets and
ends in the reference, whose share of the work is 1. Accuracy is straight in the logarithm of that
share. Arrays may have leading axes, which are tables of their own; the last two are methods, or
budgets, x seeds; NaN is missing.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dataeff.report.stats import Array, Flags, Spread, spread
from dataeff.report.verdicts import CHANCE

NEAR = 0.9
"""Who is beyond an end of the line by more than this factor is not judged on that side."""


@dataclass(frozen=True, eq=False)
class Line:
    """One kind: ascending shares of the work, accuracies and seconds, budgets x seeds.

    The reference is the last budget. `step` is one test image, in points.
    """

    shares: Array
    accuracy: Array
    seconds: Array
    step: float = 0.0

    def share(self, seconds: ArrayLike) -> Array:
        """Return the log share at which this kind takes as long.

        Its clock is a rate of the seed + a slope x log share. All its cells tell the rate, not the
        luck of one reference; a slope below 1 is time that doing less does not save.
        """
        clock = np.log(self.seconds)
        x = np.where(np.isnan(clock), np.nan, np.log(self.shares)[:, None])
        middle, rate = _mean(x, -2), _mean(clock, -2)
        along, square = (x - middle) * (clock - rate), (x - middle) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = (np.nansum(part, (-2, -1), keepdims=True) for part in (along, square))
            slope = np.divide(*sums)
            return (np.log(seconds) - rate) / slope + middle

    def reached(self, at: Array) -> Array:
        """Return the accuracy at log shares: chords within the seed, of which the outer go on."""
        x = np.log(self.shares)
        left = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
        low, high = (np.take_along_axis(self.accuracy, left + i, -2) for i in (0, 1))
        return low + (high - low) * (at - x[left]) / (x[left + 1] - x[left])

    def gains(self, accuracy: Array, seconds: Array, work: ArrayLike = np.nan) -> "Gains":
        """Return how far methods x seeds are above the line at their own time, seed by seed.

        Never at a cost averaged over seeds: the clock's error would be the same in all of them, and
        no spread would see it. A method whose mean is beyond an end by up to a tenth is compared
        with that end where that is the harder for it, and else with the line gone on at twice its
        slope; farther out there is nothing to be said. Who has fewer than two times is compared at
        its `work`, the share that was counted.
        """
        at, end = self.share(seconds), np.log(self.shares[0])
        at = np.where(untimed(at)[..., None], np.log(work), at)
        middle = _mean(at, -1)
        inside, dearer = np.clip(middle, end, 0.0), middle > 0
        beyond = middle - inside
        far = np.abs(beyond) > -np.log(NEAR)
        ends = np.where(beyond == 0, at, np.where(np.isnan(at), np.nan, inside))
        on = np.where(far, ends, at + beyond)
        least, most = np.where(dearer, on, ends), np.where(dearer, ends, on)
        below, above = (spread(accuracy - self.reached(part), self.step) for part in (least, most))
        flags = (part[..., 0] for part in (dearer, far & dearer, far & ~dearer))
        return Gains(below, above, *flags)


def untimed(times: Array) -> Flags:
    """Say who has fewer than two seeds whose times are known."""
    return (~np.isnan(times)).sum(-1) < 2


def _mean(values: Array, axis: int) -> Array:
    with warnings.catch_warnings():
        # A seed that nobody has is NaN, as it should be.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(values, axis, keepdims=True)


@dataclass(frozen=True, eq=False)
class Gains:
    """Gains over one kind, the least and the most that they may be: the same within the line.

    `no_low` and `no_high` are those too far beyond an end for that side of an interval.
    """

    least: Spread
    most: Spread
    dearer: Flags
    no_low: Flags
    no_high: Flags

    @property
    def mean(self) -> Array:
        """Return the mean gain; beyond an end, over that end."""
        return np.where(self.dearer, self.most.mean, self.least.mean)

    def low(self, chance: Array) -> Array:
        """Return the lower ends, each too high with this chance."""
        return np.where(self.no_low, -np.inf, self.least.limits(2 * chance)[0])

    def high(self, chance: Array) -> Array:
        """Return the upper ends, each too low with this chance."""
        return np.where(self.no_high, np.inf, self.most.limits(2 * chance)[1])


@dataclass(frozen=True, eq=False)
class Gained:
    """Gain of each method over the better kind of training less, and what judges it."""

    mean: Array
    low: Array
    high: Array

    @property
    def beats(self) -> Flags:
        """Say who is above the line."""
        return self.low > 0

    @property
    def beaten(self) -> Flags:
        """Say who is below it."""
        return self.high < 0

    @property
    def known(self) -> Flags:
        """Say who is either."""
        return self.beats | self.beaten


def judge_gains(
    kinds: list[Gains],
    chance: float = CHANCE,
    before: Gained | None = None,
    who: Flags | None = None,
) -> Gained:
    """Judge the gains over all kinds, so that anything wrong is said with at most this chance.

    The better kind decides. That a method is above it must be shown for each kind, at the full
    level (intersection-union); that it is below, for any one, so the level is divided. The chance
    is divided evenly among methods that are still open; answers stay as they were given, also those
    of earlier looks (`before`). `who` are to be judged now; the others stay as they are.
    """
    family = np.all([kind.least.n > 1 for kind in kinds], 0)
    if who is not None:
        family = family & who
    mean = np.min([kind.mean for kind in kinds], 0)
    if before is None:
        before = Gained(mean, *np.multiply.outer([-np.inf, np.inf], np.ones(family.shape)))
    found = Gained(np.where(family & ~before.known, mean, before.mean), before.low, before.high)
    while True:
        asked = family & ~found.known
        side = chance / 2 / np.maximum(asked.sum(-1, keepdims=True), 1)
        low = np.min([kind.low(side) for kind in kinds], 0)
        high = np.min([kind.high(side / len(kinds)) for kind in kinds], 0)
        ends = np.where(asked, low, found.low), np.where(asked, high, found.high)
        now = Gained(found.mean, *ends)
        if np.array_equal(now.known, found.known):
            return now
        found = now
