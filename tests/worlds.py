"""Worlds: tables of which the truth is known, many at a time.

Arrays are tables x strategies x seeds. Accuracy is in points, time in logarithms.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dataeff.report.gains import Line, judge_gains
from dataeff.report.stats import spread
from dataeff.report.verdicts import CHANCE, SHARE, Asked, Verdicts, judge
from dataeff.seeds import LOOKS

MARGIN = 0.5
# Spreads of one cell: a paired accuracy differs by 0.5 points.
POINTS, TIMES = 0.35, 0.03


def limit(tables, share=0.05):
    """Return which share of tables may be wrong: what is promised and two standard errors."""
    return share + 2 * np.sqrt(share * (1 - share) / tables)


# Against the reference ---------------------------------------------------------------------------

WORLDS = (
    *("equal", "unequal", "very unequal", "one 10x", "two 3x"),
    *("reference 2x", "reference /2", "t3 tails", "crashes"),
)
"""How the spreads of strategies differ, or what else is not as it should be."""


def noise(draw, shape, world):
    """Return the noise of cells, the reference first, in units of a usual cell's spread."""
    tables, lines, _ = shape
    z = draw.standard_t(3, shape) / np.sqrt(3) if world == "t3 tails" else draw.normal(size=shape)
    if world == "crashes":
        # Three strategies of ten lose six spreads in 5% of their seeds.
        prone = draw.random((tables, lines, 1)) < 0.3
        z -= 6 * prone * ((draw.random(shape) < 0.05) - 0.05)
    scale = np.ones((tables, lines, 1))
    if "unequal" in world:
        wide = 0.7 if "very" in world else 0.4
        scale[:, 1:] = np.exp(draw.normal(0, wide, (tables, lines - 1, 1)))
    scale[:, -1:] *= 10 if world == "one 10x" else 1
    scale[:, -2:] *= 3 if world == "two 3x" else 1
    scale[:, 0] *= {"reference 2x": 2, "reference /2": 0.5}.get(world, 1)
    return scale * z


class Truth(NamedTuple):
    """What is true of each strategy: points above the reference, and the log of its speed-up."""

    points: np.ndarray
    pace: np.ndarray


KINDS = 5
"""Strategies of the mix: no worse twice, a little less accurate, worse by 0.8 and by 1.9."""


def truths(k):
    """Return truths by name: no difference at all, all at the margin, a mix."""
    kind = np.arange(k) % KINDS
    mix = np.array([0, 0, -0.2, -0.8, -1.9])[kind], np.log([1.45, 1.2, 1.4, 1.4, 1.8])[kind]
    same = np.zeros(k)
    return {"null": Truth(same, same), "margin": Truth(same - MARGIN, same), "mix": Truth(*mix)}


@dataclass(frozen=True)
class Tables:
    """Differences to the reference: in accuracy, and in the logarithms of time that is saved."""

    points: np.ndarray
    pace: np.ndarray
    margin: float = MARGIN

    @classmethod
    def drawn(cls, shape, world="equal", times=TIMES, seed=11):
        """Draw tables x strategies x seeds in which nothing differs but by noise."""
        draw = np.random.default_rng(seed)
        cells = shape[0], shape[1] + 1, shape[2]
        # No clock is as unequal as accuracies are.
        clock = "unequal" if world in ("very unequal", "one 10x") else world
        a, t = POINTS * noise(draw, cells, world), times * noise(draw, cells, clock)
        return cls(a[:, 1:] - a[:, :1], t[:, :1] - t[:, 1:])

    def shifted(self, truth, margin=MARGIN):
        """Return the same noise about another truth."""
        points, pace = self.points + truth.points[:, None], self.pace + truth.pace[:, None]
        return Tables(points, pace, margin)

    def asked(self, seeds=None):
        """Return what is asked, of the first seeds of each strategy where these are told."""
        parts = self.points, self.pace
        if seeds is not None:
            ran = np.arange(seeds.max()) < seeds[..., None]
            parts = (np.where(ran, part[..., : seeds.max()], np.nan) for part in parts)
        return Asked(*map(spread, parts), np.zeros(self.points.shape[:-1], bool), self.margin)


class Looked(NamedTuple):
    """What is said in the end, and how many seeds each strategy has run by then."""

    found: Verdicts
    seeds: np.ndarray

    @property
    def cells(self):
        """Return how many cells a table takes: the reference runs as long as anybody."""
        return (self.seeds.sum(-1) + self.seeds.max(-1)).mean()


def looked(tables, looks=LOOKS, chance=SHARE * CHANCE):
    """Run tables until all is settled: who is, runs no more and is not judged again."""
    found, seeds = None, np.zeros(tables.points.shape[:-1], int)
    for n in looks:
        going = np.full(seeds.shape, True) if found is None else ~found.settled
        seeds = np.where(going, n, seeds)
        found = judge(tables.asked(seeds), chance, found, going)
    return Looked(found, seeds)


def wrong(found, truth):
    """Say in which tables anything wrong is said."""
    points, pace, margin = *truth, found.margin
    speed = (found.faster & (pace <= 0)) | (found.slower & (pace >= 0))
    up = (found.better & (points <= 0)) | (found.no_worse & (points <= -margin))
    down = (found.less_accurate & (points >= 0)) | (found.worse & (points >= -margin))
    return (speed | up | down).any(-1)


def missed(found, truth):
    """Say in which tables anything true lies outside of its interval."""
    ends, (points, pace) = found.ends, truth
    accuracy = (points < ends.low) | (points > ends.high)
    return (accuracy | (pace < ends.speed_low) | (pace > ends.speed_high)).any(-1)


# Against the line --------------------------------------------------------------------------------

SHAPES = {
    "straight": lambda x: 9 * x,
    "steep": lambda x: 14 * x,
    "flat": lambda x: 0.5 * x,
    # Straight in the share itself, and in one over it.
    "convex": lambda x: 13.6 * np.expm1(x),
    "concave": lambda x: -5 * np.expm1(-x),
    "saturated": lambda x: -1.3 * np.expm1(-2 * x),
    "step": lambda x: 20 / (1 + np.exp(-4 * x - 2.8)) - 20 / (1 + np.exp(-2.8)),
}
"""What training less reaches by the logarithm of its share, in points below the reference."""
STRESS = ("saturated", "step")
"""Shapes that have not been seen in any data."""
SPREADS = ("equal", "unequal", "one 10x", "line 2x")
SHARES = np.array([0.36, 0.46, 0.6, 0.77, 1.0])
CELL, SEED = 0.75 * np.sqrt([0.8, 0.2])
"""Spreads of accuracy in points: a cell's own, and what the cells of a seed share."""


def costs(k):
    """Return the costs of k methods; of many, two are below the line and two beyond it."""
    cheapest = SHARES[0]
    if k <= 5:
        return np.geomspace(cheapest, 1.0, k)
    between = np.geomspace(cheapest, 0.95, k - 5)
    return np.concatenate([[0.6 * cheapest, 0.85 * cheapest], between, [1.0, 1.1, 1.5]])


@dataclass(frozen=True)
class LineWorld:
    """A truth about training less, and about methods that reach just as much at their cost.

    The second kind is `gap` points below the first, and takes e^`dear` as long; no budget saves the
    `fixed` part of the time. Methods are `above` the better kind.
    """

    cost: np.ndarray
    seeds: int
    clock: float
    shape: str = "straight"
    spreads: str = "equal"
    gap: float = 0.0
    above: float = 0.0
    fixed: float = 0.0
    dear: float = 0.0

    def drawn(self, tables, seed=7):
        """Draw tables: accuracies and seconds of methods, and the lines of both kinds."""
        draw = np.random.default_rng(seed)
        shared = draw.normal(0, SEED, (tables, 1, self.seeds))
        short, random = (self._line(draw, shared, *odd) for odd in ((0, 0), (self.gap, self.dear)))
        random.accuracy[:, -1], random.seconds[:, -1] = short.accuracy[:, -1], short.seconds[:, -1]
        shape = tables, len(self.cost), self.seeds
        scale = np.exp(draw.normal(0, 0.7 * (self.spreads == "unequal"), (*shape[:2], 1)))
        scale[:, -1:] *= 10 if self.spreads == "one 10x" else 1
        true = SHAPES[self.shape](np.log(self.cost)) + self.above
        accuracy = true[:, None] + shared + scale * draw.normal(0, CELL, shape)
        seconds = np.exp(np.log(self.cost)[:, None] + draw.normal(0, self.clock, shape))
        return LineTables(accuracy, seconds, (short, random))

    def _line(self, draw, shared, lower, longer):
        less = SHARES < 1
        taken = np.log(self.fixed + (1 - self.fixed) * SHARES)
        shape = len(shared), len(SHARES), self.seeds
        wide = 2 if self.spreads == "line 2x" else 1
        points = (SHAPES[self.shape](taken) - lower * less)[:, None] + shared
        times = (taken + longer * less)[:, None] + draw.normal(0, self.clock, shape)
        return Line(SHARES, points + draw.normal(0, wide * CELL, shape), np.exp(times))


@dataclass(frozen=True)
class LineTables:
    """Accuracies and seconds of methods, and the line of each kind."""

    accuracy: np.ndarray
    seconds: np.ndarray
    lines: tuple[Line, ...]

    def gains(self, n=None):
        """Return the gains over each kind in the first n seeds."""
        own = self.accuracy[..., :n], self.seconds[..., :n]
        cut = (
            replace(line, accuracy=line.accuracy[..., :n], seconds=line.seconds[..., :n])
            for line in self.lines
        )
        return [line.gains(*own) for line in cut]

    def looked(self, looks=LOOKS, chance=SHARE * CHANCE):
        """Return what is said after looks at so many seeds; nobody stops."""
        found = None
        for n in looks:
            found = judge_gains(self.gains(n), chance, found)
        return found
