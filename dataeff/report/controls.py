"""Controls of the same cost: which rows of a table a method must beat, and whether it does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dataeff import cost
from dataeff.report.sentences import against_control, without_control
from dataeff.report.verdicts import Array, Paired


def rivals(speedup: Array, methods: NDArray[np.bool_], control: NDArray[np.bool_]) -> NDArray:
    """Return the pairs (method, control) of the same measured cost, as lines of two indices."""
    ours = np.flatnonzero(methods & ~np.isnan(speedup))
    theirs = np.flatnonzero(control & ~np.isnan(speedup))
    apart = np.abs(np.log(speedup[ours])[:, None] - np.log(speedup[theirs])[None])
    near = np.argwhere(apart <= np.log(cost.SAME))
    return np.stack([ours[near[:, 0]], theirs[near[:, 1]]], axis=1)


def against_controls(
    pairs: NDArray,
    compared: Paired,
    told: NDArray[np.int_],
    names: list[str],
    speedup: Array,
    methods: NDArray[np.bool_],
    control: NDArray[np.bool_],
    ranked: NDArray[np.bool_],
) -> list[str]:
    """Return what is to be said of each row against the controls of its cost, '' for nothing."""
    said: list[list[str]] = [[] for _ in names]
    for i, (method, rival) in enumerate(pairs):
        if compared.n[i] > 0:
            text = against_control(compared, i, told[i], names[rival], speedup[rival])
            said[method].append(text)
    there = np.flatnonzero(control & ~np.isnan(speedup))
    for i in np.flatnonzero(methods & (speedup > cost.SAVES)):
        if not said[i]:
            said[i].append(without_control(speedup[i], speedup[there], [names[j] for j in there]))
    free = ["" if fair else "if what is off the clock cost nothing: " for fair in ranked]
    return [text and free[i] + text for i, text in enumerate(map("; ".join, said))]
