"""Margins: which loss of accuracy a test set and a number of seeds can resolve at all."""

import math
from typing import NamedTuple

from dataeff.plural import counted
from dataeff.report.verdicts import chance_of, smallest_margin
from dataeff.seeds import Seeds, looks_at

ACCURACY = 0.995
"""What is taken before anything is known: a lower accuracy spreads more."""
HARDLY = 0.9
"""A margin this much below the smallest that can be shown is worth a warning."""


class Resolution(NamedTuple):
    """What decides which margin can be shown: seeds, strategies that share the chance, images.

    `spread` is the typical one of paired differences in points, NaN where none has been measured.
    """

    seeds: Seeds
    strategies: int
    images: int
    spread: float = math.nan


def expected_spread(images: int, accuracy: float = ACCURACY) -> float:
    """Return the spread in points of the difference between two networks on so many images."""
    return 100 * math.sqrt(2 * accuracy * (1 - accuracy) / images)


def unresolved(task: str, margin: float, given: Resolution) -> str:
    """Say that a margin cannot be shown, and which one can; nothing where it can."""
    sizes = looks_at(given.seeds)
    if not sizes or sizes[-1] < 2 or given.images < 1:
        return ""
    is_known = not math.isnan(given.spread)
    spread = given.spread if is_known else expected_spread(given.images)
    chance = chance_of(given.seeds)
    least = float(smallest_margin(spread, sizes[-1], max(1, given.strategies), chance))
    if margin >= HARDLY * least:
        return ""
    why = "measured" if is_known else f"expected at an accuracy of {ACCURACY:.1%}, more at a lower"
    # Rounded up: what is proposed can be shown.
    proposed = math.ceil(10 * least) / 10
    return (
        f"{task}: {counted(sizes[-1], 'seed')} on {given.images:,} test images can hardly show a "
        f"margin of {margin:g} points (spread {spread:.2f} points, {why}); the smallest that "
        f"can is {proposed:g}: write margin = {proposed:g}, or take more seeds or test images."
    )
