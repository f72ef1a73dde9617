"""Time saved against accuracy: what the one figure of a table shows, wherever it is drawn."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from dataeff.notation import pattern_of
from dataeff.report.frames import Record, records
from dataeff.report.stats import Interval, interval_of
from dataeff.report.words import CONTROL, READ_OFF, saved

# How much longer than what matters an axis may become to hold the others, too.
_ROOM = 0.5
# Percent of time: who is slower than this is drawn at the edge.
_SLOWEST = -25.0
_PAD = 0.07


class Point(NamedTuple):
    """A strategy: percent of time saved and points of accuracy, each with its interval."""

    strategy: str
    saved: Interval
    points: Interval
    gain: float

    @property
    def is_above(self) -> bool:
        """Say whether it lies above what just training less reaches."""
        return self.gain > 0


class Range(NamedTuple):
    """From where to where an axis reaches."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        """Say whether a value is on the axis."""
        return isinstance(value, float) and self.low <= value <= self.high

    def clipped(self, value: float) -> float:
        """Return the nearest value that is on the axis."""
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Trade:
    """The figure of one table; the reference is at (0, 0).

    `points` are methods, what is worth most first; `yardsticks` all controls that were run; `lines`
    where just training less leads, by kind, from the reference on.
    """

    points: Sequence[Point]
    yardsticks: Sequence[Point]
    lines: Mapping[str, Sequence[tuple[float, float]]]
    margin: float
    across: Range
    up: Range


def trade_of(part: pd.DataFrame, suite: Mapping[str, Any], margin: float) -> Trade | None:
    """Return the figure of a table; None where there is nothing to compare."""
    reference = suite["reference"]
    seen = part.dropna(subset=["speedup", "difference"])
    seen = seen[(seen["n"] > 0) & (seen["strategy"] != reference) & (seen["speedup"] > 0)]
    is_control = seen["control"].astype(bool)
    points = [_point(line) for line in records(seen[~is_control])]
    controls = records(seen[is_control & (seen["verdict"] != READ_OFF)])
    yardsticks = [_point(line) for line in controls]
    if not points and not yardsticks:
        return None
    kinds = suite.get("line")
    if kinds is None:
        kinds = {pattern_of(line["strategy"]) for line in controls if line["verdict"] == CONTROL}
    lines = {kind: _line(yardsticks, kind) for kind in sorted(kinds)}
    lines = {kind: line for kind, line in lines.items() if len(line) > 1}
    return Trade(
        points=points,
        yardsticks=yardsticks,
        lines=lines,
        margin=margin,
        across=_across(points, lines.values()),
        up=_up(points, lines.values(), margin),
    )


def _point(line: Record) -> Point:
    time = saved(interval_of(line, "speedup"))
    percent = Interval(*(100 * end for end in time))
    return Point(line["strategy"], percent, interval_of(line, "difference"), line["gain"])


def _line(yardsticks: Iterable[Point], kind: str) -> list[tuple[float, float]]:
    on = [point for point in yardsticks if pattern_of(point.strategy) == kind]
    return [(0.0, 0.0), *sorted((point.saved.mean, point.points.mean) for point in on)]


Lines = Iterable[Sequence[tuple[float, float]]]


def _across(points: Sequence[Point], lines: Lines) -> Range:
    ends = [0.0, *(x for line in lines for x, _ in line)]
    ends += [max(point.saved.mean, _SLOWEST) for point in points]
    best = points[0].saved.high if points else math.nan
    high = max([10.0, *ends, *([best] if math.isfinite(best) else [])])
    return _padded(min(ends), min(high, 100.0))


def _up(points: Sequence[Point], lines: Lines, margin: float) -> Range:
    """Return a range for what matters, longer as far as others are near; the rest is off it.

    What matters: the reference, what may be lost, who is above the line, and the line so far.
    """
    above = [point for point in points if point.is_above] or list(points[:1])
    reach = max((point.saved.mean for point in above), default=0.0)
    matters = [0.0, -margin, margin, *(point.points.mean for point in above)]
    matters += [y for line in lines for x, y in line if x <= reach]
    low, high = min(matters), max(matters)
    room = _ROOM * (high - low)
    others = [point.points.mean for point in points]
    others += [y for line in lines for _, y in line]
    others += [end for point in points[:1] for end in point.points[1:] if math.isfinite(end)]
    low = min([low, *(y for y in others if y >= low - room)])
    high = max([high, *(y for y in others if y <= high + room)])
    return _padded(low, high)


def _padded(low: float, high: float) -> Range:
    pad = _PAD * (high - low)
    return Range(low - pad, high + pad)
