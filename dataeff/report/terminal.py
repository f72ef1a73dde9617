"""The leaderboard as people read it: a terminal table, plain text when piped, Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

Row = dict[str, Any]


def _number(value: float, spec: str, unit: str = "") -> str:
    return "-" if value is None or math.isnan(value) else format(value, spec) + unit


def _accuracy(row: Row) -> str:
    spread = "" if math.isnan(row["accuracy_std"]) else f" ±{row['accuracy_std']:.2f}"
    return _number(row["accuracy"], ".2f") + spread


def _difference(row: Row) -> str:
    if math.isnan(row["difference_low"]):
        return _number(row["difference"], "+.2f")
    return f"{row['difference']:+.2f} ({row['difference_low']:+.2f}..{row['difference_high']:+.2f})"


def _speedup(row: Row) -> str:
    mark = "" if row["ranked"] or math.isnan(row["speedup"]) else " (not ranked)"
    return _number(row["speedup"], ".2f", "x") + mark


COLUMNS: dict[str, Callable[[Row], str]] = {
    "strategy": lambda row: row["strategy"],
    "n": lambda row: str(row["n"]),
    "accuracy %": _accuracy,
    "vs reference (95%)": _difference,
    "F1 %": lambda row: _number(row["macro_f1"], ".2f"),
    "prep s": lambda row: _number(row["prepare_seconds"], ".2f"),
    "train s": lambda row: _number(row["train_seconds"], ".2f"),
    "speed-up": _speedup,
    "ideal": lambda row: _number(row["ideal_speedup"], ".2f", "x"),
    "real/ideal": lambda row: _number(row["realised"], ".2f"),
    "rows": lambda row: _number(row["rows_trained"], ",.0f"),
    "peak MiB": lambda row: _number(row["peak_memory_mib"], ".0f"),
}

# What a narrow terminal leaves out, the least telling first.
_DISPENSABLE = ("peak MiB", "rows", "prep s", "F1 %", "train s", "real/ideal", "ideal")


def cells(group: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return header and lines of one table, as text."""
    columns = dict(COLUMNS)
    if "published_accuracy" in group and group["published_accuracy"].notna().any():
        columns["paper %"] = lambda row: _number(row["published_accuracy"], ".2f")
    if "published_speedup" in group and group["published_speedup"].notna().any():
        columns["paper speed-up"] = lambda row: _number(row["published_speedup"], ".2f", "x")
    if group["oracle"].notna().any():
        columns["oracle"] = lambda row: _number(row["oracle"], ".2f", "x")
    if group["trouble"].any():
        columns["trouble"] = lambda row: row["trouble"]
    rows = group.to_dict("records")
    return list(columns), [[show(row) for show in columns.values()] for row in rows]


def remarks(group: pd.DataFrame) -> list[str]:
    """Return what is to be said under a table: verdicts against controls, strategies' notes."""
    said = []
    for row in group.to_dict("records"):
        if row["against_controls"]:
            said.append(
                f"{row['strategy']} against controls of its cost: {row['against_controls']}"
            )
        if row["note"]:
            said.append(f"{row['strategy']}: {row['note']}")
    return said


def groups(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split a leaderboard into tables that may be compared, each with its title."""
    parts = table.groupby(["task", "conditions"], sort=False)
    return [(f"{task} (conditions {conditions})", part) for (task, conditions), part in parts]


def rich_tables(table: pd.DataFrame, width: int) -> list[Table | Text]:
    """Return one terminal table per task and conditions, and what is to be said under it.

    The narrower the terminal, the fewer columns.
    """
    tables = []
    for title, part in groups(table):
        header, lines = cells(part)
        dropped = []
        for name in _DISPENSABLE:
            if sum(_widths(header, lines)) + 3 * len(header) + 1 > width:
                place = header.index(name)
                dropped.append(header.pop(place))
                lines = [line[:place] + line[place + 1 :] for line in lines]
        caption = f"Too narrow for: {', '.join(dropped)} (see leaderboard.csv)" if dropped else None
        shown = Table(
            title=Text(title),
            title_justify="left",
            header_style="bold",
            caption=caption,
            caption_justify="left",
        )
        shown.add_column(header[0], overflow="fold", min_width=min(24, _widths(header, lines)[0]))
        for name in header[1:]:
            shown.add_column(name, justify="right", no_wrap=True)
        for line in lines:
            shown.add_row(*map(Text, line))
        tables += [shown, *map(Text, remarks(part))]
    return tables


def _widths(header: list[str], lines: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(header, *lines, strict=True)]


def plain_text(table: pd.DataFrame) -> str:
    """Return aligned plain text, for pipes and files."""
    blocks = []
    for title, part in groups(table):
        header, lines = cells(part)
        widths = _widths(header, lines)
        aligned = [
            "  ".join(
                text.ljust(width) if i == 0 else text.rjust(width)
                for i, (text, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in [header, *lines]
        ]
        blocks.append("\n".join([title, *aligned, *remarks(part)]))
    return "\n\n".join(blocks)


def markdown(table: pd.DataFrame) -> str:
    """Return Markdown tables."""
    blocks = []
    for title, part in groups(table):
        header, lines = cells(part)
        rule = ["---", *["---:"] * (len(header) - 1)]
        lines = [[f"`{line[0]}`", *line[1:]] for line in lines]
        safe = [[text.replace("|", r"\|") for text in line] for line in [header, rule, *lines]]
        text = ["| " + " | ".join(line) + " |" for line in safe]
        said = [line for remark in remarks(part) for line in ("", remark.replace("|", r"\|"))]
        blocks.append("\n".join([f"**{title}**", "", *text, *said]))
    return "\n\n".join(blocks)
