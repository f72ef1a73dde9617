"""The first screen: the answer of each table, and its methods in five columns, in a few lines."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from dataeff.plural import counted
from dataeff.printable import fitted, printable, told_apart
from dataeff.report.board import Board
from dataeff.report.frames import Key, Record, of_table, records, tables, title
from dataeff.report.missing import still_missing
from dataeff.report.stats import Interval, interval_of
from dataeff.report.terminal import aligned
from dataeff.report.words import (
    POINTS,
    gained,
    limits,
    number,
    percent,
    points,
    saved,
    verdict_of,
)

LINES, WIDTH = 24, 80
"""What a terminal shows at once, at the least."""
_GAP = 2
# Letters of a name for which intervals make room, and a column, and those that are always shown.
_NAME, _LEAST, _FEWEST = 24, 12, 8
# Lines that notes may take: what is more is said by number.
_NOTES = 4
_HEAD = (("time", "saved"), ("accuracy", "points"), ("vs train", "less"), ("", "verdict"))
_HEADS = 2
# What commands begin with.
_COMMAND = "dataeff run "
# A table with fewer lines than this has one.
_ROOM = 6


class Line(NamedTuple):
    """A line of text; `bold` ones say what to do."""

    text: str
    bold: bool = False


def screen(board: Board, width: int = WIDTH, lines: int = LINES) -> list[Line]:
    """Return what fits on a screen: of several tables, as much of each as there is room for."""
    keys = [key for key, _ in tables(board.table)]
    notes = [*_missing(board, width), *_claims(board), *_notes(board.notes, width)]
    room = (lines - len(notes) - 1) // max(1, len(keys))
    shown = [line for key in keys for line in _table(board, key, width, room)]
    more = Line(f"All there is: dataeff leaderboard {board.suite['name']} --full")
    return [*shown, *notes, more]


def _table(board: Board, key: Key, width: int, room: int) -> list[Line]:
    """Return the answer of one table, and as many of its methods as there is room for."""
    shown, methods = [Line(fitted(title(key), width))], _methods(board, key)
    answers = [one for one in board.answers if one.key == key]
    if room < _ROOM:
        told = ": ".join([key[0], *(one.headline for one in answers)])
        return [Line(fitted(told, width), bold=True)]
    for one in answers:
        first, *rest = one.sentences
        shown += [Line(text, bold=True) for text in _wrapped(first, width)]
        for text in rest:
            wrapped = list(map(Line, _wrapped(text, width)))
            # One method at the least has a place, with its head and how many are left.
            if len(shown) + len(wrapped) + min(2, len(methods)) + _HEADS <= room:
                shown += wrapped
    left = room - len(shown) - _HEADS
    if left >= len(methods):
        return [*shown, *_lines(methods, width)]
    if left < 2:
        return shown
    more = f"and {counted(len(methods) - left + 1, 'method')} more"
    return [*shown, *_lines(methods[: left - 1], width), Line(more)]


def _methods(board: Board, key: Key) -> list[Record]:
    """Return the lines of methods, as the table has them: what is worth most first."""
    part = of_table(board.table, key)
    is_one = ~part["control"].astype(bool) & (part["strategy"] != board.suite["reference"])
    return records(part[is_one])


def _lines(methods: Sequence[Record], width: int) -> list[Line]:
    """Return a head and a line for each method; verdicts are never left out, names may be cut."""
    if not methods:
        return []
    names = [line["strategy"] for line in methods]
    verdicts = [verdict_of(line) or "-" for line in methods]
    for room, forms in _FORMS:
        numbers = [[form(line) for line in methods] for form in forms]
        # The verdict's head is the last one, however many columns there is room for.
        heads = [*_HEAD[: len(forms)], _HEAD[-1]]
        columns = [[*head, *cells] for head, cells in zip(heads, [*numbers, verdicts], strict=True)]
        widths = [max(map(len, column)) for column in columns]
        left = width - sum(widths) - len(widths) * _GAP
        if left >= min(room, max(map(len, names))):
            break
    column = ["method", *told_apart(names, max(_FEWEST, left))]
    told = aligned(
        ["", *(head for head, _ in heads)], zip(column, *(one[1:] for one in columns), strict=True)
    )
    return list(map(Line, told))


def _time(line: Record) -> str:
    return percent(_saved(line).mean) if line["speedup"] > 0 else "-"


def _time_with_limits(line: Record) -> str:
    reach = limits(Interval(*(100 * end for end in _saved(line))), "z.0f")
    return f"{_time(line)} ({reach})" if line["speedup"] > 0 and reach else _time(line)


def _saved(line: Record) -> Interval:
    return saved(interval_of(line, "speedup"))


def _points(line: Record) -> str:
    return number(line["difference"], POINTS)


def _points_with_limits(line: Record) -> str:
    return points(interval_of(line, "difference"))


def _gain(line: Record) -> str:
    return number(line["gain"], POINTS)


def _gain_with_limits(line: Record) -> str:
    return gained(interval_of(line, "gain"))


# Time saved, accuracy and gain, the widest first; and how many letters names are to have then.
_FORMS = (
    (_NAME, (_time_with_limits, _points_with_limits, _gain_with_limits)),
    (_NAME, (_time_with_limits, _points_with_limits, _gain)),
    (_NAME, (_time, _points_with_limits, _gain)),
    (_LEAST, (_time, _points, _gain)),
    (_FEWEST, (_time, _points)),
)


def _missing(board: Board, width: int) -> list[Line]:
    """Say what has not ended, and what to type."""
    told = still_missing(board.missing)
    return [Line(text, bold=True) for text in _wrapped(told, width)] if told else []


def _claims(board: Board) -> list[Line]:
    """Say how many claims of papers are confirmed, not confirmed and open."""
    if board.claims.empty:
        return []
    counts = board.claims["verdict"].value_counts(sort=False).items()
    return [Line(f"Claims of papers: {', '.join(f'{n} {word}' for word, n in counts)}.")]


def _notes(notes: Sequence[str], width: int) -> list[Line]:
    """Return notes as far as there is room for them, and how many there are beyond it."""
    said: list[Line] = []
    for place, note in enumerate(notes):
        wrapped = list(map(Line, _wrapped(note, width)))
        if len(said) + len(wrapped) > _NOTES:
            return [*said, Line(f"and {counted(len(notes) - place, 'note')} more")]
        said += wrapped
    return said


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text line by line; a command stays on one, where there is room to copy it."""
    text = printable(text)
    lines = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    place = text.find(_COMMAND)
    command = text[place:]
    if place < 0 or len(command) > width or any(command in line for line in lines):
        return lines
    return [*textwrap.wrap(text[:place], width, break_on_hyphens=False), command]
