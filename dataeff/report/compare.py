"""Two strategies side by side: where the speed-up went, and what would have to be cheaper.

The ideal speed-up is what counted work allows (forward 1, backward 2, times the FLOPs of a row). If
every phase got cheaper by that factor, it would be reached; what a phase takes beyond that is lost.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from dataeff.report import frames
from dataeff.report.frames import Key, Record, numbers, of_strategy
from dataeff.report.judge import Judged
from dataeff.report.method import Method, method_between
from dataeff.report.pair import Said, pair_said
from dataeff.report.words import number
from dataeff.report.worth import Worth

PHASES = (
    *("prepare", "plan", "load", "score", "select"),
    *("transform", "forward", "backward", "step", "other"),
)
"""What the clock is split into: the prepare clock, then the phases of training."""
OVERHEAD = ("prepare", "plan", "score", "select", "transform")
"""Phases that exist for strategies: a plain run hardly has them."""
SECONDS = {name: f"{name}_phase_seconds" for name in PHASES} | {"prepare": "prepare_seconds"}
"""The column of runs.csv that each phase has."""

# What rounding leaves of zero.
_NOTHING = 1e-9
_ROWS = ("scored", "forwarded", "trained", "prepare_scored", "prepare_forwarded", "prepare_trained")


# Where did the speed-up go -----------------------------------------------------------------------


class Comparison(NamedTuple):
    """B against A on one task under the same conditions, over the seeds that both finished.

    `phases` has a line per phase that either has: mean seconds of `a` and `b`, the `ideal` seconds
    of B, and what is `lost`; they add up to the clocked time. `off_clock` has a line per clock that
    was left out on purpose. `rows` are mean counts. `free` is the speed-up without those clocks.
    `said` is what may be said of B against A, `method` what the table knows of the one of them
    that is a method where the other is its reference.
    """

    key: Key
    a: str
    b: str
    seeds: list[int]
    said: Said
    method: Method | None
    margin: float
    free: float
    ideal: float
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

    def seconds(self, value: float) -> str:
        """Return seconds as they are written here: with decimals that fit the shorter run."""
        shortest = self.total[["a", "b"]].min()
        decimals = max(2, 2 - math.floor(math.log10(shortest))) if shortest > 0 else 2
        return number(value, f"z,.{decimals}f")

    def visible(self) -> pd.DataFrame:
        """Return the phases; what would be a line of zeros is added to `other`."""
        zero = self.phases[["a", "b"]].map(self.seconds).eq(self.seconds(0.0)).all(axis=1)
        joined = zero | (self.phases.index == "other")
        shown, small = self.phases[~joined].copy(), self.phases[joined].sum(skipna=False)
        if small[["a", "b"]].map(self.seconds).ne(self.seconds(0.0)).any():
            shown.loc["other"] = small
        return shown

    def numbers(self) -> Record:
        """Return the comparison as numbers, for programs."""
        total = self.total
        # What is saved on the way to A's time, or, for who is faster, to the ideal.
        behind = total["b"] - total["a"]
        surplus = behind if behind > 0 else total["lost"]
        alone = cheaper(self.phases["b"], surplus) if surplus > 0 else self.phases[:0]
        return {
            **dict(zip(frames.KEYS, self.key, strict=True)),
            "seeds": self.seeds,
            "method": self.method and self.method.numbers(),
            "speedup": self.said.speedup._asdict(),
            "speedup_on_the_clock": self.free,
            "ideal_speedup": self.ideal,
            "realised": self.realised,
            "accuracy_difference": self.said.difference._asdict(),
            "verdict": self.said.verdict,
            "judged_by": self.said.by,
            "phases": _records(self.phases, "phase"),
            "total": total.to_dict(),
            "off_clock": _records(self.off_clock, "clock"),
            "rows": _records(self.rows, "kind"),
            "counted_work": counted_work(self.rows)._asdict(),
            "overhead": overhead(self.phases).to_dict(),
            "goal": "break even" if behind > 0 else "ideal",
            "surplus": surplus,
            "one_phase_alone": _records(alone, "phase"),
        }


def _records(table: pd.DataFrame, name: str) -> list[Record]:
    return frames.records(table.rename_axis(name).reset_index())


def compare(judged: list[Judged], a: str, b: str) -> list[Comparison]:
    """Compare two strategies wherever both finished a seed: one by one, task by conditions."""
    found = []
    for table in judged:
        base, ours = (of_strategy(table.grid.cells, name) for name in (a, b))
        seeds = base.index.intersection(ours.index).sort_values()
        if len(seeds):
            sides = {"a": base.loc[seeds], "b": ours.loc[seeds]}
            known = method_between(Worth(table), a, b)
            found.append(_comparison(table, sides, pair_said(table, a, b), known))
    return found


def _comparison(
    table: Judged, sides: Mapping[str, pd.DataFrame], said: Said, method: Method | None
) -> Comparison:
    """Compare the cells of B with those of A, both by seed."""
    base, ours = sides.values()
    work = np.log(_positive(base, "flops") / _positive(ours, "flops"))
    ideal = float(np.exp(work.mean(skipna=False)))
    timed = _uncontended(sides)
    clocked = np.log(
        _positive(timed["a"], "clocked_seconds") / _positive(timed["b"], "clocked_seconds")
    )
    phases = _means(timed, SECONDS)
    # What no phase names is other, so that they add up.
    whole = _means(timed, {"other": "clocked_seconds"}).loc["other"]
    phases.loc["other"] = whole - phases.drop(index="other").sum()
    phases = phases[(phases.abs() > _NOTHING).any(axis=1)]
    phases["ideal"] = phases["a"] / ideal
    phases["lost"] = phases["b"] - phases["ideal"]
    clocks = {name: re.fullmatch(r"off_(.+)(?<!_process)_seconds", name) for name in base}
    off_clock = _means(timed, {match[1]: name for name, match in clocks.items() if match})
    return Comparison(
        key=table.table.key,
        a=base["strategy"].iloc[0],
        b=ours["strategy"].iloc[0],
        seeds=[int(seed) for seed in base.index],
        said=said,
        method=method,
        margin=table.margin,
        free=float(np.exp(clocked.mean())),
        ideal=ideal,
        phases=phases,
        off_clock=off_clock[(off_clock > 0).any(axis=1)],
        rows=_means(sides, {name: f"rows_{name}" for name in _ROWS}),
    )


def _uncontended(sides: Mapping[str, pd.DataFrame]) -> Mapping[str, pd.DataFrame]:
    """Return the seeds whose times can be trusted on both sides; all, where there is none."""
    base, ours = (cells["contended"] == "" for cells in sides.values())
    calm = base & ours
    return {side: cells[calm] for side, cells in sides.items()} if calm.any() else sides


def _positive(cells: pd.DataFrame, name: str) -> pd.Series:
    return numbers(cells, name).where(lambda values: values > 0)


def _means(sides: Mapping[str, pd.DataFrame], columns: Mapping[str, str]) -> pd.DataFrame:
    """Return the means of these columns by name, of A and B; what a cell does not have is zero."""
    means = {
        side: [numbers(cells, column).fillna(0.0).mean() for column in columns.values()]
        for side, cells in sides.items()
    }
    return pd.DataFrame(means, index=list(columns), dtype=float)


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


class Work(NamedTuple):
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
    work = rows.mul(np.where(rows.index.str.endswith("trained"), 2, 1), axis=0)
    ours, (budget, whole) = work["b"], work.sum()
    score, train = ours["scored"], ours["forwarded"] + ours["trained"]
    left = budget - ours.filter(like="prepare_").sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        scoring = np.divide(left - train, score)
        trained = np.divide(left - score, train) * rows.loc["trained", "b"]
    return Work(*map(float, (budget, whole, score, scoring, trained)))
