"""One table as the page shows it: its lines, how strategies are drawn and called, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from dataeff.files import slug
from dataeff.report.answer import Answer
from dataeff.report.board import Board
from dataeff.report.frames import Key, Record, of_table, records
from dataeff.report.styles import Styles, labels_of


@dataclass(frozen=True, eq=False)
class Shown:
    """One table of a board; `number` is its place on the page."""

    board: Board
    key: Key
    number: int
    styles: Styles

    @property
    def reference(self) -> str:
        """Return the strategy that the others are compared with."""
        return str(self.board.suite["reference"])

    @property
    def place(self) -> str:
        """Return what the names of all places of this table on the page begin with."""
        return f"s{self.number}"

    @cached_property
    def part(self) -> pd.DataFrame:
        """Return the lines of the table, in its order."""
        return of_table(self.board.table, self.key)

    @cached_property
    def methods(self) -> list[Record]:
        """Return the lines of methods: of neither the reference nor yardsticks."""
        control = self.part["control"].astype(bool)
        return records(self.part[~control & (self.part["strategy"] != self.reference)])

    @cached_property
    def base(self) -> Record | None:
        """Return the line of the reference, if there is one."""
        found = records(self.part[self.part["strategy"] == self.reference])
        return found[0] if found else None

    @property
    def answer(self) -> Answer | None:
        """Return what the table allows us to recommend."""
        return next((one for one in self.board.answers if one.key == self.key), None)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Return what strategies are called where there is little room."""
        return labels_of(self.board.suite, self.part["strategy"])

    @cached_property
    def anchors(self) -> dict[str, str]:
        """Return where the page says all about each strategy: a name within the page."""
        return _unique(f"m{self.number}", self.part["strategy"])

    def of(self, lines: pd.DataFrame) -> pd.DataFrame:
        """Return the lines of this table from another one of the board."""
        return of_table(lines, self.key)


def _unique(place: str, names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        anchor = f"{place}-{slug(name)}"
        while anchor in found.values():
            anchor += "-"
        found[name] = anchor
    return found
