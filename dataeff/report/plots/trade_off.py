"""The trade-off: time saved against accuracy, with the line of just training less."""

from __future__ import annotations

import math
from typing import Any

from dataeff.notation import pattern_of
from dataeff.plural import counted
from dataeff.report.placing import Box
from dataeff.report.plots.edges import TURNS, depths_of, outliers, side_of, stretched
from dataeff.report.plots.layout import Ground
from dataeff.report.plots.lettering import PALE, SOFT, Lettering, Looks, Wish, size_of
from dataeff.report.plots.subject import UNNAMED, Drawn, Entry, Shown
from dataeff.report.styles import label_of, parts_of
from dataeff.report.trade import Point, Range, Trade, trade_of

CROSSES = 8
"""More methods than this are drawn without intervals: they would cover one another."""

_GOOD, _GREEN = "#e4f2ed", "#00664a"
# The points of lines, in marks.
_LESS, _POINT = "#858b92", 0.65
# What a mark and its arrow take at an edge, in marks.
_ARROW = 2.4
_DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.5)))


def trade_off(shown: Shown, ground: Ground) -> Drawn | None:
    """Draw the trade-off of a table; None where there is nothing to compare."""
    trade = trade_of(shown.table, shown.board.suite, shown.board.margin)
    return _TradeOff(shown, trade, ground).draw() if trade else None


class _TradeOff:
    """Draws one of them: what has a place of its own, and then texts where there is room."""

    def __init__(self, shown: Shown, trade: Trade, ground: Ground) -> None:
        self.shown, self.trade, self.ground, self.sheet = shown, trade, ground, ground.sheet
        self.axes = axes = ground.axes
        axes.set(xlabel="time saved (%)", ylabel="accuracy difference (points)")
        self._limit(trade.across, trade.up)
        self.step = _ARROW * self.sheet.mark
        width, height = size_of(axes)
        off = outliers(trade, (width, height), self.step)
        left, right, low, high = depths_of(off, self.step).values()
        self._limit(
            Range(*stretched(trade.across, width, left, right)),
            Range(*stretched(trade.up, height, low, high)),
        )
        self.letters = Lettering(axes, self.sheet.small)
        self.off = {one.point.strategy: one for one in off}
        self.margin = f"{trade.margin:g} point{'s' * (trade.margin != 1)}"

    def _limit(self, across: Range, up: Range) -> None:
        """Say from where to where the axes reach; there are numbers only where they hold."""
        from matplotlib.ticker import FixedLocator, MaxNLocator

        held = ((self.axes.xaxis, self.trade.across), (self.axes.yaxis, self.trade.up))
        for axis, (low, high) in held:
            ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
            axis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
            axis.set_major_formatter(lambda value, _: _signed(value, "g"))
        self.axes.set(xlim=across, ylim=up)
        self.ground.lay()

    def draw(self) -> Drawn:
        """Draw all of it."""
        crossed = self.trade.points if len(self.trade.points) <= CROSSES else []
        self._region()
        self._lines()
        for point in crossed:
            if point.strategy not in self.off:
                self._cross(point)
        entries, unnamed = self._name()
        says = [
            f"Shaded: saves time and loses at most {self.margin}.",
            "Gray lines: just training less." if self.trade.lines else "",
            "Crosses: the intervals that judge." if crossed else "",
            "Arrows: beyond the axes." if self.off else "",
            f"Without a name: {counted(unnamed, 'method')}." if unnamed else "",
        ]
        return Drawn(entries, " ".join(filter(None, says)))

    # What has a place of its own ------------------------------------------------------------------

    def _region(self) -> None:
        from matplotlib.patches import Rectangle

        low, right, high = -self.trade.margin, self.axes.get_xlim()[1], self.axes.get_ylim()[1]
        region = Rectangle((0.0, low), right, high - low, color=_GOOD, linewidth=0, zorder=0.1)
        self.axes.add_patch(region)
        for line in (self.axes.axhline, self.axes.axvline):
            line(0, color=PALE, linewidth=self.sheet.line / 2, zorder=0.8)
        (x, y), frame = self.letters.at(0, 0), self.letters.frame
        self.letters.add_line([(0, y), (frame.right, y)], 1.0)
        self.letters.add_line([(x, 0), (x, frame.high)], 1.0)

    def _lines(self) -> None:
        size = _POINT * self.sheet.mark
        for place, line in enumerate(self.trade.lines.values()):
            self.axes.plot(*zip(*line, strict=True), **self._less(place), zorder=1)
            places = [self.letters.at(*at) for at in line]
            self.letters.add_line(places, self.sheet.line + 1)
            for x, y in places:
                self.letters.add_mark(x, y, size)

    def _less(self, place: int) -> Looks:
        """Return the looks of a line of training less."""
        thin, dashes = 0.7 * self.sheet.line, _DASHES[place % len(_DASHES)]
        looks: Looks = {"color": _LESS, "marker": "o", "markerfacecolor": "white"}
        looks |= {"markersize": _POINT * self.sheet.mark, "markeredgewidth": thin}
        return looks | {"linestyle": dashes, "linewidth": thin}

    def _cross(self, point: Point) -> None:
        """Draw both intervals of a point; one without an end goes on beyond the axes."""
        x, y = point.saved, point.points
        across, up = Range(*self.axes.get_xlim()), Range(*self.axes.get_ylim())
        arms = (
            [(across.clipped(end), y.mean) for end in x[1:]],
            [(x.mean, up.clipped(end)) for end in y[1:]],
        )
        looks: Looks = {"color": self.shown.styles[point.strategy].hex, "alpha": 0.5}
        looks |= {"linewidth": 0.8 * self.sheet.line, "zorder": 1.5, "solid_capstyle": "butt"}
        for arm in arms:
            if not any(map(math.isnan, (*arm[0], *arm[1]))):
                self.axes.plot(*zip(*arm, strict=True), **looks)
                self.letters.add_line([self.letters.at(*end) for end in arm], self.sheet.line + 1)

    # Marks and their names ------------------------------------------------------------------------

    def _places(self) -> list[tuple[str, Wish]]:
        """Return whose marks there are, with what they are called and where, and keep them free."""
        others = [one for one in self.trade.yardsticks if not self._is_on_line(one)]
        told = [
            (self.shown.reference, self.shown.label(self.shown.reference), self.letters.at(0, 0))
        ]
        for point in [*self.trade.points, *(p for p in others if not side_of(p, self.trade))]:
            told.append((point.strategy, self._text(point), self._place(point)))
        for name, _, (x, y) in told:
            across, up = TURNS[self.off[name].side] if name in self.off else (0, 0)
            arrow = self.sheet.mark * across, self.sheet.mark * up
            self.letters.add_mark(x, y, self.sheet.mark + 1, arrow)
        return [(name, Wish(text, *at, self.sheet.mark / 2)) for name, text, at in told]

    def _name(self) -> tuple[list[Entry], int]:
        """Draw marks with their names; return who is named below, and how many have no name.

        What matters most is named first: the region, who is above the lines, and these.
        """
        told, above = self._places(), {one.strategy for one in self.trade.points if one.is_above}
        above.add(self.shown.reference)
        self._name_region()
        boxes = {name: self.letters.find(wish) for name, wish in told if name in above}
        lines = self._name_lines()
        boxes |= {name: self.letters.find(wish) for name, wish in told if name not in above}
        homeless = [name for name, box in boxes.items() if box is None]
        unnamed, entries = homeless[self.sheet.keys :], []
        for name, (text, x, y, _) in told:
            looks = UNNAMED if name in unnamed else self.shown.mark(name)
            self._mark(name, (x, y), looks)
            if box := boxes[name]:
                self.letters.name(text, box, x, y)
            elif name not in unnamed:
                entries.append(Entry(text, looks))
        return [*entries, *lines], len(unnamed)

    def _mark(self, name: str, at: tuple[float, float], looks: Looks) -> None:
        self.letters.draw(at[:1], at[1:], zorder=3, label=name, **looks)
        if name in self.off:
            across, up = TURNS[self.off[name].side]
            start, end = 0.3 * self.sheet.mark, 1.5 * self.sheet.mark
            colour = looks.get("color") or self.shown.styles[name].hex
            style = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
            style |= {"linewidth": 0.6 * self.sheet.line, "mutation_scale": 1.2 * self.sheet.mark}
            self.axes.annotate(
                "",
                (at[0] + end * across, at[1] + end * up),
                (at[0] + start * across, at[1] + start * up),
                xycoords="axes points",
                textcoords="axes points",
                arrowprops=style | {"alpha": looks.get("alpha", 1.0)},
            ).set_in_layout(False)

    def _is_on_line(self, point: Point) -> bool:
        return pattern_of(point.strategy) in self.trade.lines

    def _place(self, point: Point) -> tuple[float, float]:
        """Return where a mark stands, in points: one that is off the axes, at their edge."""
        x, y = self.trade.across.clipped(point.saved.mean), self.trade.up.clipped(point.points.mean)
        x, y = self.letters.at(x, y)
        if one := self.off.get(point.strategy):
            inwards, frame = self.step * (one.level + 0.68), self.letters.frame
            edge = {"left": frame.left, "right": frame.right, "low": frame.low, "high": frame.high}
            across, up = TURNS[one.side]
            x = edge[one.side] - inwards * across if across else x
            y = edge[one.side] - inwards * up if up else y
        return x, y

    def _text(self, point: Point) -> str:
        """Return the name of a point, and of one that is off the axes where it is."""
        x, y = point.saved.mean, point.points.mean
        said = [self.shown.label(point.strategy)]
        if x not in self.trade.across:
            said.append(f"{_signed(x, '.0f')}%")
        if y not in self.trade.up:
            said.append(_signed(y, "+.1f"))
        return " ".join(said)

    # What lines and the region are called ---------------------------------------------------------

    def _name_lines(self) -> list[Entry]:
        """Write what the lines are beside them; return those that go below."""
        entries = []
        for place, (kind, line) in enumerate(self.trade.lines.items()):
            text = label_of(self.shown.board.suite, kind)
            if text == kind:
                bare = "+".join(parts_of(kind))
                text = f"training less\n({bare})" if len(self.trade.lines) > 1 else "training less"
            if box := self.letters.find_along(text, [self.letters.at(*at) for at in line]):
                self.letters.write(text, box, color=SOFT)
            else:
                entries.append(Entry(text, self._less(place)))
        return entries

    def _name_region(self) -> None:
        (left, low), frame = self.letters.at(0.0, -self.trade.margin), self.letters.frame
        for end in (" ", "\n"):
            text = f"saves time,{end}loses at most {self.margin}"
            if box := self.letters.find_inside(text, Box(left, low, frame.right, frame.high)):
                self.letters.write(text, box, color=_GREEN)
                return


def _signed(value: float, form: str) -> str:
    """Return a number with a minus as long as a plus."""
    return format(value, form).replace("-", "\N{MINUS SIGN}")
