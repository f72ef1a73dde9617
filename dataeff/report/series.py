"""Series: what lines, points and bars of figures are drawn from, on the page and in papers."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from dataeff.report.compare import PHASES, SECONDS
from dataeff.report.frames import finished
from dataeff.report.words import READ_OFF

# No screen shows more points of a line than this.
_LONGEST = 240


def means(curves: pd.DataFrame, strategies: Iterable[str], column: str) -> dict[str, pd.DataFrame]:
    """Return mean, lowest and highest seed per epoch, by strategy in the order given."""
    curves = curves[curves["strategy"].isin(list(strategies))]
    parts = curves.groupby(["strategy", "epoch"], sort=True)
    seen = {"mean": "mean", "low": "min", "high": "max", "count": "size"}
    wanted = {name: (column, how) for name, how in seen.items()}
    told = parts.agg(seconds=("seconds", "mean"), **wanted).reset_index()
    # Where a seed has ended, the mean over the others would jump.
    told = told[told["count"] == told.groupby("strategy")["count"].transform("max")]
    found = {name: _thinned(part) for name, part in told.groupby("strategy")}
    return {name: found[name] for name in strategies if name in found}


def _thinned(line: pd.DataFrame) -> pd.DataFrame:
    places = np.linspace(0, len(line) - 1, min(len(line), _LONGEST))
    return line.iloc[places.round().astype(int)]


def focus(lines: Iterable[pd.DataFrame]) -> list[float]:
    """Return the range of accuracies in which the ends of the curves can be told apart."""
    lines = list(lines)
    ends = [line["mean"].iloc[-1] for line in lines]
    top, least = max(line["high"].max() for line in lines), min(line["low"].min() for line in lines)
    start = max(least, top - max(4 * (top - min(ends)), 15))
    pad = 0.04 * (top - start) or 0.5
    return [round(float(start - pad), 2), round(float(top + pad), 2)]


def phase_means(runs: pd.DataFrame, strategies: list[str]) -> pd.DataFrame:
    """Return mean seconds of every phase that took any, by strategy in the order given.

    Times that cannot be trusted are left out.
    """
    cells = finished(runs[runs["strategy"].isin(strategies)])
    cells = cells[cells["contended"] == ""]
    columns = {column: phase for phase, column in SECONDS.items()}
    told = cells[[name for name in columns if name in cells]].astype(float).fillna(0.0)
    told = told.rename(columns=columns).groupby(cells["strategy"]).mean()
    used = [phase for phase in PHASES if phase in told and told[phase].sum() > 0]
    return told.loc[[name for name in strategies if name in told.index], used]


def on_one_scale(lines: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Place what was read off a curve, on fewer images, by how it differs from the reference."""
    base = lines.loc[lines["strategy"] == reference, "accuracy"].min()
    placed = base + lines["difference"]
    return lines.assign(accuracy=lines["accuracy"].mask(lines["verdict"] == READ_OFF, placed))


def window(lines: pd.DataFrame, name: str, reach: str, also: float) -> list[float]:
    """Return a range that holds all points, and of intervals what leaves the points apart.

    Points are in the column `name`, their intervals in those of `reach`; NaN is nothing to hold.
    """
    base, seen = lines[name] - lines[reach], [*lines[name], also]
    first, last = np.nanmin(seen), np.nanmax(seen)
    room = max(last - first, 0.02 * abs(last), 1e-6)
    first = max(np.nanmin([*(base + lines[f"{reach}_low"]), first]), first - 0.75 * room)
    last = min(np.nanmax([*(base + lines[f"{reach}_high"]), last]), last + 0.75 * room)
    pad = 0.06 * (last - first) or 0.5
    return [round(float(first - pad), 4), round(float(last + pad), 4)]
