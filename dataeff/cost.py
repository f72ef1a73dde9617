"""What a strategy costs: suites add controls of the same cost, and leaderboards judge by them."""

import math
from collections.abc import Iterable

SAME = 1.1
"""Costs may differ by this factor between a method and its control."""
SAVES = 1.05
"""A method that saves less than this factor has the reference itself as its control."""
EARLY_TERMINATION = "early_termination"
"""The name of rows that say what the reference had reached at a cost: nobody runs them."""
# Methods whose costs differ by less share a control, which lies between them.
_SHARED = 1.1
# Beyond this factor the clock has seen something that the count has not.
_DISAGREE = math.log(1.25)


def cost(times: Iterable[float], work: float) -> float:
    """Return what a strategy costs, as a share of the reference: counted work, or measured time.

    The count is exact where the clock is noisy. The clock is believed only where two seeds or more,
    and all of them, differ from the count to the same side: overhead, precision and waiting show
    there alone. `times` are shares too, one per seed; NaN means unknown, or not to be trusted.
    """
    known = [time for time in times if not math.isnan(time)]
    if not known or math.isnan(work):
        return _mean(known) if known else work
    apart = [math.log(time / work) for time in known]
    slower, faster = min(apart) > _DISAGREE, max(apart) < -_DISAGREE
    return _mean(known) if len(known) > 1 and (slower or faster) else work


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
