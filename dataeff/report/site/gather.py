"""What a site shows: suites with their pages, and what all tables say of each method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from dataeff.errors import DataeffError
from dataeff.report.answer import BET, LESS, LOSES, Answer
from dataeff.report.board import Board, read_board
from dataeff.report.frames import Record
from dataeff.report.styles import parts_of
from dataeff.report.web.shown import Shown, places_of, shown_of

TRAIN_LESS = (LESS, LOSES)
"""Kinds of answers by which just training less is the thing to do."""


@dataclass(frozen=True, eq=False)
class Hung:
    """A table on a site: what it shows, on which page, and how the files of its card are called."""

    shown: Shown
    page: str
    card: str

    @property
    def address(self) -> str:
        """Return where on the site it stands."""
        return f"{self.page}#{self.shown.place}"

    @property
    def suite(self) -> str:
        """Return the name of its suite."""
        return str(self.shown.board.suite["name"])

    @property
    def task(self) -> str:
        """Return the name of its task where the suite has several; else nothing."""
        return self.shown.key[0] if len(self.shown.board.suite["tasks"]) > 1 else ""

    @property
    def title(self) -> str:
        """Return what tells it from others."""
        return f"{self.suite}, {self.task}" if self.task else self.suite

    @property
    def machine(self) -> str:
        """Return what it was measured on."""
        return self.shown.machine or "machine not kept"

    @property
    def answer(self) -> Answer | None:
        """Return what it allows us to recommend."""
        return self.shown.answer


class Seen(NamedTuple):
    """What one table says of one strategy that a method is a part of."""

    hung: Hung
    line: Record


class Gallery:
    """All that a site shows: boards with their pages, tables by suite, and methods.

    `notes` say what could not be read.
    """

    def __init__(self, boards: Sequence[Board], notes: Sequence[str] = ()) -> None:
        self.boards, self.notes = boards, notes
        lines = [line for board in boards for line in _methods(board)]
        names = {name for line in lines for name in parts_of(line)}
        # As they are called everywhere, so that addresses last while results come and go.
        self.methods = {
            name: f"methods/{place}.html" for name, place in places_of(sorted(names)).items()
        }

    @cached_property
    def pages(self) -> dict[str, Board]:
        """Return the pages of suites; one that was measured in several places has one for each."""
        stems = _numbered(str(board.suite["name"]) for board in self.boards)
        return {f"suites/{stem}.html": b for stem, b in zip(stems, self.boards, strict=True)}

    @cached_property
    def tables(self) -> list[Hung]:
        """Return all tables, in the order of their suites."""
        elsewhere = {name: f"../{page}" for name, page in self.methods.items()}
        return [
            Hung(one, page, page.removeprefix("suites/").removesuffix(".html") + _which(shown, one))
            for page, board in self.pages.items()
            for shown in [shown_of(board, elsewhere)]
            for one in shown
        ]

    @cached_property
    def machines(self) -> list[str]:
        """Return what was measured on, those with most tables first."""
        found = [hung.machine for hung in self.tables]
        return sorted(dict.fromkeys(found), key=lambda name: (-found.count(name), name))

    def rows(self) -> Mapping[tuple[str, str], list[Hung]]:
        """Return the tables of each suite and task."""
        found = defaultdict(list)
        for hung in self.tables:
            found[hung.suite, hung.shown.key[0]].append(hung)
        return found

    def count(self, kinds: Iterable[str]) -> int:
        """Return how many tables have an answer of these kinds."""
        return sum(one.answer is not None and one.answer.kind in kinds for one in self.tables)

    def seen(self, method: str) -> list[Seen]:
        """Return what tables say of a method, alone or composed; where it came far first."""
        return [
            Seen(hung, line)
            for hung in self.tables
            for line in hung.shown.methods
            if line["n"] > 0 and method in parts_of(line["strategy"])
        ]

    def bets(self, method: str) -> int:
        """Return in how many tables a method is the best bet, or a part of it."""
        answers = (hung.answer for hung in self.tables)
        return sum(
            one is not None and one.kind == BET and method in parts_of(one.strategy)
            for one in answers
        )


def gathered(folders: Sequence[Path], margin: float | None = None) -> Gallery:
    """Read all suites of these folders: their own results, or those of the folders in them."""
    boards, notes = list[Board](), list[str]()
    for path in dict.fromkeys(path for folder in folders for path in _suites(folder)):
        try:
            boards.append(read_board(path, margin))
        except DataeffError as error:
            # A suite that has just begun does not hide the others.
            notes.append(f"{path} is left out: {error}")
    if not boards:
        raise DataeffError(" ".join(notes))
    return Gallery(boards, notes)


def _suites(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DataeffError(f"There is no folder {folder}; name one that holds results of suites.")
    if (folder / "suite.json").exists():
        return [folder]
    found = sorted(path.parent for path in folder.glob("*/suite.json"))
    if not found:
        raise DataeffError(
            f"There are no results in {folder}; name the folder of a suite, or one of such folders."
        )
    return found


def _methods(board: Board) -> list[str]:
    table = board.table
    is_method = ~table["control"].astype(bool) & (table["strategy"] != board.suite["reference"])
    return list(table.loc[is_method & (table["n"] > 0), "strategy"])


def _numbered(names: Iterable[str]) -> list[str]:
    """Return names of files, the second of one name as `name-2`."""
    found: list[str] = []
    for name in names:
        count, stem = 1, name
        while stem in found:
            count += 1
            stem = f"{name}-{count}"
        found.append(stem)
    return found


def _which(shown: Sequence[Shown], one: Shown) -> str:
    """Return what tells the card of a table from those of others of its suite."""
    return "" if len(shown) == 1 else f"-{one.number + 1}"
