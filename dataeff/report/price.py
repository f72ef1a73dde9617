"""The price of an answer: what more seeds would settle, for how many minutes, by which command."""

import math
import re
from typing import NamedTuple

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
        return f"{_long(self.minutes)}: {self.command}"


def price_of(worth: Worth, seeds: int) -> Price:
    """Return what it costs to have so many seeds of all that the table has, on as many lanes."""
    grid, cells = worth.judged.grid, worth.judged.grid.cells
    spent = cells["clocked_seconds"] + numbers(cells, "evaluate_seconds").fillna(0.0)
    per_seed = spent.groupby(cells["strategy"]).mean().sum()
    lanes = numbers(cells, "lanes").fillna(1).max()
    more = max(0, seeds - len(grid.seeds))
    command = worth.judged.table.suite.get("commands", [""])[-1]
    return Price(seeds, float(more * per_seed / lanes / 60), with_seeds(command, seeds))


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


def with_seeds(command: str, seeds: int) -> str:
    """Return a command with another number of seeds."""
    return f"{re.sub(r' --seeds[ =][^ ]+', '', command)} --seeds {seeds}"


def _long(minutes: float) -> str:
    """Say how long something takes, in words that promise no more than is known."""
    if minutes < 1:
        return "less than a minute"
    if minutes < 90:
        return f"about {counted(round(minutes), 'minute')}"
    return f"about {minutes / 60:.0f} hours"
