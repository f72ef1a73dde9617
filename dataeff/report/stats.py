"""Statistics: what paired differences have shown, as means, spreads and intervals.

Few seeds look alike by luck. So a strategy's own spread is believed where it is large, and lifted
towards what is typical of its table where it is small. What is typical is known from all of its
strategies, so that an interval is that of more seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, polygamma, stdtrit

MOST = 3.0
"""What is typical counts for so many times the seeds of a strategy at most."""
FEWEST = 3
"""Fewer strategies than this have no typical spread."""

# No more than this beyond what chance makes: spreads are all alike.
_ALIKE = 1e-4

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Interval(NamedTuple):
    """A mean over seeds, with an interval (NaN where there is one seed)."""

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
    """Differences of k strategies, each for itself: NaN where there are too few seeds."""

    n: Array
    mean: Array
    sd: Array
    low: Array
    high: Array

    def interval(self, i: int = 0) -> Interval:
        """Return the mean of one strategy with its interval."""
        return Interval(float(self.mean[i]), float(self.low[i]), float(self.high[i]))


def named(found: Interval | Paired, name: str) -> dict[str, Any]:
    """Return what lines of a table have of intervals, as `interval_of` reads them."""
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}


def paired(differences: ArrayLike, resolution: float = 0.0) -> Paired:
    """Return mean, spread and 95% t interval of each line of differences; NaN is a missing seed.

    `resolution` is the step in which a difference can be measured at all, such as one test image:
    the spread is taken to be at least what rounding to it leaves, so that three equal steps are no
    certainty.
    """
    n, mean, variance = _summed(np.atleast_2d(np.asarray(differences, dtype=float)), resolution)
    sd = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = stdtrit(n - 1, 0.975) * sd / np.sqrt(n)
    return Paired(n, mean, sd, mean - half, mean + half)


@dataclass(frozen=True, eq=False)
class Spread:
    """Differences of strategies summed up together: seeds, means, spreads as seen and as used.

    `df` are degrees of freedom of what is used, `typical` is the spread of the table.
    """

    n: Array
    mean: Array
    own: Array
    used: Array
    df: Array
    typical: Array

    @property
    def error(self) -> Array:
        """Return the standard errors of the means."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.used / np.sqrt(self.n)

    def limits(self, chance: ArrayLike) -> tuple[Array, Array]:
        """Return intervals, each of which misses with this chance."""
        half = stdtrit(self.df, 1 - np.asarray(chance) / 2) * self.error
        return self.mean - half, self.mean + half


def spread(differences: ArrayLike, resolution: float = 0.0) -> Spread:
    """Sum up differences, strategies x seeds; axes before these are tables of their own.

    Variances are moderated after Smyth (2004), with three guards: outliers are clipped before the
    typical variance is found, it counts for MOST times a strategy's own seeds at most, and nobody's
    variance is taken to be less than what was seen.
    """
    lines = np.atleast_2d(np.asarray(differences, dtype=float))
    n, mean, own = _summed(lines, resolution)
    d = np.where(n > 1, n - 1, np.nan)
    # Who is the reference to the last image, in every seed, has no spread to learn from.
    same = np.nanmax(np.abs(np.where(np.isnan(lines), 0.0, lines)), -1, initial=0.0) == 0
    voting = (n > 1) & ~same & (own > 0)
    k = voting.sum(-1, keepdims=True)
    prior, typical = _typical(np.where(voting, own, np.nan), d)
    lifted = voting & (k >= FEWEST)
    typical = np.where(k >= FEWEST, typical, _mean(np.where(voting, own, np.nan)))
    prior = np.where(lifted, np.minimum(prior, MOST * d), 0.0)
    weight = d / (d + prior)
    used = np.where(lifted, np.maximum(own, weight * own + (1 - weight) * typical), own)
    # Differences to one reference go together by half: what is typical knows less than k alone.
    together = (1 + 3 / np.maximum(k, 1)) / 4
    df = np.minimum(d + prior, d / (weight**2 + (1 - weight**2) * together))
    return Spread(n, mean, np.sqrt(own), np.sqrt(used), df, np.sqrt(typical)[..., 0])


def _summed(lines: Array, resolution: float) -> tuple[Array, Array, Array]:
    """Return seeds, means and variances of the last axis; one seed has no variance."""
    known = ~np.isnan(lines)
    n = known.sum(-1).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, lines, 0.0).sum(-1) / n
        squares = np.where(known, (lines - mean[..., None]) ** 2, 0.0).sum(-1) / (n - 1)
    return n, mean, np.where(n > 1, np.maximum(squares, resolution**2 / 12), np.nan)


def _typical(variance: Array, d: Array) -> tuple[Array, Array]:
    """Return the prior's degrees of freedom and variance, last axis of size 1; NaN is no voter."""
    chance = polygamma(1, d / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(variance) - digamma(d / 2) + np.log(d / 2)
    middle, wide = _median(logs), 3 * np.sqrt(chance)
    logs = np.clip(logs, middle - wide, middle + wide)
    there = ~np.isnan(logs)
    k = np.maximum(there.sum(-1, keepdims=True), 1)
    mean = np.where(there, logs, 0.0).sum(-1, keepdims=True) / k
    squares = np.where(there, (logs - mean) ** 2, 0.0).sum(-1, keepdims=True)
    usual = np.where(there, chance, 0.0).sum(-1, keepdims=True) / k
    beyond = squares / np.maximum(k - 1, 1) - usual
    alike = beyond <= _ALIKE
    half = _trigamma_inverse(np.where(alike, 1.0, beyond))
    shift = np.where(alike, 0.0, digamma(half) - np.log(half))
    return np.where(alike, np.inf, 2 * half), np.exp(mean + shift)


def _mean(values: Array) -> Array:
    """Return the mean of the last axis, NaN left out; NaN where there is nothing."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(there, values, 0.0).sum(-1, keepdims=True) / there.sum(-1, keepdims=True)


def _trigamma_inverse(y: Array) -> Array:
    """Return where trigamma has these values, by Newton's method as limma has it."""
    x = 0.5 + 1 / y
    for _ in range(8):
        value = polygamma(1, x)
        x = x + value * (1 - value / y) / polygamma(2, x)
    return x


def _median(values: Array) -> Array:
    """Return the median of the last axis, NaN left out; NaN where there is nothing."""
    if not values.shape[-1]:
        return np.full((*values.shape[:-1], 1), np.nan)
    values = np.sort(values, -1)
    count = (~np.isnan(values)).sum(-1, keepdims=True)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[-1] - 1)
    return (np.take_along_axis(values, low, -1) + np.take_along_axis(values, high, -1)) / 2
