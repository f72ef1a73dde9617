"""The comparisons of one table, and the verdicts that they allow all at once."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dataeff.cost import SAME, SAVES, cost
from dataeff.report.frames import finished, resolution
from dataeff.report.stats import Array, Flags, Paired, paired, ranks, verdict
from dataeff.report.words import against_control, without_control


class Grid:
    """The finished cells of one table as strategies x seeds, NaN where there is no such cell."""

    def __init__(self, group: pd.DataFrame, reference: str) -> None:
        self.group = group
        self.names = list(dict.fromkeys(group["strategy"]))
        self.base = self.names.index(reference) if reference in self.names else None
        self.others = np.array([name != reference for name in self.names])
        self.cells = finished(group)
        self.seeds = np.unique(self.cells["seed"].to_numpy())
        self.shape = (len(self.names), len(self.seeds))
        self.step = resolution(self.cells)
        self._points = self.points_of(self.cells)

    def points_of(self, lines: pd.DataFrame) -> tuple[NDArray, NDArray]:
        """Return the places of strategies and seeds at which these lines stand."""
        strategies = pd.Index(self.names).get_indexer(lines["strategy"])
        return strategies, np.searchsorted(self.seeds, lines["seed"].to_numpy())

    def __call__(self, name: str) -> Array:
        """Return a column of the cells as a grid."""
        return self.spread(self.cells.get(name, np.nan))

    def spread(self, values: pd.Series | float) -> Array:
        """Return a value of each cell as a grid."""
        grid = np.full(self.shape, np.nan)
        grid[self._points] = np.asarray(values, dtype=float)
        return grid

    def of_reference(self, grid: Array) -> Array:
        """Return what the reference has, by seed."""
        return np.full(grid.shape[1], np.nan) if self.base is None else grid[self.base]

    def speed(self, name: str, by: str = "") -> Paired:
        """Return the logarithms of what the reference takes over what others take, by seed."""
        return paired(np.log(self.of_reference(self(name)) / self(by or name)))

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


def rivals(costs: Array, methods: Flags, control: Flags) -> NDArray[np.intp]:
    """Return the pairs (method, control) of the same cost, as lines of two indices.

    Costs are shares of the reference's.
    """
    ours = np.flatnonzero(methods & (costs <= 1 / SAVES))
    theirs = np.flatnonzero(control & ~np.isnan(costs))
    apart = np.abs(np.log(costs[ours])[:, None] - np.log(costs[theirs])[None])
    near = np.argwhere(apart <= np.log(SAME))
    return np.stack([ours[near[:, 0]], theirs[near[:, 1]]], axis=1)


class Judged:
    """One table under judgement: who is compared with whom, at which cost, and what was shown.

    `judged` are those with a verdict, `methods` those of them that are no control, `able` those
    that may have a rank, `saving` the methods that save enough to need a control. `points` and
    `speed` are compared with the reference, `against` are the accuracies of `pairs`; `free` are
    speed-ups on the clock, `ideal` those by counted work, `costs` shares of the reference's cost.
    """

    def __init__(self, grid: Grid, margin: float) -> None:
        self.grid, self.margin = grid, margin
        accuracy, self.idle = grid("test_top1"), grid.idle()
        self.ranked, self.control = grid.all_true("ranked"), grid.all_true("control")
        self.able, self.judged = self.ranked & (self.idle == ""), grid.others & (self.idle == "")
        self.methods = self.judged & ~self.control
        points = paired(accuracy - grid.of_reference(accuracy), grid.step)
        # The reference differs from itself by nothing, whatever the step.
        ends = (np.where(grid.others, end, points.mean) for end in (points.low, points.high))
        self.points = Paired(*points[:3], *ends)
        self.speed = grid.speed("total_seconds")
        self.shared = np.minimum(self.points.n, self.speed.n)
        # What was left off the clock is no part of the counted work either.
        self.free, self.ideal = (
            np.exp(grid.speed(name).mean) for name in ("clocked_seconds", "flops")
        )
        self.costs = self._costs()
        self.saving = self.methods & (self.costs <= 1 / SAVES)
        self.pairs = rivals(self.costs, self.methods, self.control & self.judged)
        ours, theirs = accuracy[self.pairs.T]
        self.against = paired(ours - theirs, grid.step)
        tested = self.points.only(self.judged), self.speed.only(self.judged)
        self.verdicts = verdict(*tested, self.against, margin)

    def _costs(self) -> Array:
        busy = self.grid.spread(self.grid.cells["contended"] != "")
        sure = np.where(busy == 1, np.nan, self.grid("clocked_seconds"))
        shares = zip(sure / self.grid.of_reference(sure), 1 / self.ideal, strict=True)
        costs = np.array([cost(*line) for line in shares])
        # A control is what was counted, whatever its clock says.
        return np.where(self.control & ~np.isnan(self.ideal), 1 / self.ideal, costs)

    def ranks(self) -> Array:
        """Return the ranks: no worse comes first, then undecided, then worse."""
        told = self.verdicts
        fine = told.no_worse | told.better | ~self.grid.others
        tier = np.where(fine, 0, np.where(told.worse, 2, 1))
        ends = (np.where(self.able, end, np.nan) for end in (self.speed.low, self.speed.high))
        return ranks(tier, *ends)

    def against_controls(self) -> list[str]:
        """Return what is to be said of each strategy against the controls of its cost, or ''."""
        names, costs = self.grid.names, self.costs
        ours, theirs = self.grid("total_seconds")[self.pairs.T]
        pace = paired(np.log(theirs / ours))
        said: list[list[str]] = [[] for _ in names]
        for i, (method, rival) in enumerate(self.pairs):
            if self.against.n[i] > 0:
                both = self.against.interval(i), pace.interval(i).exp()
                control = f"{names[rival]} at {self.free[rival]:.2f}x"
                said[method].append(against_control(*both, self.verdicts.rivals[i], control))
        there = np.flatnonzero(self.control & ~np.isnan(costs))
        for place in np.flatnonzero(self.saving):
            if not said[place]:
                near = costs[place], costs[there], [names[j] for j in there]
                said[place].append(without_control(*near))
        free = ["" if fair else "if what is off the clock cost nothing: " for fair in self.ranked]
        return [text and free[i] + text for i, text in enumerate(map("; ".join, said))]
