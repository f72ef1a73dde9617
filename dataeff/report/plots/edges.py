"""Edges: where marks stand that are off an axis, so that none covers another one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dataeff.report.trade import Point, Range, Trade

SIDES = ("left", "right", "low", "high")
"""The edges of axes."""
TURNS = {"left": (-1, 0), "right": (1, 0), "low": (0, -1), "high": (0, 1)}
"""Where an arrow points to at each edge: across and up."""


# What an edge may take of the axes at the most.
_DEEPEST = 0.3


class Outlier(NamedTuple):
    """A point that is off an axis: at which edge it stands, and how far from that, in marks."""

    point: Point
    side: str
    level: int


def side_of(point: Point, trade: Trade) -> str:
    """Return the edge at which a point stands; nothing where it is on the axes."""
    x, y = point.saved.mean, point.points.mean
    if y not in trade.up:
        return "low" if y < trade.up.low else "high"
    if x not in trade.across:
        return "left" if x < trade.across.low else "right"
    return ""


def stacked(places: Sequence[float], size: float, most: int) -> list[int]:
    """Return at which level each mark stands: 0 is at the edge, the next is farther from it.

    Marks of this size on one level do not touch, as long as `most` levels are enough; who comes
    first stands nearer to the edge.
    """
    levels: list[int] = []
    for i, place in enumerate(places):
        near = {levels[j] for j in range(i) if abs(places[j] - place) < size}
        levels.append(next((level for level in range(most) if level not in near), most - 1))
    return levels


def outliers(trade: Trade, area: tuple[float, float], size: float) -> list[Outlier]:
    """Return who is off the axes of a figure; `area` is that of the axes, in points."""
    off: dict[str, list[Point]] = {side: [] for side in SIDES}
    for point in trade.points:
        if side := side_of(point, trade):
            off[side].append(point)
    found: list[Outlier] = []
    # What edges take moves marks along the others.
    for _ in range(2):
        span = _Span(trade, area, depths_of(found, size))
        found = [
            Outlier(point, side, level)
            for side, points in off.items()
            for point, level in zip(points, span.levels(side, points, size), strict=True)
        ]
    return found


def depths_of(found: Sequence[Outlier], size: float) -> dict[str, float]:
    """Return how much of the axes each edge takes for who stands there, in points."""
    levels = {side: [one.level for one in found if one.side == side] for side in SIDES}
    return {side: size * (max(there, default=-1) + 1) for side, there in levels.items()}


def stretched(shown: Range, length: float, before: float, after: float) -> tuple[float, float]:
    """Return from where to where an axis of this length reaches with room at its ends, in points.

    What is shown takes the rest.
    """
    unit = (shown.high - shown.low) / (length - before - after)
    return shown.low - before * unit, shown.high + after * unit


class _Span(NamedTuple):
    """Where points stand along the edges of axes that give room to them."""

    trade: Trade
    area: tuple[float, float]
    depths: Mapping[str, float]

    def levels(self, side: str, points: Sequence[Point], size: float) -> list[int]:
        if side in ("left", "right"):
            values, shown, ends = [one.points.mean for one in points], self.trade.up, SIDES[2:]
            depth, length = self.area
        else:
            values, shown, ends = [one.saved.mean for one in points], self.trade.across, SIDES[:2]
            length, depth = self.area
        low, high = stretched(shown, length, *(self.depths[end] for end in ends))
        places = [length * (shown.clipped(value) - low) / (high - low) for value in values]
        return stacked(places, size, max(1, int(_DEEPEST * depth / size)))
