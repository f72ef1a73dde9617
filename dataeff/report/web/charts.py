"""Charts of points and lines for the page."""

import math
from collections.abc import Iterable

import pandas as pd

from dataeff.report.frames import Record, records
from dataeff.report.series import focus, means, on_one_scale, window
from dataeff.report.stats import interval_of
from dataeff.report.web import canvas
from dataeff.report.web.canvas import Chart, Figure, Style, Styles, layout, numbers, plain, scatter

_FRONT = (
    "The broad grey line is the Pareto front: nothing is both faster and more accurate than what "
    "lies on it."
)
_SEEDS = (
    "Lines show one seed, so there is no band.",
    "Lines are means over seeds; bands reach from the lowest to the highest seed.",
)
_LEARNING = {
    "seconds": ("Accuracy against time", "prepare + train seconds"),
    "epoch": ("Accuracy against epoch", "epoch"),
}
# What is usual, and how it is said.
_SHARES = {
    "kept": (1, "Share of the training samples that were trained.", "of the training samples"),
    "mixed": (0, "Share of the trained samples that were in mixed rows.", "of the samples trained"),
}


def trade_off(part: pd.DataFrame, styles: Styles, reference: str, margin: float) -> Chart | None:
    """Draw accuracy against speed-up with intervals, the Pareto front and what counts as no worse.

    What has no style of its own is a small dot. One point alone compares nothing.
    """
    part = on_one_scale(part, reference).dropna(subset=["speedup", "accuracy"])
    if len(part) < 2:
        return None
    known = part["strategy"].isin(list(styles))
    shown = records(part[known])
    traces = [_front(part), _others(part[~known])]
    traces += [_point(line, styles[line["strategy"]]) for line in shown]
    floor = float(part.loc[part["strategy"] == reference, "accuracy"].min()) - margin
    across = window(part, "speedup", "speedup", 1.0)
    up = window(part, "accuracy", "difference", floor)
    drawn = layout("speed-up (times; right is faster)", "test accuracy, %")
    drawn["shapes"] = [canvas.dotted(x0=1, x1=1, yref="paper", y0=0, y1=1)]
    if not math.isnan(floor):
        zone = {"x0": 1, "x1": across[1], "y0": floor, "y1": up[1], "fillcolor": "<good>"}
        drawn["shapes"] += [
            {"type": "rect", "layer": "below", "opacity": 0.1, "line": {"width": 0}} | zone,
            canvas.dotted(xref="paper", x0=0, x1=1, y0=floor, y1=floor),
        ]
        corner = {"xref": "x", "yref": "y", "x": across[1], "y": up[1]}
        said = canvas.note("faster and no worse", **corner, xanchor="right", yanchor="top")
        drawn["annotations"] += [said]
    drawn["xaxis"]["range"], drawn["yaxis"]["range"] = across, up
    figure = {"data": [trace for trace in traces if trace["x"]], "layout": drawn}
    several = part["difference_low"].notna().any()
    told = "Bars are the intervals that judge." if several else "One seed: no bars."
    heading = "Accuracy against speed-up"
    label = "; ".join(
        f"{line['strategy']}: {line['speedup']:.2f} times, {line['accuracy']:.2f}%"
        for line in shown
    )
    return Chart(
        "trade", heading, f"{told} {_FRONT}", f"{heading}. {label}", figure, 440, wide=True
    )


def _front(part: pd.DataFrame) -> Figure:
    front = part[part["pareto"].astype(bool)].sort_values(["speedup", "accuracy"])
    drawn: Figure = {"line": {"color": "<soft>", "width": 6}, "opacity": 0.35, "hoverinfo": "skip"}
    return scatter(front["speedup"], front["accuracy"], "lines", name="Pareto front", **drawn)


def _others(part: pd.DataFrame) -> Figure:
    drawn: Figure = {"marker": {"color": "<soft>", "size": 4, "opacity": 0.6}}
    drawn["text"] = [plain(name) for name in part["strategy"]]
    drawn["hovertemplate"] = "%{text}<br>%{x:.2f}x, %{y:.2f}%<extra></extra>"
    return scatter(part["speedup"], part["accuracy"], "markers", **drawn)


def _point(line: Record, style: Style) -> Figure:
    bars = {"color": f"<{style.colour}>", "thickness": 1.3, "width": 4, "type": "data"}
    drawn: Figure = {
        "error_x": bars | _reach(line, "speedup"),
        "error_y": bars | _reach(line, "difference"),
        "meta": style.key,
        "name": plain(line["strategy"]),
        "marker": _marker(style, 12),
        "text": [plain(line["sentence"] or line["verdict"])],
    }
    told = "<b>%{fullData.name}</b><br>%{x:.2f}x, %{y:.2f}%<br>%{text}<extra></extra>"
    return scatter([line["speedup"]], [line["accuracy"]], "markers", hovertemplate=told, **drawn)


def _reach(line: Record, name: str) -> Figure:
    mean, low, high = interval_of(line, name)
    if not math.isfinite(high - low):
        return {"visible": False}
    up, down = numbers([high - mean]), numbers([mean - low])
    return {"symmetric": False, "array": up, "arrayminus": down}


def _marker(style: Style, size: float, rim: bool = True) -> Figure:
    colour = f"<{style.colour}>"
    is_open = style.symbol.endswith("-open")
    line = {"color": colour, "width": 2} if is_open else {"color": "<card>", "width": int(rim)}
    return {"color": colour, "symbol": style.symbol, "size": size, "line": line}


def learning(curves: pd.DataFrame, styles: Styles, x: str, images: str = "") -> Chart | None:
    """Draw test accuracy against `x` (seconds or epoch): mean over seeds, lowest to highest.

    `images` says on which of the test images, where not on all.
    """
    curves = curves.dropna(subset=["test_top1", "seconds"])
    if not (lines := means(curves, styles, "test_top1")):
        return None
    bands = {name: line for name, line in lines.items() if line["count"].max() > 1}
    traces = [_band(line, x, styles[name]) for name, line in bands.items()]
    traces += [_curve(line[x], line["mean"], name, styles[name]) for name, line in lines.items()]
    heading, across = _LEARNING[x]
    drawn = layout(across, "test accuracy, %")
    drawn["yaxis"]["range"] = focus(lines.values())
    drawn["xaxis"]["rangemode"] = "tozero"
    caption = _SEEDS[bool(bands)] + (f" On {images}." if images else "")
    if min(line["low"].min() for line in lines.values()) < drawn["yaxis"]["range"][0]:
        caption += " The beginning is cut off; a double click shows it."
    ends = curves.groupby(["strategy", "seed"], sort=False).tail(1)
    ends = ends.groupby("strategy", sort=False)[["test_top1", "seconds"]].mean()
    label = "; ".join(
        f"{end.Index}: {end.test_top1:.2f}% after {end.seconds:.3g} seconds"
        for end in ends.itertuples()
    )
    figure = {"data": traces, "layout": drawn}
    return Chart(x, heading, caption, f"{heading}. {label}", figure, 360)


def shares(curves: pd.DataFrame, styles: Styles, column: str) -> Chart | None:
    """Draw a share of the samples per epoch (kept or mixed), where it is not always the usual."""
    usual, caption, what = _SHARES[column]
    seen = curves.dropna(subset=[column])
    unusual = seen.loc[(seen[column] - usual).abs() > 1e-6, "strategy"].unique()
    lines = means(seen[seen["strategy"].isin(unusual)], styles, column)
    if not lines:
        return None
    traces = [
        _curve(line["epoch"], 100 * line["mean"], name, styles[name])
        for name, line in lines.items()
    ]
    drawn = layout("epoch", f"% {what}")
    drawn["yaxis"]["rangemode"] = "tozero"
    heading = f"{column.capitalize()} per epoch"
    caption += f" Those not drawn are at {usual:.0%} throughout."
    over = curves.groupby("strategy", sort=False)[column].mean().items()
    label = f"{heading}, means over epochs. {'; '.join(f'{n}: {v:.0%}' for n, v in over)}"
    return Chart(column, heading, caption, label, {"data": traces, "layout": drawn}, 300)


def _curve(x: Iterable[float], y: Iterable[float], name: str, style: Style) -> Figure:
    line = {"color": f"<{style.colour}>", "dash": style.dash, "width": style.width}
    drawn: Figure = {"line": line, "meta": style.key, "name": plain(name)}
    drawn["marker"] = _marker(style, 8, rim=False) | {"maxdisplayed": 8}
    told = "%{y:.2f}% at %{x}<br>%{fullData.name}<extra></extra>"
    return scatter(x, y, "lines+markers", hovertemplate=told, **drawn)


def _band(line: pd.DataFrame, x: str, style: Style) -> Figure:
    back = line[::-1]
    drawn: Figure = {"fill": "toself", "fillcolor": f"<{style.colour}>", "line": {"width": 0}}
    drawn |= {"meta": style.key, "opacity": 0.16, "hoverinfo": "skip"}
    return scatter([*line[x], *back[x]], [*line["high"], *back["low"]], "lines", **drawn)
