"""Lettering: texts on axes, which cover neither one another nor a mark, in points."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from dataeff.report.placing import Box, Label, cheapest, ways

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Looks = dict[str, Any]
"""How matplotlib is to draw something."""
INCH = 72
"""Points of an inch."""
LEADING = 1.2
"""Height of a line of text, in sizes of its letters."""
INK, SOFT, PALE = "#17191c", "#5b6167", "#a3a9af"
"""Colours of texts, of what stands back, and of what has no name."""

# Between mark and text, in sizes of its letters; between boxes that cover a line, in points.
_GAP, _STEP = 0.2, 3.0
# Heights of a text by which it may stand above or below its mark.
_FAR = (2.4, 3.2)
# A name is nearer to its mark than this share of how far others are, or a line leads there.
_APART = 0.7
# As many boxes of a line as it is worth to stand apart from the marks of others.
_DEAR = 8
# Where a name may be broken: between its words, parts and parameters.
_PIECES = re.compile(r"\[?[^\[,+_ ]*[,+_ ]?")


@cache
def width_of(text: str, points: float) -> float:
    """Return how wide a text is; of several lines the widest."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=points)
    lines = text.split("\n")
    return max(text_to_path.get_text_width_height_descent(one, font, False)[0] for one in lines)


def height_of(text: str, points: float) -> float:
    """Return how high a text is."""
    return LEADING * points * (1 + text.count("\n"))


def fitted(text: str, points: float, room: float) -> str:
    """Return a text without its middle where it is too wide: both ends tell names apart."""
    kept = len(text)
    cut = text
    while width_of(cut, points) > room and kept > 2:
        kept -= 1
        cut = f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
    return cut


def folded(text: str, points: float, room: float, lines: int = 2) -> str:
    """Return a name in as few lines as it needs, and without what does not fit into so many."""
    told = [""]
    for piece in filter(None, _PIECES.findall(text)):
        wide = width_of(told[-1] + piece, points) > room
        if told[-1] and wide and len(told) < lines:
            told.append("")
        told[-1] += piece
    return "\n".join(fitted(line, points, room) for line in told)


def along(places: Sequence[tuple[float, float]], size: float) -> Iterator[Box]:
    """Yield boxes that cover a line, so that no text runs across it."""
    for (x, y), (to_x, to_y) in pairwise(places):
        steps = 1 + int(max(abs(to_x - x), abs(to_y - y)) / _STEP)
        for step in range(steps + 1):
            share = step / steps
            yield Box.around(x + share * (to_x - x), y + share * (to_y - y), size, size)


class Wish(NamedTuple):
    """A text that wants to stand by a place, in points, with so much of it kept `clear`."""

    text: str
    x: float
    y: float
    clear: float


def size_of(axes: Axes) -> tuple[float, float]:
    """Return how wide and how high axes are that are laid out."""
    area = axes.get_window_extent()
    return area.width / _dots(axes), area.height / _dots(axes)


def _dots(axes: Axes) -> float:
    return axes.get_figure(root=True).dpi / INCH  # type: ignore[union-attr]


class Lettering:
    """The room on axes that are laid out, in points from their lower left corner.

    No text may cover marks and other texts; lines are avoided.
    """

    def __init__(self, axes: Axes, points: float) -> None:
        self.axes, self.points, self.gap = axes, points, _GAP * points
        self.frame = Box(0.0, 0.0, *size_of(axes))
        self._marks: list[Box] = []
        self._texts: list[Box] = []
        self._lines: list[Box] = []

    @property
    def transform(self) -> Any:
        """Return what turns these points into those of the figure, however large that becomes."""
        from matplotlib.transforms import Affine2D

        whole = Affine2D().scale(1 / self.frame.right, 1 / self.frame.high)
        return whole + self.axes.transAxes

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a place of the axes' own numbers is."""
        corner, dots = self.axes.get_window_extent(), _dots(self.axes)
        across, up = self.axes.transData.transform((x, y))
        return float(across - corner.x0) / dots, float(up - corner.y0) / dots

    # What is there --------------------------------------------------------------------------------

    def add_mark(
        self, x: float, y: float, size: float, arrow: tuple[float, float] = (0, 0)
    ) -> None:
        """Keep a mark free, and the arrow from it that reaches so far across and up."""
        across, up = arrow
        half, low, high = size / 2, min(0, up), max(0, up)
        left, right = min(0, across), max(0, across)
        box = Box(x + left - half, y + low - half, x + right + half, y + high + half)
        self._marks.append(box)

    def add_line(self, places: Sequence[tuple[float, float]], size: float) -> None:
        """Keep a line free where that can be done."""
        self._lines += (box for box in along(places, size) if box.meets(self.frame))

    # Where there is room --------------------------------------------------------------------------

    def find(self, wish: Wish) -> Box | None:
        """Return where a text stands, None where there is no room; who comes first is served first.

        A text crosses a line, or stands by the mark of another, only if it cannot be helped.
        """
        text, x, y, clear = wish
        label = Label(x, y, *self._size(text), clear + self.gap)
        near = [_around(mark, self.points) for mark in self._marks if not mark.spans(x, y)]
        taken, avoided = [*self._marks, *self._texts], [*self._lines, *_DEAR * near]
        free = (
            (place, cost)
            for place, cost in ways(label, _FAR)
            if self.frame.holds(place) and not any(map(place.meets, taken))
        )
        # Neither may the thin line that leads to a name run through another one.
        clean = ((place, cost) for place, cost in free if not self._runs(place, x, y))
        if box := cheapest(clean, avoided):
            self._texts += [box, *self._leader(box, x, y)]
        return box

    def _runs(self, box: Box, x: float, y: float) -> bool:
        """Say whether the line that leads to a name runs through another one."""
        return any(part.meets(text) for part in self._leader(box, x, y) for text in self._texts)

    def _leader(self, box: Box, x: float, y: float) -> list[Box]:
        """Return what the thin line covers that leads from a name to a mark that is not near."""
        others = (((one.left + one.right) / 2, (one.low + one.high) / 2) for one in self._marks)
        nearest = min((_distance(box, *one) for one in others if one != (x, y)), default=math.inf)
        if _distance(box, x, y) <= min(self.points, _APART * nearest):
            return []
        # What lies under mark and text is their own.
        return list(along([_nearest(box, x, y), (x, y)], 1.0))[1:-1]

    def find_along(self, text: str, places: Sequence[tuple[float, float]]) -> Box | None:
        """Return where a text stands by a line, at its end if there is room: nothing is crossed."""
        width, height = self._size(text)
        right, up = width / 2 + 2 * self.gap, height / 2 + 2 * self.gap
        sides = [(right, 0), (0, -up), (0, up), (right, up), (-right, -up)]
        sides += [(right, -up), (-right, up), (-right, 0)]
        spots = ((x + dx, y + dy) for x, y in (*places[::-1], *_halves(places)) for dx, dy in sides)
        return self._first((Box.around(*spot, width, height) for spot in spots), self.frame)

    def find_inside(self, text: str, area: Box) -> Box | None:
        """Return where a text stands in a corner of an area, if one is empty."""
        width, height = self._size(text)
        across = area.right - self.gap - width / 2, area.left + self.gap + width / 2
        up = area.high - self.gap - height / 2, area.low + self.gap + height / 2
        return self._first((Box.around(x, y, width, height) for y in up for x in across), area)

    def _first(self, boxes: Iterable[Box], area: Box) -> Box | None:
        """Return the first box in an area that is near to nothing; it is taken from here on."""
        near = [_around(mark, self.points) for mark in self._marks]
        for box in boxes:
            full = chain(near, self._texts, self._lines)
            if area.holds(box) and not any(map(box.meets, full)):
                self._texts.append(box)
                return box
        return None

    def _size(self, text: str) -> tuple[float, float]:
        # A point of air at both ends.
        return width_of(text, self.points) + 2, height_of(text, self.points)

    # What is written ------------------------------------------------------------------------------

    def write(self, text: str, box: Box, **style: Any) -> None:
        """Write a text into its box."""
        looks: Looks = {"color": INK, "ha": "left", "linespacing": LEADING, "zorder": 2.5} | style
        if any(map(box.meets, self._lines)):
            # What runs behind letters is faint there.
            looks["bbox"] = {"facecolor": "white", "alpha": 0.6, "pad": 0.5, "linewidth": 0}
        made = self.axes.annotate(
            text,
            (box.right - 1 if looks["ha"] == "right" else box.left + 1, (box.low + box.high) / 2),
            xycoords="axes points",
            va="center",
            fontsize=self.points,
            annotation_clip=False,
            parse_math=False,
            **looks,
        )
        made.set_in_layout(False)

    def name(self, text: str, box: Box, x: float, y: float) -> None:
        """Write the name of a mark; a thin line leads to one that is not the nearest, or far."""
        self.write(text, box, ha="right" if box.right < x else "left")
        if self._leader(box, x, y):
            self.lead(_nearest(box, x, y), (x, y), PALE)

    def lead(self, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
        """Draw a thin line between a mark and its text."""
        looks: Looks = {"color": colour, "linewidth": self.points / 16, "solid_capstyle": "butt"}
        self.draw(*zip(start, end, strict=True), zorder=1.9, **looks)

    def draw(self, xs: Sequence[float], ys: Sequence[float], **looks: Any) -> None:
        """Draw a line or a mark at these points, which moves nothing, and which no edge cuts."""
        for line in self.axes.plot(xs, ys, transform=self.transform, clip_on=False, **looks):
            line.set_in_layout(False)


def _around(mark: Box, points: float) -> Box:
    """Return what is so near to a mark that a text there seems to be its name."""
    near = points / 2
    return Box(mark.left - near, mark.low - near, mark.right + near, mark.high + near)


def _nearest(box: Box, x: float, y: float) -> tuple[float, float]:
    """Return the place of a text's box that is nearest to another one, as letters fill it."""
    return min(max(x, box.left), box.right), min(max(y, box.low + 1.5), box.high - 1.5)


def _distance(box: Box, x: float, y: float) -> float:
    return math.dist(_nearest(box, x, y), (x, y))


def _halves(places: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the middles of the parts of a line, the last ones first."""
    for (x, y), (to_x, to_y) in reversed(list(pairwise(places))):
        yield (x + to_x) / 2, (y + to_y) / 2
