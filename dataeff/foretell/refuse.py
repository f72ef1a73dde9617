"""Refusing: what a strategy has against a task is told before anything is trained on any."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dataeff.errors import Refused
from dataeff.foretell.pace import Site, let_go
from dataeff.foretell.preview import Coming
from dataeff.lab import Lab
from dataeff.notation import is_open

if TYPE_CHECKING:
    from dataeff.bench.cells import Cell


def check_setups(coming: Coming, lab: Lab) -> None:
    """Set up each strategy that has cells to run, once per task; raise what the first refuses with.

    Controls that may join are left to their cells.
    """
    groups = list(coming.by_task())
    for group in groups:
        asked = [_ways(line.strategy, cell, lab) for line, cell in group if line.cells]
        asked = [ways for ways in asked if any(c.composition.has_hook("setup") for c in ways)]
        if why := _refusal(asked, lab):
            raise Refused(f"{group[0][0].task}: {why}" if len(groups) > 1 else why)


def _ways(strategy: str, cell: Cell, lab: Lab) -> list[Cell]:
    """Return what is to be set up: for a pattern, the values without which there is no search."""
    if not is_open(strategy):
        return [cell]
    pattern = lab.composition(strategy)
    return [replace(cell, composition=pattern.at(value)) for value in pattern.range.guesses]


def _refusal(asked: list[list[Cell]], lab: Lab) -> str:
    """Return what the first strategy says that can be had in none of its ways, if there is one."""
    refused: list[tuple[list[Cell], str]] = []
    # The CPU first, to leave an accelerator's memory alone; but it may be all that is refused.
    for here in dict.fromkeys((lab.on_cpu(), lab)):
        if not asked:
            break
        site = Site(here, asked[0][0], steps=1)
        told = [(ways, [site.refusal(cell) for cell in ways]) for ways in asked]
        refused = [(ways, reasons[0]) for ways, reasons in told if all(reasons)]
        asked = [ways for ways, _ in refused]
        del site
        let_go(here.device)
    return refused[0][1] if refused else ""
