"""Verdicts: what the intervals of a table allow us to say against its reference.

A table has one chance of being wrong, divided among the strategies that are still open, and within
a strategy between its speed and its accuracy. Verdicts are read off the intervals that are shown;
nothing else decides.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from dataeff.report.stats import FEWEST, MOST, Array, Flags, Spread
from dataeff.seeds import AUTO, Seeds

CHANCE = 0.04
"""Chance that a table says anything wrong where spreads are alike; in the worst of the worlds that
are simulated it is 5%."""
SHARE = 0.4
"""Of the chance, what each of several looks may use."""


def chance_of(seeds: Seeds) -> float:
    """Return the chance of a look at a suite with these seeds: one of several looks, or the one."""
    return SHARE * CHANCE if seeds == AUTO else CHANCE


class Asked(NamedTuple):
    """What is asked of the strategies of a table: accuracy in points, speed in logs of ratios.

    Who has `diverged` in a seed is never no worse, whatever its other seeds say.
    """

    accuracy: Spread
    speed: Spread
    diverged: Flags
    margin: float


class Ends(NamedTuple):
    """Where the intervals of accuracy and speed begin and end, for each strategy."""

    low: Array
    high: Array
    speed_low: Array
    speed_high: Array


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What may be said of each strategy, read off the ends of its intervals."""

    ends: Ends
    diverged: Flags
    margin: float

    @property
    def faster(self) -> Flags:
        """Say who takes less time than the reference."""
        return self.ends.speed_low > 0

    @property
    def slower(self) -> Flags:
        """Say who takes more."""
        return self.ends.speed_high < 0

    @property
    def better(self) -> Flags:
        """Say who is more accurate."""
        return (self.ends.low > 0) & ~self.diverged

    @property
    def no_worse(self) -> Flags:
        """Say who loses no more than the margin, if anything."""
        return (self.ends.low > -self.margin) & ~self.diverged

    @property
    def less_accurate(self) -> Flags:
        """Say who loses accuracy, be it by how much it may; within the margin is no worse."""
        return (self.ends.high < 0) & ~self.no_worse

    @property
    def worse(self) -> Flags:
        """Say who loses more than the margin."""
        return self.ends.high < -self.margin

    @property
    def timed(self) -> Flags:
        """Say whose speed is known."""
        return self.faster | self.slower

    @property
    def scored(self) -> Flags:
        """Say whose accuracy is known."""
        return self.no_worse | self.less_accurate

    @property
    def both(self) -> Flags:
        """Say of whom speed and accuracy are known."""
        return self.timed & self.scored

    @property
    def settled(self) -> Flags:
        """Say who needs no more seeds: both are known, or it has lost already, or diverges."""
        return self.both | self.less_accurate | self.slower | (self.timed & self.diverged)


def unjudged(asked: Asked) -> Verdicts:
    """Return intervals of which nothing can be read: nobody has been judged yet."""
    ends = np.multiply.outer([-np.inf, np.inf, -np.inf, np.inf], np.ones(asked.accuracy.n.shape))
    return Verdicts(Ends(*ends), asked.diverged, asked.margin)


def judge(
    asked: Asked, chance: float = CHANCE, before: Verdicts | None = None, who: Flags | None = None
) -> Verdicts:
    """Judge a table, so that anything wrong is said with at most this chance.

    The chance is divided evenly among the strategies of which not both are known (a graph after
    Bretz et al., 2009): once one of its two questions is answered, the other has all of a
    strategy's share, and once both are, the others have it. Answers stay as they were given, also
    those of earlier looks (`before`). `who` are to be judged now; the others stay as they are.
    """
    found = unjudged(asked) if before is None else before
    askable = (asked.accuracy.n > 1) | (asked.speed.n > 1)
    family = askable if who is None else askable & who
    # Who has no times, or no accuracies, is done with the other question.
    untimed, unscored = asked.speed.n < 2, asked.accuracy.n < 2

    def done(found: Verdicts) -> Flags:
        return found.both | (found.scored & untimed) | (found.timed & unscored)

    while True:
        left = np.maximum((family & ~done(found)).sum(-1, keepdims=True), 1)
        now = _answered(found, asked, family, chance / left)
        if np.array_equal(done(now), done(found)):
            return now
        found = now


def _answered(found: Verdicts, asked: Asked, family: Flags, level: Array) -> Verdicts:
    """Return the intervals at this level, each question that is open asked anew."""
    known = (found.scored, found.timed)
    kept = (found.ends[:2], found.ends[2:])
    parts = (asked.accuracy, asked.speed)
    # A question that cannot be asked leaves all of the share to the other.
    alone = asked.speed.n < 2, asked.accuracy.n < 2

    def ask(i: int, share: Array) -> tuple[Array, Array]:
        low, high = parts[i].limits(share)
        stays = known[i] | ~family | (parts[i].n < 2)
        return np.where(stays, kept[i][0], low), np.where(stays, kept[i][1], high)

    ends = Ends(*ask(0, level / 2), *ask(1, level / 2))
    halves = Verdicts(ends, found.diverged, found.margin)
    scored, timed = halves.scored, halves.timed
    points = ask(0, np.where((timed | alone[0]) & ~scored, level, level / 2))
    times = ask(1, np.where((scored | alone[1]) & ~timed, level, level / 2))
    return Verdicts(Ends(*points, *times), found.diverged, found.margin)


# What more seeds would do ------------------------------------------------------------------------


def chance_settled(asked: Asked, found: Verdicts, chance: float, n: int) -> Array:
    """Return the chance that n seeds settle each strategy of a table, as far as seeds tell now.

    Each is foreseen at the share that it has now of the chance of the next look.
    """
    level = chance / np.maximum((~found.settled & (asked.accuracy.n > 1)).sum(), 1)
    fine, less = _foreseen(asked.accuracy, asked.margin, np.where(found.timed, level, level / 2), n)
    fast, slow = _foreseen(asked.speed, 0.0, np.where(found.scored, level, level / 2), n)
    fine, less = _known(found.no_worse, found.less_accurate, fine, less)
    fast, slow = _known(found.faster, found.slower, fast, slow)
    fine = np.where(found.diverged, 1.0 - less, fine)
    return np.clip(less + slow - less * slow + fine * fast, 0.0, 1.0)


def _foreseen(seen: Spread, below: float, level: Array, n: int) -> tuple[Array, Array]:
    """Return the chances that n seeds show a difference above -below, and one below zero.

    The mean of all n will be near the present one, by what the seeds to come may move it.
    """
    more = np.maximum(n - seen.n, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.maximum(seen.df * (n - 1) / (seen.n - 1), 1)
        half = stdtrit(df, 1 - level / 2) * seen.used / np.sqrt(n)
        moves = seen.used * np.sqrt(more / n / seen.n)
        above = stdtr(seen.df, (seen.mean + below - half) / moves)
        under = stdtr(seen.df, (-seen.mean - half) / moves)
    return above, under


def _known(good: Flags, bad: Flags, above: Array, under: Array) -> tuple[Array, Array]:
    """Return the chances, where the answer is known already 1 and 0."""
    told = good | bad
    return np.where(told, good, above), np.where(told, bad, under)


def smallest_margin(sd: ArrayLike, n: int, strategies: int, chance: float = CHANCE) -> Array:
    """Return the margin that n seeds show with a chance of 80%, where nothing is lost.

    `sd` is the typical spread of paired differences, `strategies` are those that share the chance.
    """
    if n < 2:
        return np.full(np.shape(sd), np.nan)
    # The freedom of moderated spreads: three strategies or more lend each other theirs.
    weight = (1 / (1 + MOST)) ** 2 if strategies >= FEWEST else 1.0
    df = (n - 1) / (weight + (1 - weight) * (1 + 3 / strategies) / 4)
    reach = stdtrit(df, 1 - chance / 2 / strategies) + stdtrit(df, 0.8)
    return np.asarray(sd, dtype=float) / np.sqrt(n) * reach
