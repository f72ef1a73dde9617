"""Controls of the same cost, chosen by what the methods of a suite were measured to cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from dataeff.cost import SAME, SAVES, shared_costs
from dataeff.errors import DataeffError, did_you_mean
from dataeff.plugins import Installed, canonical, compose
from dataeff.registry import Entry, parse_one


def control_kinds(wanted: bool | list[str], installed: Installed) -> list[Entry]:
    """Return the strategies that can be had at any cost: those bundled, or those named."""
    if wanted is False:
        return []
    able = [entry for entry in installed.strategies.entries() if hasattr(entry.factory, "at_cost")]
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
    costs: Iterable[float],
    existing: Mapping[str, float],
    kinds: Iterable[Entry],
    installed: Installed,
) -> dict[str, float]:
    """Return the controls for methods of these costs, shares of the reference, with their own.

    `existing` are the controls that there are, with their own costs: one near enough serves.
    """
    wanted = {}
    costs = [cost for cost in costs if cost <= 1 / SAVES]
    for kind in kinds:
        own = {label: cost for label, cost in existing.items() if _is(label, kind)}
        uncovered = []
        for cost in costs:
            label = min(own, key=lambda label: _apart(own[label], cost), default=None)
            if label is not None and _apart(own[label], cost) <= math.log(SAME):
                wanted[label] = own[label]
            else:
                uncovered.append(cost)
        wanted |= {_label(kind, share, installed): share for share in shared_costs(uncovered)}
    return wanted


def _apart(a: float, b: float) -> float:
    return abs(math.log(a / b))


def _is(label: str, kind: Entry) -> bool:
    return "+" not in label and parse_one(label).name == kind.name


def _label(kind: Entry, share: float, installed: Installed) -> str:
    values = ",".join(f"{key}={value}" for key, value in kind.factory.at_cost(share).items())
    return canonical(compose(f"{kind.name}[{values}]", installed))
