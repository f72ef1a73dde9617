"""The page of a method: does it hold elsewhere? What each table says of it, one beside another."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from dataeff.plural import counted
from dataeff.report.frames import Record
from dataeff.report.site.gather import Gallery, Seen
from dataeff.report.site.index import SURE
from dataeff.report.stats import Interval, interval_of
from dataeff.report.trade import Range
from dataeff.report.web import svg
from dataeff.report.web.five import five_cells, five_columns
from dataeff.report.web.svg import NARROW, SMALL, WIDE, Frame, Scale, tag, words
from dataeff.report.web.texts import LEGEND, breakable, command
from dataeff.report.words import listed, points
from dataeff.report.worth import BEATS, KEEPS, SAVES

_SAID = {
    SAVES: "saves time",
    KEEPS: "loses no more than may be lost",
    BEATS: "beats just training less",
}
_ROW, _TOP, _FOOT = 40.0, 6.0, 40.0
# What an interval may reach beyond the means before it is cut off, as a share of their range.
_ROOM = 0.6


def method_body(gallery: Gallery, name: str) -> str:
    """Return the body of the page of a method."""
    seen = gallery.seen(name)
    return (
        f"<h1>{escape(verdict(name, [one.line for one in seen]))}</h1>"
        f'<p class="soft">Proven or likely, of {counted(len(seen), "line")} in '
        f"{counted(len({one.hung.address for one in seen}), 'table')}.</p>"
        f'<div class="two">{_chart(seen)}<div class="methods">'
        f"{five_columns('where', map(_row, seen))}"
        f'<p class="soft">{LEGEND}</p></div></div>'
        f"<p>What it is, and what may be set:</p>{command(f'dataeff strategies {name}')}"
    )


def verdict(name: str, lines: Sequence[Record]) -> str:
    """Return in one sentence how often a method does what it is for."""
    told = []
    for question, said in _SAID.items():
        asked = [line[question] for line in lines if line[question]]
        if asked:
            told.append(f"{said} in {sum(word in SURE for word in asked)} of {len(asked)}")
    against = [line[BEATS] for line in lines]
    if beaten := sum(word.endswith(" not") for word in against):
        told[-1] += f" and is beaten by it in {beaten}"
    return f"{name} {', '.join(told)}." if told else f"{name}: nothing can be said yet."


def _row(seen: Seen) -> str:
    hung, line = seen
    anchor = hung.shown.anchors[line["strategy"]]
    name = line["strategy"]
    told = (
        f'<a href="../{escape(hung.page)}#{anchor}" title="{escape(name)}">'
        f"{breakable(hung.shown.labels[name])}</a>"
        f"<small>{breakable(hung.title)} · {breakable(hung.machine)}, "
        f"{counted(int(line['n']), 'seed')}</small>"
    )
    return five_cells(line, told, 0)


# The chart ---------------------------------------------------------------------------------------


def _chart(seen: Sequence[Seen]) -> str:
    """Draw what a method is worth in each table: against training less, or the reference."""
    for column, axis in (("gain", "against just training less, points"), ("difference", "")):
        rows = [(one, interval_of(one.line, column)) for one in seen]
        rows = [(one, found) for one, found in rows if math.isfinite(found.mean)]
        if rows:
            about = axis or "accuracy against the reference, points"
            drawn = "".join(_drawn(width, rows, about) for width in (WIDE, NARROW))
            save = '<button type="button" data-save="elsewhere" hidden>SVG</button>'
            return f'<figure class="trade" id="elsewhere">{drawn}{save}</figure>'
    return "<p>There is nothing to compare yet.</p>"


def _drawn(width: float, rows: Sequence[tuple[Seen, Interval]], axis: str) -> str:
    frame = Frame(width, _TOP + _ROW * len(rows) + _FOOT, 12, 12, _TOP, _FOOT)
    inside, reach = frame.inside, _reach([found for _, found in rows])
    x = Scale(*reach, inside.left, inside.right)
    zero = {"x1": x(0.0), "x2": x(0.0), "y1": inside.low, "y2": inside.high}
    parts = [
        *svg.across_axis(x, inside, lambda v: "same" if v == 0 else f"{v:+g}"),
        *svg.titles(frame, axis, ""),
        tag("line", class_="zero", **zero),
    ]
    for place, row in enumerate(rows):
        parts += _line(row, _TOP + place * _ROW, x, reach)
    said = listed(f"{one.hung.title} {found.mean:+.1f}" for one, found in rows)
    return svg.drawing(frame, f"Points {axis.removesuffix(', points')}: {said}", parts)


def _reach(found: Sequence[Interval]) -> Range:
    """Return a range for all means, and for the ends of intervals that are not far off."""
    means = [0.0, *(one.mean for one in found)]
    room = max(1.0, _ROOM * (max(means) - min(means)))
    ends = [end for one in found for end in one[1:] if math.isfinite(end)]
    low = min([*means, *(end for end in ends if end > min(means) - room)])
    high = max([*means, *(end for end in ends if end < max(means) + room)])
    pad = 0.07 * (high - low)
    return Range(low - pad, high + pad)


def _line(row: tuple[Seen, Interval], top: float, x: Scale, reach: Range) -> Iterator[str]:
    """Yield a table: its name, and below it its interval."""
    (hung, line), found = row
    style, middle = hung.shown.styles[line["strategy"]], top + 28
    name = f"{hung.title}: {hung.shown.labels[line['strategy']]}"
    room = x.last - x.first
    yield words(svg.shortened(name, room, SMALL), x.first, top + 14, class_="axis")
    low, high = (x(reach.clipped(end)) for end in found[1:])
    if math.isfinite(low - high):
        yield tag("line", class_=f"reach {style.colour}", x1=low, x2=high, y1=middle, y2=middle)
    told = f"{name}: {points(found)}"
    yield tag("g", tag("title", escape(told)), svg.mark(style, x(found.mean), middle))
