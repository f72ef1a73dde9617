"""Refusing: what a strategy has against a task is told before anything is trained on any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from dataeff.bench.pace import Site, let_go
from dataeff.bench.pattern import Pattern
from dataeff.bench.preview import Unsolved, by_task
from dataeff.bench.runner import Again, Cell, Settings, never
from dataeff.errors import Refused
from dataeff.plugins import Installed, compose, hooks_of
from dataeff.registry import is_open
from dataeff.training.cell import pick_device


def check_setups(
    cells: Sequence[Cell],
    settings: Settings,
    installed: Installed,
    again: Again = never,
    unsolved: Unsolved = (),
) -> None:
    """Set up each strategy that has cells to run, once per task; raise what the first refuses with.

    The arguments are those of `preview`. Controls that may join are left to their cells.
    """
    groups = list(by_task(cells, again, unsolved))
    for group in groups:
        asked = [_ways(line.strategy, cell, installed) for line, cell in group if line.cells]
        asked = [ways for ways in asked if any(_has_setup(cell, installed) for cell in ways)]
        if why := _refusal(asked, settings, installed):
            raise Refused(f"{group[0][0].task}: {why}" if len(groups) > 1 else why)


def _ways(strategy: str, cell: Cell, installed: Installed) -> list[Cell]:
    """Return what is to be set up: for a pattern, the values without which there is no search."""
    if not is_open(strategy):
        return [cell]
    pattern = Pattern.read(strategy, installed)
    return [replace(cell, strategy=pattern.at(value)) for value in pattern.range.guesses]


def _has_setup(cell: Cell, installed: Installed) -> bool:
    return any("setup" in hooks_of(part.plugin) for part in compose(cell.strategy, installed))


def _refusal(asked: list[list[Cell]], settings: Settings, installed: Installed) -> str:
    """Return what the first strategy says that can be had in none of its ways, if there is one."""
    refused = []
    # The CPU first, to leave an accelerator's memory alone; but it may be all that is refused.
    for device in dict.fromkeys(("cpu", str(pick_device(settings.device)))):
        if not asked:
            break
        site = Site.of(asked[0][0], replace(settings, device=device), installed, steps=1)
        told = [(ways, [site.refusal(cell) for cell in ways]) for ways in asked]
        refused = [(ways, reasons[0]) for ways, reasons in told if all(reasons)]
        asked = [ways for ways, _ in refused]
        del site
        let_go(torch.device(device))
    return refused[0][1] if refused else ""
