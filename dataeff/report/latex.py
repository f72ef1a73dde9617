"""The leaderboard for papers: LaTeX tables that fit one column of a paper of two."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from string import Template
from typing import Any, NamedTuple

import pandas as pd

from dataeff.errors import DataeffError, UnknownName, did_you_mean, one_line
from dataeff.plural import counted
from dataeff.report.board import Board
from dataeff.report.columns import COLUMNS, Column
from dataeff.report.frames import Key, Record, of_table, records, tables, title
from dataeff.report.stats import Interval, interval_of
from dataeff.report.styles import labels_of
from dataeff.report.tex import breakable, escape, maths, maths_width, width
from dataeff.report.words import CONTROL, POINTS, READ_OFF, number, saved

_TIME = Column("time_saved", "time saved %", "z.0f", "Of the time of the reference, in percent.")
KNOWN = {column.name: column for column in (_TIME, *COLUMNS)}
"""What a table may have: the columns of leaderboard.csv, and what a speed-up saves."""
CHOSEN = ("strategy", "time_saved", "difference", "gain", "verdict")
"""What it has unless told otherwise."""

# Titles in place of those that are too long for a column of numbers.
_TITLES = {"strategy": "method", "difference": "accuracy points", "gain": "over training less"}
# Points of a column, of a page, between two columns, and of names and texts at least.
_COLUMN, _PAGE, _BETWEEN, _NAME, _TEXT, _HANG = 236.0, 490.0, 6.0, 56.0, 38.0, 6.0
# Points of a line of text, of lines in a column, and how much longer texts are that are ragged.
_LINE, _HIGHEST, _RAGGED = 10.5, 560.0, 1.2
# Where a difference or its interval has two digits before the point, one behind it is enough.
_LARGE = 9.95

_TABLE = Template(r"""\begin{$place}[t]
\centering\footnotesize\setlength{\tabcolsep}{3pt}\renewcommand{\arraystretch}{1.15}
\caption{$caption}\vspace{3pt}
\begin{tabularx}{$width}{@{}$columns@{}}
\toprule
$header \\
\midrule
$lines
\bottomrule
\end{tabularx}
\end{$place}""")


def latex(board: Board, columns: Sequence[str] = ()) -> str:
    """Return one table environment per task and conditions; needs booktabs and tabularx.

    Tables that are too wide or too high for a column of a paper go across its page.
    """
    shown = chosen(columns)
    head = [r"% needs \usepackage{booktabs,tabularx}"]
    head += [f"% {column.title or column.name}: {column.brief}" for column in shown]
    parts = [_Table(board, key, shown).text() for key, _ in tables(board.table)]
    return "\n\n".join(["\n".join(head), *(f"% {note}" for note in board.notes), *parts])


def chosen(names: Sequence[str]) -> list[Column]:
    """Return the columns of these names, or those that a table has unless told otherwise."""
    for name in names:
        if name not in KNOWN:
            hint = did_you_mean(name, KNOWN) or f" Such as: {','.join(CHOSEN)}."
            raise UnknownName(f"--columns: there is no column {name!r}.{hint}")
        if list(names).count(name) > 1:
            raise DataeffError(f"--columns: {name} is there twice; delete one.")
    return [KNOWN[name] for name in names or CHOSEN]


class _Set(NamedTuple):
    """A column as LaTeX: heading, cells and points; where it folds at least these, and `spec`."""

    head: str
    cells: list[str]
    width: float
    spec: str = ""
    widths: Sequence[float] = ()


class _Table:
    """Sets one table."""

    def __init__(self, board: Board, key: Key, columns: Sequence[Column]) -> None:
        self.board, self.key = board, key
        lines = of_table(board.table, key)
        # Added yardsticks are what `gain` is over; others stand below the methods.
        added = lines["verdict"].isin([CONTROL, READ_OFF])
        self.lines = lines[~added].sort_values("control", kind="stable")
        self.left_out = list(lines.loc[added, "strategy"])
        self.reference = board.suite["reference"]
        self.labels = labels_of(board.suite, lines["strategy"])
        self.columns = [self._set(column) for column in columns]

    def text(self) -> str:
        place, wide = self._place()
        # What columns that fold share is divided by what each needs.
        folding = [column.width for column in self.columns if column.spec]
        specs = [
            rf">{{\hsize={column.width * len(folding) / sum(folding):.3f}\hsize{column.spec}}}X"
            if column.spec
            else "r"
            for column in self.columns
        ]
        filled = {"place": place, "width": wide, "columns": "".join(specs)}
        header = " & ".join(column.head for column in self.columns)
        lines = "\n\\midrule\n".join("\n".join(group) for group in self._groups())
        table = _TABLE.substitute(filled, caption=self._caption(), header=header, lines=lines)
        more = f"% Left out: {', '.join(self.left_out)}.\n" if self.left_out else ""
        return f"{more}{table}"

    def _place(self) -> tuple[str, str]:
        """Return the environment that has room for the table, and how wide that is."""
        between = _BETWEEN * (len(self.columns) - 1)
        needed = sum(column.width for column in self.columns) + between
        if needed > _PAGE:
            raise DataeffError(
                f"--columns: {len(self.columns)} columns are wider than a page; name fewer, such "
                f"as: {','.join(CHOSEN)}."
            )
        if needed <= _COLUMN and self._height(_COLUMN - between) <= _HIGHEST:
            return "table", r"\columnwidth"
        return "table*", r"\textwidth"

    def _height(self, room: float) -> float:
        """Return about how high the table is where its columns have so much room together."""
        folding = [column for column in self.columns if column.spec]
        left = room - sum(column.width for column in self.columns if not column.spec)
        needed = sum(column.width for column in folding)
        cells = [
            [1 + _RAGGED * width / (left * column.width / needed) for width in column.widths]
            for column in folding
        ]
        return sum(_LINE * math.floor(max(line)) for line in zip(*cells, strict=True))

    def _groups(self) -> Iterator[list[str]]:
        """Yield the lines of methods and those of yardsticks, each with its full name behind it."""
        cells = zip(*(column.cells for column in self.columns), strict=True)
        told = zip(self.lines["strategy"], self.lines["control"].astype(bool), cells, strict=True)
        for _, group in groupby(told, key=lambda line: line[1]):
            yield [f"{' & '.join(line)} \\\\ % {one_line(name)}" for name, _, line in group]

    def _caption(self) -> str:
        said = [f"{title(self.key)}, {counted(int(self.lines['n'].max()), 'seed')}."]
        for line in records(self.lines[self.lines["strategy"] == self.reference]):
            if line["n"]:
                seconds = line["prepare_seconds"] + line["train_seconds"]
                told = f"{line['accuracy']:.2f}% in {seconds:.3g} s"
                said.append(f"{self.labels[self.reference]}: {told}.")
        if any("_{" in cell or "^{" in cell for column in self.columns for cell in column.cells):
            said.append("Small: where the intervals that judge begin and end.")
        return breakable(" ".join(said), _COLUMN / 2)

    # Columns --------------------------------------------------------------------------------------

    def _set(self, column: Column) -> _Set:
        name, lines = column.name, records(self.lines)
        heading = _TITLES.get(name) or column.title or name.replace("_", " ")
        if name == "strategy":
            return _folded(heading, [self.labels[line[name]] for line in lines], _NAME, _HANG)
        if name == "verdict":
            told = [self._verdict(line) for line in lines]
            return _folded(heading, told, _TEXT)
        if name != _TIME.name and self.lines[name].dtype.kind not in "fi":
            return _folded(heading, [_text(line[name]) for line in lines], _TEXT)
        return _numbers(heading, column, [_interval(name, line) for line in lines])

    def _verdict(self, line: Record) -> str:
        return line["verdict"] or ("reference" if line["strategy"] == self.reference else "--")


def _text(value: Any) -> str:
    return "" if pd.isna(value) else "yes" if value is True else str(value or "")


def _folded(heading: str, texts: Sequence[str], least: float, hang: float = 0.0) -> _Set:
    cells = [breakable(text, least - hang) for text in texts]
    spec = r"\raggedright\arraybackslash" + (rf"\hangindent={hang:g}pt" if hang else "")
    return _Set(escape(heading), cells, least, spec, [width(text) for text in texts])


def _numbers(heading: str, column: Column, found: Sequence[Interval]) -> _Set:
    """Return a column of numbers, its heading one word on another."""
    told = [_told(one, column.form or ".2f") for one in found]
    words = heading.split()
    stacked = r"\\".join(map(escape, words))
    widths = [*map(width, words), *(maths_width(*texts) for texts in told)]
    cells = [maths(*texts) if texts[0] else "--" for texts in told]
    return _Set(rf"\shortstack[r]{{{stacked}}}", cells, max(widths))


def _told(one: Interval, form: str) -> tuple[str, str, str]:
    """Return a number and the ends of its interval, as far as they are known and differ from it."""
    if form == POINTS and any(abs(value) >= _LARGE for value in one if math.isfinite(value)):
        form = "+z.1f"
    mean, low, high = (number(value, form, "") for value in one)
    return (mean, "", "") if low == mean == high else (mean, low, high)


def _interval(name: str, line: Record) -> Interval:
    """Return what a line has of a column, with its interval where there is one."""
    if name == _TIME.name:
        if not line["speedup"] > 0:
            return Interval(math.nan, math.nan, math.nan)
        return Interval(*(100 * end for end in saved(interval_of(line, "speedup"))))
    limits = (line.get(f"{name}_low", math.nan), line.get(f"{name}_high", math.nan))
    return Interval(float(line[name]), *limits)
