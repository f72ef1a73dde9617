"""Verdict cards of the page: what was shown of a strategy, and how sure that is."""

import math
import re
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

import pandas as pd

from dataeff.report.frames import Record, records
from dataeff.report.stats import interval_of
from dataeff.report.web.canvas import Style, Styles
from dataeff.report.words import POINTS, TIMES, on_page

MOST_CARDS = 12
"""More cards than this are folded away."""

# A tone has a colour and a shape, so that neither is needed to read it.
_TONES = {
    ("good", "▲"): ("faster and no worse", "faster and better", "confirmed"),
    ("trade", "◆"): ("faster but less accurate", "faster but worse", "slower but better"),
    ("bad", "▼"): (
        *("slower but no worse", "slower and less accurate", "slower and worse", "not confirmed"),
        *("slower, accuracy open", "less accurate, speed open", "worse, speed open"),
        *("less accurate, speed not judged", "worse, speed not judged"),
    ),
    ("open", "●"): (
        *("faster, accuracy open", "better, speed open", "no worse, speed open"),
        *("better, speed not judged", "no worse, speed not judged"),
    ),
}
_SHAPES = {
    "circle": "M3 8a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "square": "M3.5 3.5h9v9h-9z",
    "diamond": "M8 2l6 6-6 6-6-6z",
    "triangle-up": "M8 2.5l6 10.5h-12z",
    "triangle-down": "M8 13.5l6-10.5h-12z",
    "cross": "M6 2.5h4v3.5h3.5v4h-3.5v3.5h-4v-3.5h-3.5v-4h3.5z",
    "x": "M4.5 2L8 5.5 11.5 2 14 4.5 10.5 8l3.5 3.5-2.5 2.5L8 10.5 4.5 14 2 11.5 5.5 8 2 4.5z",
    "star": "M8 1.5l1.8 4.2 4.6.4-3.5 3 1 4.5-3.9-2.4-3.9 2.4 1-4.5-3.5-3 4.6-.4z",
}
_DASHES = {"solid": "", "dot": "2 3", "dash": "6 3", "dashdot": "6 3 2 3", "longdash": "10 3"}


def breakable(text: object) -> str:
    """Escape a text; a long strategy may break between its parts."""
    return re.sub(r"(?<=[,+])(?=[a-z])|(?<=\w)(?=\[)", "<wbr>", escape(str(text)))


def verdict(line: Record) -> str:
    """Return the headline of a line, with its shape; what has no runs says so."""
    return toned(line["verdict"] or ("no verdict" if line["n"] else "no finished run yet"))


def toned(text: str) -> str:
    """Return what is said of a strategy, with the shape and the colour of its tone."""
    found = (tone for tone, texts in _TONES.items() if text in texts)
    tone, shape = next(found, ("open", "○"))
    return f'<span class="verdict {tone}"><i aria-hidden="true">{shape}</i> {escape(text)}</span>'


def mark(style: Style | None, line: bool = False) -> str:
    """Return the marker of a strategy as the charts draw it, for its line if asked."""
    if style is None:
        return ""
    empty = style.symbol.endswith("-open")
    shape = _SHAPES[style.symbol.removesuffix("-open")]
    width, shift = (44, 14) if line else (16, 0)
    dash = _DASHES.get(style.dash, "10 3 2 3")
    stroke = f'<path class="line" d="M0 8h44" stroke-dasharray="{dash}"/>' if line else ""
    return (
        f'<svg class="mark{" empty" if empty else ""}" style="--mark:var(--{style.colour})" '
        f'width="{width}" height="16" viewBox="0 0 {width} 16" aria-hidden="true">{stroke}'
        f'<path transform="translate({shift})" d="{shape}"/></svg>'
    )


class Strip(NamedTuple):
    """Where cards draw a number: its column, title and form, what counts as same, and the ends."""

    column: str
    title: str
    form: str
    zone: tuple[float, float]
    ends: tuple[float, float]

    def span(self, kind: str, first: float, last: float) -> str:
        """Return a part of the strip; what lies outside ends where it does."""
        low, high = self.ends
        start, end = (min(max(100 * (x - low) / (high - low), 0), 100) for x in (first, last))
        width = "" if kind == "dot" else f";width:{end - start:.1f}%"
        return f'<i class="{kind}" style="left:{start:.1f}%{width}"></i>'


def cards(part: pd.DataFrame, styles: Styles, reference: str, margin: float) -> str:
    """Return the cards of one table, methods first, controls small; those past the cap folded."""
    lines = [line for line in records(part) if line["strategy"] != reference]
    strips = [
        _strip(part["speedup"], "speed-up", TIMES, (1.0, 1.0)),
        _strip(part["difference"], "accuracy, points", POINTS, (-margin, margin)),
    ]
    methods, controls = (
        [_card(line, styles, strips) for line in lines if bool(line["control"]) is is_so]
        for is_so in (False, True)
    )
    told = _folded(methods, "cards", "strategies")
    if controls:
        told += '<h3 class="kind">Controls: yardsticks at a known cost</h3>'
        told += _folded(controls, "cards small", "controls")
    return told or "<p>Only the reference has been run so far: there is nothing to compare yet.</p>"


def _strip(column: pd.Series, title: str, form: str, zone: tuple[float, float]) -> Strip:
    """Return a strip that reaches over the estimates of all cards, and some room."""
    low, high = min(*column.dropna(), *zone), max(*column.dropna(), *zone)
    room = 0.3 * (high - low) or 0.1
    return Strip(str(column.name), title, form, zone, (low - room, high + room))


def _folded(made: list[str], kind: str, what: str) -> str:
    if not made:
        return ""
    told = f'<div class="{kind}">{"".join(made[:MOST_CARDS])}</div>'
    if rest := made[MOST_CARDS:]:
        told += (
            f"<details><summary>Show all {len(made)} {what}</summary>"
            f'<div class="{kind}">{"".join(rest)}</div></details>'
        )
    return told


def _card(line: Record, styles: Styles, strips: Iterable[Strip]) -> str:
    figures = "".join(
        _figure(line, strip) for strip in strips if not math.isnan(line[strip.column])
    )
    texts = [
        ("says", line["sentence"]),
        ("versus", f"{line['against_line'].capitalize()}." if line["against_line"] else ""),
        ("versus", "" if math.isnan(line["oracle"]) else "Part of its work is off the clock."),
        ("versus", line["trouble"]),
        ("versus", line["note"]),
        ("versus", f"Contended: {line['contended']:.0f} runs" if line["contended"] > 0 else ""),
    ]
    told = "".join(f'<p class="{kind}">{breakable(text)}</p>' for kind, text in texts if text)
    return (
        f'<article class="card"><p class="head">{verdict(line)}</p>'
        f"<h4>{mark(styles.get(line['strategy']))} {breakable(line['strategy'])}</h4>"
        f'<div class="figures">{figures}</div>{told}</article>'
    )


def _figure(line: Record, strip: Strip) -> str:
    mean, low, high = interval_of(line, strip.column)
    drawn = strip.span("zone", *strip.zone)
    if not math.isnan(low):
        drawn += strip.span("reach", low, high)
    drawn += strip.span("dot", mean, mean)
    return (
        f"<div><small>{strip.title}</small> <b>{on_page(mean, strip.form)}</b>"
        f'<div class="strip" aria-hidden="true">{drawn}</div></div>'
    )
