"""Compositions: whether the effects of their parts add up."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from dataeff.notation import split_parts
from dataeff.report.frames import Record, tables
from dataeff.report.grid import Grid
from dataeff.report.stats import Array, Interval, interval_of, named, paired
from dataeff.report.words import POINTS, TIMES, number, spread

COLUMNS = (
    *("task", "conditions", "strategy", "parts", "n", "quantity", "effects", "sum", "measured"),
    *("interaction", "interaction_low", "interaction_high", "says"),
)
"""The columns of `compositions`, in order."""
FORMS = {"speedup": TIMES, "accuracy": POINTS}
"""How the effects on each quantity are written."""
SAME_TIME = 1.05
"""Times within this factor count as the same."""

# What rounding leaves of zero.
_NOTHING = 1e-9


def compositions(runs: pd.DataFrame, reference: str, margin: float) -> pd.DataFrame:
    """Return, for every composition whose parts were run alone, whether their effects add up.

    Two lines each, one per quantity: speed-ups multiply, accuracy differences add. The interaction
    is what the composition has beyond that, a ratio or points.
    """
    lines = [
        line
        | {"parts": " + ".join(line["parts"])}
        | {"effects": ", ".join(number(e, FORMS[line["quantity"]]) for e in line["effects"])}
        for line in composed_effects(runs, reference, margin)
    ]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def composed_effects(runs: pd.DataFrame, reference: str, margin: float) -> list[Record]:
    """Return the lines of `compositions` with parts and their effects as lists."""
    lines: list[Record] = []
    for (task, conditions), group in tables(runs):
        grid = Grid(group, reference)
        log, accuracy = np.log(grid("total_seconds")), grid("test_top1")
        faster = grid.of_reference(log) - log
        better = accuracy - grid.of_reference(accuracy)
        for name in grid.names:
            parts = split_parts(name)
            if len(parts) < 2 or name == reference or not set(parts) <= set(grid.names):
                continue
            place = [grid.names.index(one) for one in (name, *parts)]
            head = {"task": task, "conditions": conditions, "strategy": name, "parts": parts}
            for quantity, gains, limit, step, scale in (
                ("speedup", faster[place], np.log(SAME_TIME), 0.0, np.exp),
                ("accuracy", better[place], margin, grid.step, np.asarray),
            ):
                shared = ~np.isnan(gains).any(axis=0)
                if shared.any():
                    told = {"n": int(shared.sum()), "quantity": quantity}
                    lines.append(head | told | _effects(gains[:, shared], limit, step, scale))
    return lines


def _effects(gains: Array, limit: float, step: float, scale: Callable[..., Array]) -> Record:
    """Return what a composition has beyond its parts; `gains` are its own, then each part's."""
    found, mean = paired(gains[0] - gains[1:].sum(axis=0), step).interval(), gains.mean(axis=1)
    beyond = Interval(*(float(scale(value)) for value in found))
    return {
        "effects": scale(mean[1:]).tolist(),
        "sum": float(scale(mean[1:].sum())),
        "measured": float(scale(mean[0])),
        **named(beyond, "interaction"),
        "says": _says(found.low, found.high, limit),
    }


def _says(low: float, high: float, limit: float) -> str:
    if low > _NOTHING:
        return "more than the sum"
    if high < -_NOTHING:
        return "less than the sum"
    return "adds up" if -limit <= low and high <= limit else "open"


def effects_table(effects: list[Record]) -> list[list[str]]:
    """Return the single effects of a composition, what they come to, and what was measured."""
    last = ["if they add up", "measured together", "beyond the sum (95%)", "verdict"]
    columns = [[*effects[0]["parts"], *last]]
    for effect in effects:
        form, beyond = FORMS[effect["quantity"]], interval_of(effect, "interaction")
        values = [*effect["effects"], effect["sum"], effect["measured"]]
        texts = [number(value, form) for value in values]
        columns.append([*texts, spread(beyond, form), effect["says"]])
    return [list(line) for line in zip(*columns, strict=True)]
