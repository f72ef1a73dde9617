"""The price of an answer: what more seeds would settle, for how many minutes, by which command."""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dataeff.plural import counted
from dataeff.report.frames import numbers
from dataeff.report.worth import Worth


class Price(NamedTuple):
    """What settles what is open: seeds in all, minutes for those to come, and what to type."""

    seeds: int
    minutes: float
    command: str

    @property
    def told(self) -> str:
        """Return how long it takes, and what to type."""
        return f"{lasting(60 * self.minutes)}: {self.command}"


def taken(cells: pd.DataFrame) -> pd.Series:
    """Return the seconds of a lane that a seed of each strategy takes: its clocks, and beside them.

    What is beside them are tests, or all that the runner has seen of it, and its start.
    """
    told = ("clocked_seconds", "evaluate_seconds", "off_seconds", "start_seconds")
    clocked, tests, off, start = (numbers(cells, name) for name in told)
    spent = clocked + np.fmax(tests, off).fillna(0.0) + start.fillna(0.0)
    return spent.groupby(cells["strategy"]).mean().dropna()


def lanes_of(cells: pd.DataFrame) -> float:
    """Return on how many lanes cells were run at a time."""
    return float(numbers(cells, "lanes").fillna(1).max())


def price_of(worth: Worth, seeds: int) -> Price:
    """Return what it costs to have so many seeds of all that the table has, on as many lanes."""
    grid = worth.judged.grid
    more = max(0, seeds - len(grid.seeds))
    seconds = more * float(taken(grid.cells).sum()) / lanes_of(grid.cells)
    return Price(seeds, seconds / 60, with_seeds(command_of(worth.judged.table.suite), seeds))


def settling(worth: Worth, i: int) -> tuple[Price | None, str]:
    """Return the price of settling what is open of a strategy, and how that is said."""
    needed = worth.seeds_needed()[i]
    if needed == 0 or math.isnan(needed):
        return None, ""
    if math.isinf(needed):
        return None, "What is open is so close that no number of seeds in reason settles it."
    price = price_of(worth, int(needed))
    more = counted(price.seeds - int(worth.judged.at.max(initial=0)), "more seed")
    return price, f"To settle it: about {more}, {price.told}"


def command_of(suite: Mapping[str, Any]) -> str:
    """Return the command that goes on with what was planned."""
    # Results of version 0.1.0 and before do not say which of their commands that is.
    return str(suite.get("command") or suite.get("commands", [""])[-1])


def with_seeds(command: str, seeds: int) -> str:
    """Return a command with another number of seeds; what was typed in Python stays Python."""
    if command.endswith(")"):
        return f"{command[:-1]}, seeds={seeds})"
    return f"{re.sub(r' --seeds[ =][^ ]+', '', command)} --seeds {seeds}"


def lasting(seconds: float, about: str = "about") -> str:
    """Say how long something takes, in words that promise no more than is known."""
    if (minutes := seconds / 60) < 1:
        return "less than a minute"
    long = counted(round(minutes), "minute") if minutes < 90 else f"{minutes / 60:.0f} hours"
    return f"{about} {long}"
