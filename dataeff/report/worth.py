"""Worth: how sure a table is of each strategy, and in which order strategies are worth taking."""

from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from dataeff.report.gains import Gains
from dataeff.report.grid import asked_of
from dataeff.report.judge import Judged
from dataeff.report.questions import AgainstLine
from dataeff.report.stats import Array, Flags, Spread
from dataeff.report.verdicts import CHANCE, SHARE

SAVES, KEEPS, BEATS = "saves_time", "loses_no_more", "beats_training_less"
"""The three questions of each method, as programs read them, and columns of tables."""
LIKELY = 0.05
"""Chance that an interval misses by which something is likely: that of a strategy for itself."""
CAUTIOUS = 0.2
"""Chance that an interval misses by whose lower end strategies are put in order."""
MANY = 500
"""What more seeds than this would settle is not settled by seeds."""


class Sure(IntEnum):
    """How sure we are that a question is answered by yes: proven by the table's own interval."""

    REFUTED = -2
    UNLIKELY = -1
    OPEN = 0
    LIKELY = 1
    PROVEN = 2

    @property
    def word(self) -> str:
        """Return it as tables say it."""
        return ("proven not", "likely not", "open", "likely", "proven")[self + 2]


class Ends(NamedTuple):
    """Where intervals of strategies for themselves begin and end."""

    low: Array
    high: Array


class Worth:
    """How sure a table is of each strategy, in the order of its grid.

    `saves`: it saves time. `keeps`: it loses no more than may be lost. `beats`: it is above what
    just training less reaches in its time. Each is a number of `Sure`. `least` is what strategies
    are put in order by: the lower end of a cautious interval of gain or, without a line, of speed.
    """

    def __init__(self, judged: Judged) -> None:
        self.judged = judged
        told, grid = judged.verdicts, judged.grid
        self._names = [name for name in judged.table.listed if name in grid.names]
        self._asked = asked_of(grid, self._names, judged.margin)
        gained = AgainstLine(judged.table).names
        self._gained = [name for name in gained if name in grid.names]
        speed, points = (self._ends(seen, LIKELY) for seen in self._asked[1::-1])
        gain = self._gain(LIKELY)
        self.saves = _sure((told.faster, told.slower), (speed.low > 0, speed.high < 0))
        keeps = (points.low > -judged.margin, points.high < -judged.margin)
        self.keeps = _sure((told.no_worse, told.worse), keeps)
        # Who diverges in a seed has lost all there, whatever its other seeds say.
        self.keeps = np.where(judged.diverged > 0, Sure.UNLIKELY, self.keeps)
        _, low, high = judged.gain
        self.beats = _sure((low > 0, high < 0), (gain.low > 0, gain.high < 0))
        cautious = self._ends(self._asked.speed, CAUTIOUS)
        least = self._gain(CAUTIOUS) if self.has_line else cautious
        self.least = np.where(np.isnan(least.low), -np.inf, least.low)
        likely = (self.saves >= Sure.LIKELY) & (self.keeps > Sure.UNLIKELY)
        self.fits = judged.methods & judged.able & likely

    @property
    def has_line(self) -> bool:
        """Say whether anybody was compared with just training less."""
        return bool(np.isfinite(self.judged.gain[0]).any())

    def evidence(self) -> dict[str, list[str]]:
        """Return in words how sure each question of each method is answered; nothing of others."""
        judged = self.judged
        asked = judged.methods & judged.seen & (judged.idle == "")
        timed, scored = judged.speed.n > 1, judged.points.n > 1
        told = {SAVES: (self.saves, timed), KEEPS: (self.keeps, scored)}
        told[BEATS] = self.beats, np.isfinite(judged.gain[0])
        return {
            question: [
                Sure(level).word if known else ""
                for level, known in zip(sure, who & asked, strict=True)
            ]
            for question, (sure, who) in told.items()
        }

    @cached_property
    def _kinds(self) -> list[Gains]:
        return AgainstLine(self.judged.table).kinds(self.judged.grid, self._gained)

    def _whole(self, part: ArrayLike, names: list[str]) -> Array:
        """Return what is known of these strategies as the table has it, NaN for the others."""
        whole = np.full(len(self.judged.grid.names), np.nan)
        whole[[self.judged.grid.names.index(name) for name in names]] = part
        return whole

    def _ends(self, seen: Spread, chance: float) -> Ends:
        low, high = seen.limits(chance)
        return Ends(self._whole(low, self._names), self._whole(high, self._names))

    def _gain(self, chance: float) -> Ends:
        """Return intervals of gain over the better kind of training less."""
        if not self._kinds:
            return Ends(self._whole([], []), self._whole([], []))
        side = np.array(chance / 2)
        low = np.min([kind.low(side) for kind in self._kinds], 0)
        high = np.min([kind.high(side) for kind in self._kinds], 0)
        return Ends(self._whole(low, self._gained), self._whole(high, self._gained))

    def order(self) -> NDArray[np.int_]:
        """Return the places of strategies, those that are worth most first; yardsticks last."""
        judged = self.judged
        keys = (-self.least, ~self.fits, ~judged.able, ~judged.listed, judged.grid.others)
        return np.lexsort([-np.nan_to_num(judged.speed.mean, nan=-np.inf), *keys])

    def seeds_needed(self) -> Array:
        """Return how many seeds would settle all that is open of each, if means stay as they are.

        Infinite where it would take more than MANY; NaN of whom nothing can be said.
        """
        judged, asked = self.judged, self._asked
        open_ = (self.saves, self.keeps, self.beats)
        waiting = max(1, int((judged.methods & ~judged.settled).sum()))
        level = SHARE * CHANCE / waiting
        needed = [
            self._whole(seeds_to_tell(asked.speed, 0.0, level), self._names),
            self._whole(seeds_to_tell(asked.accuracy, -judged.margin, level), self._names),
        ]
        if self._kinds:
            told = np.array([seeds_to_tell(kind.least, 0.0, level) for kind in self._kinds])
            ahead = np.min([kind.mean for kind in self._kinds], 0) > 0
            # Above must be shown against each kind, below against any one.
            needed.append(self._whole(np.where(ahead, told.max(0), told.min(0)), self._gained))
        asked_for = zip(needed, open_, strict=False)
        known = [np.where(np.abs(sure) == Sure.PROVEN, 0.0, n) for n, sure in asked_for]
        return np.max(known, 0)


def _sure(by_table: tuple[Flags, Flags], by_itself: tuple[Flags, Flags]) -> NDArray[np.int_]:
    """Return how sure answers are, by who is shown to be so, and not so, each way."""
    levels = (Sure.PROVEN, Sure.REFUTED, Sure.LIKELY, Sure.UNLIKELY)
    return np.select([*by_table, *by_itself], levels, Sure.OPEN)


def seeds_to_tell(seen: Spread, threshold: float, level: float) -> Array:
    """Return after how many seeds intervals would leave out a threshold, if means stay."""
    n = np.arange(2, MANY + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.maximum(np.multiply.outer(seen.df / (seen.n - 1), n - 1), 1)
        half = stdtrit(df, 1 - level / 2) * seen.used[..., None] / np.sqrt(n)
        apart = np.abs(seen.mean - threshold)[..., None]
        enough = (half < apart) & (n > seen.n[..., None])
    found = np.where(enough.any(-1), n[enough.argmax(-1)], np.inf)
    return np.where(np.isnan(seen.used), np.nan, found)
