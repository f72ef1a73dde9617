"""The leaderboard as people read it: a terminal table, plain text when piped, Markdown."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from dataeff.printable import printable
from dataeff.report.board import Board, places
from dataeff.report.columns import DISPENSABLE, TEXT, Column
from dataeff.report.frames import Key, Record, records, tables, title
from dataeff.report.missing import still_missing
from dataeff.report.stats import interval_of
from dataeff.report.words import CLAIMS, READ_OFF, TIMES, factor_limits, gained, number, points

# The letters that a folded name has on a line, at least.
_FOLD = 24
# Below this share of a run, its preparation is not worth a sentence.
_NOTABLE = 0.02

Texts = dict[Column, list[str]]
"""A table as texts: its columns, each with its heading first."""


def _accuracy(line: Record) -> str:
    spread = "" if math.isnan(line["accuracy_std"]) else f" ±{line['accuracy_std']:.2f}"
    return number(line["accuracy"], ".2f") + spread


def _speedup(line: Record) -> str:
    mark = "" if math.isnan(line["oracle"]) else " (part off the clock)"
    return number(line["speedup"], TIMES) + mark


def _target(line: Record) -> str:
    if line["target_reached"] in (0, 1) or math.isnan(line["target_reached"]):
        return number(line["target_seconds"], ".2f")
    return f"{line['target_reached']:.0%} did"


# What is made of more than the number of its column.
_MADE = {
    "verdict": lambda line: line["verdict"] or ("reference" if line["n"] else "-"),
    "accuracy": _accuracy,
    "difference": lambda line: points(interval_of(line, "difference")),
    "speedup": _speedup,
    "speedup_low": lambda line: factor_limits(interval_of(line, "speedup")) or "-",
    "gain": lambda line: "-" if math.isnan(line["gain"]) else gained(interval_of(line, "gain")),
    "target_seconds": _target,
}


def texts(group: pd.DataFrame, columns: Iterable[Column] = TEXT) -> Texts:
    """Return one table as text, by column; rare ones only where they say anything."""
    lines = records(group)
    return {
        column: [column.heading, *(_text(column, line) for line in lines)]
        for column in columns
        if not column.rare or column.says(group)
    }


def _text(column: Column, line: Record) -> str:
    if column.name in _MADE:
        return _MADE[column.name](line)
    form = column.short or column.form
    return number(line[column.name], form) if form else line[column.name]


def across(shown: Texts) -> tuple[list[str], list[list[str]]]:
    """Return header and lines of a table."""
    header, *lines = map(list, zip(*shown.values(), strict=True))
    return header, lines


def remarks(group: pd.DataFrame, feet: Iterable[str]) -> list[str]:
    """Return what is to be said under a table: verdicts on methods, notes, what holds for all."""
    said = []
    for line in records(group):
        name = line["strategy"]
        parts = [line["sentence"] if line["verdict"] != READ_OFF else "", line["against_line"]]
        if text := "; ".join(filter(None, parts)):
            said.append(f"{name}: {text}")
        if line["note"]:
            said.append(f"{name}: {line['note']}")
    return [*said, *_preparations(group), *feet]


def _under(board: Board, key: Key, part: pd.DataFrame) -> list[str]:
    """Return all that stands under a table: its answer, and remarks."""
    answers = [text for one in board.answers if one.key == key for text in one.sentences]
    return [*answers, *remarks(part, board.feet.get(key, []))]


def _preparations(table: pd.DataFrame) -> list[str]:
    """Say of each strategy that prepares what its speed-up is with, and without, that time."""
    said = []
    prepare = table["prepare_seconds"]
    notable = prepare > _NOTABLE * (prepare + table["train_seconds"])
    for line in records(table[notable & ~table["verdict"].isin(["", READ_OFF])]):
        parts = [f"{number(line['speedup'], TIMES)} with its preparation"]
        if line["artefact_uses"] > 1:
            parts[0] += " in full"
            shared = f"where {line['artefact_uses']:.0f} runs share its scores"
            parts.append(f"{number(line['amortised_speedup'], TIMES)} {shared}")
        parts.append(f"{number(line['train_speedup'], TIMES)} without it")
        said.append(f"{line['strategy']}: {', '.join(parts)}.")
    return said


def claim_lines(board: Board) -> list[str]:
    """Return what became of the claims of papers: a heading, and a line for each."""
    if board.claims.empty:
        return []
    said = [f"{CLAIMS} (margin {board.margin:g} points):"]
    for line, where in zip(records(board.claims), places(board), strict=True):
        paper = f"{line['text']} ({line['source']})" if line["source"] else line["text"]
        found = f"{line['strategy']} {line['claimed']}: {line['measured']}"
        said.append(f"{line['verdict']:13}  {': '.join(filter(None, (where, paper, found)))}")
    return said


def notes(board: Board) -> list[str]:
    """Return what is to be said of all tables: what is missing of them, and what is to be noted."""
    return [*filter(None, [still_missing(board.missing)]), *board.notes]


def rich_tables(board: Board, width: int) -> list[Table | Text]:
    """Return one terminal table per task and conditions, and what is to be said under it.

    The narrower the terminal, the fewer columns.
    """
    made: list[Table | Text] = []
    for key, part in tables(board.table):
        shown, dropped = fitting(texts(part), width)
        caption = f"Too narrow for: {', '.join(dropped)} (see leaderboard.csv)" if dropped else None
        made.append(rich_table(*across(shown), title=_shown(title(key)), caption=caption))
        made += map(_shown, _under(board, key, part))
    return [*made, *map(_shown, [*claim_lines(board), *notes(board)])]


def fitting(shown: Texts, width: int) -> tuple[Texts, list[str]]:
    """Return a table without the columns that the width has no room for, and their names."""
    shown, dropped = dict(shown), []
    for column in (one for one in DISPENSABLE if one in shown):
        first, *rest = map(_width, shown.values())
        # The first column folds.
        if min(first, _FOLD) + sum(rest) + 3 * len(shown) + 1 > width:
            dropped.append(shown.pop(column)[0])
    return shown, dropped


def rich_table(header: list[str], lines: list[list[str]], **options: Any) -> Table:
    """Return a terminal table of texts as they are; the first column folds, the others do not."""
    shown = Table(title_justify="left", header_style="bold", caption_justify="left", **options)
    first = _width([header[0], *(line[0] for line in lines)])
    shown.add_column(Text(header[0]), overflow="fold", min_width=min(_FOLD, first))
    for name in header[1:]:
        shown.add_column(Text(name), justify="right", no_wrap=True)
    for line in lines:
        shown.add_row(*map(_shown, line))
    return shown


def _shown(text: str) -> Text:
    return Text(printable(text, lines=True))


def _width(texts: Iterable[str]) -> int:
    return max(map(len, texts))


def plain_text(board: Board) -> str:
    """Return aligned plain text, for pipes and files."""
    blocks = [
        "\n".join([title(key), *aligned(*across(texts(part))), *_under(board, key, part)])
        for key, part in tables(board.table)
    ]
    return "\n\n".join(filter(None, [*blocks, "\n".join(claim_lines(board)), *notes(board)]))


def aligned(header: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """Return a table as plain text: the first column to the left, the others to the right."""
    first, *rest = zip(header, *lines, strict=True)
    columns = [_padded(first, str.ljust), *(_padded(column, str.rjust) for column in rest)]
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def _padded(texts: Sequence[str], pad: Callable[[str, int], str]) -> list[str]:
    width = _width(texts)
    return [pad(text, width) for text in texts]


def markdown(board: Board) -> str:
    """Return Markdown tables."""
    blocks = []
    for key, part in tables(board.table):
        header, lines = across(texts(part))
        rule = ["---", *["---:"] * (len(header) - 1)]
        lines = [[f"`{line[0]}`", *line[1:]] for line in lines]
        text = [f"| {' | '.join(map(_safe, line))} |" for line in [header, rule, *lines]]
        said = [line for remark in _under(board, key, part) for line in ("", _safe(remark))]
        blocks.append("\n".join([f"**{title(key)}**", "", *text, *said]))
    if said := list(map(_safe, claim_lines(board))):
        blocks.append("\n".join([said[0], "", *(f"- {line}" for line in said[1:])]))
    return "\n\n".join([*blocks, *notes(board)])


def _safe(text: str) -> str:
    return text.replace("|", r"\|")
