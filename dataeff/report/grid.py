"""The cells of one table as a grid of strategies x seeds, and what is asked of them."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dataeff.notation import pattern_of
from dataeff.report.frames import finished, resolution
from dataeff.report.gains import Line
from dataeff.report.stats import Array, Flags, Paired, paired, spread
from dataeff.report.verdicts import Asked


class Grid:
    """The finished cells of one table as strategies x seeds, NaN where there is no such cell.

    Times of cells that were measured while the machine was busy with something else are missing.
    """

    def __init__(self, group: pd.DataFrame, reference: str) -> None:
        self.group, self.reference = group, reference
        self.names = list(dict.fromkeys(group["strategy"]))
        self.base = self.names.index(reference) if reference in self.names else None
        self.others = np.array([name != reference for name in self.names], bool)
        self.cells = finished(group)
        self.seeds = np.unique(group["seed"].to_numpy())
        self.shape = (len(self.names), len(self.seeds))
        self.step = resolution(self.cells)
        self._columns: dict[str, Array] = {}
        self._points = self.points_of(self.cells)
        self.busy = self._spread(self.cells["contended"] != "") == 1

    def points_of(self, lines: pd.DataFrame) -> tuple[NDArray, NDArray]:
        """Return the places of strategies and seeds at which these lines stand."""
        strategies = pd.Index(self.names).get_indexer(lines["strategy"])
        return strategies, np.searchsorted(self.seeds, lines["seed"].to_numpy())

    def __call__(self, name: str) -> Array:
        """Return a column of the cells as a grid."""
        if name not in self._columns:
            grid = self._spread(self.cells.get(name, np.nan))
            untold = self.busy & name.endswith("_seconds")
            self._columns[name] = np.where(untold, np.nan, grid)
        return self._columns[name]

    def _spread(self, values: pd.Series | float) -> Array:
        grid = np.full(self.shape, np.nan)
        grid[self._points] = np.asarray(values, dtype=float)
        return grid

    def of_reference(self, grid: Array) -> Array:
        """Return what the reference has, by seed."""
        return np.full(grid.shape[1], np.nan) if self.base is None else grid[self.base]

    def points(self) -> Array:
        """Return the accuracies less the reference's, by seed."""
        accuracy = self("test_top1")
        return accuracy - self.of_reference(accuracy)

    def logs(self, name: str, by: str = "") -> Array:
        """Return the logarithms of what the reference takes over what others take, by seed."""
        return np.log(self.of_reference(self(name)) / self(by or name))

    def speed(self, name: str, by: str = "") -> Paired:
        """Return those of each strategy for itself."""
        return paired(self.logs(name, by))

    def diverged(self) -> NDArray[np.int_]:
        """Return in how many seeds each strategy diverged where the reference did not."""
        lines = self.group[self.group["status"] == "diverged"]
        grid = np.zeros(self.shape, bool)
        grid[self.points_of(lines)] = True
        return (grid if self.base is None else grid & ~grid[self.base]).sum(1)

    def all_true(self, name: str) -> Flags:
        """Say which strategies have a cell, and are true in each."""
        grid = self(name)
        return (~np.isnan(grid)).any(1) & ~(grid == 0).any(1)

    def idle(self) -> NDArray[np.object_]:
        """Return why each strategy can do nothing here, in every cell; else nothing.

        The reference is what it is: nothing is asked of it.
        """
        told = self.cells.get("no_effect", pd.Series("", self.cells.index)).fillna("")
        by_name = told.groupby(self.cells["strategy"])
        whole = {name: "; ".join(lines.unique()) for name, lines in by_name if (lines != "").all()}
        told_of = zip(self.names, self.others, strict=True)
        return np.array([whole.get(name, "") if other else "" for name, other in told_of], object)

    def ended(self, names: Iterable[str], n: int) -> bool:
        """Say whether these have come to an end, be it a failure, in each of the first n seeds."""
        cells = self.group[self.group["seed"] < n]
        counts = cells.groupby("strategy")["seed"].nunique()
        return all(counts.get(name, 0) == n for name in names)


def asked_of(grid: Grid, names: list[str], margin: float) -> Asked:
    """Return what is asked of these strategies, in this order."""
    places = [grid.names.index(name) for name in names]
    return Asked(
        spread(grid.points()[places], grid.step),
        spread(grid.logs("total_seconds")[places]),
        grid.diverged()[places] > 0,
        margin,
    )


# The line ----------------------------------------------------------------------------------------


def lines_of(grid: Grid, patterns: Iterable[str]) -> dict[str, Line]:
    """Return the kinds of training less that were run, by pattern; each ends in the reference."""
    if grid.base is None:
        return {}
    accuracy, seconds = grid("test_top1"), grid("total_seconds")
    # A share is what was counted, whatever the clock says.
    shares = np.exp(-grid.speed("flops").mean)
    found = {}
    for pattern in patterns:
        alike = np.array([pattern_of(name) == pattern for name in grid.names])
        places = np.flatnonzero(alike & (shares < 1))
        places = places[np.argsort(shares[places])]
        if len(places):
            budgets = [*places, grid.base]
            at = np.append(shares[places], 1.0)
            found[pattern] = Line(at, accuracy[budgets], seconds[budgets], grid.step)
    return found
