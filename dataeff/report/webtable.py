"""The table of the page: every column, sortable by its numbers and not by its texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from dataeff.report.cards import breakable, claim, mark
from dataeff.report.charts import Looks

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """One column: how it is headed, shown and explained; `more` is hidden until asked for."""

    name: str
    title: str
    spec: str
    meaning: str
    more: bool = False
    spread: str = ""
    up: bool = False


COLUMNS = (
    Column("rank", "rank", ".0f", "Shared where intervals do not tell strategies apart.", up=True),
    Column("strategy", "strategy", "", "The method with its parameters.", up=True),
    Column("claim", "verdict", "", "What may be claimed against the reference.", up=True),
    Column("n", "seeds", ".0f", "Finished runs."),
    Column("accuracy", "accuracy %", ".2f", "On the test set after the last epoch.", spread="std"),
    Column("difference", "difference", "+.2f", "Points against the reference.", spread="interval"),
    Column("speedup", "speed-up", ".2fx", "Seconds of the reference over ours.", spread="interval"),
    Column("ideal_speedup", "ideal", ".2fx", "Speed-up by counted work: forward 1, backward 2."),
    Column("train_seconds", "train s", ".2f", "Seconds on the train clock.", up=True),
    Column("pareto", "Pareto", "yes", "Nothing else is both faster and more accurate."),
    Column("trouble", "trouble", "", "Runs that failed, diverged or have no pair."),
    Column("contended", "contended", ".0f", "Runs during which something else used the machine."),
    Column("prepare_seconds", "prep s", ".2f", "Seconds on the prepare clock.", True, up=True),
    Column("train_speedup", "without prep", ".2fx", "Speed-up, preparation left out.", True),
    Column("amortised_speedup", "shared prep", ".2fx", "Speed-up, reused scores shared.", True),
    Column("artefact_uses", "uses", ".0f", "Runs that share the scores.", True),
    Column("realised", "real/ideal", ".2f", "Realised over ideal speed-up.", True),
    Column("macro_f1", "F1 %", ".2f", "Macro F1 on the test set.", True),
    Column("worst_class", "worst class %", ".2f", "Accuracy of the worst class.", True),
    Column("target_seconds", "s to target", ".2f", "Seconds until the target.", True, up=True),
    Column("target", "target %", ".2f", "The accuracy to reach.", True),
    Column("target_reached", "reached", ".0%", "Share of seeds that reached the target.", True),
    Column(
        "reference_at_same_time",
        "reference then %",
        ".2f",
        "Accuracy of the reference at the moment the strategy was done.",
        True,
    ),
    Column(
        "early_speedup",
        "reference as good",
        ".2fx",
        "Speed-up of the reference, stopped as soon as it is as accurate as the strategy.",
        True,
    ),
    Column("rows_trained", "rows", ",.0f", "Rows trained.", True, up=True),
    Column("never_trained", "never trained", ".1%", "Share of samples never used.", True, up=True),
    Column(
        "class_balance", "balance", ".2f", "Class balance of what was trained; 1 is even.", True
    ),
    Column("oracle", "oracle", ".2fx", "Speed-up if what is off the clock cost nothing.", True),
    Column("energy_joules", "joules", ",.0f", "Energy, where a meter exists.", True, up=True),
    Column("peak_memory_mib", "peak MiB", ",.0f", "Most memory in use.", True, up=True),
    Column("published_accuracy", "paper %", ".2f", "Accuracy that was published.", True),
    Column("published_speedup", "paper speed-up", ".2fx", "Speed-up that was published.", True),
    Column("note", "note", "", "What the strategy says of its runs.", True),
)
# A longer table scrolls in its own box, below its head.
_TALL = 20
_ALWAYS = {"rank", "strategy", "claim", "n", "accuracy", "difference", "speedup"}


def used_columns(table: pd.DataFrame) -> list[Column]:
    """Return the columns that say anything."""
    return [column for column in COLUMNS if column.name in _ALWAYS or _says(table[column.name])]


def _says(values: pd.Series) -> bool:
    if values.dtype == bool or pd.api.types.is_integer_dtype(values):
        return bool(values.any())
    return bool(values.notna().any() if values.dtype.kind == "f" else values.astype(bool).any())


def web_table(part: pd.DataFrame, looks: Looks, reference: str, number: int) -> str:
    """Return one table with its filter, its switches and its rows."""
    columns = used_columns(part)
    rows = part.to_dict("records")
    shown = [_cells(column, rows, looks, reference) for column in columns]
    lines = "".join(
        f"<tr{_kind(row, reference)}>{''.join(cells)}</tr>"
        for row, cells in zip(rows, zip(*shown, strict=True), strict=True)
    )
    head = "".join(map(_head, columns))
    more = any(column.more for column in columns)
    return (
        f'<div class="tools"><label>Filter <input type="search" data-filter="t{number}" '
        'placeholder="strategy or verdict"></label>'
        + _switch(number, "controls", "hide controls", part["control"].any())
        + _switch(number, "more", "more columns", more)
        + f'<output id="t{number}-count" aria-live="polite"></output></div>'
        f'<div class="scroll{" tall" if len(rows) > _TALL else ""}" tabindex="0" role="region" '
        'aria-label="Table of results">'
        f'<table id="t{number}" class="results"><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _switch(number: int, name: str, text: str, needed: bool) -> str:
    if not needed:
        return ""
    return (
        f'<label><input type="checkbox" data-switch="{name}" data-table="t{number}"> {text}</label>'
    )


def _kind(row: Row, reference: str) -> str:
    if row["strategy"] == reference:
        return ' class="reference"'
    return ' class="control"' if row["control"] else ""


def _head(column: Column) -> str:
    kinds = {"more": column.more, "names": column.name == "strategy", "text": column.spec == ""}
    words = " ".join(name for name, is_so in kinds.items() if is_so)
    first = "ascending" if column.up else "descending"
    return (
        f'<th scope="col" class="{words}" data-name="{column.name}" data-first="{first}">'
        f'<button type="button" title="{escape(column.meaning)}">{escape(column.title)}</button>'
        "</th>"
    )


def _cells(column: Column, rows: list[Row], looks: Looks, reference: str) -> list[str]:
    kind = " more" if column.more else ""
    if column.name == "strategy":
        return [
            f'<th scope="row"><div class="name">{mark(looks.get(row["strategy"]))}'
            f"<span>{breakable(row['strategy'])}{_tag(row, reference)}</span></div></th>"
            for row in rows
        ]
    if column.name == "claim":
        return [
            f'<td class="text">{"" if row["strategy"] == reference else claim(row)}</td>'
            for row in rows
        ]
    if column.spec == "":
        return [f'<td class="text{kind}">{breakable(row[column.name])}</td>' for row in rows]
    if column.spec == "yes":
        return ['<td data-v="1">yes</td>' if row[column.name] else "<td></td>" for row in rows]
    show, spread = _shower(column.spec), _SPREADS.get(column.spread)
    name, css = column.name, f' class="{kind.strip()}"' if kind else ""
    empty = f"<td{css}>–</td>"
    return [
        f'<td{css} data-v="{float(row[name]):.10g}">{show(row[name])}'
        f"{spread(row, name, show) if spread else ''}</td>"
        if math.isfinite(row[name])
        else empty
        for row in rows
    ]


def _tag(row: Row, reference: str) -> str:
    if row["strategy"] == reference:
        return ' <span class="tag">reference</span>'
    tags = [("control", row["control"]), ("not ranked", row["n"] and not row["ranked"])]
    return "".join(f' <span class="tag">{text}</span>' for text, is_so in tags if is_so)


Show = Callable[[float], str]


def _shower(spec: str) -> Show:
    if spec.endswith("x"):
        return lambda value: f"{value:{spec[:-1]}}×"
    if spec.startswith("+"):
        # Adding nothing turns what rounds to -0.00 into +0.00.
        return lambda value: f"{round(value, 2) + 0.0:{spec}}"
    return lambda value: f"{value:{spec}}"


def _std(row: Row, name: str, show: Show) -> str:
    spread = row[f"{name}_std"]
    return "" if math.isnan(spread) else f" <small>±{spread:.2f}</small>"


def _interval(row: Row, name: str, show: Show) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if math.isnan(low) or low == high:
        return ""
    return f" <small>{show(low)} to {show(high)}</small>".replace("×", "")


_SPREADS = {"std": _std, "interval": _interval}
