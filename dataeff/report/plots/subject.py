"""What a figure shows of a board: one table, on one sheet."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from dataeff.plural import counted
from dataeff.report.board import Board
from dataeff.report.frames import Key, of_table
from dataeff.report.plots.lettering import INCH, INK, Looks, folded
from dataeff.report.styles import SYMBOLS, Style, labels_of, styles_of
from dataeff.report.words import READ_OFF
from dataeff.sheet import Sheet

# What matplotlib calls the dashes of lines.
_DASHES: Looks = {
    "solid": "-",
    "dash": (0, (4, 1.5)),
    "dashdot": (0, (4, 1.5, 1, 1.5)),
    "longdash": (0, (8, 2)),
    "longdashdot": (0, (8, 2, 1, 2)),
    "dot": (0, (1, 1.5)),
}
# How much larger symbols are drawn to look alike.
_SIZES = {"s": 0.9, "D": 0.85, "^": 1.15, "v": 1.15, "P": 1.15, "X": 1.15, "*": 1.6}


class Entry(NamedTuple):
    """A name below the axes, with what it stands for: the looks of a mark, a line or an area."""

    text: str
    looks: Looks


class Drawn(NamedTuple):
    """What became of a figure: names that had no room on the axes, and what its caption says."""

    entries: list[Entry]
    says: str


class Shown:
    """One table of a board, task and conditions, with the styles and names of its strategies."""

    def __init__(self, board: Board, key: Key, sheet: Sheet) -> None:
        self.board, self.key, self.sheet = board, key, sheet
        self.table, self.curves, self.runs = (
            of_table(part, key) for part in (board.table, board.curves, board.runs)
        )
        self.table = self.table[self.table["n"] > 0]
        self.reference = board.suite["reference"]

    @cached_property
    def styles(self) -> dict[str, Style]:
        """Return how each strategy is drawn, in all tables alike."""
        return styles_of(self.board.suite, self.board.table)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Return what each strategy is called, as on the page of this table."""
        return labels_of(self.board.suite, of_table(self.board.table, self.key)["strategy"])

    @property
    def _run(self) -> list[str]:
        return list(self.table.loc[self.table["verdict"] != READ_OFF, "strategy"])

    @property
    def names(self) -> list[str]:
        """Return the strategies that curves and bars show: as many as can be told apart."""
        return self._run[: self.sheet.most]

    @property
    def left_out(self) -> str:
        """Say how many strategies curves and bars do not show."""
        more = len(self._run) - len(self.names)
        if not more:
            return ""
        return f"{counted(more, 'more strategy is', 'more strategies are')} in the table."

    def label(self, strategy: str) -> str:
        """Return what a strategy is called, in the room that a name may take on this sheet."""
        return folded(self.labels[strategy], self.sheet.small, INCH * 0.42 * self.sheet.width)

    def mark(self, strategy: str) -> Looks:
        """Return the looks of a strategy's mark: symbol and colour, open for yardsticks."""
        style = self.styles[strategy]
        symbol = SYMBOLS[style.symbol]
        return {
            "marker": symbol,
            "markersize": self.sheet.mark * _SIZES.get(symbol, 1.0),
            "markerfacecolor": "white" if style.is_open else style.hex,
            "markeredgecolor": style.hex if style.is_open else "white",
            "markeredgewidth": self.sheet.line * (0.8 if style.is_open else 0.3),
            "linestyle": "",
        }

    def line(self, strategy: str) -> Looks:
        """Return the looks of a strategy's line."""
        style = self.styles[strategy]
        return {"color": style.hex, "linestyle": _DASHES[style.dash]}


UNNAMED: Looks = {"marker": "o", "color": INK, "alpha": 0.3, "linestyle": ""}
"""The looks of the mark of a strategy that has no name on a figure."""
