"""What all charts of the page share: plain plotly figures, as dicts, and how strategies are drawn.

Colours are names such as `<ink>`, which the page replaces by the colours of its theme. No text of a
strategy can be mistaken for one, because `plain` leaves no angle bracket in it.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

Figure = dict[str, Any]

# Six colours and seven shapes have no common divisor: 42 styles before one comes again.
COLOURS = ("c1", "c2", "c3", "c4", "c5", "c6")
SYMBOLS = ("square", "diamond", "triangle-up", "cross", "triangle-down", "x", "star")
DASHES = ("solid", "dash", "dashdot", "longdash", "longdashdot")


class Style(NamedTuple):
    """How one strategy is drawn, in every chart of a page; `key` tells its traces from others."""

    key: int
    colour: str
    symbol: str
    dash: str
    width: float = 2


Styles = Mapping[str, Style]


class Chart(NamedTuple):
    """A figure and its words: `label` says it to those who cannot see it, `table` has numbers."""

    name: str
    heading: str
    caption: str
    label: str
    figure: Figure
    height: int
    wide: bool = False
    table: pd.DataFrame | None = None


def styles(strategies: Iterable[str], reference: str, controls: set[str]) -> dict[str, Style]:
    """Give every strategy a style; the reference is neutral, controls are open and dotted."""
    others = [name for name in dict.fromkeys(strategies) if name != reference]
    given = {reference: Style(0, "ink", "circle", "solid", 2.5)}
    for place, name in enumerate(others):
        colour, symbol = COLOURS[place % len(COLOURS)], SYMBOLS[place % len(SYMBOLS)]
        if name in controls:
            given[name] = Style(place + 1, colour, f"{symbol}-open", "dot", 1.5)
        else:
            given[name] = Style(place + 1, colour, symbol, DASHES[place % len(DASHES)])
    return given


def plain(text: object) -> str:
    """Return a text that plotly shows as it is: no tags, no entities, no formulas."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("$", "&#36;").replace("%{", "&#37;{")


def numbers(values: Iterable[float], digits: int = 3) -> list[float | None]:
    """Return numbers as JSON has them: rounded, and None for what is not finite."""
    return [round(float(v), digits) if math.isfinite(v) else None for v in values]


def scatter(x: Iterable[float], y: Iterable[float], mode: str, **more: Any) -> Figure:
    """Return points, or a line through them, as `mode` says."""
    return {"type": "scatter", "mode": mode, "x": numbers(x), "y": numbers(y)} | more


def axis(**more: Any) -> Figure:
    """Return an axis in the style of the page."""
    style = {"gridcolor": "<line>", "linecolor": "<line>", "zeroline": False, "automargin": True}
    return style | {"tickfont": {"color": "<soft>"}, "fixedrange": False} | more


def layout(x: str, y: str = "", **more: Any) -> Figure:
    """Return a layout whose vertical title lies flat above the axis, where a phone has room."""
    clear, font = "rgba(0,0,0,0)", {"size": 12, "color": "<ink>"}
    label = {"bgcolor": "<card>", "bordercolor": "<line>", "font": font, "align": "left"}
    style = {
        "font": font | {"family": "system-ui, sans-serif"},
        "paper_bgcolor": clear,
        "plot_bgcolor": clear,
        "margin": {"l": 44, "r": 12, "t": 30, "b": 46},
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": label | {"namelength": -1},
        "uirevision": "kept",
        "xaxis": axis(title=title(x)),
        "yaxis": axis(),
        "annotations": [note(y, x=0, y=1, xshift=-38, yshift=8)] if y else [],
    }
    return style | more


def title(text: str) -> Figure:
    """Return the title of an axis."""
    return {"text": text, "font": {"color": "<soft>", "size": 12}, "standoff": 8}


def note(text: str, **more: Any) -> Figure:
    """Return a text on a chart, at the left of and above its place unless told otherwise."""
    style = {"text": text, "showarrow": False, "xref": "paper", "yref": "paper", "align": "left"}
    style |= {"xanchor": "left", "yanchor": "bottom", "font": {"color": "<soft>", "size": 12}}
    return style | more


def dotted(**more: Any) -> Figure:
    """Return a thin dotted line."""
    return {"type": "line", "line": {"color": "<soft>", "width": 1, "dash": "dot"}} | more
