"""SVG as text: elements, scales, axes and the room that words take. Colours are the page's."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

from dataeff.report.placing import Box
from dataeff.report.styles import Style

SMALL, NORMAL = 11.5, 12.5
"""Sizes of letters."""

# In the widest of common fonts, as shares of the size: what fits there fits everywhere.
_WIDTHS = {"ijl.,:;|'! ": 0.37, "ftr[]()": 0.43, "mwMW=%@+<>~": 0.9}
_CAPITAL, _USUAL, _BOLD = 0.72, 0.63, 1.1

_SHAPES = {
    "circle": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "square": "M-4.5 -4.5h9v9h-9z",
    "diamond": "M0 -6l6 6l-6 6l-6 -6z",
    "triangle-up": "M0 -5.5l6 10.5h-12z",
    "triangle-down": "M0 5.5l6 -10.5h-12z",
    "cross": "M-2 -5.5h4v3.5h3.5v4h-3.5v3.5h-4v-3.5h-3.5v-4h3.5z",
    "x": "M-4 -6L0 -2.5L4 -6L6.5 -3.5L3 0L6.5 3.5L4 6L0 2.5L-4 6L-6.5 3.5L-3 0L-6.5 -3.5z",
    "star": "M0 -6.5l1.8 4.2l4.6 .4l-3.5 3l1 4.5l-3.9 -2.4l-3.9 2.4l1 -4.5l-3.5 -3l4.6 -.4z",
}
_DASHES = {"dot": "2 3", "dash": "6 3", "dashdot": "6 3 2 3", "longdash": "10 3"}


class Frame(NamedTuple):
    """A drawing's size, and the margins around what it plots."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @property
    def inside(self) -> Box:
        """Return what is within the margins."""
        return Box(self.left, self.top, self.width - self.right, self.height - self.bottom)

    @property
    def is_wide(self) -> bool:
        """Say whether it is for a desktop, and not for a phone."""
        return self.width > NARROW


WIDE, NARROW = 660.0, 350.0
"""Widths of drawings for desktops and for phones, in pixels: letters are not scaled."""


class Scale(NamedTuple):
    """Where values stand on a drawing: from `first` to `last` as they go from `low` to `high`."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        share = (value - self.low) / (self.high - self.low or 1.0)
        return self.first + share * (self.last - self.first)

    def ticks(self, apart: float) -> list[float]:
        """Return round values on it, at least so many pixels apart."""
        most = max(1.0, abs(self.last - self.first) / apart)
        rough = (self.high - self.low) / most
        if not rough > 0:
            return [self.low]
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough * (1 - 1e-9))
        start = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - start + 1
        return [round((start + i) * step, 10) + 0.0 for i in range(count)]


def tag(name: str, *inside: str, **attributes: Any) -> str:
    """Return an element; `class_` is class, `aria_label` aria-label, what is None is left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{told}>{''.join(inside)}</{name}>" if inside else f"<{name}{told}/>"


def _value(value: Any) -> str:
    return brief(value) if isinstance(value, float) else escape(str(value))


def brief(value: float) -> str:
    """Return a place on a drawing in few letters."""
    return f"{value:z.1f}".removesuffix(".0")


def words(text: object, x: float, y: float, **attributes: Any) -> str:
    """Return a text, whose beginning stands there unless `text_anchor` says otherwise."""
    return tag("text", escape(str(text)), x=float(x), y=float(y), **attributes)


def width_of(text: str, size: float = NORMAL, bold: bool = False) -> float:
    """Return the most room that a text takes in a common font."""
    total = sum(map(_letter, text))
    return size * total * (_BOLD if bold else 1.0)


def _letter(letter: str) -> float:
    known = (width for letters, width in _WIDTHS.items() if letter in letters)
    # What is written in other scripts may be as wide as it is high.
    usual = _CAPITAL if letter.isupper() else _USUAL if ord(letter) < 0x2E80 else 1.0
    return next(known, usual)


def shortened(text: str, room: float, size: float = NORMAL, bold: bool = False) -> str:
    """Return a text that fits: its middle gives way, for both ends tell names apart."""
    if width_of(text, size, bold) <= room:
        return text
    for kept in range(len(text) - 1, 1, -1):
        tail = kept // 2
        cut = f"{text[: kept - tail]}…{text[len(text) - tail :]}"
        if width_of(cut, size, bold) <= room:
            return cut
    return "…"


def mark(style: Style, x: float, y: float, size: float = 1.0) -> str:
    """Return the mark of a strategy."""
    place = f"translate({brief(x)} {brief(y)})" + (f" scale({size:g})" if size != 1 else "")
    kind = f"mark {style.colour}" + (" open" if style.is_open else "")
    return tag("path", class_=kind, d=_SHAPES[style.symbol], transform=place)


def icon(style: Style, line: bool = False) -> str:
    """Return the mark of a strategy for a text, on its line if asked."""
    width = 40.0 if line else 14.0
    drawn = [path_of([(0, 7), (width, 7)], style)] if line else []
    return tag(
        "svg",
        *drawn,
        mark(style, width / 2, 7.0),
        class_="icon",
        width=width,
        height=14.0,
        viewBox=f"0 0 {brief(width)} 14",
        aria_hidden="true",
    )


def path_of(points: Iterable[tuple[float, float]], style: Style | None, **more: Any) -> str:
    """Return a line through points, in the style of a strategy."""
    kind = {"class_": f"line {style.colour}"} if style else {}
    dashes = {"stroke_dasharray": _DASHES.get(style.dash)} if style else {}
    return tag("path", d=_through(points), **kind, **dashes, **more)


def area(points: Iterable[tuple[float, float]], **more: Any) -> str:
    """Return the area within points."""
    return tag("path", d=f"{_through(points)}z", **more)


def _through(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{brief(x)} {brief(y)}" for x, y in points)


def box(at: Box, **more: Any) -> str:
    """Return a rectangle."""
    size = {"width": float(at.right - at.left), "height": float(at.high - at.low)}
    return tag("rect", x=float(at.left), y=float(at.low), **size, **more)


# Axes and drawings -------------------------------------------------------------------------------


def across_axis(scale: Scale, inside: Box, form: Callable[[float], str]) -> Iterator[str]:
    """Yield short ticks below a plot, and what they stand for."""
    for value in scale.ticks(58):
        x = scale(value)
        ends = {"x1": x, "x2": x, "y1": inside.high, "y2": inside.high + 4}
        yield tag("line", class_="tick", **ends)
        yield words(form(value), x, inside.high + 17, class_="axis", text_anchor="middle")


def up_axis(scale: Scale, inside: Box, form: Callable[[float], str]) -> Iterator[str]:
    """Yield lines across a plot, and what they stand for."""
    for value in scale.ticks(44):
        y = scale(value)
        yield tag("line", class_="grid", x1=inside.left, x2=inside.right, y1=y, y2=y)
        yield words(form(value), inside.left - 6, y + 4, class_="axis", text_anchor="end")


def titles(frame: Frame, across: str, up: str) -> Iterator[str]:
    """Yield what the axes are; that of the upward one lies flat above it, for want of room."""
    inside = frame.inside
    middle = (inside.left + inside.right) / 2
    yield words(across, middle, frame.height - 6, class_="axis", text_anchor="middle")
    if up:
        yield words(up, 2, 12, class_="axis")


def drawing(frame: Frame, label: str, parts: Sequence[str], role: str = "img") -> str:
    """Return a whole drawing, for a desktop or for a phone by its width."""
    return tag(
        "svg",
        *parts,
        class_=f"chart {'wide' if frame.is_wide else 'narrow'}",
        viewBox=f"0 0 {brief(frame.width)} {brief(frame.height)}",
        width=float(frame.width),
        height=float(frame.height),
        role=role,
        aria_label=label,
    )
