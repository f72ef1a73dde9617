"""Charts with one bar per strategy: phase times, composed effects, classes.

The name stands above its bar instead of beside it: names are long and phones are narrow.
"""

import numpy as np
import pandas as pd

from dataeff.report import words
from dataeff.report.compare import PHASES
from dataeff.report.composed import FORMS
from dataeff.report.web import canvas
from dataeff.report.web.canvas import Chart, Figure, note, numbers, plain, scatter

# Strong colours for what takes long; shading tells apart what shares a colour.
_COLOURS = ("c5", "c4", "c6", "c4", "c3", "c3", "c1", "c2", "ink", "soft")
_SHADED = ("plan", "select", "step")
# What a phone shows of a name in one line.
_LETTERS = 50
MOST_CLASSES = 24
"""More classes than this are cut to those with the greatest losses."""
_MOST_COMPOSED = 30
_BELOW = ", as in the table below."


def short(name: str) -> str:
    """Return a name that fits above a bar: its middle gives way."""
    if len(name) <= _LETTERS:
        return name
    half = (_LETTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def _layout(x: str, strategies: list[str], lift: float, top: int, bottom: int = 46) -> Figure:
    """Return a layout with a bar per strategy, the first on top, and its name above it."""
    font = {"color": "<ink>", "size": 12}
    names = [
        note(plain(short(name)), yref="y", x=0, y=place, yshift=lift, font=font)
        for place, name in enumerate(strategies)
    ]
    hidden = {"showgrid": False, "showticklabels": False, "ticks": "", "fixedrange": True}
    bars = canvas.axis(range=[len(strategies) - 0.4, -0.75], automargin=False, **hidden)
    margin = {"l": 12, "r": 12, "t": top, "b": bottom}
    return canvas.layout(x, margin=margin, annotations=names, yaxis=bars)


def _height(lines: pd.DataFrame) -> int:
    return 80 + 46 * len(lines)


def _texts(first: str, values: pd.DataFrame, form: str) -> pd.DataFrame:
    columns = {str(name): words.numbers(values[name], form) for name in values}
    return pd.DataFrame({first: values.index, **columns})


def _filled(phase: str) -> Figure:
    colour, shape = _COLOURS[PHASES.index(phase)], "/" if phase in _SHADED else ""
    pattern = {"shape": shape, "size": 5, "fgcolor": "<card>", "fillmode": "overlay"}
    marker = {"color": f"<{colour}>", "line": {"color": "<card>", "width": 0.5}, "pattern": pattern}
    told = f"{phase}: %{{x:.3g}} s<br>%{{text}}<extra></extra>"
    return {"name": phase, "hovertemplate": told, "marker": marker}


def phases(means: pd.DataFrame) -> Chart | None:
    """Draw where the seconds went, one stacked bar per strategy."""
    if means.empty:
        return None
    names, totals = list(means.index), means.sum(axis=1)
    common = {"type": "bar", "orientation": "h", "y": list(range(len(names))), "width": 0.44}
    common |= {"text": [plain(name) for name in names], "textposition": "none"}
    traces = [common | {"x": numbers(means[phase])} | _filled(phase) for phase in means.columns]
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}
    legend |= {"traceorder": "normal", "itemclick": False, "itemdoubleclick": False}
    legend |= {"font": {"color": "<soft>", "size": 12}}
    drawn = _layout("mean seconds over seeds", names, 11, 30)
    drawn |= {"barmode": "stack", "showlegend": True, "legend": legend}
    drawn["annotations"] += [
        note(f"{total:.3g} s", xref="x", yref="y", x=total, y=place, xshift=4, yanchor="middle")
        for place, total in enumerate(totals.round(4).tolist())
    ]
    drawn["xaxis"]["range"] = [0, round(float(totals.max()) * 1.14, 4)]
    return Chart(
        name="phases",
        heading="Where the time went",
        caption="Seconds of preparing and of each phase of training, means over seeds.",
        label="Seconds per phase and strategy" + _BELOW,
        figure={"data": traces, "layout": drawn},
        height=_height(means) + 30,
        wide=True,
        table=_texts("seconds", means, ".3g"),
    )


_COMPOSED = {
    "speedup": ("speed-up", "multiply", "speed-up (times)", ":.2f}x", 1),
    "accuracy": ("accuracy", "add up", "accuracy against the reference (points)", ":+.2f}", 0),
}


def composed(part: pd.DataFrame, quantity: str) -> Chart | None:
    """Draw the expected beside the measured effect of every composition."""
    everything = part[part["quantity"] == quantity]
    few = everything.head(_MOST_COMPOSED)
    part = few.dropna(subset=["sum", "measured"])
    if part.empty:
        return None
    word, how, axis, shown, neutral = _COMPOSED[quantity]
    expected, measured = part["sum"], part["measured"]
    join = np.multiply if quantity == "speedup" else np.add
    low, high = (join(expected, part[f"interaction_{end}"]) for end in ("low", "high"))
    bars = {"type": "data", "symmetric": False, "color": "<c1>", "thickness": 1.3, "width": 4}
    bars |= {"array": numbers(high - measured), "arrayminus": numbers(measured - low)}
    hollow = {"size": 12, "symbol": "diamond-open", "color": "<ink>", "line": {"width": 2}}
    full = {"size": 10, "symbol": "circle", "color": "<c1>"}
    places = range(len(part))
    traces = [
        scatter(expected, places, "markers", name="expected", marker=hollow),
        scatter(measured, places, "markers", name="measured", marker=full, error_x=bars),
    ]
    for trace in traces:
        trace["text"] = [plain(text) for text in part["says"]]
        trace["hovertemplate"] = f"{trace['name']} %{{x{shown}<br>%{{text}}<extra></extra>"
    drawn = _layout(axis, part["strategy"].tolist(), 9, 8)
    drawn["shapes"] = [canvas.dotted(x0=neutral, x1=neutral, yref="paper", y0=0, y1=1)]
    ends = [*low.dropna(), *high.dropna(), *expected, *measured, neutral]
    pad = 0.08 * (max(ends) - min(ends)) or 0.1
    drawn["xaxis"]["range"] = numbers([min(ends) - pad, max(ends) + pad], 4)
    names = {"parts": "composition", "effects": "single effects", "sum": "expected"}
    table = few[[*names, "measured", "says"]].rename(columns=names)
    for kind in ("expected", "measured"):
        table[kind] = words.numbers(table[kind], FORMS[quantity])
    cut = f" The first {len(few)} of {len(everything)}." if len(few) < len(everything) else ""
    return Chart(
        name=f"composed-{quantity}",
        heading=f"Composed: {word}",
        caption=f"Diamond: expected if the effects {how}. Circle: measured, with what the "
        f"interval of the interaction leaves open.{cut}",
        label=f"Composed: {word}: expected and measured{_BELOW}",
        figure={"data": traces, "layout": drawn},
        height=_height(few) + 10,
        table=table,
    )


def class_differences(classes: pd.DataFrame, strategies: list[str]) -> pd.DataFrame:
    """Return differences to the reference: strategies down, classes across, at most so many.

    Of more classes, those in which some strategy loses most.
    """
    part = classes[classes["strategy"].isin(strategies)]
    wide = part.pivot_table(index="strategy", columns="label", values="difference")
    wide = wide.reindex([name for name in strategies if name in wide.index])
    worst = wide.min().sort_values(kind="stable").index[:MOST_CLASSES]
    return wide[sorted(worst)]


_SCALE: Figure = {"orientation": "h", "thickness": 10, "len": 1, "y": 1, "yanchor": "bottom"}
_SCALE |= {"outlinewidth": 0, "ticks": "", "tickfont": {"color": "<soft>", "size": 11}}
_SCALE["title"] = canvas.title("points against the reference (left: worse, right: better)")
_SCALE["title"] |= {"side": "top"}
_HEAT = {
    "type": "heatmap",
    "colorscale": [[0, "<c2>"], [0.5, "<page>"], [1, "<c1>"]],
    "colorbar": _SCALE,
    "xgap": 2,
    "ygap": 24,
    "hoverongaps": False,
    "hovertemplate": "class %{customdata[2]}: %{z:+.2f} points, accuracy %{customdata[0]:.1f}%"
    "<br>trained %{customdata[1]:.2f} times per epoch of the task<br>%{text}<extra></extra>",
}
_UNKNOWN = (np.nan, np.nan)


def per_class(wide: pd.DataFrame, classes: pd.DataFrame) -> Chart | None:
    """Draw the difference to the reference per class, as a heat map."""
    if wide.empty or wide.isna().all(axis=None):
        return None
    names, labels = list(wide.index), list(wide.columns)
    known = classes[["strategy", "label", "accuracy", "trained"]].itertuples(index=False)
    told = {(name, label): pair for name, label, *pair in known}
    most = round(max(float(wide.abs().max(axis=None)), 0.5), 3)
    trace = _HEAT | {
        "x": list(range(len(labels))),
        "y": list(range(len(names))),
        "z": [numbers(line, 2) for line in wide.to_numpy(float)],
        "text": [[plain(name)] * len(labels) for name in names],
        "customdata": [
            [[*numbers(told.get((name, label), _UNKNOWN), 2), int(label)] for label in labels]
            for name in names
        ],
        "zmin": -most,
        "zmax": most,
    }
    if len(labels) <= 12:
        trace |= {"texttemplate": "%{z:+.1f}", "textfont": {"size": 10}}
    drawn = _layout("", names, 12, 0, 24)
    drawn["xaxis"] |= {"tickvals": trace["x"], "ticktext": list(map(str, labels)), "ticks": ""}
    drawn["xaxis"] |= {"fixedrange": True, "showgrid": False}
    cut = classes["label"].nunique() > len(labels)
    only = f" Only the {len(labels)} classes in which most is lost." if cut else ""
    return Chart(
        name="classes",
        heading="Accuracy by class",
        caption=f"Points against the reference, means over seeds; one column per class.{only}",
        label=f"Accuracy by class against the reference{_BELOW}",
        figure={"data": [trace], "layout": drawn},
        height=_height(wide) + 56,
        wide=True,
        table=_texts("points", wide, words.POINTS),
    )
