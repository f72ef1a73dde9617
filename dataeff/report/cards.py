"""Verdict cards of the page: what is claimed of a strategy, and how sure that is."""

from __future__ import annotations

import math
import re
from html import escape
from typing import Any

import pandas as pd

from dataeff.report.charts import Look, Looks

Row = dict[str, Any]

MOST_CARDS = 12
"""More cards than this are folded away."""

# A tone has a colour and a shape, so that neither is needed to read it.
_GOOD, _TRADE, _BAD, _OPEN = ("good", "▲"), ("trade", "◆"), ("bad", "▼"), ("open", "○")
_TONES = {
    "faster and no worse": _GOOD,
    "faster and better": _GOOD,
    "better": _GOOD,
    "no worse": ("open", "●"),
    "faster but worse": _TRADE,
    "slower but better": _TRADE,
    "slower": _BAD,
    "worse": _BAD,
    "slower and worse": _BAD,
    "confirmed": _GOOD,
    "not confirmed": _BAD,
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


def claim(row: Row) -> str:
    """Return the headline of a row, with its shape; what has no runs says so."""
    return toned(row["claim"] or ("no verdict" if row["n"] else "no finished run yet"))


def toned(text: str) -> str:
    """Return what is said of a strategy, with the shape and the colour of its tone."""
    tone, shape = _TONES.get(text, _OPEN)
    return f'<span class="claim {tone}"><i aria-hidden="true">{shape}</i> {escape(text)}</span>'


def mark(look: Look | None, line: bool = False) -> str:
    """Return the marker of a strategy as the charts draw it, for its line if asked."""
    if look is None:
        return ""
    empty = look.symbol.endswith("-open")
    shape = _SHAPES[look.symbol.removesuffix("-open")]
    width, shift = (44, 14) if line else (16, 0)
    dash = _DASHES.get(look.dash, "10 3 2 3")
    stroke = f'<path class="line" d="M0 8h44" stroke-dasharray="{dash}"/>' if line else ""
    return (
        f'<svg class="mark{" empty" if empty else ""}" style="--mark:var(--{look.colour})" '
        f'width="{width}" height="16" viewBox="0 0 {width} 16" aria-hidden="true">{stroke}'
        f'<path transform="translate({shift})" d="{shape}"/></svg>'
    )


def cards(part: pd.DataFrame, looks: Looks, reference: str, margin: float) -> str:
    """Return the cards of one table, methods first, controls small; those past the cap folded."""
    rows = [row for row in part.to_dict("records") if row["strategy"] != reference]
    scales = _scale(part, "speedup", 1.0), _scale(part, "difference", margin, -margin)
    methods = [_card(row, looks, scales, margin) for row in rows if not row["control"]]
    controls = [_card(row, looks, scales, margin) for row in rows if row["control"]]
    told = _folded(methods, "cards", "strategies")
    if controls:
        told += '<h3 class="kind">Controls: yardsticks at a known cost</h3>'
        told += _folded(controls, "cards small", "controls")
    return told or "<p>Only the reference has been run so far: there is nothing to compare yet.</p>"


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


def _card(row: Row, looks: Looks, scales: tuple[Scale, Scale], margin: float) -> str:
    place = "" if math.isnan(row["rank"]) else f'<span class="rank">rank {row["rank"]:.0f}</span>'
    figures = ""
    if not math.isnan(row["speedup"]):
        figures += _figure(row, "speedup", f"{row['speedup']:.2f}×", "speed-up", scales[0], (1, 1))
    if not math.isnan(row["difference"]):
        # Adding nothing turns what rounds to -0.00 into +0.00.
        value, zone = f"{round(row['difference'], 2) + 0.0:+.2f}", (-margin, margin)
        figures += _figure(row, "difference", value, "accuracy, points", scales[1], zone)
    texts = [
        ("says", row["verdict"]),
        ("versus", f"Controls: {row['against_controls']}" if row["against_controls"] else ""),
        ("versus", "" if math.isnan(row["oracle"]) else "Not ranked: part is off the clock."),
        ("versus", row["trouble"]),
        ("versus", row["note"]),
        ("versus", f"Contended: {row['contended']:.0f} runs" if row["contended"] > 0 else ""),
    ]
    told = "".join(f'<p class="{kind}">{breakable(text)}</p>' for kind, text in texts if text)
    return (
        f'<article class="card"><p class="head">{claim(row)}{place}</p>'
        f"<h4>{mark(looks.get(row['strategy']))} {breakable(row['strategy'])}</h4>"
        f'<div class="figures">{figures}</div>{told}</article>'
    )


Scale = tuple[float, float]


def _scale(part: pd.DataFrame, column: str, *also: float) -> Scale:
    """Return from where to where the strips of all cards reach: all estimates, and some room."""
    values = [*part[column].dropna(), *also]
    low, high = min(values), max(values)
    room = 0.3 * (high - low) or 0.1
    return low - room, high + room


def _figure(row: Row, column: str, value: str, name: str, scale: Scale, zone: Scale) -> str:
    def at(number: float) -> float:
        return min(max(100 * (number - scale[0]) / (scale[1] - scale[0]), 0), 100)

    low, high = row[f"{column}_low"], row[f"{column}_high"]
    start, end = at(zone[0]), at(zone[1])
    strip = f'<i class="zone" style="left:{start:.1f}%;width:{end - start:.1f}%"></i>'
    if not math.isnan(low):
        strip += (
            f'<i class="reach" style="left:{at(low):.1f}%;width:{at(high) - at(low):.1f}%"></i>'
        )
    strip += f'<i class="dot" style="left:{at(row[column]):.1f}%"></i>'
    return (
        f'<div><small>{name}</small> <b>{value}</b><div class="strip" aria-hidden="true">'
        f"{strip}</div></div>"
    )
