"""What a comparison of two strategies says, in short sentences about A and B."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pandas as pd

from dataeff.report.comparing import (
    OVERHEAD,
    Comparison,
    Interval,
    cheaper,
    counted_work,
    fewest,
    overhead,
)

SLIGHT = 0.02
"""Less than this share of a run's time is not worth a sentence."""
_MOST = 0.8
_SHOWN = 3

Seconds = Callable[[float], str]


def seconds_of(found: Comparison) -> Seconds:
    """Return how seconds are written here: with decimals that fit the shorter run."""
    shortest = min(found.total["a"], found.total["b"])
    decimals = max(2, 2 - math.floor(math.log10(shortest))) if shortest > 0 else 2
    return lambda value: "-" if math.isnan(value) else format(value, f"z,.{decimals}f")


def headline(found: Comparison) -> list[str]:
    """Return speed-up, ideal and accuracy of B against A, with a word on each."""
    speed = f"Speed-up: {found.speedup.mean:.2f}x{_limits(found.speedup, '.2f', 'x', ' to ')}"
    points = f"Accuracy: {found.difference.mean:+z.2f} points"
    points += _limits(found.difference, "+z.2f", "", "..")
    ideal = "Ideal: not known, for the work of these runs was not counted."
    if not math.isnan(found.ideal):
        ideal = f"Ideal: {found.ideal:.2f}x by counted work; {found.realised:.0%} of it is realised"
        ideal += " on the clock." if len(found.off_clock) else "."
    return [
        f"{speed}: {_told(found.speedup, 1, 'B is faster', 'B is slower')}.",
        ideal,
        f"{points}: {_told(found.difference, 0, 'B is better', 'B is worse')}.",
    ]


def _limits(interval: Interval, spec: str, unit: str, to: str) -> str:
    if math.isnan(interval.low):
        return ""
    return f" (95%: {interval.low:{spec}}{unit}{to}{interval.high:{spec}}{unit})"


def _told(interval: Interval, nothing: float, more: str, less: str) -> str:
    if math.isnan(interval.low):
        return "one seed shows no spread"
    if interval.low > nothing:
        return more
    return less if interval.high < nothing else "not told apart"


def sentences(found: Comparison) -> list[str]:
    """Return where the time went, and what would have to change, for a comparison of B with A."""
    seconds = seconds_of(found)
    return [
        *_off_clock(found, seconds),
        *_gap(found, seconds),
        *_overhead(found, seconds),
        *_work(found),
        *_balance(found, seconds),
    ]


def _off_clock(found: Comparison, seconds: Seconds) -> list[str]:
    said = []
    for name in ("a", "b"):
        spent = found.off_clock[name]
        spent = spent[spent > 0]
        if len(spent):
            clocks = _listed(f"{seconds(value)} s ({clock})" for clock, value in spent.items())
            said.append(
                f"{name.upper()} left {clocks} off the clock on purpose, so it is not ranked."
            )
    if said:
        said.append(
            f"The speed-up above counts that; without it, it is {found.free:.2f}x. "
            "The table and what follows leave it out."
        )
    return said


def _gap(found: Comparison, seconds: Seconds) -> list[str]:
    """Say where B loses, or gains, against its ideal."""
    total = found.total
    if math.isnan(found.ideal):
        return []
    allowed = seconds(total["ideal"])
    takes = f"B takes {seconds(total['b'])} s where its counted work allows {allowed} s"
    slight = abs(total["lost"]) <= SLIGHT * total["ideal"]
    slower = slight or total["lost"] > 0
    changes = found.phases["lost"] if slower else -found.phases["lost"]
    main, back = changes[changes > 0], -changes[changes < 0]
    most, made_up = (fewest(part, _MOST * part.sum())[:_SHOWN] for part in (main, back))
    where = ", ".join(
        f"{phase} {seconds(value)} s ({value / main.sum():.0%})" for phase, value in most.items()
    )
    if slight and back.sum() > SLIGHT * total["ideal"]:
        lost = f"what {_listed(most.index)} takes beyond it is made up for"
        return [f"{takes}: {lost} in {_listed(made_up.index)}."]
    if slight:
        return [f"{takes}: nothing to speak of is lost."]
    takes += f", {seconds(abs(total['lost']))} s {'more' if slower else 'less'}"
    text = f"{takes}. {'Lost' if slower else 'Gained'}: {where}"
    if back.sum() > SLIGHT * total["ideal"]:
        again = "made up for" if slower else "lost again"
        text += f"; {seconds(back.sum())} s of that are {again} in {_listed(made_up.index)}"
    return [f"{text}."]


def _overhead(found: Comparison, seconds: Seconds) -> list[str]:
    extra = overhead(found.phases)
    total = found.total["b"]
    if extra.sum() <= SLIGHT * total:
        return [f"Overhead of B ({', '.join(OVERHEAD)}) is slight: {seconds(extra.sum())} s."]
    where = ", ".join(
        f"{phase} {seconds(value)} s"
        for phase, value in extra.items()
        if value > SLIGHT / 2 * total
    )
    share = f"{seconds(extra.sum())} s, {extra.sum() / total:.0%} of its time"
    return [f"Overhead: B spends {share}, on what A does not need: {where}."]


def _balance(found: Comparison, seconds: Seconds) -> list[str]:
    """Say what brings a slower B level with A, or what a faster one has to spare."""
    total, phases = found.total, found.phases
    behind = total["b"] - total["a"]
    if abs(behind) <= SLIGHT / 2 * total["a"]:
        return ["B and A take about the same time."]
    if behind > 0:
        goal = f"To break even, B has to save {seconds(behind)} s"
        return [_ways(phases, behind, goal, f"A's {seconds(total['a'])} s", seconds)]
    said = [
        f"B could spend another {seconds(-behind)} s, {-behind / total['a']:.0%} of A's time, "
        "before it is as slow as A."
    ]
    if total["lost"] > SLIGHT * total["ideal"]:
        goal = f"To reach its ideal, B has to save {seconds(total['lost'])} s"
        target = f"its ideal of {seconds(total['ideal'])} s"
        said.append(_ways(phases, total["lost"], goal, target, seconds))
    return said


def _ways(phases: pd.DataFrame, surplus: float, goal: str, target: str, seconds: Seconds) -> str:
    """Say which phase alone saves the surplus, or which together, or that none do."""
    able = cheaper(phases["b"], surplus)[:_SHOWN]
    if len(able):
        ways = [
            f"{phase} {seconds(row['now'])} -> {seconds(row['needed'])} s "
            f"({row['saving']:.0%} cheaper)"
            for phase, row in able.iterrows()
        ]
        return f"{goal}; one phase alone would do: {', or '.join(ways)}."
    goal = f"{goal}; no single phase can"
    own = phases["b"][overhead(phases).index]
    together = fewest(own, surplus)
    if together.sum() >= surplus:
        return (
            f"{goal}, but {_listed(together.index)} together, {seconds(together.sum())} -> "
            f"{seconds(together.sum() - surplus)} s ({surplus / together.sum():.0%} cheaper)."
        )
    left = seconds(phases["b"].sum() - own.sum())
    return f"{goal}: even with no overhead at all it would take {left} s, more than {target}."


def _work(found: Comparison) -> list[str]:
    """Say what scoring costs in work, and where there is more work than A has, what would do."""
    if math.isnan(found.ideal):
        return []
    work, rows, times = counted_work(found.rows), found.rows["b"], 1 / found.ideal
    # Rows of other sizes, networks or depths cost something else each.
    alike = work.a > 0 and abs(work.b / work.a / times - 1) <= SLIGHT
    said = []
    if alike and work.scored > SLIGHT * work.b:
        without = work.a / (work.b - work.scored)
        share = f"{work.scored / work.b:.0%} of B's work"
        said = [f"Scoring is {share}; without it, the ideal would be {without:.2f}x."]
    if found.ideal >= 1 - SLIGHT / 2:
        return said
    if found.free > 1:
        said.append(f"B does {times:.2f} times the work of A: it is not faster by saving work.")
    else:
        said.append(
            f"B does {times:.2f} times the work of A, so no implementation of it can break even "
            "at this setting, unless fewer rows are scored or kept."
        )
    if not alike:
        return [*said, "Its rows do not all cost the same, so their numbers do not say how many."]
    counts = [f"{kind} {rows[kind]:,.0f}" for kind in ("scored", "forwarded", "trained")]
    before = rows.filter(like="prepare_").sum()
    more = f", and {before:,.0f} more to prepare" if before else ""
    said.append(
        f"Rows of B: {', '.join(counts)}{more}; with forward 1 and backward 2 that is "
        f"{work.b:,.0f} against {work.a:,.0f} of A."
    )
    return [*said, _equal(work.scoring, work.trained, rows)]


def _equal(scoring: float, trained: float, rows: pd.Series) -> str:
    """Say at which cost of scoring, or at how many rows, B has no more work than A."""
    ways, vain = [], []
    if rows["scored"] and scoring > 0:
        ways.append(f"scoring a row costs {scoring:.2f} of a forward pass instead of 1")
    elif rows["scored"]:
        vain.append("free scoring")
    if trained > 0:
        ways.append(f"{trained:,.0f} rows are trained instead of {rows['trained']:,.0f}")
    else:
        vain.append("training fewer rows")
    equal = f"The work is equal where {', or '.join(ways)}" if ways else "The work stays more"
    alone = f"; {' or '.join(vain)} alone would not do" if vain else ""
    return f"{equal}{alone}."


def _listed(texts: Iterable[str]) -> str:
    *head, last = texts
    return f"{', '.join(head)} and {last}" if head else last
