"""What a strategy costs: suites add controls of the same cost, and leaderboards judge by them."""

from __future__ import annotations

import math

SAME = 1.1
"""Costs may differ by this factor between a method and its control."""
SAVES = 1.05
"""A method that saves less than this factor has the reference itself as its control."""
# Beyond this factor the clock has seen something that the count has not.
_DISAGREE = 1.25


def cost(time: float, work: float) -> float:
    """Return what a strategy costs, as a share of the reference: counted work, or measured time.

    The count is exact where the clock is noisy, so it is taken where the two agree. Overhead,
    precision and waiting show on the clock alone. NaN means unknown.
    """
    if math.isnan(work) or math.isnan(time):
        return time if math.isnan(work) else work
    return work if abs(math.log(time / work)) <= math.log(_DISAGREE) else time
