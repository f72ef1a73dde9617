"""Charts of points and lines for the page: plain plotly figures, as dicts.

Colours are names such as `<ink>`, which the page replaces by the colours of its theme. No text of a
strategy can be mistaken for one, because `plain` leaves no angle bracket in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

Figure = dict[str, Any]
Points = list[float | None]

# Six colours and seven shapes have no common divisor: 42 looks before one comes again.
COLOURS = ("c1", "c2", "c3", "c4", "c5", "c6")
SYMBOLS = ("square", "diamond", "triangle-up", "cross", "triangle-down", "x", "star")
DASHES = ("solid", "dash", "dashdot", "longdash", "longdashdot")
# No screen shows more points of a line than this.
_LONGEST = 240


@dataclass(frozen=True)
class Look:
    """How one strategy is drawn, in every chart of a page; `key` tells its traces from others."""

    key: int
    colour: str
    symbol: str
    dash: str
    width: float = 2


Looks = Mapping[str, Look]


def looks(strategies: Iterable[str], reference: str, controls: set[str]) -> dict[str, Look]:
    """Give every strategy a look; the reference is neutral, controls are open and dotted."""
    others = [name for name in dict.fromkeys(strategies) if name != reference]
    given = {reference: Look(0, "ink", "circle", "solid", 2.5)}
    for place, name in enumerate(others):
        colour, symbol = COLOURS[place % len(COLOURS)], SYMBOLS[place % len(SYMBOLS)]
        if name in controls:
            given[name] = Look(place + 1, colour, f"{symbol}-open", "dot", 1.5)
        else:
            given[name] = Look(place + 1, colour, symbol, DASHES[place % len(DASHES)])
    return given


def plain(text: object) -> str:
    """Return a text that plotly shows as it is: no tags, no entities, no formulas."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("$", "&#36;").replace("%{", "&#37;{")


def numbers(values: Iterable[float], digits: int = 3) -> Points:
    """Return numbers as JSON has them: rounded, and None for what is not finite."""
    return [round(float(v), digits) if math.isfinite(v) else None for v in values]


def axis(**more: Any) -> Figure:
    """Return an axis in the style of the page."""
    style = {"gridcolor": "<line>", "linecolor": "<line>", "zeroline": False, "automargin": True}
    return style | {"tickfont": {"color": "<soft>"}, "fixedrange": False} | more


def layout(x: str, y: str = "", **more: Any) -> Figure:
    """Return a layout whose vertical title lies flat above the axis, where a phone has room."""
    clear = "rgba(0,0,0,0)"
    style = {
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": "<ink>"},
        "paper_bgcolor": clear,
        "plot_bgcolor": clear,
        "margin": {"l": 44, "r": 12, "t": 30, "b": 46},
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "<card>",
            "bordercolor": "<line>",
            "font": {"color": "<ink>", "size": 12},
            "align": "left",
            "namelength": -1,
        },
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


def trade_off(part: pd.DataFrame, looks: Looks, reference: str, margin: float) -> Figure | None:
    """Draw accuracy against speed-up with intervals, the Pareto front and what counts as no worse.

    What has no look of its own is a small dot. One point alone compares nothing.
    """
    part = part.dropna(subset=["speedup", "accuracy"])
    if len(part) < 2:
        return None
    known = part["strategy"].isin(list(looks))
    traces = [_front(part), _others(part[~known])]
    traces += [_point(row, looks[row["strategy"]]) for row in part[known].to_dict("records")]
    across = window(part["speedup"], part["speedup_low"], part["speedup_high"], 1.0)
    low = part["accuracy"] - part["difference"] + part["difference_low"]
    high = part["accuracy"] - part["difference"] + part["difference_high"]
    base = part.loc[part["strategy"] == reference, "accuracy"]
    drawn = layout("speed-up (times; right is faster)", "test accuracy, %")
    drawn["shapes"] = [_line(x0=1, x1=1, yref="paper", y0=0, y1=1)]
    if len(base):
        floor = float(base.iloc[0]) - margin
        up = window(part["accuracy"], low, high, floor)
        zone = {"x0": 1, "x1": across[1], "y0": floor, "y1": up[1], "fillcolor": "<good>"}
        drawn["shapes"] += [
            {"type": "rect", "layer": "below", "opacity": 0.1, "line": {"width": 0}} | zone,
            _line(xref="paper", x0=0, x1=1, y0=floor, y1=floor),
        ]
        words = {"text": "faster and no worse", "xref": "x", "yref": "y", "x": across[1]}
        drawn["annotations"] += [note(**words, y=up[1], xanchor="right", yanchor="top")]
    else:
        up = window(part["accuracy"], low, high, float(part["accuracy"].max()))
    drawn["xaxis"]["range"], drawn["yaxis"]["range"] = across, up
    return {"data": [trace for trace in traces if trace["x"]], "layout": drawn}


def _line(**more: Any) -> Figure:
    return {"type": "line", "line": {"color": "<soft>", "width": 1, "dash": "dot"}} | more


def window(points: pd.Series, low: pd.Series, high: pd.Series, also: float) -> list[float]:
    """Return a range that holds all points, and of intervals what leaves the points apart."""
    first, last = min(points.min(), also), max(points.max(), also)
    room = max(last - first, 0.02 * abs(last), 1e-6)
    first = max(np.nanmin([*low, first]), first - 0.75 * room)
    last = min(np.nanmax([*high, last]), last + 0.75 * room)
    pad = 0.06 * (last - first) or 0.5
    return [round(float(first - pad), 4), round(float(last + pad), 4)]


def _front(part: pd.DataFrame) -> Figure:
    front = part[part["pareto"].astype(bool)].sort_values(["speedup", "accuracy"])
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "Pareto front",
        "x": numbers(front["speedup"]),
        "y": numbers(front["accuracy"]),
        "line": {"color": "<soft>", "width": 6},
        "opacity": 0.35,
        "hoverinfo": "skip",
    }


def _others(part: pd.DataFrame) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(part["speedup"]),
        "y": numbers(part["accuracy"]),
        "text": [plain(name) for name in part["strategy"]],
        "hovertemplate": "%{text}<br>%{x:.2f}x, %{y:.2f}%<extra></extra>",
        "marker": {"color": "<soft>", "size": 4, "opacity": 0.6},
    }


def _point(row: dict[str, Any], look: Look) -> Figure:
    bars = {"color": f"<{look.colour}>", "thickness": 1.3, "width": 4, "type": "data"}
    return {
        "type": "scatter",
        "mode": "markers",
        "meta": look.key,
        "name": plain(row["strategy"]),
        "x": numbers([row["speedup"]]),
        "y": numbers([row["accuracy"]]),
        "error_x": bars | _reach(row, "speedup"),
        "error_y": bars | _reach(row, "difference"),
        "marker": _marker(look, 12),
        "text": [plain(row["verdict"] or row["claim"])],
        "hovertemplate": "<b>%{fullData.name}</b><br>%{x:.2f}x, %{y:.2f}%<br>%{text}"
        "<extra></extra>",
    }


def _reach(row: dict[str, Any], name: str) -> Figure:
    down, up = row[name] - row[f"{name}_low"], row[f"{name}_high"] - row[name]
    known = math.isfinite(down) and math.isfinite(up)
    if not known:
        return {"visible": False}
    return {"symmetric": False, "array": numbers([up]), "arrayminus": numbers([down])}


def _marker(look: Look, size: float, rim: bool = True) -> Figure:
    colour = f"<{look.colour}>"
    is_open = look.symbol.endswith("-open")
    line = {"color": colour, "width": 2} if is_open else {"color": "<card>", "width": int(rim)}
    return {"color": colour, "symbol": look.symbol, "size": size, "line": line}


def learning(curves: pd.DataFrame, looks: Looks, x: str) -> Figure | None:
    """Draw test accuracy against `x` (seconds or epoch): mean over seeds, lowest to highest."""
    lines = means(curves.dropna(subset=["test_top1", "seconds"]), looks, "test_top1")
    traces = []
    for name, line in lines.items():
        across = line[x].to_numpy()
        if line["count"].max() > 1:
            edge = np.concatenate([line["high"], line["low"][::-1]])
            traces.append(_band(np.concatenate([across, across[::-1]]), edge, looks[name]))
    traces += [_curve(line[x], line["mean"], name, looks[name]) for name, line in lines.items()]
    if not traces:
        return None
    label = "prepare + train seconds" if x == "seconds" else "epoch"
    drawn = layout(label, "test accuracy, %")
    drawn["yaxis"]["range"] = focus(lines.values())
    drawn["xaxis"]["rangemode"] = "tozero"
    return {"data": traces, "layout": drawn}


def focus(lines: Iterable[pd.DataFrame]) -> list[float]:
    """Return the range of accuracies in which the ends of the curves can be told apart."""
    lines = list(lines)
    ends = [line["mean"].iloc[-1] for line in lines]
    top, least = max(line["high"].max() for line in lines), min(line["low"].min() for line in lines)
    start = max(least, top - max(4 * (top - min(ends)), 15))
    pad = 0.04 * (top - start) or 0.5
    return [round(float(start - pad), 2), round(float(top + pad), 2)]


def shares(curves: pd.DataFrame, looks: Looks, column: str, usual: float) -> Figure | None:
    """Draw a share of the samples per epoch, where it is not always the usual one."""
    curves = curves.dropna(subset=[column])
    unusual = curves.loc[(curves[column] - usual).abs() > 1e-6, "strategy"].unique()
    lines = means(curves[curves["strategy"].isin(unusual)], looks, column)
    if not lines:
        return None
    what = "of the training samples" if column == "kept" else "of the samples trained"
    traces = [
        _curve(line["epoch"], 100 * line["mean"], name, looks[name]) for name, line in lines.items()
    ]
    drawn = layout("epoch", f"% {what}")
    drawn["yaxis"]["rangemode"] = "tozero"
    return {"data": traces, "layout": drawn}


def means(curves: pd.DataFrame, strategies: Iterable[str], column: str) -> dict[str, pd.DataFrame]:
    """Return mean, lowest and highest seed per epoch, by strategy in the order given."""
    curves = curves[curves["strategy"].isin(list(strategies))]
    if curves.empty:
        return {}
    parts = curves.groupby(["strategy", "epoch"], sort=True)
    told = parts.agg(
        seconds=("seconds", "mean"),
        mean=(column, "mean"),
        low=(column, "min"),
        high=(column, "max"),
        count=(column, "size"),
    ).reset_index()
    # Where a seed has ended, the mean over the others would jump.
    told = told[told["count"] == told.groupby("strategy")["count"].transform("max")]
    found = {name: _thinned(part) for name, part in told.groupby("strategy")}
    return {name: found[name] for name in strategies if name in found}


def _thinned(line: pd.DataFrame) -> pd.DataFrame:
    if len(line) <= _LONGEST:
        return line
    return line.iloc[np.linspace(0, len(line) - 1, _LONGEST).round().astype(int)]


def _curve(x: Iterable[float], y: Iterable[float], name: str, look: Look) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "meta": look.key,
        "name": plain(name),
        "x": numbers(x),
        "y": numbers(y),
        "line": {"color": f"<{look.colour}>", "dash": look.dash, "width": look.width},
        "marker": _marker(look, 8, rim=False) | {"maxdisplayed": 8},
        "hovertemplate": "%{y:.2f}% at %{x}<br>%{fullData.name}<extra></extra>",
    }


def _band(x: Iterable[float], y: Iterable[float], look: Look) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "meta": look.key,
        "x": numbers(x),
        "y": numbers(y),
        "fill": "toself",
        "fillcolor": f"<{look.colour}>",
        "line": {"width": 0},
        "opacity": 0.16,
        "hoverinfo": "skip",
    }
