"""Questions: what is asked of the strategies of a table, against its reference and its line."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from dataeff.cost import MARGIN
from dataeff.notation import pattern_of
from dataeff.report.frames import Key, Record
from dataeff.report.gains import Gained, Gains, judge_gains, untimed
from dataeff.report.grid import Grid, asked_of, lines_of
from dataeff.report.stats import Array
from dataeff.report.verdicts import Ends, Verdicts, judge

REFERENCE, LINE = "reference", "line"
"""What a look is against."""

Held = dict[str, Record]
"""Answers that still hold, by strategy; `n` is the number of seeds of their look."""


def planned(suite: Mapping[str, Any], key: Key) -> list[str] | None:
    """Return whom the commands of a folder run in a table; None before 0.2, which did not say."""
    task, conditions = key
    if (counts := suite.get("counts", {}).get(task)) is None:
        return None
    return [name for name, versions in counts.items() if versions.get(conditions)]


class Table:
    """One table as looks see it: its cells, and who is judged against the reference and the line.

    The family is what the suite lists; what the suite adds itself is the line, and has no verdict.
    """

    def __init__(self, key: Key, group: pd.DataFrame, suite: Mapping[str, Any]) -> None:
        self.key, self.group, self.suite = key, group, suite
        self.whole = Grid(group, suite["reference"])
        self.margin = suite.get("margin") or MARGIN
        self._grids: dict[float, Grid] = {math.inf: self.whole}
        # What was known after so many seeds, by what is asked: hashes of each strategy's cells.
        self.hashes: dict[tuple[str, int], dict[str, str]] = {}

    def at(self, n: float) -> Grid:
        """Return the cells of the first n seeds."""
        if n not in self._grids:
            cells = self.group[self.group["seed"] < n]
            self._grids[n] = Grid(cells, self.suite["reference"])
        return self._grids[n]

    @cached_property
    def listed(self) -> list[str]:
        """Return who is compared with the reference here; those that can do nothing are not."""
        idle = dict(zip(self.whole.names, self.whole.idle(), strict=True))
        names = [name for name in self.suite["strategies"] if name != self.suite["reference"]]
        return [name for name in names if name in self.planned and not idle.get(name)]

    @cached_property
    def awaited(self) -> list[str]:
        """Return for whom of them a look waits: those that the last command has named."""
        asked = self.suite.get("awaited", self.listed)
        return [name for name in self.listed if name in asked]

    @cached_property
    def planned(self) -> list[str]:
        """Return whom the commands of this folder run here; before 0.2, who was run."""
        found = planned(self.suite, self.key)
        return self.whole.names if found is None else found

    @cached_property
    def methods(self) -> list[str]:
        """Return who is compared with the line: those of them that are no yardsticks."""
        control = dict(zip(self.whole.names, self.whole.all_true("control"), strict=True))
        return [name for name in self.listed if not control.get(name)]

    @cached_property
    def kinds(self) -> list[str]:
        """Return the patterns of what is on the line."""
        if (told := self.suite.get("line")) is not None:
            return list(told)
        # Suites of version 0.1 do not say; what they have added is.
        grid, listed = self.whole, self.suite["strategies"]
        added = zip(grid.names, grid.all_true("control"), strict=True)
        return sorted({pattern_of(name) for name, is_so in added if is_so and name not in listed})

    def on_line(self) -> list[str]:
        """Return who is on the line."""
        names = [name for name in self.whole.names if pattern_of(name) in self.kinds]
        return [name for name in names if name in self.planned]


@dataclass(frozen=True, eq=False)
class AgainstReference:
    """What is asked of those that the suite lists: are they faster, how accurate are they."""

    table: Table
    about = REFERENCE

    @property
    def names(self) -> list[str]:
        """Return who is asked about."""
        return self.table.listed

    @property
    def needed(self) -> list[str]:
        """Return who else must have run."""
        return [self.table.suite["reference"]]

    def cells(self, name: str, n: int, answer: Record | None = None) -> str:
        """Return a hash of what is known of a strategy after n seeds."""
        if (self.about, n) not in self.table.hashes:
            grid = self.table.at(n)
            seen = zip(grid.points(), grid.logs("total_seconds"), grid.diverged(), strict=True)
            told = zip(grid.names, (_hash(*one) for one in seen), strict=True)
            self.table.hashes[self.about, n] = dict(told)
        return self.table.hashes[self.about, n].get(name, "")

    def judged(self, n: int, who: list[str], chance: float, held: Held) -> Held:
        """Judge these strategies after n seeds."""
        grid = self.table.at(n)
        names = [name for name in self.names if name in grid.names]
        asked = asked_of(grid, names, self.table.margin)
        ends = [ends_of(held, names, key) for key in ("difference", "speed")]
        before = Verdicts(Ends(*ends[0][1:], *ends[1][1:]), asked.diverged, asked.margin)
        found = judge(asked, chance, before, np.isin(names, who))
        # What was said stays, its mean included.
        points = np.where(before.scored, ends[0][0], asked.accuracy.mean)
        speeds = np.where(before.timed, ends[1][0], asked.speed.mean)
        return {
            name: {
                "difference": [float(v[i]) for v in (points, *found.ends[:2])],
                "speed": [float(v[i]) for v in (speeds, *found.ends[2:])],
                "diverged": bool(asked.diverged[i]),
            }
            for i, name in enumerate(names)
            if name in who
        }


@dataclass(frozen=True, eq=False)
class AgainstLine:
    """What is asked of methods: are they above what just training less reaches in their time."""

    table: Table
    about = LINE

    @property
    def names(self) -> list[str]:
        """Return who is asked about; nobody where there is no line."""
        return self.table.methods if self.needed[1:] else []

    @property
    def needed(self) -> list[str]:
        """Return who else must have run."""
        return [self.table.suite["reference"], *self.table.on_line()]

    def cells(self, name: str, n: int, answer: Record | None = None) -> str:
        """Return a hash of what is known of a method and the line after n seeds.

        An answer is held against the points of the line that there were: it may be longer now.
        """
        line = (answer or {}).get("line", self.needed)
        key = (" ".join([self.about, *line]), n)
        if key not in self.table.hashes:
            grid = self.table.at(n)
            accuracy, seconds = grid("test_top1"), grid("total_seconds")
            places = [grid.names.index(one) for one in line if one in grid.names]
            whole = _hash(accuracy[places], seconds[places])
            seen = zip(grid.names, accuracy, seconds, strict=True)
            told = {one: _hash(whole, points, times) for one, points, times in seen}
            self.table.hashes[key] = told
        return self.table.hashes[key].get(name, "")

    def judged(self, n: int, who: list[str], chance: float, held: Held) -> Held:
        """Judge these methods after n seeds."""
        grid = self.table.at(n)
        names = [name for name in self.names if name in grid.names]
        kinds = self.kinds(grid, names)
        if not kinds or not names:
            return {}
        before = Gained(*ends_of(held, names, "gain"))
        found = judge_gains(kinds, chance, before, np.isin(names, who))
        ends = zip(found.mean, found.low, found.high, strict=True)
        seconds = grid("total_seconds")[[grid.names.index(name) for name in names]]
        told = zip(names, ends, untimed(seconds), strict=True)
        return {
            name: {"gain": [*map(float, ends)], "counted": bool(counted), "line": self.needed}
            for name, ends, counted in told
            if name in who
        }

    def kinds(self, grid: Grid, names: list[str]) -> list[Gains]:
        """Return the gains of these methods over each kind of training less that was run."""
        places = [grid.names.index(name) for name in names]
        seconds, work = grid("total_seconds")[places], np.exp(-grid.logs("flops")[places])
        lines = lines_of(grid, self.table.kinds).values()
        kinds = [line.gains(grid("test_top1")[places], seconds, work) for line in lines]
        # Who diverges is not above anything, whatever its other seeds say.
        diverged = grid.diverged()[places] > 0
        return [replace(kind, no_low=kind.no_low | diverged) for kind in kinds]


Questions = AgainstReference | AgainstLine


def _hash(*seen: Any) -> str:
    return hashlib.sha256(b"".join(map(_bytes, seen))).hexdigest()[:12]


def _bytes(seen: Any) -> bytes:
    """Return what is known as bytes: nine decimals, as files keep them, zero and NaN unsigned."""
    if isinstance(seen, str):
        return seen.encode()
    numbers = np.round(np.asarray(seen, float), 9) + 0.0
    return np.where(np.isnan(numbers), np.nan, numbers).tobytes()


def ends_of(held: Held, names: list[str], key: str) -> tuple[Array, Array, Array]:
    """Return mean and ends of what has been said of each; nothing can be read off the others."""
    nothing = [math.nan, -math.inf, math.inf]
    told = [held[name][key] if name in held else nothing for name in names]
    mean, low, high = np.array(told, dtype=float).reshape(-1, 3).T
    return mean, low, high
