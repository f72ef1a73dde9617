"""Sentences: how verdicts are said, in the terminal, the tables and on the page."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataeff.report.verdicts import MOST_SEEDS, Array, Claims, Paired

NO_EFFECT = "no effect here"
"""What stands in the place of a claim where a strategy can do nothing on this machine."""
MATCHED = 0.03
"""Times that were matched may differ by this share; beyond it is said by how much."""


def counted(number: int, one: str, many: str) -> str:
    """Return a number and the word for so many."""
    return f"{number} {one if number == 1 else many}"


def claim_words(claims: Claims, known: NDArray[np.bool_]) -> list[str]:
    """Return the claim on each strategy in a few words; `known` says who has two seeds or more."""
    return [_claim(claims, i) if enough else "no verdict" for i, enough in enumerate(known)]


def _claim(claims: Claims, i: int) -> str:
    faster, slower = claims.faster[i], claims.slower[i]
    if claims.better[i]:
        return "faster and better" if faster else "slower but better" if slower else "better"
    if claims.worse[i]:
        return "faster but worse" if faster else "slower and worse" if slower else "worse"
    if slower:
        return "slower"
    if claims.no_worse[i]:
        return "faster and no worse" if faster else "no worse"
    return "undecided"


def verdict(row: dict[str, Any], shared: float, needed: float) -> str:
    """Return the verdict on one line of a table against its reference.

    `shared` is the number of seeds that both have, `needed` about how many would decide all.
    """
    if shared < 1:
        return "no verdict: it shares no seed with the reference"
    if shared < 2:
        text = f"{_factor(row['speedup'])}, accuracy {row['difference']:+z.2f}"
        return f"{text}: no verdict, for one seed shows no spread; add seeds: --seeds 5"
    low, high = row["speedup_low"], row["speedup_high"]
    if low <= 1 <= high:
        speed = f"{row['speedup']:.2f}x the speed"
    else:
        speed = _factor(row["speedup"])
        low, high = (low, high) if low > 1 else (1 / high, 1 / low)
    points = (
        f"{row['difference']:+z.2f} ({row['difference_low']:+z.2f}..{row['difference_high']:+z.2f})"
    )
    text = f"{speed} ({low:.2f}-{high:.2f}), accuracy {points}: {row['claim']}"
    if row["claim"] in ("better", "no worse"):
        return f"{text}, speed undecided, {_more(shared, needed)}"
    return f"{text}, {_more(shared, needed)}" if row["claim"] == "undecided" else text


def _factor(speedup: float) -> str:
    return f"{speedup:.2f}x faster" if speedup >= 1 else f"{1 / speedup:.2f}x slower"


def _more(shared: float, needed: float) -> str:
    if np.isinf(needed):
        return f"more than {MOST_SEEDS} seeds would be needed"
    return f"about {counted(max(1, int(needed - shared)), 'more seed', 'more seeds')}"


def against_control(points: Paired, pace: Paired, i: int, told: int, control: str) -> str:
    """Return how the pair number i, a method and a control, compares in accuracy and in time."""
    mean = f"{points.mean[i]:+z.2f} points"
    if points.n[i] < 2 or pace.n[i] < 2:
        return f"{mean} against {control}: one seed tells nothing"
    # -1 is the last of the three.
    word = ("not told apart", "better", "worse")[told]
    speed, low, high = np.exp([pace.mean[i], pace.low[i], pace.high[i]])
    limits = f"({points.low[i]:+z.2f}..{points.high[i]:+z.2f})"
    return f"{word}, {mean} {limits} at {speed:.2f}x the speed ({low:.2f}-{high:.2f}) of {control}"


def without_control(cost: float, costs: Array, names: list[str]) -> str:
    """Return what is missing where no control has the cost of a method."""
    if not len(names):
        return "none was run"
    nearest = int(np.argmin(np.abs(np.log(costs / cost))))
    return (
        f"none was run at its cost, {cost:.0%} of the reference's; the nearest is "
        f"{names[nearest]} at {costs[nearest]:.0%}"
    )


def matched_to(entry: dict[str, Any], times: Paired, where: str) -> str:
    """Return how long a matched strategy takes; `times` are logarithms of the ratios per seed."""
    ratio, low, high = np.exp([times.mean[0], times.low[0], times.high[0]])
    spread = "one seed" if times.n[0] < 2 else f"{low:.2f}-{high:.2f}"
    on = f" on {where}" if where else ""
    text = f"{entry['strategy']}: matched to {entry['match']}{on}, {ratio:.2f}x its time ({spread})"
    off = f"off by {abs(ratio - 1):.0%}" if abs(ratio - 1) > MATCHED else ""
    return ", ".join(filter(None, [text, off, entry["note"]])) + "."
