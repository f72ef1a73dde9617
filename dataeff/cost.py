"""What a strategy costs, in time and work, and what it may cost in accuracy."""

import math
from collections.abc import Iterable

MARGIN = 0.5
"""Points of accuracy that a strategy may lose and still be no worse, where nothing else is said."""
SAVES = 1.05
"""A method that saves less than this factor is compared with the reference itself."""
EARLY_TERMINATION = "early_termination"
"""The name of rows that say what the reference had reached at a cost: nobody runs them."""
# Methods whose costs differ by less share a point of the reference's curve between them.
_SHARED = 1.1
# Beyond this factor the clock has seen something that the count has not.
_DISAGREE = math.log(1.25)


def cost(times: Iterable[float], work: float, least: int = 2) -> float:
    """Return what a strategy costs, as a share of the reference: counted work, or measured time.

    The count is exact where the clock is noisy. The clock is believed only where so many seeds at
    least, and all of them, differ from the count to the same side: overhead, precision and waiting
    show there alone. `times` are shares too, one per seed; NaN means unknown, or not to be trusted.
    """
    known = [time for time in times if not math.isnan(time)]
    if not known or math.isnan(work):
        return _mean(known) if known else work
    apart = [math.log(time / work) for time in known]
    slower, faster = min(apart) > _DISAGREE, max(apart) < -_DISAGREE
    return _mean(known) if len(known) >= least and (slower or faster) else work


def apart(a: float, b: float) -> float:
    """Return how far two costs are from each other: the logarithm of their factor."""
    return abs(math.log(a / b))


def shared_costs(costs: Iterable[float]) -> list[float]:
    """Join similar costs into one between them, of two digits."""
    groups: list[list[float]] = []
    for share in sorted(costs):
        if groups and share <= groups[-1][0] * _SHARED:
            groups[-1].append(share)
        else:
            groups.append([share])
    return [float(f"{math.sqrt(group[0] * group[-1]):.2g}") for group in groups]


def _mean(shares: list[float]) -> float:
    return math.exp(sum(map(math.log, shares)) / len(shares))
