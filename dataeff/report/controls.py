"""Controls of the same cost: which rows of a table a method must beat, and whether it does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dataeff.cost import SAME, SAVES
from dataeff.report.sentences import against_control, without_control
from dataeff.report.verdicts import Array, Paired


def rivals(costs: Array, methods: NDArray[np.bool_], control: NDArray[np.bool_]) -> NDArray:
    """Return the pairs (method, control) of the same cost, as lines of two indices.

    Costs are shares of the reference's.
    """
    ours = np.flatnonzero(methods & (costs <= 1 / SAVES))
    theirs = np.flatnonzero(control & ~np.isnan(costs))
    apart = np.abs(np.log(costs[ours])[:, None] - np.log(costs[theirs])[None])
    near = np.argwhere(apart <= np.log(SAME))
    return np.stack([ours[near[:, 0]], theirs[near[:, 1]]], axis=1)


def against_controls(
    pairs: NDArray,
    compared: tuple[Paired, Paired],
    told: NDArray[np.int_],
    names: list[str],
    speedup: Array,
    costs: Array,
    methods: NDArray[np.bool_],
    control: NDArray[np.bool_],
    ranked: NDArray[np.bool_],
) -> list[str]:
    """Return what is to be said of each strategy against the controls of its cost, or ''.

    `compared` are the differences in accuracy, and in the logarithm of time, of each pair.
    """
    said: list[list[str]] = [[] for _ in names]
    for i, (method, rival) in enumerate(pairs):
        if compared[0].n[i] > 0:
            text = against_control(
                *compared, i, told[i], f"{names[rival]} at {speedup[rival]:.2f}x"
            )
            said[method].append(text)
    there = np.flatnonzero(control & ~np.isnan(costs))
    for i in np.flatnonzero(methods & (costs <= 1 / SAVES)):
        if not said[i]:
            said[i].append(without_control(costs[i], costs[there], [names[j] for j in there]))
    free = ["" if fair else "if what is off the clock cost nothing: " for fair in ranked]
    return [text and free[i] + text for i, text in enumerate(map("; ".join, said))]
