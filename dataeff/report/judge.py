"""One table as it is shown: what its looks have said of each strategy, and at which cost."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dataeff.cost import SAVES, cost
from dataeff.report.frames import Key, Record
from dataeff.report.grid import asked_of
from dataeff.report.looks import holding, looks_of, next_look, seeds_shown
from dataeff.report.questions import AgainstLine, AgainstReference, Held, Table
from dataeff.report.stats import Array, Flags, Paired, spread
from dataeff.report.verdicts import CHANCE, SHARE, Ends, Verdicts, chance_settled
from dataeff.seeds import AUTO, LOOKS


class Judged:
    """One table with its verdicts: arrays have one entry per strategy, in the order of its grid.

    `listed` are those with a verdict once a look has been made, `methods` those of them that are no
    control, `seen` those of whom a look has been. `points` and `speed` are compared with the
    reference, and have the intervals that judge; `gain` is over the line. `free` are speed-ups on
    the clock, `ideal` those by counted work, `costs` shares of the reference's cost.
    """

    def __init__(
        self,
        key: Key,
        group: pd.DataFrame,
        suite: Mapping[str, Any],
        looks: list[Record],
        margin: float,
    ) -> None:
        self.table = Table(key, group, suite)
        self.against, self.looks = looks_of(looks, key), looks
        self.grid = grid = self.table.at(seeds_shown(looks, key))
        self.margin, self.idle = margin, grid.idle()
        self.on_clock, self.control = grid.all_true("ranked"), grid.all_true("control")
        self.able = self.on_clock & (self.idle == "")
        self.listed = np.isin(grid.names, self.table.listed)
        self.methods = self.listed & ~self.control
        held = holding(AgainstReference(self.table), looks)
        gained = holding(AgainstLine(self.table), looks)
        self.seen = np.isin(grid.names, list(held))
        self.at = np.array([held[name]["n"] if name in held else 0 for name in grid.names])
        self.points = self._shown(grid.points(), held, "difference")
        self.speed = self._shown(grid.logs("total_seconds"), held, "speed")
        self.gain = self._told(gained, "gain")
        self.counted = [gained.get(name, {}).get("counted", False) for name in grid.names]
        self.diverged = grid.diverged()
        ended = grid.group.groupby("strategy")["seed"].nunique()
        self.ended = [int(ended[name]) for name in grid.names]
        ends = *self.points[3:], *self.speed[3:]
        self.verdicts = Verdicts(Ends(*ends), self.diverged > 0, margin)
        self.free, self.ideal = (
            np.exp(grid.speed(name).mean) for name in ("clocked_seconds", "flops")
        )
        self.costs = self._costs()
        self.saving = self.methods & (self.costs <= 1 / SAVES)

    def _told(self, held: Held, key: str) -> NDArray:
        """Return mean, low and high of what has been said of each strategy, NaN of the others."""
        unknown = [math.nan] * 3
        told = [held[name][key] if name in held else unknown for name in self.grid.names]
        return np.array(told, dtype=float).T

    def _shown(self, differences: Array, held: Held, key: str) -> Paired:
        """Return differences to the reference with the intervals that judge them.

        What is not judged, such as the line, has an interval for itself; before a look nobody has.
        """
        grid, told = self.grid, self._told(held, key)
        own = ~self.listed & grid.others & bool(self.against)
        found = spread(differences[own], grid.step if key == "difference" else 0.0)
        whole = spread(differences)
        low, high = np.where(self.seen & np.isfinite(told[1:]), told[1:], np.nan)
        low[own], high[own] = found.limits(CHANCE)
        # The reference differs from itself by nothing, whatever the step.
        low, high = (np.where(grid.others, end, whole.mean) for end in (low, high))
        mean = np.where(self.seen, told[0], whole.mean)
        return Paired(whole.n, mean, whole.own, low, high)

    def _costs(self) -> Array:
        clocked = self.grid("clocked_seconds")
        shares = zip(clocked / self.grid.of_reference(clocked), 1 / self.ideal, strict=True)
        costs = np.array([cost(*line) for line in shares])
        # A control is what was counted, whatever its clock says.
        return np.where(self.control & ~np.isnan(self.ideal), 1 / self.ideal, costs)

    @property
    def settled(self) -> Flags:
        """Say of whom nothing is open that more seeds would tell."""
        return self.seen & (self.verdicts.settled | np.isnan(self.points.mean))

    def foreseen(self) -> tuple[int, Array]:
        """Return at how many seeds the next look would be, and how likely it settles each."""
        now = int(self.at.max(initial=0))
        n = next((size for size in LOOKS if size > now), 2 * now)
        names = [name for name in self.table.listed if name in self.grid.names]
        places = [self.grid.names.index(name) for name in names]
        asked = asked_of(self.grid, names, self.margin)
        ends = (end[places] for end in self.verdicts.ends)
        told = Verdicts(Ends(*ends), asked.diverged, self.margin)
        chances = np.full(len(self.grid.names), np.nan)
        chances[places] = chance_settled(asked, told, SHARE * CHANCE, n)
        return n, np.where(self.seen, chances, np.nan)

    def beyond(self) -> int:
        """Return how many seeds have been run beyond the last look, and are not shown."""
        return self.table.group["seed"].nunique() - len(self.grid.seeds)

    def typical(self) -> tuple[float, float]:
        """Return the typical spread of accuracy in points, and of time as a share."""
        listed = self.listed
        points = spread(self.grid.points()[listed], self.grid.step)
        times = spread(self.grid.logs("total_seconds")[listed])
        return float(points.typical), float(times.typical)

    def waiting(self) -> str:
        """Say which look the table waits for; nothing where all planned ones have been."""
        if not (coming := next_look(self.table, self.looks)):
            return ""
        return f"next look at {coming.n} seeds, {coming.there} there"

    @property
    def until_settled(self) -> bool:
        """Say whether the suite runs until all is settled."""
        return self.table.suite["seeds"] == AUTO
