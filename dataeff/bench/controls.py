"""Controls of the same cost, chosen by what the methods of a suite were measured to cost."""

import math
from collections.abc import Iterable, Mapping

from dataeff.composition import Composition, Part
from dataeff.cost import SAME, SAVES, apart, shared_costs
from dataeff.errors import DataeffError, did_you_mean
from dataeff.plugins import Installed
from dataeff.registry import Entry


def control_kinds(wanted: bool | list[str], installed: Installed) -> list[Entry]:
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


def matching_controls(
    costs: Iterable[float], existing: Mapping[Composition, float], kinds: Iterable[Entry]
) -> dict[Composition, float]:
    """Return the controls for methods of these costs, shares of the reference, with their own.

    `existing` are the controls that there are, with their own costs: one near enough serves.
    """
    wanted = {}
    costs = [cost for cost in costs if cost <= 1 / SAVES]
    for kind in kinds:
        own = {one: cost for one, cost in existing.items() if _is(one, kind)}
        uncovered = []
        for cost in costs:
            nearest = min(own, key=lambda one: apart(own[one], cost), default=None)
            if nearest is not None and apart(own[nearest], cost) <= math.log(SAME):
                wanted[nearest] = own[nearest]
            else:
                uncovered.append(cost)
        wanted |= {at_cost(kind, share): share for share in shared_costs(uncovered)}
    return wanted


def _is(composition: Composition, kind: Entry) -> bool:
    return [part.entry.name for part in composition.parts] == [kind.name]


def at_cost(kind: Entry, share: float) -> Composition:
    """Return a yardstick that costs this share of the reference."""
    return Composition((Part(kind, kind.read(kind.factory.at_cost(share))),))
