"""Solving: the value at which a cost is what it should be, by a few noisy measurements."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from dataeff.cost import apart
from dataeff.errors import DataeffError, DiskFull
from dataeff.foretell.steps import reason
from dataeff.registry import Range

PILOTS = 5
"""Values that are tried at most."""

# Costs, as factors: what ends the search, what is as good as found, what tells a slope, and what
# may be interpolated.
_HIT, _NEAR, _APART, _LOCAL = (math.log(factor) for factor in (1.015, 1.03, 1.05, 1.1))


@dataclass(frozen=True)
class Solution:
    """The value found, whether it costs what it should, and what every value tried has cost."""

    value: float
    reached: bool
    costs: dict[float, float]

    def note(self, target: float, reference: str) -> str:
        """Say what there is to say where the target could not be reached."""
        if self.reached:
            return ""
        return (
            f"the nearest that was found takes {self.costs[self.value]:.2f} of {reference}'s time, "
            f"where {target:.2f} was wanted"
        )


def solve(
    cost: Callable[[float], float], target: float, within: Range, most: int = PILOTS
) -> Solution:
    """Find the value at which the cost is the target; it may rise or fall with the value.

    Costs are measured, so they are noisy: the search begins with two values a way apart, goes on
    by straight lines, and ends within 1.5%. A value that cannot be run narrows the range. Where the
    target is out of reach, the value whose cost is nearest is taken.
    """
    costs: dict[float, float] = {}
    failed: dict[float, Exception] = {}
    low, high = within.low, within.high
    waiting = list(dict.fromkeys(within.guesses))
    while waiting and len(costs) + len(failed) < most:
        value = waiting.pop(0)
        try:
            costs[value] = cost(value)
        except DiskFull:
            raise
        except Exception as error:
            failed[value] = error
        if value in costs and apart(costs[value], target) <= _HIT:
            break
        if not waiting and costs:
            below = [bad for bad in failed if bad < min(costs)]
            above = [bad for bad in failed if bad > max(costs)]
            low = within.nearest((max(below) + min(costs)) / 2) if below else low
            high = within.nearest((min(above) + max(costs)) / 2) if above else high
            value = within.nearest(_next(costs, target, low, high))
            waiting = [value] * (value not in costs and value not in failed)
    if not costs:
        raise DataeffError(reason(failed[min(failed)]))
    best = min(costs, key=lambda value: apart(costs[value], target))
    near = [value for value in costs if apart(costs[value], target) <= _LOCAL]
    # Where values near the target lie on both sides of it, it is between them.
    around = len({costs[value] > target for value in near}) > 1
    if apart(costs[best], target) > _NEAR and not around:
        return Solution(best, False, costs)
    return Solution(within.nearest(_refined(best, near, costs, target)), True, costs)


def _next(costs: Mapping[float, float], target: float, low: float, high: float) -> float:
    """Return the value to try next: on the line between two around the target, or beyond all."""
    points = sorted(costs.items())
    for (left, at_left), (right, at_right) in pairwise(points):
        if min(at_left, at_right) <= target <= max(at_left, at_right):
            return left + (right - left) * (target - at_left) / (at_right - at_left)
    (first, at_first), (last, at_last) = points[0], points[-1]
    if apart(at_first, at_last) < _APART:
        # Too flat to tell which way: the ends show more.
        return high if high not in costs else low
    slope = (at_last - at_first) / (last - first)
    start = min(first, last, key=lambda value: apart(costs[value], target))
    return min(max(start + (target - costs[start]) / slope, low), high)


def _refined(best: float, near: list[float], costs: Mapping[float, float], target: float) -> float:
    """Return the mean of where the values near the target say that it is: that is less noisy.

    It stays among them, for costs may come in steps.
    """
    # From a way off, or the noise of two near ones would pass for a slope.
    far = [value for value in costs if apart(costs[value], costs[best]) >= _LOCAL]
    if not far:
        return best
    other = min(far, key=lambda value: abs(value - best))
    slope = (costs[other] - costs[best]) / (other - best)
    mean = fmean(value + (target - costs[value]) / slope for value in near)
    return min(max(mean, min(near)), max(near))
