"""Figures of a board as pictures for papers and slides: PNG or SVG, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from dataeff.analysis.picture import COLOURS, broken, picture
from dataeff.errors import UnknownName, did_you_mean
from dataeff.files import slug
from dataeff.report.board import Board
from dataeff.report.compare import PHASES
from dataeff.report.frames import Key, Record, of_table, records, seen_on, tables
from dataeff.report.series import means, on_one_scale, phase_means, window
from dataeff.report.stats import interval_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More lines than this nobody tells apart.
_MOST = 12
_MARKERS = "osD^vXP*<>"
# Letters of a name beside a bar.
_NAME = 28
_ACROSS = {"seconds": "prepare + train seconds", "epoch": "epochs"}
# The network's own work in blue and black, whatever comes on top in the warm colours.
_PHASE_COLOURS = (
    *("#CC79A7", "#F0E442", "#E69F00", "#D55E00", "#8B3A00"),
    *("#009E73", "#56B4E9", "#0072B2", "#222222", "#BBBBBB"),
)


class Table:
    """One table of a board, task and conditions, cut down to what a picture can show."""

    def __init__(self, board: Board, key: Key) -> None:
        lines = of_table(board.table, key)
        reference = board.suite["reference"]
        lines = on_one_scale(lines[lines["n"] > 0], reference)
        names = list(lines["strategy"][:_MOST])
        self.lines, self.curves, self.runs = (
            part[part["strategy"].isin(names)]
            for part in (lines, of_table(board.curves, key), of_table(board.runs, key))
        )
        left_out = len(lines) - len(self.lines)
        self.note = f"{key[0]}, conditions {key[1]}; n = {int(lines['n'].max())} seeds" + (
            f"; {left_out} more strategies are in the table" if left_out else ""
        )
        shares = self.curves[["kept", "mixed"]].dropna()
        self.has_shares = bool(((shares["kept"] < 1) | (shares["mixed"] > 0)).any())
        # The reference is black, whoever else there is.
        self.styles: dict[str, dict[str, Any]] = {reference: {"color": "#000000", "marker": "o"}}
        palette = [colour for colour in COLOURS if colour != "#000000"]
        for i, name in enumerate(name for name in names if name != reference):
            marker = _MARKERS[(i + 1 + i // len(palette)) % len(_MARKERS)]
            self.styles[name] = {"color": palette[i % len(palette)], "marker": marker}


def _label(name: str) -> str:
    # matplotlib leaves names that begin with an underscore out of its legend.
    return f"\u200b{name}" if name.startswith("_") else name


def _trade_off(table: Table, axes: Axes) -> None:
    axes.set(xlabel="speed-up (times)", ylabel="test accuracy (%)")
    for line in records(table.lines):
        across, up = _reach(line, "speedup"), _reach(line, "difference")
        style = table.styles[line["strategy"]] | {"linestyle": "", "capsize": 2, "elinewidth": 1}
        label = _label(line["strategy"])
        axes.errorbar(line["speedup"], line["accuracy"], up, across, label=label, **style)
    if (lines := table.lines.dropna(subset=["speedup"])).empty:
        return
    # Two seeds may give an interval of any length; the points must stay apart.
    axes.set_xlim(*window(lines, "speedup", "speedup", 1.0))
    axes.set_ylim(*window(lines, "accuracy", "difference", lines["accuracy"].max()))
    front = table.lines[table.lines["pareto"]].sort_values("speedup")
    axes.plot(front["speedup"], front["accuracy"], color="#999999", linestyle=":", zorder=0)
    axes.axvline(1, color="#999999", linewidth=0.8, zorder=0)


def _reach(line: Record, name: str) -> list[list[float]]:
    mean, low, high = interval_of(line, name)
    return [[mean - low], [high - mean]]


def _learning(table: Table, axes: Axes, x: str) -> None:
    images = seen_on(table.runs)
    seen = f"accuracy on {images} (%)" if images else "test accuracy (%)"
    axes.set(xlabel=_ACROSS[x], ylabel=f"{seen}, mean and range of seeds")
    tests = table.curves.dropna(subset=["test_top1"])
    for name, line in means(tests, table.lines["strategy"], "test_top1").items():
        style, often = table.styles[name], max(1, len(line) // 8)
        axes.plot(line[x], line["mean"], label=_label(name), markevery=often, **style)
        axes.fill_between(
            line[x], line["low"], line["high"], color=style["color"], alpha=0.12, linewidth=0
        )


def _phases(table: Table, axes: Axes) -> None:
    axes.set(xlabel="seconds, mean over seeds")
    told = phase_means(table.runs, list(table.lines["strategy"]))
    ends = pd.Series(0.0, index=told.index)
    # A long name would leave no room for the bars.
    names = [broken(name, _NAME) for name in told.index]
    for phase, colour in zip(PHASES, _PHASE_COLOURS, strict=True):
        if phase in told:
            axes.barh(names, told[phase], left=ends, label=phase, color=colour, edgecolor="white")
            ends += told[phase]
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


FIGURES: dict[str, tuple[str, Callable[[Table, Axes], None]]] = {
    "tradeoff": ("Accuracy against speed-up, with the intervals that judge", _trade_off),
    "time": ("Accuracy against time", partial(_learning, x="seconds")),
    "epochs": ("Accuracy against epochs", partial(_learning, x="epoch")),
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
    keys = [key for key, _ in tables(board.table[board.table["n"] > 0])]
    for key in keys:
        table = Table(board, key)
        for name in wanted or FIGURES:
            title, paint = FIGURES[name]
            if name == "shares" and not table.has_shares:
                continue
            parts = [name] if len(keys) == 1 else [name, slug(key[0]), key[1]]
            for form in formats:
                path = folder / f"{'-'.join(parts)}.{form}"
                with picture(path, title, f"{board.suite['name']}: {table.note}") as axes:
                    paint(table, axes)
                yield path
