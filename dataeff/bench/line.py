"""The line: just training less, at budgets chosen by what the methods of a suite cost.

Each kind of training less (shorter schedules, random choice) is run at the same two to four shares
of the reference's work, whatever the number of methods. They are chosen after the first block and
kept in line.json, so that a later command runs the same ones.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dataeff.checked import read_entries, write_entries
from dataeff.composition import Composition, Part
from dataeff.cost import SAVES
from dataeff.errors import DataeffError, did_you_mean
from dataeff.forms import BUDGETS
from dataeff.notation import pattern_of
from dataeff.plugins import Installed
from dataeff.registry import Entry

STEP = 0.75
"""Neighbouring budgets differ by about this factor at most: a chord is then good to 0.1 points."""
FEWEST, MOST = 2, 4
"""Budgets of a line."""
CHEAPEST = 0.1
"""No budget is smaller."""
MOST_WORK = 2.1
"""What the budgets of one kind come to, at most, in runs of the reference."""
ROOM = 0.9
"""The smallest budget lies this factor below the cheapest method."""


def line_kinds(wanted: bool | list[str], installed: Installed) -> list[Entry]:
    """Return the strategies that can be had at any cost: those bundled, or those named."""
    if wanted is False:
        return []
    able = [entry for entry in installed.strategies.entries() if entry.factory.at_cost(0.5)]
    if wanted is True:
        bundled = {plugin.name for plugin in installed.plugins if plugin.source == "bundled"}
        return [entry for entry in able if entry.source in bundled and not entry.alias_of]
    for name in wanted:
        if name not in {entry.name for entry in able}:
            known = [entry.name for entry in able]
            hint = did_you_mean(name, known) or f" Known: {', '.join(known)}."
            raise DataeffError(f"{name!r} cannot be had at any cost.{hint}")
    return [entry for entry in able if entry.name in wanted]


def budgets(costs: Iterable[float]) -> list[float]:
    """Return the shares at which to run each kind, in equal ratios; none where nobody saves.

    The reference is a point of the line by itself.
    """
    cheapest = min(costs, default=1.0)
    if cheapest > 1 / SAVES:
        return []
    first = min(max(ROOM * cheapest, CHEAPEST), STEP)
    count = math.ceil(math.log(first) / math.log(STEP) - 1e-9)
    return _ratios(first, 1.0, min(max(count, FEWEST), MOST))


def longer(known: Iterable[float], costs: Iterable[float]) -> list[float]:
    """Return the budgets that a line lacks to reach the cheapest of these costs."""
    shortest, cheapest = min(known), max(ROOM * min(costs, default=1.0), CHEAPEST)
    # Up to a tenth beyond an end, a line may go on.
    if cheapest > ROOM * ROOM * shortest:
        return []
    count = math.ceil(math.log(cheapest / shortest) / math.log(STEP) - 1e-9)
    return _ratios(cheapest, shortest, max(count, 1))


def _ratios(first: float, last: float, count: int) -> list[float]:
    """Return so many shares from the first on, in equal ratios towards the last."""
    return [round(last * (first / last) ** (j / count), 2) for j in range(count, 0, -1)]


def at_cost(kind: Entry, share: float) -> Composition:
    """Return a kind that costs this share of the reference."""
    return Composition((Part(kind, kind.read(kind.factory.at_cost(share))),))


def pattern(kind: Entry) -> str:
    """Return what a kind is called at any cost."""
    return pattern_of(at_cost(kind, 0.5).text)


class Budgets:
    """The budgets of a suite's lines, by task and conditions, as line.json keeps them."""

    def __init__(self, root: Path) -> None:
        self._path = root / "line.json"

    def read(self, task: str, conditions: str) -> list[float] | None:
        """Return the budgets that were chosen, None where that has not been done."""
        found = [line["budgets"] for line in self._lines() if _key(line) == (task, conditions)]
        return found[0] if found else None

    def keep(self, task: str, conditions: str, chosen: list[float]) -> None:
        """Keep what was chosen, for all seeds and later commands."""
        others = [line for line in self._lines() if _key(line) != (task, conditions)]
        line = {"task": task, "conditions": conditions, "budgets": chosen}
        write_entries(self._path, [*others, line], BUDGETS)

    def _lines(self) -> list[dict[str, Any]]:
        return read_entries(self._path, BUDGETS)


def _key(line: dict[str, Any]) -> tuple[str, str]:
    return line["task"], line["conditions"]
