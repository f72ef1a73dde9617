"""Figures of a board as pictures for papers and slides: PNG or SVG, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from dataeff.bench.picture import COLOURS, broken, picture
from dataeff.bench.results import slug
from dataeff.errors import UnknownName, did_you_mean
from dataeff.report.board import Board
from dataeff.report.charts import means, window
from dataeff.report.comparing import PHASES
from dataeff.report.rows import phase_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More lines than this nobody tells apart.
_MOST = 12
_MARKERS = "osD^vXP*<>"
# Letters of a name beside a bar.
_NAME = 28


# The network's own work in blue and black, whatever comes on top in the warm colours.
_PHASE_COLOURS = (
    *("#CC79A7", "#F0E442", "#E69F00", "#D55E00", "#8B3A00"),
    *("#009E73", "#56B4E9", "#0072B2", "#222222", "#BBBBBB"),
)


class Table:
    """One table of a board, task and conditions, cut down to what a picture can show."""

    def __init__(self, board: Board, task: str, conditions: str) -> None:
        def mine(lines: pd.DataFrame, task_column: str, conditions_column: str) -> pd.DataFrame:
            chosen = (lines[task_column] == task) & (lines[conditions_column] == conditions)
            return lines[chosen & lines["strategy"].isin(names)]

        rows = board.table
        rows = rows[(rows["task"] == task) & (rows["conditions"] == conditions) & (rows["n"] > 0)]
        reference = rows["strategy"] == board.suite["reference"]
        order = rows.assign(first=~reference).sort_values(["first", "rank"], kind="stable")
        names = list(order["strategy"][:_MOST])
        self.rows = rows[rows["strategy"].isin(names)]
        self.curves = mine(board.curves, "task", "conditions")
        self.runs = mine(board.runs, "task_name", "conditions_id")
        left_out = len(rows) - len(self.rows)
        self.note = f"{task}, conditions {conditions}; n = {int(rows['n'].max())} seeds" + (
            f"; {left_out} more strategies are in the table" if left_out else ""
        )
        shares = self.curves[["kept", "mixed"]].dropna()
        self.has_shares = bool(((shares["kept"] < 1) | (shares["mixed"] > 0)).any())
        # The reference is black, whoever else there is.
        others = [name for name in names if name != board.suite["reference"]]
        palette = [colour for colour in COLOURS if colour != "#000000"]
        self.styles = {board.suite["reference"]: {"color": "#000000", "marker": "o"}} | {
            name: {
                "color": palette[i % len(palette)],
                "marker": _MARKERS[(i + 1 + i // len(palette)) % len(_MARKERS)],
            }
            for i, name in enumerate(others)
        }


def _label(name: str) -> str:
    # matplotlib leaves names that begin with an underscore out of its legend.
    return f"\u200b{name}" if name.startswith("_") else name


def _trade_off(table: Table, axes: Axes) -> None:
    axes.set(xlabel="speed-up (times)", ylabel="test accuracy (%)")
    for row in table.rows.to_dict("records"):
        x = [[row["speedup"] - row["speedup_low"]], [row["speedup_high"] - row["speedup"]]]
        y = [
            [row["difference"] - row["difference_low"]],
            [row["difference_high"] - row["difference"]],
        ]
        style = {"linestyle": "", "capsize": 2, "elinewidth": 1, **table.styles[row["strategy"]]}
        label = _label(row["strategy"])
        axes.errorbar(row["speedup"], row["accuracy"], y, x, label=label, **style)
    if (rows := table.rows.dropna(subset=["speedup"])).empty:
        return
    # Two seeds may give an interval of any length; the points must stay apart.
    axes.set_xlim(window(rows["speedup"], rows["speedup_low"], rows["speedup_high"], 1.0))
    base = rows["accuracy"] - rows["difference"]
    low, high = base + rows["difference_low"], base + rows["difference_high"]
    axes.set_ylim(window(rows["accuracy"], low, high, float(rows["accuracy"].max())))
    front = table.rows[table.rows["pareto"]].sort_values("speedup")
    axes.plot(front["speedup"], front["accuracy"], color="#999999", linestyle=":", zorder=0)
    axes.axvline(1, color="#999999", linewidth=0.8, zorder=0)


def _learning(table: Table, axes: Axes, x: str) -> None:
    looks = table.curves.dropna(subset=["test_top1"])
    for name, line in means(looks, table.rows["strategy"], "test_top1").items():
        style, often = table.styles[name], max(1, len(line) // 8)
        axes.plot(line[x], line["mean"], label=_label(name), markevery=often, **style)
        axes.fill_between(
            line[x], line["low"], line["high"], color=style["color"], alpha=0.12, linewidth=0
        )


def _time(table: Table, axes: Axes) -> None:
    axes.set(xlabel="prepare + train seconds", ylabel="test accuracy (%), mean and range of seeds")
    _learning(table, axes, "seconds")


def _epochs(table: Table, axes: Axes) -> None:
    axes.set(xlabel="epochs", ylabel="test accuracy (%), mean and range of seeds")
    _learning(table, axes, "epoch")


def _phases(table: Table, axes: Axes) -> None:
    axes.set(xlabel="seconds, mean over seeds")
    told = phase_means(table.runs, list(table.rows["strategy"]))
    ends = pd.Series(0.0, index=told.index)
    # A long name would leave no room for the bars.
    names = [broken(name, _NAME) for name in told.index]
    colours = dict(zip(PHASES, _PHASE_COLOURS, strict=True))
    for phase, seconds in told.items():
        bar = {"label": phase, "color": colours[phase], "edgecolor": "white"}
        axes.barh(names, seconds, left=ends, **bar)
        ends += seconds
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


def _shares(table: Table, axes: Axes) -> None:
    axes.set(xlabel="epochs", ylabel="share of the training samples, mean over seeds")
    for name, lines in table.curves.groupby("strategy", sort=False):
        mean = lines.groupby("epoch")[["kept", "mixed"]].mean()
        style = table.styles[name] | {"markevery": max(1, len(mean) // 8)}
        if (mean["kept"] < 1).any():
            axes.plot(mean.index, mean["kept"], label=_label(f"{name}: trained"), **style)
        if (mean["mixed"] > 0).any():
            mixed = mean["mixed"] * mean["kept"]
            axes.plot(mean.index, mixed, "--", label=_label(f"{name}: mixed"), **style)


FIGURES = {
    "tradeoff": ("Accuracy against speed-up, 95% intervals", _trade_off),
    "time": ("Accuracy against time", _time),
    "epochs": ("Accuracy against epochs", _epochs),
    "phases": ("Where the time went", _phases),
    "shares": ("What each epoch trained, and mixed", _shares),
}
"""Title and painter of each figure, by name."""


def draw(
    board: Board, folder: Path, wanted: Sequence[str] = (), formats: Sequence[str] = ("png",)
) -> Iterator[Path]:
    """Draw these figures of every table, or all; yield the path of each when it is written."""
    for name in wanted:
        if name not in FIGURES:
            hint = did_you_mean(name, FIGURES) or f" There are: {', '.join(FIGURES)}."
            raise UnknownName(f"There is no figure {name!r}.{hint}")
    keys = board.table[board.table["n"] > 0][["task", "conditions"]].drop_duplicates()
    for task, conditions in keys.itertuples(index=False):
        table = Table(board, task, conditions)
        for name in wanted or FIGURES:
            title, paint = FIGURES[name]
            if name == "shares" and not table.has_shares:
                continue
            parts = [name] if len(keys) == 1 else [name, slug(task), conditions]
            for form in formats:
                path = folder / f"{'-'.join(parts)}.{form}"
                with picture(path, title, f"{board.suite['name']}: {table.note}") as axes:
                    paint(table, axes)
                yield path
