"""The leaderboard: one line per strategy, paired with the reference seed by seed."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dataeff.cost import EARLY_TERMINATION, shared_costs
from dataeff.report.columns import NAMES
from dataeff.report.curves import accuracy_at, at_end, first_as_good, first_reached, last_seen
from dataeff.report.frames import Key, Record, of_table, records, resolution
from dataeff.report.grid import Grid
from dataeff.report.judge import Judged
from dataeff.report.stats import Array, Flags, Paired, interval_of, named, paired
from dataeff.report.words import (
    CONTROL,
    NO_EFFECT,
    NO_LOOK,
    NO_VERDICT,
    NOT_LISTED,
    READ_OFF,
    against_line,
    diverged_in,
    seeds_more,
    sentence,
    verdict_words,
)
from dataeff.report.worth import BEATS, KEEPS, SAVES, Worth
from dataeff.seeds import LOOKS

MEBI = 2**20
# Means over seeds, by the column of runs.csv that they are taken from.
_SAME = (
    *("balanced_accuracy", "worst_class", "prepare_seconds", "train_seconds", "rows_trained"),
    *("train_loss", "test_loss"),
    *("never_trained", "class_balance", "energy_joules", "artefact_uses"),
)
_MEANS = {"macro_f1": "test_macro_f1", "peak_memory_mib": "peak_memory"}
_MEANS |= dict(zip(_SAME, _SAME, strict=True))
# What nobody asks of the reference stopped early.
_UNSAID = ("against_line", SAVES, KEEPS, BEATS)


def leaderboard(
    worths: list[Worth],
    curves: pd.DataFrame,
    published: list[Record],
    target: float | None = None,
    images: Mapping[Key, Mapping[str, float]] | None = None,
) -> pd.DataFrame:
    """Return one line per task, conditions and strategy; compare within the first two only.

    `images` are what the test images add to the error of each difference, by table and strategy.
    """
    tests = curves.dropna(subset=["test_top1"])
    made = []
    for worth in worths:
        key, group = worth.judged.table.key, worth.judged.grid.group
        task, conditions = key
        table = _table(worth, of_table(tests, key), target)
        errors = table["strategy"].map((images or {}).get(key, {})).astype(float)
        told = dict.fromkeys(filter(None, group["device"]))
        place = {"task": task, "conditions": conditions, "device": " / ".join(told)}
        made.append(table.assign(**place, image_error=errors))
    return _with_published(pd.concat(made, ignore_index=True), published)[NAMES]


def _table(worth: Worth, tests: pd.DataFrame, target: float | None) -> pd.DataFrame:
    judged, grid = worth.judged, worth.judged.grid
    # What was run beyond the last look is not shown.
    tests = tests[tests["seed"].isin(grid.seeds)]
    strategy_at, seed_at = grid.points_of(tests)
    tests = tests.assign(strategy_at=strategy_at, seed_at=seed_at)
    means = {column: paired(grid(name)).mean for column, name in _MEANS.items()}
    level = _accuracy(grid("test_top1"), judged.points, judged.margin)
    table = pd.DataFrame({"strategy": grid.names, **means, **level})
    table["peak_memory_mib"] /= MEBI
    _add_speed(table, judged)
    _add_verdicts(table, judged)
    table = table.assign(**worth.evidence())
    _add_target(table, tests, grid, target)
    _add_reference(table, tests, judged)
    _add_trouble(table, judged)
    table = table.iloc[worth.order()]
    stopped = early_termination(judged, tests)
    return pd.concat([table, stopped]) if len(stopped) else table


def _accuracy(seen: Array, points: Paired, margin: float) -> Record:
    """Return how accurate lines are over their seeds, and how they differ from the reference."""
    level = paired(seen)
    told = {"n": level.n.astype(int), "accuracy": level.mean, "accuracy_std": level.sd}
    return told | {"margin": margin} | named(points, "difference")


def _add_speed(table: pd.DataFrame, judged: Judged) -> None:
    grid = judged.grid
    for name, values in named(judged.speed, "speedup").items():
        table[name] = np.exp(values)
    table["on_clock"], table["control"] = judged.on_clock, judged.control
    table["oracle"] = np.where(judged.on_clock, np.nan, judged.free)
    table["train_speedup"] = np.exp(grid.speed("train_seconds").mean)
    table["amortised_speedup"] = np.exp(grid.speed("clocked_seconds", "amortised_seconds").mean)
    table["ideal_speedup"], table["realised"] = judged.ideal, judged.free / judged.ideal
    # Who is settled has fewer seeds: by what it differs from the reference they are comparable.
    base = np.nan if grid.base is None else table["accuracy"][grid.base]
    paired_with = (base + table["difference"]).fillna(table["accuracy"])
    table["pareto"] = pareto(table["speedup"].where(judged.able), paired_with)


def _add_verdicts(table: pd.DataFrame, judged: Judged) -> None:
    table["look"], table["settled"] = judged.at, judged.settled
    for name, values in zip(("gain", "gain_low", "gain_high"), judged.gain, strict=True):
        table[name] = values
    table["verdict"] = _verdicts(judged)
    n, chances = judged.foreseen()
    waiting = judged.waiting()
    said = []
    for line, chance in zip(records(table), chances, strict=True):
        more = "" if line["settled"] or math.isnan(chance) else seeds_more(n, chance)
        if more and judged.until_settled and line["look"] == LOOKS[-1]:
            more = f"not settled by {LOOKS[-1]} seeds"
        if line["verdict"] == NO_LOOK:
            more = waiting or "none is planned; to have one, run it with --seeds auto"
        said.append(_sentence(line, more))
    table["sentence"] = said
    idle = judged.idle
    table.loc[idle != "", "sentence"] = [f"{NO_EFFECT}: {why}" for why in idle if why]
    table["against_line"] = [
        against_line(interval_of(line, "gain"), counted)
        for line, counted in zip(records(table), judged.counted, strict=True)
    ]


def _verdicts(judged: Judged) -> ArrayLike:
    """Return what stands in the place of each strategy's verdict: the verdict, or why none is."""
    grid = judged.grid
    diverged = list(map(diverged_in, judged.diverged, judged.ended))
    words = np.array(verdict_words(judged.verdicts, diverged), object)
    shared = (judged.points.n > 1) | (judged.speed.n > 1) | (judged.diverged > 0)
    words = np.where(judged.seen, np.where(shared, words, NO_VERDICT), NO_LOOK)
    words = np.where(judged.listed, words, np.where(judged.control, CONTROL, NOT_LISTED))
    return np.where(judged.idle != "", NO_EFFECT, np.where(grid.others, words, ""))


def _sentence(line: Record, more: str) -> str:
    verdict = line["verdict"]
    if verdict in ("", CONTROL, NOT_LISTED, NO_EFFECT) or (
        line["n"] == 0 and "diverged" not in verdict
    ):
        return ""
    if verdict == NO_VERDICT and math.isnan(line["difference"]):
        return f"{NO_VERDICT}: it shares no seed with the reference"
    if verdict == NO_VERDICT:
        more = "one seed shows no spread; add seeds: --seeds 5"
    return sentence(line, more)


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
        ends = paired(_ends(tests, grid)).mean
        target = np.nan if grid.base is None else (ends - table["margin"])[grid.base]
    reached = first_reached(tests, target, grid.shape)
    reached = np.where(np.isnan(grid("total_seconds")), np.nan, reached)
    share = (~np.isnan(reached)).sum(1) / table["n"].where(table["n"] > 0)
    table["target"] = target
    table["target_reached"] = np.nan if np.isnan(target) else share
    table["target_seconds"] = np.where(share == 1, paired(reached).mean, np.nan)


def _add_reference(table: pd.DataFrame, tests: pd.DataFrame, judged: Judged) -> None:
    """Add how far the reference was when each was done, and when it was as good."""
    grid, ends = judged.grid, _ends(tests, judged.grid)
    base = -1 if grid.base is None else grid.base
    then = accuracy_at(tests, base, grid("total_seconds"))
    table["reference_at_same_time"] = paired(then).mean
    whole = grid.of_reference(grid("clocked_seconds"))
    as_good = first_as_good(tests, base, ends)
    # Where it was never as good in a seed, the mean over the others would flatter it.
    never = (np.isnan(as_good) & ~np.isnan(ends - whole)).any(1)
    early = np.exp(paired(np.log(whole / as_good)).mean)
    told = grid.others & (judged.idle == "") & ~never
    table["early_speedup"] = np.where(told, early, np.nan)


def _ends(tests: pd.DataFrame, grid: Grid) -> Array:
    """Return the accuracy of each cell at its end, on the images that its curve is of."""
    on_part = grid("test_part") < grid("test_samples")
    return np.where(on_part, at_end(tests, grid.shape), grid("test_top1"))


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

    Nothing is run for them: they are not tested, and change nothing of what is said of the others.
    """
    grid, shares = judged.grid, shared_costs(judged.costs[judged.saving])
    if not shares or grid.base is None:
        return pd.DataFrame({"n": []})
    share = np.asarray(shares, dtype=float)
    grids = (_ends(tests, grid), grid("clocked_seconds"), grid("prepare_seconds"))
    final, clocked, prepare = map(grid.of_reference, grids)
    step = resolution(grid.cells, "test_part") or grid.step
    seen = last_seen(tests, grid.base, np.outer(share, clocked))
    train = np.where(np.isnan(seen), np.nan, share[:, None] * clocked - prepare)
    lines = pd.DataFrame(
        {
            "strategy": list(map(stopped_name, share)),
            **_accuracy(seen, paired(seen - final, step), judged.margin),
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
            **dict.fromkeys(("on_clock", "pareto", "settled"), False),
            **dict.fromkeys((*_UNSAID, "trouble", "note"), ""),
            **dict.fromkeys(("contended", "look"), 0),
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
