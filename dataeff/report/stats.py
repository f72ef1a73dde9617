"""Statistics: what paired differences allow us to say, and how many seeds would settle the rest.

Two families of tests are made for each table, and each is corrected for its size after Holm: that
something differs (faster, slower, better, worse), wrong anywhere in at most 5 tables of 100; and
that a strategy is no worse than the reference by more than the margin, wrong anywhere in at most
2.5. Intervals are those of each comparison alone.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

DIFFERS = 0.05
"""Chance that a table tells any difference that is not there: two-sided tests."""
NO_WORSE = 0.025
"""Chance that a table calls any strategy no worse that is: one-sided tests, as a 95% interval."""
MOST_SEEDS = 100
"""More seeds than this are not proposed."""

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Interval(NamedTuple):
    """A mean over seeds, with its 95% interval (NaN where there is one seed)."""

    mean: float
    low: float
    high: float

    def exp(self) -> "Interval":
        """Return the factor, of an interval of logarithms."""
        return Interval(*map(float, np.exp(self)))


def interval_of(line: Mapping[str, Any], name: str) -> Interval:
    """Return the interval that a line of a table has in `name`, `name_low` and `name_high`."""
    return Interval(line[name], line[f"{name}_low"], line[f"{name}_high"])


class Paired(NamedTuple):
    """Paired differences of k strategies: one number each, NaN where there are too few seeds."""

    n: Array
    mean: Array
    sd: Array
    low: Array
    high: Array

    def interval(self, i: int = 0) -> Interval:
        """Return the mean of one strategy with its interval."""
        return Interval(float(self.mean[i]), float(self.low[i]), float(self.high[i]))

    def only(self, wanted: Flags) -> "Paired":
        """Leave the others out of the family of tests."""
        return Paired(*(np.where(wanted, values, np.nan) for values in self))

    def p_differs(self) -> Array:
        """Return the two-sided p-values of no difference."""
        return 2 * stdtr(self.n - 1, -np.abs(self._t(0.0)))

    def p_above(self, limit: float) -> Array:
        """Return the one-sided p-values of a difference of at most this limit."""
        return stdtr(self.n - 1, -self._t(limit))

    def p_equivalent(self, margin: float) -> Array:
        """Return the p-values of two one-sided tests: is the difference within the margin?"""
        below = stdtr(self.n - 1, self._t(margin))
        return np.maximum(self.p_above(-margin), below)

    def _t(self, limit: float) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (self.mean - limit) / (self.sd / np.sqrt(self.n))
        # No difference and no spread: nothing speaks against the limit.
        return np.where((self.sd == 0) & (self.mean == limit), 0.0, t)


def named(found: Interval | Paired, name: str) -> dict[str, Any]:
    """Return what lines of a table have of intervals, as `interval_of` reads them."""
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}


def paired(differences: ArrayLike, resolution: float = 0.0) -> Paired:
    """Return mean, spread and 95% t interval of each line of differences; NaN is a missing seed.

    `resolution` is the step in which a difference can be measured at all, such as one test image:
    the spread is taken to be at least what rounding to it leaves, so that three equal steps are no
    certainty.
    """
    lines = np.atleast_2d(np.asarray(differences, dtype=float))
    known = ~np.isnan(lines)
    n = known.sum(1).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, lines, 0.0).sum(1) / n
        squares = np.where(known, (lines - mean[:, None]) ** 2, 0.0).sum(1)
        sd = np.sqrt(squares / (n - 1))
        sd = np.where(n > 1, np.maximum(sd, resolution / np.sqrt(12)), np.nan)
        half = stdtrit(n - 1, 0.975) * sd / np.sqrt(n)
    return Paired(n, mean, sd, mean - half, mean + half)


def holm(p: ArrayLike) -> Array:
    """Return p-values corrected after Holm for the size of their family; NaN is no member."""
    p = np.asarray(p, dtype=float)
    corrected = np.full(p.shape, np.nan)
    members = np.flatnonzero(~np.isnan(p))
    order = members[np.argsort(p[members], kind="stable")]
    scaled = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return corrected


class Verdicts(NamedTuple):
    """What was shown of each strategy, as booleans, and how many tests are still open."""

    faster: Flags
    slower: Flags
    better: Flags
    worse: Flags
    no_worse: Flags
    rivals: NDArray[np.int_]
    """Per comparison with a control: 1 better, -1 worse, 0 not told apart."""
    open_differs: int
    open_no_worse: int


def verdict(accuracy: Paired, speed: Paired, rivals: Paired, margin: float) -> Verdicts:
    """Test every comparison of a table at once.

    `accuracy` are differences to the reference in points, `speed` logarithms of speed-ups, `rivals`
    accuracy differences to controls of the same cost.
    """
    p_differs = np.concatenate([part.p_differs() for part in (accuracy, speed, rivals)])
    found, open_differs = _shown(p_differs, DIFFERS)
    k = len(accuracy.n)
    in_accuracy, in_speed, in_rivals = np.split(found, [k, 2 * k])
    no_worse, open_no_worse = _shown(accuracy.p_above(-margin), NO_WORSE)
    return Verdicts(
        faster=in_speed & (speed.mean > 0),
        slower=in_speed & (speed.mean < 0),
        better=in_accuracy & (accuracy.mean > 0),
        # Less accurate, but shown to be within the margin, is what the margin calls no worse.
        worse=in_accuracy & (accuracy.mean < 0) & ~no_worse,
        no_worse=no_worse,
        rivals=np.where(in_rivals, np.sign(rivals.mean), 0).astype(int),
        open_differs=open_differs,
        open_no_worse=open_no_worse,
    )


def _shown(p: Array, level: float) -> tuple[Flags, int]:
    """Say which tests of a family have shown something, and how many are open, at least one."""
    shown = holm(p) <= level
    return shown, max(1, int((~np.isnan(p)).sum() - shown.sum()))


def seeds_needed(effect: ArrayLike, level: float) -> Array:
    """Return about how many seeds find an effect with a chance of 80%; infinity beyond MOST_SEEDS.

    `effect` is in standard deviations of the paired difference, `level` that of a one-sided test.
    """
    n = np.arange(2, MOST_SEEDS + 1)
    # The smallest effect that each number of seeds finds; it falls with n.
    found = (stdtrit(n - 1, 1 - level) + stdtrit(n - 1, 0.8)) / np.sqrt(n)
    place = np.searchsorted(-found, -np.asarray(effect, dtype=float))
    return np.append(n, np.inf)[place]


def seeds_to_decide(accuracy: Paired, speed: Paired, told: Verdicts, margin: float) -> Array:
    """Return about how many seeds each strategy needs in all for a decision on both; 0: decided."""
    differs, no_worse = DIFFERS / 2 / told.open_differs, NO_WORSE / told.open_no_worse
    with np.errstate(divide="ignore", invalid="ignore"):
        up = seeds_needed((accuracy.mean + margin) / accuracy.sd, no_worse)
        down = seeds_needed(-accuracy.mean / accuracy.sd, differs)
        fast = seeds_needed(np.abs(speed.mean) / speed.sd, differs)
    points = np.where(told.better | told.no_worse, 0, np.minimum(up, down))
    needed = np.maximum(points, np.where(told.faster, 0, fast))
    # Who is slower or worse has lost already, whatever the other is.
    return np.where(told.slower | told.worse, 0, needed)


def ranks(tier: NDArray[np.int_], low: Array, high: Array) -> Array:
    """Return shared ranks: by tier, then by speed-up where its intervals separate.

    A strategy's rank is one more than the number of those in front of it: those of a smaller tier,
    and those of its own whose whole interval is above its own. NaN limits have no rank.
    """
    place = np.full(len(tier), np.nan)
    members = np.flatnonzero(~np.isnan(low) & ~np.isnan(high))
    for t in np.unique(tier[members]):
        same = members[tier[members] == t]
        ahead = np.searchsorted(np.sort(-low[same]), -high[same], side="left")
        place[same] = 1 + (tier[members] < t).sum() + ahead
    return place
