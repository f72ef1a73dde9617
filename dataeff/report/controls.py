"""Does a method beat a control of the same cost? Paired by seed, and said in a sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

SAME_COST = 1.1
"""Counted work may differ by this factor between a method and its control."""

Line = dict[str, Any]


def paired_interval(
    ours: pd.Series | None, theirs: pd.Series | None, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return the mean paired difference and its t interval, which one pair does not have."""
    if ours is None or theirs is None or not len(ours):
        return np.nan, np.nan, np.nan
    difference = ours - theirs
    mean, n = float(difference.mean()), len(difference)
    if n < 2:
        return mean, np.nan, np.nan
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1) * difference.std() / np.sqrt(n))
    return mean, mean - half, mean + half


def against_controls(line: Line, lines: list[Line], runs: pd.DataFrame, reference: str) -> str:
    """Return the verdict on one line of a table against the controls of its cost, '' for none.

    `runs` are the finished cells of that table; a method that saves little needs no control.
    """
    controls = [other for other in lines if other["control"]]
    ideal = line["ideal_speedup"]
    if line["control"] or line["strategy"] == reference or not controls or math.isnan(ideal):
        return ""
    equal = [other for other in controls if _same_cost(ideal, other["ideal_speedup"])]
    if not equal and ideal < SAME_COST:
        return ""
    if not equal:
        return f"none was run; add one that does {1 / ideal:.2f} of the reference's work"
    free = "" if line["ranked"] else "if what is off the clock cost nothing: "
    return free + "; ".join(_sentence(line, other, runs) for other in equal)


def _same_cost(ideal: float, other: float) -> bool:
    return not math.isnan(other) and 1 / SAME_COST <= ideal / other <= SAME_COST


def _sentence(line: Line, control: Line, runs: pd.DataFrame) -> str:
    accuracy = runs.pivot(index="seed", columns="strategy", values="test_top1")
    both = accuracy[[line["strategy"], control["strategy"]]].dropna()
    mean, low, high = paired_interval(both[line["strategy"]], both[control["strategy"]])
    cost = f"{control['strategy']} at {control['speedup']:.2f}x"
    if math.isnan(low):
        return f"{mean:+.2f} points against {cost}: one seed tells nothing"
    verdict = "better" if low > 0 else "worse" if high < 0 else "not told apart"
    return f"{verdict}, {mean:+.2f} points ({low:+.2f}..{high:+.2f}), against {cost}"
