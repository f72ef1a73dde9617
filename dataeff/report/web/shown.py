"""One table as the page shows it: its lines, how strategies are drawn and called, and where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from dataeff.files import slug
from dataeff.report.answer import Answer
from dataeff.report.board import Board
from dataeff.report.frames import Key, Record, of_table, records, tables
from dataeff.report.styles import Styles, labels_of, styles_of

_LONGEST = 80


@dataclass(frozen=True, eq=False)
class Shown:
    """One table of a board; `number` is its place on the page.

    `elsewhere` are the pages on which strategies stand with what other tables say of them.
    """

    board: Board
    key: Key
    number: int
    styles: Styles
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """Return the strategy that the others are compared with."""
        return str(self.board.suite["reference"])

    @property
    def place(self) -> str:
        """Return what the names of all places of this table on the page begin with."""
        return f"s{self.number}"

    @property
    def machine(self) -> str:
        """Return what it was measured on: an accelerator or a processor; '' if nobody knows."""
        where = self.board.conditions.get(self.key[1], {})
        kind = "cpu" if where.get("device") == "cpu" else "device"
        return str(where.get(kind) or "")

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
        names = places_of(self.part["strategy"])
        return {name: f"m{self.number}-{place}" for name, place in names.items()}

    def of(self, lines: pd.DataFrame) -> pd.DataFrame:
        """Return the lines of this table from another one of the board."""
        return of_table(lines, self.key)


def shown_of(board: Board, elsewhere: Mapping[str, str]) -> list[Shown]:
    """Return the tables of a board."""
    given = styles_of(board.suite, board.table)
    keys = [key for key, _ in tables(board.table)]
    return [Shown(board, key, place, given, elsewhere) for place, key in enumerate(keys)]


def places_of(names: Iterable[str]) -> dict[str, str]:
    """Return what names are called in addresses and files, each otherwise, however long it is."""
    found: dict[str, str] = {}
    taken = set[str]()
    for name in dict.fromkeys(names):
        place = slug(name)[:_LONGEST] or "-"
        # There are file systems for which capitals are no other letters.
        while place.lower() in taken:
            place += "-"
        taken.add(place.lower())
        found[name] = place
    return found
