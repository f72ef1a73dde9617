"""Charts with one row per strategy: phase times, composed effects, classes.

The name stands above its row instead of beside it: names are long and phones are narrow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dataeff.report.charts import Figure, axis, layout, note, numbers, plain, title
from dataeff.report.comparing import PHASES

# Strong colours for what takes long; shading tells apart what shares a colour.
_FILLS = {
    "prepare": ("c5", ""),
    "plan": ("c4", "/"),
    "load": ("c6", ""),
    "score": ("c4", ""),
    "select": ("c3", "/"),
    "transform": ("c3", ""),
    "forward": ("c1", ""),
    "backward": ("c2", ""),
    "step": ("ink", "/"),
    "other": ("soft", ""),
}
# What a phone shows of a name in one line.
_LETTERS = 50
MOST_CLASSES = 24
"""More classes than this are cut to those with the greatest losses."""


def short(name: str) -> str:
    """Return a name that fits above a row: its middle gives way."""
    if len(name) <= _LETTERS:
        return name
    half = (_LETTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def _names(strategies: list[str], lift: float) -> list[dict[str, Any]]:
    font = {"color": "<ink>", "size": 12}
    return [
        note(plain(short(name)), yref="y", x=0, y=place, yshift=lift, font=font)
        for place, name in enumerate(strategies)
    ]


def _rows(count: int, **more: Any) -> Figure:
    """Return the axis of the rows: the first on top, no ticks, no lines."""
    hidden = {"showgrid": False, "showticklabels": False, "ticks": "", "fixedrange": True}
    hidden |= {"automargin": False}
    return axis(range=[count - 0.4, -0.75], **hidden) | more


def phase_means(runs: pd.DataFrame, strategies: list[str]) -> pd.DataFrame:
    """Return mean seconds of every phase that took any, by strategy in the order given."""
    finished = runs[(runs["status"] == "finished") & runs["strategy"].isin(strategies)]
    columns = {f"{phase}_phase_seconds": phase for phase in PHASES} | {"prepare_seconds": "prepare"}
    told = finished[[name for name in columns if name in finished]].astype(float).fillna(0.0)
    told = told.rename(columns=columns).groupby(finished["strategy"]).mean()
    told = told.reindex([name for name in strategies if name in told.index])
    used = [phase for phase in PHASES if phase in told and told[phase].sum() > 0]
    return told[used]


def phases(means: pd.DataFrame) -> Figure | None:
    """Draw where the seconds went, one stacked bar per strategy."""
    if means.empty or not len(means.columns):
        return None
    names, totals = list(means.index), means.sum(axis=1)
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": phase,
            "x": numbers(means[phase]),
            "y": list(range(len(names))),
            "width": 0.44,
            "text": [plain(name) for name in names],
            "textposition": "none",
            "hovertemplate": f"{phase}: %{{x:.3g}} s<br>%{{text}}<extra></extra>",
            "marker": {
                "color": f"<{_FILLS[phase][0]}>",
                "line": {"color": "<card>", "width": 0.5},
                "pattern": {
                    "shape": _FILLS[phase][1],
                    "size": 5,
                    "fgcolor": "<card>",
                    "fillmode": "overlay",
                },
            },
        }
        for phase in means.columns
    ]
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}
    legend |= {"traceorder": "normal", "itemclick": False, "itemdoubleclick": False}
    ends = [
        note(f"{total:.3g} s", xref="x", yref="y", x=total, y=place, xshift=4, yanchor="middle")
        for place, total in enumerate(totals.round(4).tolist())
    ]
    drawn = layout(
        "mean seconds over seeds",
        barmode="stack",
        showlegend=True,
        legend=legend | {"font": {"color": "<soft>", "size": 12}},
        margin={"l": 12, "r": 12, "t": 30, "b": 46},
        annotations=_names(names, 11) + ends,
    )
    drawn["yaxis"] = _rows(len(names))
    drawn["xaxis"]["range"] = [0, round(float(totals.max()) * 1.14, 4)]
    return {"data": traces, "layout": drawn}


def composed(part: pd.DataFrame, quantity: str) -> Figure | None:
    """Draw the expected beside the measured effect of every composition."""
    part = part[part["quantity"] == quantity].dropna(subset=["sum", "measured"])
    if part.empty:
        return None
    names, expected, measured = part["strategy"].tolist(), part["sum"], part["measured"]
    if quantity == "speedup":
        low, high = expected * part["interaction_low"], expected * part["interaction_high"]
        label, shown, neutral = "speed-up (times)", ":.2f}x", 1
    else:
        low, high = expected + part["interaction_low"], expected + part["interaction_high"]
        label, shown, neutral = "accuracy against the reference (points)", ":+.2f}", 0
    places = list(range(len(names)))
    bars = {"type": "data", "symmetric": False, "color": "<c1>", "thickness": 1.3, "width": 4}
    bars |= {"array": numbers(high - measured), "arrayminus": numbers(measured - low)}
    common = {"type": "scatter", "mode": "markers", "y": places}
    common["text"] = [plain(text) for text in part["says"]]
    look = {"size": 12, "symbol": "diamond-open", "color": "<ink>", "line": {"width": 2}}
    after = "<br>%{text}<extra></extra>"
    traces = [
        common
        | {"name": "expected", "x": numbers(expected), "marker": look}
        | {"hovertemplate": f"expected %{{x{shown}{after}"},
        common
        | {"name": "measured", "x": numbers(measured), "error_x": bars}
        | {"marker": {"size": 10, "symbol": "circle", "color": "<c1>"}}
        | {"hovertemplate": f"measured %{{x{shown}{after}"},
    ]
    drawn = layout(
        label,
        margin={"l": 12, "r": 12, "t": 8, "b": 46},
        annotations=_names(names, 9),
        shapes=[
            {"type": "line", "x0": neutral, "x1": neutral, "yref": "paper", "y0": 0, "y1": 1}
            | {"line": {"color": "<soft>", "width": 1, "dash": "dot"}}
        ],
    )
    drawn["yaxis"] = _rows(len(names))
    ends = [*low.dropna(), *high.dropna(), *expected, *measured, neutral]
    pad = 0.08 * (max(ends) - min(ends)) or 0.1
    drawn["xaxis"]["range"] = numbers([min(ends) - pad, max(ends) + pad], 4)
    return {"data": traces, "layout": drawn}


def class_differences(classes: pd.DataFrame, strategies: list[str]) -> pd.DataFrame:
    """Return differences to the reference: strategies down, classes across, at most so many.

    Of more classes, those in which some strategy loses most.
    """
    part = classes[classes["strategy"].isin(strategies)]
    wide = part.pivot_table(index="strategy", columns="label", values="difference")
    wide = wide.reindex([name for name in strategies if name in wide.index])
    if wide.shape[1] > MOST_CLASSES:
        worst = wide.min().sort_values(kind="stable").index[:MOST_CLASSES]
        wide = wide[sorted(worst)]
    return wide


def per_class(wide: pd.DataFrame, classes: pd.DataFrame) -> Figure | None:
    """Draw the difference to the reference per class, as a heat map."""
    if wide.empty or wide.isna().all(axis=None):
        return None
    part = classes[classes["strategy"].isin(wide.index) & classes["label"].isin(wide.columns)]
    more = [
        part.pivot_table(index="strategy", columns="label", values=column, dropna=False)
        .reindex(index=wide.index, columns=wide.columns)
        .to_numpy(float)
        for column in ("accuracy", "trained")
    ]
    most = max(float(np.nanmax(wide.abs().to_numpy())), 0.5)
    names, few = list(wide.index), wide.shape[1] <= 12
    trace = {
        "type": "heatmap",
        "x": list(range(wide.shape[1])),
        "y": list(range(len(names))),
        "z": [numbers(line, 2) for line in wide.to_numpy(float)],
        "text": [[plain(name)] * wide.shape[1] for name in names],
        "customdata": [
            [
                [*numbers(pair, 2), int(label)]
                for label, *pair in zip(wide.columns, *pairs, strict=True)
            ]
            for pairs in zip(*more, strict=True)
        ],
        "zmin": -round(most, 3),
        "zmax": round(most, 3),
        "colorscale": [[0, "<c2>"], [0.5, "<page>"], [1, "<c1>"]],
        "colorbar": {
            "orientation": "h",
            "thickness": 10,
            "len": 1,
            "y": 1,
            "yanchor": "bottom",
            "outlinewidth": 0,
            "ticks": "",
            "tickfont": {"color": "<soft>", "size": 11},
            "title": title("points against the reference (left: worse, right: better)")
            | {"side": "top"},
        },
        "xgap": 2,
        "ygap": 24,
        "hoverongaps": False,
        "hovertemplate": "class %{customdata[2]}: %{z:+.2f} points, accuracy %{customdata[0]:.1f}%"
        "<br>trained %{customdata[1]:.2f} times per epoch of the task<br>%{text}<extra></extra>",
    }
    if few:
        trace |= {"texttemplate": "%{z:+.1f}", "textfont": {"size": 10}}
    drawn = layout(
        "",
        margin={"l": 12, "r": 12, "t": 0, "b": 24},
        annotations=_names(names, 12),
    )
    drawn["yaxis"] = _rows(len(names))
    labels = [str(label) for label in wide.columns]
    drawn["xaxis"] |= {"tickvals": trace["x"], "ticktext": labels, "showgrid": False}
    drawn["xaxis"] |= {"fixedrange": True, "ticks": ""}
    return {"data": [trace], "layout": drawn}
