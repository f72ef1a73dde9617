"""The leaderboard as people read it: a terminal table, plain text when piped, Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from dataeff.report.claims import places
from dataeff.report.preparing import preparations
from dataeff.report.sentences import NO_EFFECT, counted
from dataeff.report.stopping import READ_OFF

if TYPE_CHECKING:
    from dataeff.report.board import Board

Row = dict[str, Any]


def _number(value: float, spec: str, unit: str = "") -> str:
    return "-" if value is None or math.isnan(value) else format(value, spec) + unit


def _accuracy(row: Row) -> str:
    spread = "" if math.isnan(row["accuracy_std"]) else f" ±{row['accuracy_std']:.2f}"
    return _number(row["accuracy"], ".2f") + spread


def _difference(row: Row) -> str:
    if math.isnan(row["difference_low"]):
        return _number(row["difference"], "+z.2f")
    return (
        f"{row['difference']:+z.2f} ({row['difference_low']:+z.2f}..{row['difference_high']:+z.2f})"
    )


def _speedup(row: Row) -> str:
    mark = "" if math.isnan(row["oracle"]) else " (not ranked)"
    return _number(row["speedup"], ".2f", "x") + mark


def _speedup_limits(row: Row) -> str:
    if math.isnan(row["speedup_low"]):
        return "-"
    return f"{row['speedup_low']:.2f}-{row['speedup_high']:.2f}"


def _target(row: Row) -> str:
    if row["target_reached"] in (0, 1) or math.isnan(row["target_reached"]):
        return _number(row["target_seconds"], ".2f")
    return f"{row['target_reached']:.0%} did"


COLUMNS: dict[str, Callable[[Row], str]] = {
    "strategy": lambda row: row["strategy"],
    "rank": lambda row: _number(row["rank"], ".0f"),
    "verdict": lambda row: row["claim"] or ("reference" if row["n"] else "-"),
    "n": lambda row: str(row["n"]),
    "accuracy %": _accuracy,
    "vs reference (95%)": _difference,
    "speed-up": _speedup,
    "(95%)": _speedup_limits,
    "ideal": lambda row: _number(row["ideal_speedup"], ".2f", "x"),
    "real/ideal": lambda row: _number(row["realised"], ".2f"),
    "ref. by then %": lambda row: _number(row["reference_at_same_time"], ".2f"),
    "to target s": _target,
    "train s": lambda row: _number(row["train_seconds"], ".2f"),
    "prep s": lambda row: _number(row["prepare_seconds"], ".2f"),
    "worst class %": lambda row: _number(row["worst_class"], ".1f"),
    "F1 %": lambda row: _number(row["macro_f1"], ".2f"),
    "never trained": lambda row: _number(row["never_trained"], ".0%"),
    "balance": lambda row: _number(row["class_balance"], ".2f"),
    "rows": lambda row: _number(row["rows_trained"], ",.0f"),
    "peak MiB": lambda row: _number(row["peak_memory_mib"], ".0f"),
}

# The letters that a folded name has on a line, at least.
_FOLD = 24
# What a narrow terminal leaves out, the least telling first.
_DISPENSABLE = (
    *("peak MiB", "rows", "balance", "F1 %", "prep s", "never trained", "worst class %"),
    *("train s", "to target s", "ref. by then %", "real/ideal", "(95%)", "ideal", "n"),
    *("rank", "verdict"),
)


def cells(group: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return header and lines of one table, as text."""
    columns = dict(COLUMNS)
    if group["energy_joules"].notna().any():
        columns["energy J"] = lambda row: _number(row["energy_joules"], ",.0f")
    if group["published_accuracy"].notna().any():
        columns["paper %"] = lambda row: _number(row["published_accuracy"], ".2f")
    if group["published_speedup"].notna().any():
        columns["paper speed-up"] = lambda row: _number(row["published_speedup"], ".2f", "x")
    if group["oracle"].notna().any():
        columns["oracle"] = lambda row: _number(row["oracle"], ".2f", "x")
    if group["trouble"].any():
        columns["trouble"] = lambda row: row["trouble"]
    rows = group.to_dict("records")
    return list(columns), [[show(row) for show in columns.values()] for row in rows]


def remarks(group: pd.DataFrame) -> list[str]:
    """Return what is to be said under a table: verdicts on methods, and strategies' notes."""
    said = []
    for row in group.to_dict("records"):
        if row["verdict"] and not row["control"]:
            said.append(f"{row['strategy']}: {row['verdict']}")
        if row["against_controls"]:
            said.append(
                f"{row['strategy']} against controls of its cost: {row['against_controls']}"
            )
        if row["note"]:
            said.append(f"{row['strategy']}: {row['note']}")
    said += preparations(group)
    tested = group["difference_low"].notna() & ~group["claim"].isin(["", READ_OFF, NO_EFFECT])
    if len(judged := group[tested]):
        count = counted(len(judged), "strategy", "strategies")
        said.append(f"Verdicts hold together (Holm, {count}); each interval holds for itself.")
    return said


def claim_lines(board: Board) -> list[str]:
    """Return what became of the claims of papers: a heading, and a line for each."""
    if board.claims.empty:
        return []
    said = [f"Claims, each judged by its own 95% interval (margin {board.margin:g} points):"]
    for row, where in zip(board.claims.to_dict("records"), places(board), strict=True):
        paper = f"{row['text']} ({row['source']})" if row["source"] else row["text"]
        found = f"{row['strategy']} {row['claimed']}: {row['measured']}"
        said.append(f"{row['verdict']:13}  {': '.join(filter(None, (where, paper, found)))}")
    return said


def groups(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split a leaderboard into tables that may be compared, each with its title."""
    parts = table.groupby(["task", "conditions"], sort=False)
    return [(f"{task} (conditions {conditions})", part) for (task, conditions), part in parts]


def rich_tables(board: Board, width: int) -> list[Table | Text]:
    """Return one terminal table per task and conditions, and what is to be said under it.

    The narrower the terminal, the fewer columns.
    """
    tables = []
    for title, part in groups(board.table):
        header, lines, dropped = fitting(*cells(part), width)
        caption = f"Too narrow for: {', '.join(dropped)} (see leaderboard.csv)" if dropped else None
        shown = rich_table(header, lines, title=Text(title), caption=caption)
        tables += [shown, *map(Text, remarks(part))]
    return [*tables, *map(Text, [*claim_lines(board), *board.notes])]


def fitting(
    header: list[str], lines: list[list[str]], width: int
) -> tuple[list[str], list[list[str]], list[str]]:
    """Return a table without the columns that the width has no room for, and their names."""
    dropped = []
    for name in _DISPENSABLE:
        first, *rest = _widths(header, lines)
        # The first column folds.
        if min(first, _FOLD) + sum(rest) + 3 * len(header) + 1 > width:
            place = header.index(name)
            dropped.append(header.pop(place))
            lines = [line[:place] + line[place + 1 :] for line in lines]
    return header, lines, dropped


def rich_table(header: list[str], lines: list[list[str]], **options: Any) -> Table:
    """Return a terminal table of texts as they are; the first column folds, the others do not."""
    shown = Table(title_justify="left", header_style="bold", caption_justify="left", **options)
    shown.add_column(
        Text(header[0]), overflow="fold", min_width=min(_FOLD, _widths(header, lines)[0])
    )
    for name in header[1:]:
        shown.add_column(Text(name), justify="right", no_wrap=True)
    for line in lines:
        shown.add_row(*map(Text, line))
    return shown


def _widths(header: list[str], lines: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(header, *lines, strict=True)]


def plain_text(board: Board) -> str:
    """Return aligned plain text, for pipes and files."""
    blocks = [
        "\n".join([title, *aligned(*cells(part)), *remarks(part)])
        for title, part in groups(board.table)
    ]
    if said := claim_lines(board):
        blocks.append("\n".join(said))
    return "\n\n".join([*blocks, *board.notes])


def aligned(header: list[str], lines: list[list[str]]) -> list[str]:
    """Return a table as plain text: the first column to the left, the others to the right."""
    widths = _widths(header, lines)
    return [
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [header, *lines]
    ]


def markdown(board: Board) -> str:
    """Return Markdown tables."""
    blocks = []
    for title, part in groups(board.table):
        header, lines = cells(part)
        rule = ["---", *["---:"] * (len(header) - 1)]
        lines = [[f"`{line[0]}`", *line[1:]] for line in lines]
        safe = [[text.replace("|", r"\|") for text in line] for line in [header, rule, *lines]]
        text = ["| " + " | ".join(line) + " |" for line in safe]
        said = [line for remark in remarks(part) for line in ("", remark.replace("|", r"\|"))]
        blocks.append("\n".join([f"**{title}**", "", *text, *said]))
    if said := claim_lines(board):
        heading, *lines = (line.replace("|", r"\|") for line in said)
        blocks.append("\n".join([heading, "", *(f"- {line}" for line in lines)]))
    return "\n\n".join([*blocks, *board.notes])
