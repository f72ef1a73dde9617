"""The chart of the first screen: time saved against accuracy, and what training less comes to."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from typing import NamedTuple

from dataeff.report.placing import Box, Label, placed
from dataeff.report.stats import Interval
from dataeff.report.trade import Point, Trade
from dataeff.report.web import svg
from dataeff.report.web.shown import Shown
from dataeff.report.web.svg import NARROW, NORMAL, SMALL, WIDE, Frame, Scale, brief, tag, words
from dataeff.report.words import number

MOST_CROSSES = 8
"""Of more methods than this, intervals are shown when one is looked at, and so are the names of
those that are worth least."""
PLAIN, LESS = "plain", "just train less"
_FRAMES = (Frame(WIDE, 420.0, 44, 14, 22, 40), Frame(NARROW, 330.0, 34, 8, 22, 40))
# Sizes of what is drawn, in pixels.
_MARK, _DOT, _GAP, _LINE, _EDGE = 13.0, 6.0, 9.0, 16.0, 16.0
_LONGEST = 180.0


def trade_off(shown: Shown, trade: Trade) -> str:
    """Return the chart for desktops and for phones; marks lead to what is said of each method."""
    return "".join(_Drawing(frame, shown, trade).text() for frame in _FRAMES)


class _Spot(NamedTuple):
    """Where something is drawn; `away` is whither an arrow points, where it is off the chart."""

    x: float
    y: float
    away: str = ""


class _Drawing:
    """The chart in one size."""

    def __init__(self, frame: Frame, shown: Shown, trade: Trade) -> None:
        self.frame, self.shown, self.trade = frame, shown, trade
        inside = self.inside = frame.inside
        self.x = Scale(*trade.across, inside.left, inside.right)
        self.y = Scale(*trade.up, inside.high, inside.low)
        self.spots = {point.strategy: self._spot(point) for point in trade.points}
        self.origin = _Spot(self.x(0.0), self.y(0.0))
        self.region = f"saves time, loses at most {trade.margin:g}"

    def text(self) -> str:
        base = self.shown.base
        took = base["prepare_seconds"] + base["train_seconds"] if base else math.nan
        plain = f" (of {took:.3g} s)" if math.isfinite(took) else ""
        parts = [
            *self._region(),
            *svg.up_axis(self.y, self.inside, lambda v: "same" if v == 0 else f"{v:+g}"),
            *svg.across_axis(self.x, self.inside, lambda v: f"{v:g}%"),
            *svg.titles(self.frame, f"training time saved{plain}", "accuracy, points"),
            *self._less(),
            *self._reference(),
            # What is worth most is drawn last, over the others.
            *map(self._point, reversed(self.trade.points)),
        ]
        return svg.drawing(self.frame, self._said(), parts, role="group")

    def _said(self) -> str:
        """Return what the chart shows, for who cannot see it."""
        points, margin = self.trade.points, self.trade.margin
        inside = sum(one.saved.mean > 0 and one.points.mean >= -margin for one in points)
        return (
            f"Training time saved against accuracy: {inside} of {len(points)} methods save time "
            f"and lose at most {margin:g} points"
        )

    # What methods are held against ----------------------------------------------------------------

    def _region(self) -> Iterator[str]:
        """Yield where a method saves time and loses no more than may be lost."""
        inside, floor = self.inside, self.y(-self.trade.margin)
        left = max(self.origin.x, inside.left)
        yield svg.box(Box(left, inside.low, inside.right, floor), class_="region")
        yield words(self.region, inside.right - 6, inside.low + 14, class_="region-name")

    @cached_property
    def _lines(self) -> list[list[tuple[float, float]]]:
        """Return the lines of just training less, as far as they are on the chart."""
        low = self.trade.up.low
        kinds = self.trade.lines.values()
        return [[(self.x(x), self.y(y)) for x, y in _until(line, low)] for line in kinds]

    def _less(self) -> Iterator[str]:
        """Yield what just training less reaches: a line for each kind, and all yardsticks."""
        for line in self._lines:
            yield svg.path_of(line, None, class_="less")
        for point in self.trade.yardsticks:
            if point.saved.mean in self.trade.across and point.points.mean in self.trade.up:
                place = {"cx": self.x(point.saved.mean), "cy": self.y(point.points.mean)}
                yield tag("circle", _title(point), class_="yardstick", r=3.0, **place)
        if at := self._boxes.get(LESS):
            yield _standing(LESS, at, "less-name")

    def _reference(self) -> Iterator[str]:
        told = tag("title", escape(f"{self.shown.reference}: what all are compared with"))
        yield tag("circle", told, class_="reference", r=5.0, cx=self.origin.x, cy=self.origin.y)
        if at := self._boxes[PLAIN]:
            yield _standing(PLAIN, at, "name")

    # Labels ---------------------------------------------------------------------------------------

    @cached_property
    def _asked(self) -> dict[str, Label]:
        """Return the labels in the order in which they choose their places."""
        labels = {
            point.strategy: _label(self.spots[point.strategy], self._name(point), point.is_above)
            for point in self.trade.points
        }
        best, others = list(labels.items())[:1], list(labels.items())[1:]
        given = {PLAIN: _label(self.origin, PLAIN)}
        if self._lines:
            # Where its line ends; the one that reaches farthest.
            given[LESS] = _label(_Spot(*max(line[-1] for line in self._lines)), LESS)
        return dict([*best, *given.items(), *others])

    @cached_property
    def _boxes(self) -> dict[str, Box | None]:
        """Return where labels stand, so that none covers another one, a mark or an axis."""
        inside = self.inside
        taken = [Box.around(x, y, _MARK, _MARK) for x, y, _ in [*self.spots.values(), self.origin]]
        for point in self.trade.yardsticks:
            at = self.x(point.saved.mean), self.y(point.points.mean)
            taken.append(Box.around(*at, _DOT, _DOT))
        told = svg.width_of(self.region, SMALL)
        taken.append(Box(inside.right - told - 8, inside.low, inside.right, inside.low + 20))
        taken += [Box(0, self.y(v) - 8, inside.left, self.y(v) + 8) for v in self.y.ticks(44)]
        room = Box(4, inside.low - 4, self.frame.width - 3, inside.high - 1)
        points = self.trade.points
        quiet = {one.strategy for one in points[MOST_CROSSES:] if not self.spots[one.strategy].away}
        asked = {name: label for name, label in self._asked.items() if name not in quiet}
        return dict(zip(asked, placed([*asked.values()], taken, room), strict=True))

    def _name(self, point: Point) -> str:
        """Return what a method is called here; off the chart, with its number."""
        away = self.spots[point.strategy].away
        name = svg.shortened(self.shown.labels[point.strategy], _LONGEST)
        if away == "left":
            return f"{name} {number(point.saved.mean, '.0f')}%"
        return f"{name} {number(point.points.mean, '+.0f')}" if away else name

    # Methods --------------------------------------------------------------------------------------

    def _spot(self, point: Point) -> _Spot:
        """Return where a method stands; what is off the chart stands at its edge."""
        x, y = point.saved.mean, point.points.mean
        across, up = self.trade.across, self.trade.up
        away = "left" if x < across.low else "down" if y < up.low else "up" if y > up.high else ""
        right, down = {"left": (1, 0), "down": (0, -1), "up": (0, 1)}.get(away, (0, 0))
        place = self.x(across.clipped(x)), self.y(up.clipped(y))
        return _Spot(place[0] + right * _EDGE, place[1] + down * _EDGE, away)

    def _point(self, point: Point) -> str:
        spot, style = self.spots[point.strategy], self.shown.styles[point.strategy]
        asked, box = self._asked[point.strategy], self._boxes.get(point.strategy)
        kind = "name best" if point.is_above else "name"
        if box is None:
            # Shown when the mark is looked at: on the side where there is room for it.
            side = -1 if spot.x + _GAP + asked.width > self.inside.right else 1
            middle = spot.x + side * (_GAP + asked.width / 2)
            box, kind = Box.around(middle, spot.y, asked.width, asked.height), f"{kind} hidden"
        parts = [
            _title(point),
            *self._reach(point, spot, style.colour),
            svg.mark(style, spot.x, spot.y),
            *_arrow(spot),
            _standing(self._name(point), box, kind),
        ]
        target = f"#{self.shown.anchors[point.strategy]}"
        return tag("a", *parts, class_="point", href=target, data_look=style.key)

    def _reach(self, point: Point, spot: _Spot, colour: str) -> Iterator[str]:
        """Yield the intervals of a method as a cross, as far as they are on the chart."""
        hidden = " hidden" if len(self.trade.points) > MOST_CROSSES else ""
        kind = f"reach {colour}{hidden}"
        if math.isfinite(point.saved.high - point.saved.low):
            low, high = (self.x(self.trade.across.clipped(v)) for v in point.saved[1:])
            yield tag("line", class_=kind, x1=low, x2=high, y1=spot.y, y2=spot.y)
        if math.isfinite(point.points.high - point.points.low):
            low, high = (self.y(self.trade.up.clipped(v)) for v in point.points[1:])
            yield tag("line", class_=kind, x1=spot.x, x2=spot.x, y1=low, y2=high)


def _until(line: Sequence[tuple[float, float]], low: float) -> Iterator[tuple[float, float]]:
    """Yield a line as far as it is above the lower end of the chart."""
    for (x0, y0), (x1, y1) in zip([line[0], *line], line, strict=False):
        if y1 < low:
            yield x0 + (x1 - x0) * (low - y0) / (y1 - y0), low
            return
        yield x1, y1


def _label(spot: _Spot, text: str, bold: bool = False) -> Label:
    return Label(spot.x, spot.y, svg.width_of(text, NORMAL, bold), _LINE, _GAP)


def _standing(text: str, at: Box, kind: str) -> str:
    middle = (at.left + at.right) / 2
    return words(text, middle, at.high - 4.5, class_=kind, text_anchor="middle")


def _arrow(spot: _Spot) -> list[str]:
    """Return an arrow from a mark to what is off the chart."""
    if not spot.away:
        return []
    turn = {"down": 0, "left": 90, "up": 180}[spot.away]
    place = f"translate({brief(spot.x)} {brief(spot.y)}) rotate({turn})"
    return [tag("path", class_="away", d="M0 8v7m-3 -3l3 3l3 -3", transform=place)]


def _title(point: Point) -> str:
    return tag("title", escape(_told(point)))


def _told(point: Point) -> str:
    """Return a method in words."""
    time, points = _with_ends(point.saved, ".0f", "%"), _with_ends(point.points, "+.1f", "")
    return f"{point.strategy}: {time} less time, {points} points"


def _with_ends(found: Interval, form: str, unit: str) -> str:
    told = f"{number(found.mean, form)}{unit}"
    if not math.isfinite(found.high - found.low):
        return told
    return f"{told} ({number(found.low, form)} to {number(found.high, form)})"
