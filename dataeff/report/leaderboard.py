"""The leaderboard: one line per strategy, paired with the reference seed by seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dataeff.cost import SAVES, cost, shared_costs
from dataeff.report.comparing import resolution
from dataeff.report.controls import against_controls, rivals
from dataeff.report.curves import accuracy_at, first_as_good, first_reached, last_seen
from dataeff.report.sentences import NO_EFFECT, claim_words, verdict
from dataeff.report.stopping import early_termination
from dataeff.report.verdicts import Array, Paired, claim, paired, ranks, seeds_to_decide

MEBI = 2**20
# Means over seeds, by the column of runs.csv that they are taken from.
_MEANS = {
    "accuracy": "test_top1",
    "macro_f1": "test_macro_f1",
    "peak_memory_mib": "peak_memory",
} | {
    name: name
    for name in (
        *("worst_class", "prepare_seconds", "train_seconds", "rows_trained"),
        *("train_loss", "test_loss"),
        *("never_trained", "class_balance", "energy_joules", "artefact_uses"),
    )
}
COLUMNS = [
    *("task", "strategy", "rank", "claim", "verdict", "n", "accuracy", "accuracy_std"),
    *("difference", "difference_low", "difference_high", "equivalence_p", "margin"),
    *("macro_f1", "worst_class", "train_loss", "test_loss"),
    *("prepare_seconds", "train_seconds", "speedup", "speedup_low", "speedup_high", "oracle"),
    *("train_speedup", "amortised_speedup", "artefact_uses"),
    *("ideal_speedup", "realised", "target", "target_seconds", "target_reached"),
    *("reference_at_same_time", "early_speedup", "pareto"),
    *("rows_trained", "never_trained", "class_balance"),
    *("energy_joules", "peak_memory_mib", "ranked", "control", "against_controls", "contended"),
    *("trouble", "note", "conditions"),
    *("published_accuracy", "published_speedup", "published_macro_f1", "published_hours"),
    *("published_train_loss", "published_test_loss", "published_source"),
]
"""The columns of leaderboard.csv, in order."""


def leaderboard(
    runs: pd.DataFrame,
    curves: pd.DataFrame,
    suite: dict[str, Any],
    margin: float,
    target: float | None = None,
) -> pd.DataFrame:
    """Return one line per task, conditions and strategy; compare within the first two only."""
    looks = curves.dropna(subset=["test_top1"])
    by_table = dict(iter(looks.groupby(["task", "conditions"])))
    tables = []
    for key, group in runs.groupby(["task_name", "conditions_id"], sort=False):
        table = _table(group, by_table.get(key, looks[:0]), suite["reference"], margin, target)
        tables.append(table.assign(task=key[0], conditions=key[1]))
    return _with_published(pd.concat(tables, ignore_index=True), suite["published"])[COLUMNS]


class _Grid:
    """The finished cells of one table as strategies x seeds, NaN where there is no such cell."""

    def __init__(self, group: pd.DataFrame) -> None:
        self.names = list(dict.fromkeys(group["strategy"]))
        self.rows = {name: i for i, name in enumerate(self.names)}
        self.cells = group[group["status"] == "finished"]
        self.seeds = np.unique(self.cells["seed"].to_numpy())
        self.shape = (len(self.names), len(self.seeds))
        self.place = self.places(self.cells)

    def places(self, lines: pd.DataFrame) -> tuple[NDArray, NDArray]:
        row = pd.Index(self.names).get_indexer(lines["strategy"])
        return row, np.searchsorted(self.seeds, lines["seed"].to_numpy())

    def __call__(self, name: str) -> Array:
        return self.spread(self.cells.get(name, np.nan))

    def spread(self, values: pd.Series | float) -> Array:
        grid = np.full(self.shape, np.nan)
        grid[self.place] = np.asarray(values, dtype=float)
        return grid


def _table(
    group: pd.DataFrame, looks: pd.DataFrame, reference: str, margin: float, target: float | None
) -> pd.DataFrame:
    grid = _Grid(group)
    base = grid.rows.get(reference)
    accuracy, total, clocked, flops = map(
        grid, ("test_top1", "total_seconds", "clocked_seconds", "flops")
    )
    table = pd.DataFrame({"strategy": grid.names, "n": (~np.isnan(accuracy)).sum(1)})
    for column, name in _MEANS.items():
        table[column] = _mean(grid(name))
    table["peak_memory_mib"] /= MEBI
    table["accuracy_std"] = paired(accuracy).sd
    table["ranked"] = ranked = _all_true(grid("ranked"))
    table["control"] = control = _all_true(grid("control"))

    idle = _idle(grid)
    others = np.array([name != reference for name in grid.names])
    judged = others & (idle == "")
    step = resolution(grid.cells)
    points = paired(accuracy - _line_of(accuracy, base), step)
    speed = paired(np.log(_line_of(total, base) / total))
    # What was left off the clock is no part of the counted work either.
    free = np.exp(paired(np.log(_line_of(clocked, base) / clocked)).mean)
    ideal = np.exp(paired(np.log(_line_of(flops, base) / flops)).mean)
    methods = judged & ~control
    busy = grid.spread(grid.cells["contended"] != "")
    sure = np.where(busy == 1, np.nan, clocked)
    costs = np.array(
        [cost(*line) for line in zip(sure / _line_of(sure, base), 1 / ideal, strict=True)]
    )
    # A control is what was counted, whatever its clock says.
    costs = np.where(control & ~np.isnan(ideal), 1 / ideal, costs)
    pairs = rivals(costs, methods, control & judged)
    ours, theirs = pairs.T
    against = paired(accuracy[ours] - accuracy[theirs], step)
    pace = paired(np.log(total[theirs] / total[ours]))
    claims = claim(_only(points, judged), _only(speed, judged), against, margin)

    table["difference"] = points.mean
    table["difference_low"] = np.where(others, points.low, points.mean)
    table["difference_high"] = np.where(others, points.high, points.mean)
    table["equivalence_p"] = np.where(judged, points.p_equivalent(margin), np.nan)
    table["margin"] = margin
    table["speedup"] = np.exp(speed.mean)
    table["speedup_low"], table["speedup_high"] = np.exp(speed.low), np.exp(speed.high)
    table["oracle"] = np.where(ranked, np.nan, free)
    train, amortised = grid("train_seconds"), grid("amortised_seconds")
    table["train_speedup"] = np.exp(paired(np.log(_line_of(train, base) / train)).mean)
    table["amortised_speedup"] = np.exp(paired(np.log(_line_of(clocked, base) / amortised)).mean)
    table["ideal_speedup"], table["realised"] = ideal, free / ideal
    shared = np.minimum(points.n, speed.n)
    said = claim_words(claims, shared > 1)
    table["claim"] = np.where(judged & (table["n"] > 0), said, "")
    needed = seeds_to_decide(points, speed, claims, margin)
    table["verdict"] = [
        verdict(row, shared[i], needed[i]) if row["claim"] else ""
        for i, row in enumerate(table.to_dict("records"))
    ]
    table.loc[idle != "", "claim"] = NO_EFFECT
    table.loc[idle != "", "verdict"] = [f"{NO_EFFECT}: {why}" for why in idle if why]
    # Those shown to be no worse come first, then those undecided, then those shown to be worse.
    fine = claims.no_worse | claims.better | ~others
    tier = np.where(fine, 0, np.where(claims.worse, 2, 1))
    able = ranked & (idle == "")
    table["rank"] = ranks(tier, *(np.where(able, end, np.nan) for end in (speed.low, speed.high)))
    table["pareto"] = pareto(table["speedup"].where(able), table["accuracy"])
    table["against_controls"] = against_controls(
        pairs, (against, pace), claims.rivals, grid.names, free, costs, methods, control, ranked
    )
    aim = np.nan if base is None else table["accuracy"][base] - margin
    row, column = grid.places(looks)
    looks = looks.assign(row=row, column=column)
    _add_curves(table, looks, grid, base, total, aim if target is None else target)
    as_good = first_as_good(looks, -1 if base is None else base, accuracy)
    early = paired(np.log(_line_of(clocked, base) / as_good)).mean
    # Where it was never as good in a seed, the mean over the others would flatter it.
    never = np.isnan(as_good) & ~np.isnan(accuracy - _line_of(clocked, base))
    table["early_speedup"] = np.where(judged & ~never.any(1), np.exp(early), np.nan)
    _add_trouble(table, group, points)
    place = table["rank"].fillna(np.inf)
    table = table.iloc[np.lexsort([-table["speedup"].fillna(0), place, ~ranked, others])]
    shares = shared_costs(costs[methods & (costs <= 1 / SAVES)])
    stopped = _stopped(looks, grid, base, shares, margin, step) if shares else ()
    return pd.concat([table, stopped]) if len(stopped) else table


def _stopped(
    looks: pd.DataFrame, grid: _Grid, base: int, shares: list[float], margin: float, step: float
) -> pd.DataFrame:
    """Return the lines of the reference, stopped at these shares of its time."""
    names = ("test_top1", "clocked_seconds", "prepare_seconds")
    whole = [grid(name)[base] for name in names]
    seen = last_seen(looks, base, np.outer(shares, whole[1]))
    return early_termination(seen, *whole, shares, grid.names[base], margin, step)


def _line_of(grid: Array, row: int | None) -> Array:
    return np.full(grid.shape[1], np.nan) if row is None else grid[row]


def _mean(grid: Array) -> Array:
    return paired(grid).mean


def _all_true(grid: Array) -> NDArray[np.bool_]:
    """Say which rows have a cell, and are true in each."""
    return (~np.isnan(grid)).any(1) & ~(grid == 0).any(1)


def _idle(grid: _Grid) -> NDArray[np.str_]:
    """Return per row why its strategy can do nothing here, in every cell; else nothing."""
    told = grid.cells.get("no_effect", pd.Series("", grid.cells.index)).fillna("")
    by_name = told.groupby(grid.cells["strategy"])
    whole = {name: "; ".join(lines.unique()) for name, lines in by_name if (lines != "").all()}
    return np.array([whole.get(name, "") for name in grid.names], dtype=object)


def _only(compared: Paired, wanted: NDArray[np.bool_]) -> Paired:
    """Leave the other rows out of the family of tests."""
    return Paired(*(np.where(wanted, values, np.nan) for values in vars(compared).values()))


def pareto(speedup: ArrayLike, accuracy: ArrayLike) -> NDArray[np.bool_]:
    """Say which points no other one beats in both, or in one with the other equal."""
    speedup, accuracy = np.asarray(speedup, dtype=float), np.asarray(accuracy, dtype=float)
    front = np.zeros(len(speedup), dtype=bool)
    known = np.flatnonzero(~np.isnan(speedup) & ~np.isnan(accuracy))
    best, at = -np.inf, np.nan
    for i in known[np.lexsort([-accuracy[known], -speedup[known]])]:
        if accuracy[i] > best:
            best, at = accuracy[i], speedup[i]
        front[i] = accuracy[i] == best and speedup[i] == at
    return front


def _add_curves(
    table: pd.DataFrame,
    looks: pd.DataFrame,
    grid: _Grid,
    base: int | None,
    total: Array,
    target: float,
) -> None:
    """Add when the target was reached, and how far the reference was when each row was done."""
    reached = np.where(np.isnan(total), np.nan, first_reached(looks, target, grid.shape))
    share = (~np.isnan(reached)).sum(1) / table["n"].where(table["n"] > 0)
    table["target"] = target
    table["target_reached"] = np.nan if np.isnan(target) else share
    table["target_seconds"] = np.where(share == 1, _mean(reached), np.nan)
    at = -1 if base is None else base
    table["reference_at_same_time"] = _mean(accuracy_at(looks, at, total))


def _add_trouble(table: pd.DataFrame, group: pd.DataFrame, points: Paired) -> None:
    """Add what went wrong in the cells of each row, and what strategies have to say of them."""
    trouble: dict[str, list[str]] = {}
    unfinished = group[group["status"] != "finished"]
    for (name, status), lines in unfinished.groupby(["strategy", "status"]):
        trouble.setdefault(name, []).append(f"{len(lines)} {status}")
    busy = group[(group["status"] == "finished") & (group["contended"] != "")]
    contended = busy["strategy"].value_counts()
    for name, count in contended.items():
        trouble.setdefault(name, []).append(f"{count} contended")
    for name, shared, n in zip(table["strategy"], points.n, table["n"], strict=True):
        if shared < n:
            trouble.setdefault(name, []).append(f"{shared:.0f} of {n} seeds paired")
    table["trouble"] = [", ".join(trouble.get(name, ())) for name in table["strategy"]]
    table["contended"] = table["strategy"].map(contended).fillna(0).astype(int)
    told = group.set_index("strategy").filter(regex="_note$").stack().dropna()
    told = told[told != ""].groupby(level=0).unique() if len(told) else {}
    table["note"] = [", ".join(map(str, told.get(name, ()))) for name in table["strategy"]]


def _with_published(table: pd.DataFrame, published: list[dict[str, Any]]) -> pd.DataFrame:
    """Add what papers say; of several lines on a strategy the first counts."""
    for column in [name for name in COLUMNS if name.startswith("published_")]:
        key = column.removeprefix("published_")
        table[column] = empty = "" if key == "source" else np.nan
        for line in reversed(published):
            said = table["strategy"] == line["strategy"]
            if line["task"] is not None:
                said &= table["task"] == line["task"]
            # Suites of version 0.1.0 and before know fewer figures.
            told = line.get(key)
            table.loc[said, column] = empty if told is None else told
    return table
