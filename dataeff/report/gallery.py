"""The charts of one table, each with its heading, how to read it, and what it says in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from dataeff.report import rows
from dataeff.report.board import Board
from dataeff.report.charts import Figure, Looks, learning, shares, trade_off

_MOST_COMPOSED = 30
_LINE = "Lines show one seed, so there is no band."
_BAND = "Lines are means over seeds; bands reach from the lowest to the highest seed."


@dataclass(frozen=True)
class Chart:
    """A figure and its words: `label` says it to those who cannot see it, `table` has numbers."""

    name: str
    heading: str
    caption: str
    figure: Figure
    label: str
    height: int
    wide: bool = False
    table: pd.DataFrame | None = None


def texts(values: Iterable[float], spec: str, unit: str = "") -> list[str]:
    """Return numbers as texts, a dash for what is unknown."""
    return [format(value, spec) + unit if math.isfinite(value) else "–" for value in values]


def gallery(board: Board, key: tuple[str, str], part: pd.DataFrame, looks: Looks) -> list[Chart]:
    """Return the charts that there is anything for."""
    curves, classes, composed = (
        frame[(frame["task"] == key[0]) & (frame["conditions"] == key[1])]
        for frame in (board.curves, board.classes, board.compositions)
    )
    runs = board.runs
    runs = runs[(runs["task_name"] == key[0]) & (runs["conditions_id"] == key[1])]
    curves = curves[curves["strategy"].isin(list(looks))]
    reference = board.suite["reference"]
    others = [name for name in looks if name != reference]
    found = [
        _trade_off(part[part["n"] > 0], looks, reference, board.margin),
        *_learning(curves, looks),
        _phases(runs, list(looks)),
        *_shares(curves, looks),
        *_composed(composed),
        _classes(classes, others),
    ]
    return [chart for chart in found if chart]


def _trade_off(part: pd.DataFrame, looks: Looks, reference: str, margin: float) -> Chart | None:
    figure = trade_off(part, looks, reference, margin)
    told = part[part["strategy"].isin(list(looks))].dropna(subset=["speedup", "accuracy"])
    said = zip(
        told["strategy"], texts(told["speedup"], ".2f"), texts(told["accuracy"], ".2f"), strict=True
    )
    label = "; ".join(f"{name}: {speed} times, {accuracy}%" for name, speed, accuracy in said)
    several = part["difference_low"].notna().any()
    bars = "Bars are 95% intervals of the paired differences." if several else "One seed: no bars."
    return figure and Chart(
        "trade",
        "Accuracy against speed-up",
        f"{bars} The broad grey line is the Pareto front: nothing is both faster and more accurate "
        "than what lies on it.",
        figure,
        f"Accuracy against speed-up. {label}",
        440,
        wide=True,
    )


def _learning(curves: pd.DataFrame, looks: Looks) -> list[Chart]:
    ends = curves.dropna(subset=["test_top1"]).groupby(["strategy", "seed"], sort=False).tail(1)
    ends = ends.groupby("strategy", sort=False)[["test_top1", "seconds"]].mean()
    label = "; ".join(
        f"{name}: {row.test_top1:.2f}% after {row.seconds:.3g} seconds"
        for name, row in zip(ends.index, ends.itertuples(), strict=True)
    )
    kinds = (("seconds", "Accuracy against time"), ("epoch", "Accuracy against epoch"))
    found = []
    for x, heading in kinds:
        if figure := learning(curves, looks, x):
            least = figure["layout"]["yaxis"]["range"][0]
            low = min(v for trace in figure["data"] for v in trace["y"])
            cut = " The beginning is cut off; a double click shows it." if low < least else ""
            bands = any("fill" in trace for trace in figure["data"])
            cut = (_BAND if bands else _LINE) + cut
            found.append(Chart(x, heading, cut, figure, f"{heading}. {label}", 360))
    return found


def _phases(runs: pd.DataFrame, strategies: list[str]) -> Chart | None:
    means = rows.phase_means(runs, strategies)
    figure = rows.phases(means)
    table = pd.DataFrame({"seconds": means.index})
    for phase in means.columns:
        table[phase] = texts(means[phase], ".3g")
    return figure and Chart(
        "phases",
        "Where the time went",
        "Seconds of preparing and of each phase of training, means over seeds.",
        figure,
        "Seconds per phase and strategy, as in the table below.",
        _height(len(means)) + 30,
        wide=True,
        table=table,
    )


def _height(count: int) -> int:
    return 80 + 46 * count


def _shares(curves: pd.DataFrame, looks: Looks) -> list[Chart]:
    kinds = (
        ("kept", 1.0, "Kept per epoch", "Share of the training samples that were trained."),
        ("mixed", 0.0, "Mixed per epoch", "Share of the trained samples that were in mixed rows."),
    )
    found = []
    for column, usual, heading, caption in kinds:
        if figure := shares(curves, looks, column, usual):
            means = curves.groupby("strategy", sort=False)[column].mean()
            label = "; ".join(f"{name}: {value:.0%}" for name, value in means.items())
            caption += f" Those not drawn are at {usual:.0%} throughout."
            words = f"{heading}, means over epochs. {label}"
            found.append(Chart(column, heading, caption, figure, words, 300))
    return found


def _composed(part: pd.DataFrame) -> list[Chart]:
    kinds = (
        ("speedup", "Composed: speed-up", "multiply", ".2f", "×"),
        ("accuracy", "Composed: accuracy", "add up", "+.2f", ""),
    )
    found = []
    for quantity, heading, how, spec, unit in kinds:
        mine = part[part["quantity"] == quantity]
        few = mine.head(_MOST_COMPOSED)
        if figure := rows.composed(few, quantity):
            caption = f"Diamond: expected if the effects {how}. Circle: measured, with what the "
            caption += "interval of the interaction leaves open."
            if len(few) < len(mine):
                caption += f" The first {len(few)} of {len(mine)}."
            table = pd.DataFrame(
                {
                    "composition": few["parts"],
                    "single effects": few["effects"],
                    "expected": texts(few["sum"], spec, unit),
                    "measured": texts(few["measured"], spec, unit),
                    "says": few["says"],
                }
            )
            words = f"{heading}: expected and measured, as in the table below."
            height = _height(len(few)) + 10
            found.append(
                Chart(f"composed-{quantity}", heading, caption, figure, words, height, table=table)
            )
    return found


def _classes(classes: pd.DataFrame, strategies: list[str]) -> Chart | None:
    wide = rows.class_differences(classes, strategies)
    figure = rows.per_class(wide, classes)
    cut = classes["label"].nunique() > wide.shape[1]
    table = pd.DataFrame({"points": wide.index})
    for label in wide.columns:
        table[str(label)] = texts(wide[label], "+.2f")
    only = f" Only the {wide.shape[1]} classes in which most is lost." if cut else ""
    return figure and Chart(
        "classes",
        "Accuracy by class",
        f"Points against the reference, means over seeds; one column per class.{only}",
        figure,
        "Accuracy by class against the reference, as in the table below.",
        _height(len(wide)) + 56,
        wide=True,
        table=table,
    )
