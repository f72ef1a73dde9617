"""What came of a comparison, for programs and notebooks: answers, tables, pages and figures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from dataeff.errors import DataeffError
from dataeff.report.answer import Answer
from dataeff.report.board import Board, read_board
from dataeff.report.found import results_folder
from dataeff.report.frames import tables
from dataeff.report.screen import screen

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result:
    """The results in a folder; `margin` are the points of accuracy that may be lost.

    Shows itself in a terminal and in a notebook. Needs no torch.
    """

    def __init__(self, folder: Path, margin: float | None = None) -> None:
        self.folder, self._margin = folder, margin

    @cached_property
    def board(self) -> Board:
        """Return all that tables, figures and the page are made of."""
        return read_board(self.folder, self._margin)

    @property
    def answers(self) -> list[Answer]:
        """Return the answer of each table: of several tasks, or conditions, there are several."""
        return self.board.answers

    @property
    def answer(self) -> Answer:
        """Return the answer; it prints as sentences, and `strategy` is what to take."""
        if len(self.answers) != 1:
            names = ", ".join(" ".join(one.key) for one in self.answers) or "nothing has finished"
            raise DataeffError(f"There is no single answer here; see answers: {names}.")
        return self.answers[0]

    def leaderboard(self) -> pd.DataFrame:
        """Return one line per strategy, what is worth most first."""
        return self.board.table.copy()

    def runs(self) -> pd.DataFrame:
        """Return one line per cell: strategy and seed, with all that was measured."""
        return self.board.runs.copy()

    def epochs(self) -> pd.DataFrame:
        """Return one line per cell and epoch: seconds, accuracy, loss, shares."""
        return self.board.curves.copy()

    def samples(self) -> pd.DataFrame:
        """Return one line per cell and training sample: how often it was trained, its losses."""
        parts = list(self._samples())
        if not parts:
            raise DataeffError(f"There are no samples in {self.folder}: it holds no cells.")
        return pd.concat(parts, ignore_index=True)

    def _samples(self) -> Iterator[pd.DataFrame]:
        runs = self.board.runs
        for line in runs[runs["status"] == "finished"].to_dict("records"):
            path = self.folder / str(line["folder"]) / "samples.parquet"
            if path.exists():
                keys = {
                    "task": line["task_name"],
                    "strategy": line["strategy"],
                    "seed": line["seed"],
                }
                part = pd.read_parquet(path)
                yield part.assign(**keys)[[*keys, *part.columns]]

    def page(self) -> Path:
        """Write the page, report.html, and return its path."""
        from dataeff.report.web.page import write_report

        return write_report(self.folder, self.board)

    def plot(self, figure: str = "tradeoff", sheet: str = "page") -> Figure:
        """Draw a figure: tradeoff, time, epochs, phases or shares, for a column, page or slide."""
        import matplotlib

        from dataeff.report.plots.draw import check_figure, figure_of
        from dataeff.sheet import SHEETS, style_of

        check_figure(figure)
        for key, _ in tables(self.board.table[self.board.table["n"] > 0]):
            with matplotlib.rc_context(style_of(SHEETS[sheet])):
                if made := figure_of(self.board, key, figure, sheet):
                    return made.figure
        raise DataeffError(f"There is nothing to draw in {self.folder} yet.")

    def __repr__(self) -> str:
        return "\n".join(line.text for line in screen(self.board))

    def _repr_html_(self) -> str:
        from dataeff.report.web.framed import framed

        return framed(self.board)


def read(folder: str | PathLike[str], margin: float | None = None) -> Result:
    """Return the results in a folder, such as `results/quickstart`, without torch."""
    return Result(results_folder(Path(), str(folder)), margin)
