"""The leaderboard: one line per strategy, paired with the reference seed by seed."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dataeff.cost import EARLY_TERMINATION, shared_costs
from dataeff.report.columns import NAMES
from dataeff.report.curves import accuracy_at, first_as_good, first_reached, last_seen
from dataeff.report.frames import Record, of_table, records, tables
from dataeff.report.judge import Grid, Judged
from dataeff.report.stats import Array, Flags, Paired, named, paired, seeds_to_decide
from dataeff.report.words import NO_EFFECT, READ_OFF, sentence, verdict_words

MEBI = 2**20
# Means over seeds, by the column of runs.csv that they are taken from.
_SAME = (
    *("worst_class", "prepare_seconds", "train_seconds", "rows_trained", "train_loss", "test_loss"),
    *("never_trained", "class_balance", "energy_joules", "artefact_uses"),
)
_MEANS = {"macro_f1": "test_macro_f1", "peak_memory_mib": "peak_memory"}
_MEANS |= dict(zip(_SAME, _SAME, strict=True))


def leaderboard(
    runs: pd.DataFrame,
    curves: pd.DataFrame,
    suite: dict[str, Any],
    margin: float,
    target: float | None = None,
) -> pd.DataFrame:
    """Return one line per task, conditions and strategy; compare within the first two only."""
    tests = curves.dropna(subset=["test_top1"])
    made = []
    for key, group in tables(runs):
        judged = Judged(Grid(group, suite["reference"]), margin)
        table = _table(judged, of_table(tests, key), target)
        made.append(table.assign(task=key[0], conditions=key[1]))
    return _with_published(pd.concat(made, ignore_index=True), suite["published"])[NAMES]


def _table(judged: Judged, tests: pd.DataFrame, target: float | None) -> pd.DataFrame:
    grid = judged.grid
    strategy_at, seed_at = grid.points_of(tests)
    tests = tests.assign(strategy_at=strategy_at, seed_at=seed_at)
    means = {column: paired(grid(name)).mean for column, name in _MEANS.items()}
    level = _accuracy(grid("test_top1"), judged.points, judged.margin)
    table = pd.DataFrame({"strategy": grid.names, **means, **level})
    table["peak_memory_mib"] /= MEBI
    table["equivalence_p"] = table["equivalence_p"].where(judged.judged)
    _add_speed(table, judged)
    _add_verdicts(table, judged)
    _add_target(table, tests, grid, target)
    _add_reference(table, tests, judged)
    _add_trouble(table, judged)
    place = table["rank"].fillna(np.inf)
    order = [-table["speedup"].fillna(0), place, ~judged.ranked, grid.others]
    table = table.iloc[np.lexsort(order)]
    stopped = early_termination(judged, tests)
    return pd.concat([table, stopped]) if len(stopped) else table


def _accuracy(seen: Array, points: Paired, margin: float) -> Record:
    """Return how accurate lines are over their seeds, and how they differ from the reference."""
    level, p = paired(seen), points.p_equivalent(margin)
    told = {"n": level.n.astype(int), "accuracy": level.mean, "accuracy_std": level.sd}
    return told | {"margin": margin, "equivalence_p": p} | named(points, "difference")


def _add_speed(table: pd.DataFrame, judged: Judged) -> None:
    grid = judged.grid
    for name, values in named(judged.speed, "speedup").items():
        table[name] = np.exp(values)
    table["ranked"], table["control"] = judged.ranked, judged.control
    table["oracle"] = np.where(judged.ranked, np.nan, judged.free)
    table["train_speedup"] = np.exp(grid.speed("train_seconds").mean)
    table["amortised_speedup"] = np.exp(grid.speed("clocked_seconds", "amortised_seconds").mean)
    table["ideal_speedup"], table["realised"] = judged.ideal, judged.free / judged.ideal
    table["pareto"] = pareto(table["speedup"].where(judged.able), table["accuracy"])


def _add_verdicts(table: pd.DataFrame, judged: Judged) -> None:
    told, shared, idle = judged.verdicts, judged.shared, judged.idle
    needed = seeds_to_decide(judged.points, judged.speed, told, judged.margin)
    words = verdict_words(told, shared > 1)
    table["verdict"] = np.where(judged.judged & (table["n"] > 0), words, "")
    table["sentence"] = [
        sentence(line, shared[i], needed[i]) if line["verdict"] else ""
        for i, line in enumerate(records(table))
    ]
    table.loc[idle != "", "verdict"] = NO_EFFECT
    table.loc[idle != "", "sentence"] = [f"{NO_EFFECT}: {why}" for why in idle if why]
    table["rank"] = judged.ranks()
    table["against_controls"] = judged.against_controls()


def pareto(speedup: ArrayLike, accuracy: ArrayLike) -> Flags:
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


def _add_target(table: pd.DataFrame, tests: pd.DataFrame, grid: Grid, target: float | None) -> None:
    """Add when the target was reached; by default it is the reference's mean less the margin."""
    if target is None:
        target = np.nan if grid.base is None else (table["accuracy"] - table["margin"])[grid.base]
    reached = first_reached(tests, target, grid.shape)
    reached = np.where(np.isnan(grid("total_seconds")), np.nan, reached)
    share = (~np.isnan(reached)).sum(1) / table["n"].where(table["n"] > 0)
    table["target"] = target
    table["target_reached"] = np.nan if np.isnan(target) else share
    table["target_seconds"] = np.where(share == 1, paired(reached).mean, np.nan)


def _add_reference(table: pd.DataFrame, tests: pd.DataFrame, judged: Judged) -> None:
    """Add how far the reference was when each was done, and when it was as good."""
    grid, accuracy = judged.grid, judged.grid("test_top1")
    base = -1 if grid.base is None else grid.base
    then = accuracy_at(tests, base, grid("total_seconds"))
    table["reference_at_same_time"] = paired(then).mean
    whole = grid.of_reference(grid("clocked_seconds"))
    as_good = first_as_good(tests, base, accuracy)
    # Where it was never as good in a seed, the mean over the others would flatter it.
    never = (np.isnan(as_good) & ~np.isnan(accuracy - whole)).any(1)
    early = np.exp(paired(np.log(whole / as_good)).mean)
    table["early_speedup"] = np.where(judged.judged & ~never, early, np.nan)


def _add_trouble(table: pd.DataFrame, judged: Judged) -> None:
    """Add what went wrong in the cells of each line, and what strategies have to say of them."""
    group, cells = judged.grid.group, judged.grid.cells
    trouble: dict[str, list[str]] = {name: [] for name in table["strategy"]}
    contended = cells[cells["contended"] != ""].assign(status="contended")
    for lines in (group[group["status"] != "finished"], contended):
        for (name, status), count in lines.groupby(["strategy", "status"]).size().items():
            trouble[name].append(f"{count} {status}")
    for name, shared, n in zip(table["strategy"], judged.points.n, table["n"], strict=True):
        if shared < n:
            trouble[name].append(f"{shared:.0f} of {n} seeds paired")
    table["trouble"] = list(map(", ".join, trouble.values()))
    flagged = contended["strategy"].value_counts()
    table["contended"] = table["strategy"].map(flagged).fillna(0).astype(int)
    told = group.set_index("strategy").filter(regex="_note$").stack().dropna()
    told = told[told != ""].groupby(level=0).unique() if len(told) else {}
    table["note"] = [", ".join(map(str, told.get(name, ()))) for name in table["strategy"]]


def stopped_name(share: float) -> str:
    """Return what the reference is called, stopped at this share of its time."""
    return f"{EARLY_TERMINATION}[share={share:g}]"


def early_termination(judged: Judged, tests: pd.DataFrame) -> pd.DataFrame:
    """Return a line of the table per cost of a method at which the reference had a test, by seed.

    Nothing is run for them: they are neither ranked nor tested, and change nothing of what is said
    of the others.
    """
    grid, shares = judged.grid, shared_costs(judged.costs[judged.saving])
    if not shares or grid.base is None:
        return pd.DataFrame({"n": []})
    share = np.asarray(shares, dtype=float)
    names = ("test_top1", "clocked_seconds", "prepare_seconds")
    final, clocked, prepare = (grid.of_reference(grid(name)) for name in names)
    seen = last_seen(tests, grid.base, np.outer(share, clocked))
    train = np.where(np.isnan(seen), np.nan, share[:, None] * clocked - prepare)
    lines = pd.DataFrame(
        {
            "strategy": list(map(stopped_name, share)),
            **_accuracy(seen, paired(seen - final, grid.step), judged.margin),
            "prepare_seconds": paired(np.where(np.isnan(seen), np.nan, prepare)).mean,
            "train_seconds": paired(train).mean,
            # Stopped at a share of its own time: the clock and the count agree.
            **dict.fromkeys(("speedup", "speedup_low", "speedup_high"), 1 / share),
            "train_speedup": np.exp(paired(np.log((clocked - prepare) / train)).mean),
            "ideal_speedup": 1 / share,
            "realised": 1.0,
            "verdict": READ_OFF,
            "sentence": [
                f"read off the curve of {grid.names[grid.base]}, stopped at {100 * value:g}% of "
                "its time; nothing was run"
                for value in share
            ],
            "control": True,
            **dict.fromkeys(("ranked", "pareto"), False),
            **dict.fromkeys(("against_controls", "trouble", "note"), ""),
            "contended": 0,
        }
    )
    return lines[lines["n"] > 0]


def _with_published(table: pd.DataFrame, published: list[Record]) -> pd.DataFrame:
    """Add what papers say; of several lines on a strategy the first counts."""
    for column in [name for name in NAMES if name.startswith("published_")]:
        key = column.removeprefix("published_")
        table[column] = empty = "" if key == "source" else np.nan
        for line in reversed(published):
            here = table["task"].eq(line["task"]) | (line["task"] is None)
            # Suites of version 0.1.0 and before know fewer figures.
            told = empty if line.get(key) is None else line[key]
            table.loc[here & table["strategy"].eq(line["strategy"]), column] = told
    return table
