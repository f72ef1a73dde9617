"""Two strategies side by side: where the speed-up went, and whether compositions add up.

The ideal speed-up is what counted work allows (forward 1, backward 2, times the FLOPs of a row). If
every phase got cheaper by that factor, it would be reached; what a phase takes beyond that is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from dataeff.report.verdicts import Paired, paired

PHASES = (
    *("prepare", "plan", "load", "score", "select"),
    *("transform", "forward", "backward", "step", "other"),
)
"""What the clock is split into: the prepare clock, then the phases of training."""
OVERHEAD = ("prepare", "plan", "score", "select", "transform")
"""Phases that exist for strategies: a plain run hardly has them."""
SAME_TIME = 1.05
"""Times within this factor count as the same."""

# What rounding leaves of zero.
_NOTHING = 1e-9
_COMPARED = ["task_name", "conditions_id"]
_ROWS = ("scored", "forwarded", "trained", "prepare_scored", "prepare_forwarded", "prepare_trained")


# Where did the speed-up go -----------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, with its 95% interval (NaN where there is one seed)."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """B against A on one task under the same conditions, over the seeds that both finished.

    `phases` has a line per phase that either has: mean seconds of `a` and `b`, the `ideal` seconds
    of B, and what is `lost`; they add up to the clocked time. `off_clock` has a line per clock that
    was left out on purpose. `rows` are mean counts. `free` is the speed-up without those clocks.
    """

    task: str
    conditions: str
    a: str
    b: str
    seeds: list[int]
    speedup: Interval
    free: float
    ideal: float
    difference: Interval
    phases: pd.DataFrame
    off_clock: pd.DataFrame
    rows: pd.DataFrame

    @property
    def realised(self) -> float:
        """Return the share of the ideal speed-up that was measured on the clock."""
        return self.free / self.ideal

    @property
    def total(self) -> pd.Series:
        """Return the sums over the phases."""
        return self.phases.sum(skipna=False)


def compare(runs: pd.DataFrame, a: str, b: str) -> list[Comparison]:
    """Compare two strategies wherever both finished a seed: one by one, task by conditions."""
    found = []
    for (task, conditions), group in _finished(runs, {a, b}).groupby(_COMPARED, sort=False):
        ours, theirs = (group[group["strategy"] == name].set_index("seed") for name in (b, a))
        seeds = theirs.index.intersection(ours.index).sort_values()
        if len(seeds):
            pair = (theirs.loc[seeds], ours.loc[seeds])
            found.append(_comparison(task, conditions, a, b, *pair, resolution(group)))
    return found


def resolution(group: pd.DataFrame) -> float:
    """Return the step of test accuracy in points, one test image; 0 where it is not known."""
    samples = _column(group, "test_samples").min()
    return 100 / samples if samples > 0 else 0.0


def _finished(runs: pd.DataFrame, strategies: Iterable[str]) -> pd.DataFrame:
    if runs.empty:
        return pd.DataFrame(columns=[*_COMPARED, "strategy", "seed"])
    return runs[(runs["status"] == "finished") & runs["strategy"].isin(set(strategies))]


def _comparison(
    task: str, conditions: str, a: str, b: str, base: pd.DataFrame, ours: pd.DataFrame, step: float
) -> Comparison:
    total, clocked, work = (
        np.log(_positive(base, name) / _positive(ours, name))
        for name in ("total_seconds", "clocked_seconds", "flops")
    )
    ideal = float(np.exp(work.mean(skipna=False)))
    phases = pd.DataFrame({"a": _phases(base), "b": _phases(ours)})
    phases = phases[(phases.abs() > _NOTHING).any(axis=1)]
    phases["ideal"] = phases["a"] / ideal
    phases["lost"] = phases["b"] - phases["ideal"]
    return Comparison(
        task=task,
        conditions=conditions,
        a=a,
        b=b,
        seeds=[int(seed) for seed in base.index],
        speedup=_interval(paired(total), np.exp),
        free=float(np.exp(clocked.mean())),
        ideal=ideal,
        difference=_interval(paired(_column(ours, "test_top1") - _column(base, "test_top1"), step)),
        phases=phases,
        off_clock=pd.DataFrame({"a": _off_clock(base), "b": _off_clock(ours)}).fillna(0.0),
        rows=pd.DataFrame({"a": _rows(base), "b": _rows(ours)}),
    )


def _interval(found: Paired, scale: Any = float) -> Interval:
    return Interval(*(float(scale(values[0])) for values in (found.mean, found.low, found.high)))


def _column(cells: pd.DataFrame, name: str) -> pd.Series:
    """Return a column as floats, NaN where there is none."""
    if name not in cells:
        return pd.Series(np.nan, index=cells.index)
    return pd.to_numeric(cells[name], errors="coerce").astype(float)


def _positive(cells: pd.DataFrame, name: str) -> pd.Series:
    values = _column(cells, name)
    return values.where(values > 0)


def _phases(cells: pd.DataFrame) -> pd.Series:
    """Return mean seconds per phase; what no phase names is other, so that they add up."""
    seconds = {name: _column(cells, f"{name}_phase_seconds") for name in PHASES[1:-1]}
    seconds = {"prepare": _column(cells, "prepare_seconds")} | seconds
    means = pd.Series({name: values.fillna(0.0).mean() for name, values in seconds.items()})
    means["other"] = _column(cells, "clocked_seconds").mean() - means.sum()
    return means


def _off_clock(cells: pd.DataFrame) -> pd.Series:
    names = {name: re.fullmatch(r"off_(.+)(?<!_process)_seconds", name) for name in cells}
    means = {match[1]: _column(cells, name).mean() for name, match in names.items() if match}
    return pd.Series({name: mean for name, mean in means.items() if mean > 0}, dtype=float)


def _rows(cells: pd.DataFrame) -> pd.Series:
    return pd.Series({name: _column(cells, f"rows_{name}").fillna(0).mean() for name in _ROWS})


# What would have to be cheaper -------------------------------------------------------------------


def cheaper(seconds: pd.Series, surplus: float) -> pd.DataFrame:
    """Return the phases of which one alone, made cheaper, saves `surplus` seconds.

    One line per phase, those of a strategy's own making first, then the least to ask: seconds
    `now`, seconds `needed` and the `saving`, as a share.
    """
    able = seconds[(seconds >= surplus) & (seconds > 0)]
    lines = pd.DataFrame({"now": able, "needed": able - surplus, "saving": surplus / able})
    lines["loop"] = ~lines.index.isin(OVERHEAD)
    return lines.sort_values(["loop", "saving"]).drop(columns="loop")


def overhead(phases: pd.DataFrame) -> pd.Series:
    """Return the seconds that B spends beyond A in phases that exist for strategies."""
    extra = (phases["b"] - phases["a"])[phases.index.isin(OVERHEAD)]
    return extra[extra > 0].sort_values(ascending=False, kind="stable")


def fewest(seconds: pd.Series, surplus: float) -> pd.Series:
    """Return the fewest phases that together take `surplus` seconds; all, where they do not."""
    ordered = seconds.sort_values(ascending=False, kind="stable")
    enough = np.flatnonzero(ordered.cumsum() >= surplus)
    return ordered[: enough[0] + 1] if len(enough) else ordered


@dataclass(frozen=True)
class Work:
    """Counted work of A and B in forward passes of a row, and what would make them equal.

    `scored` is B's part that scores; `scoring` is what scoring a row may cost (it costs 1) and
    `trained` how many rows may be trained, if nothing else changes: zero or less where that alone
    is not enough.
    """

    a: float
    b: float
    scored: float
    scoring: float
    trained: float


def counted_work(rows: pd.DataFrame) -> Work:
    """Return the work that counts of rows stand for: forward 1, backward 2."""

    def cost(count: dict[str, float]) -> dict[str, float]:
        before = count["prepare_forwarded"] + 2 * count["prepare_trained"]
        return {
            "score": count["scored"],
            "train": count["forwarded"] + 2 * count["trained"],
            "prepare": count["prepare_scored"] + before,
        }

    ours, budget = cost(rows["b"].to_dict()), sum(cost(rows["a"].to_dict()).values())
    left = budget - ours["prepare"]
    with np.errstate(divide="ignore", invalid="ignore"):
        scoring = np.divide(left - ours["train"], ours["score"])
        trained = np.divide(left - ours["score"], ours["train"]) * rows.loc["trained", "b"]
    return Work(budget, sum(ours.values()), ours["score"], float(scoring), float(trained))


# Compositions ------------------------------------------------------------------------------------

COMPOSITION_COLUMNS = (
    *("task", "conditions", "strategy", "parts", "n", "quantity", "effects", "sum", "measured"),
    *("interaction", "interaction_low", "interaction_high", "says"),
)
"""The columns of `compositions`, in order."""


def split_parts(strategy: str) -> list[str]:
    """Split `a[x=1]+b` into its parts; a '+' inside brackets separates nothing."""
    parts = re.findall(r'(?:[^\[+]|\[(?:"[^"]*"|[^\]"])*\]?)+', strategy)
    return [part.strip() for part in parts]


def compositions(runs: pd.DataFrame, reference: str, margin: float) -> pd.DataFrame:
    """Return, for every composition whose parts were run alone, whether their effects add up.

    Two lines each, one per quantity: speed-ups multiply, accuracy differences add. The interaction
    is what the composition has beyond that, a ratio or points.
    """
    lines = [
        line
        | {"parts": " + ".join(line["parts"])}
        | {"effects": ", ".join(effect_text(line["quantity"], e) for e in line["effects"])}
        for line in composed_effects(runs, reference, margin)
    ]
    return pd.DataFrame(lines, columns=list(COMPOSITION_COLUMNS))


def effect_text(quantity: str, value: float) -> str:
    """Return an effect as people read it: 1.50x, or +0.10 points without the word."""
    return f"{value:.2f}x" if quantity == "speedup" else f"{value:+z.2f}"


def composed_effects(runs: pd.DataFrame, reference: str, margin: float) -> list[dict[str, Any]]:
    """Return the lines of `compositions` with parts and their effects as lists."""
    parts = {name: split_parts(name) for name in (runs["strategy"].unique() if len(runs) else ())}
    composed = {name: p for name, p in parts.items() if len(p) > 1 and name != reference}
    if not composed:
        return []
    finished = _finished(runs, {reference, *composed, *chain(*composed.values())})
    lines = []
    for (task, conditions), group in finished.groupby(_COMPARED, sort=False):
        there = set(group["strategy"])
        here = {name: p for name, p in composed.items() if {reference, name, *p} <= there}
        head = {"task": task, "conditions": conditions}
        lines += [head | line for line in _of_group(group, here, reference, margin)]
    return lines


def _of_group(
    group: pd.DataFrame, composed: dict[str, list[str]], reference: str, margin: float
) -> list[dict[str, Any]]:
    """Return the lines of what may be compared; each strategy's two stand together."""
    if not composed:
        return []
    seconds, accuracy = (
        group.pivot(index="strategy", columns="seed", values=name).astype(float)
        for name in ("total_seconds", "test_top1")
    )
    log = np.log(seconds)
    faster = (log.loc[reference] - log).to_numpy()
    better = (accuracy - accuracy.loc[reference]).to_numpy()
    known = ~np.isnan(faster + better)
    places = {name: log.index.get_indexer([name, *parts]) for name, parts in composed.items()}
    shared = {name: known[place].all(axis=0) for name, place in places.items()}
    places = {name: place for name, place in places.items() if shared[name].any()}
    gains = {
        quantity: [np.where(shared[name], grid[place], np.nan) for name, place in places.items()]
        for quantity, grid in (("speedup", faster), ("accuracy", better))
    }
    found = zip(
        _quantity("speedup", gains["speedup"], np.exp, np.log(SAME_TIME)),
        _quantity("accuracy", gains["accuracy"], np.asarray, margin, resolution(group)),
        strict=True,
    )
    heads = [{"strategy": name, "parts": composed[name]} for name in places]
    return [head | line for head, both in zip(heads, found, strict=True) for line in both]


def _quantity(
    name: str, gains: list[np.ndarray], scale: Any, limit: float, step: float = 0.0
) -> list[dict[str, Any]]:
    """Return a line per composition, from gains by strategy and seed: its own, then each part's."""
    if not gains:
        return []
    found = paired([both[0] - both[1:].sum(axis=0) for both in gains], step)
    means = [np.nanmean(both, axis=1) for both in gains]
    return [
        {
            "n": int(found.n[i]),
            "quantity": name,
            "effects": scale(mean[1:]).tolist(),
            "sum": float(scale(mean[1:].sum())),
            "measured": float(scale(mean[0])),
            "interaction": float(scale(found.mean[i])),
            "interaction_low": float(scale(found.low[i])),
            "interaction_high": float(scale(found.high[i])),
            "says": _says(found.low[i], found.high[i], limit),
        }
        for i, mean in enumerate(means)
    ]


def _says(low: float, high: float, limit: float) -> str:
    if low > _NOTHING:
        return "more than the sum"
    if high < -_NOTHING:
        return "less than the sum"
    return "adds up" if -limit <= low and high <= limit else "undecided"
