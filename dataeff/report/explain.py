"""What a comparison of two strategies says, in short sentences about A and B."""

import math
import shlex
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from dataeff.notation import split_parts
from dataeff.report.compare import OVERHEAD, Comparison, cheaper, counted_work, fewest, overhead
from dataeff.report.frames import Record, finished, of_table, tables, title
from dataeff.report.words import TIMES, listed, points, spread

SLIGHT = 0.02
"""Less than this share of a run's time is not worth a sentence."""
_MOST = 0.8
_SHOWN = 3


class Explained(NamedTuple):
    """One comparison: what it found, in words, and the effects of what is composed in it."""

    found: Comparison
    headline: list[str]
    sentences: list[str]
    composed: dict[str, list[Record]]

    def numbers(self) -> Record:
        """Return all of it for programs."""
        return self.found.numbers() | {
            "compositions": [line for lines in self.composed.values() for line in lines],
            "sentences": [*self.headline, *self.sentences],
        }


def explained(
    found: Comparison, runs: pd.DataFrame, effects: list[Record], more: tuple[str, str]
) -> Explained:
    """Say one comparison; `more` is the reference, and the command that runs what is missing."""
    ran = set(finished(of_table(runs, found.key))["strategy"])
    composed, said = {}, sentences(found)
    for letter, name in (("A", found.a), ("B", found.b)):
        place = (*found.key, name)
        own = [e for e in effects if (e["task"], e["conditions"], e["strategy"]) == place]
        if own:
            composed[letter] = own
        elif why := _unknown(name, ran, *more):
            said.append(f"Whether the effects of {letter} add up is not known: it takes {why}")
    return Explained(found, headline(found), said, composed)


def _unknown(name: str, ran: set[str], reference: str, command: str) -> str:
    """Say what is missing to tell whether a composition adds up; nothing of other strategies."""
    parts = split_parts(name)
    if len(parts) < 2 or name == reference:
        return ""
    if missing := [part for part in [reference, *parts] if part not in ran]:
        return f"runs of {', '.join(missing)} alone; type: {_typed(command, missing)}"
    return f"a finished seed that {reference} and all of its parts share."


def _typed(command: str, strategies: Iterable[str]) -> str:
    return " ".join([command, *(f"-s {shlex.quote(name)}" for name in strategies)])


def nothing_shared(runs: pd.DataFrame, a: str, b: str, command: str) -> str:
    """Say why two strategies that were run cannot be compared."""
    for name in (a, b):
        counts = runs[runs["strategy"] == name]["status"].value_counts()
        if "finished" not in counts:
            told = ", ".join(f"{count} {status}" for status, count in counts.items())
            return f"No cell of {name} finished ({told}), so there is nothing to compare."
    typed = _typed(command, [a, b])
    return f"{a} and {b} share no finished seed under the same conditions; type: {typed}"


def left_out(runs: pd.DataFrame, found: list[Comparison]) -> list[str]:
    """Say which tasks and conditions have some of these runs, but none that can be compared."""
    there = {one.key for one in found}
    told = [title(key) for key, _ in tables(runs) if key not in there]
    return [f"Not compared: {text}, where they share no finished seed." for text in told]


def headline(found: Comparison) -> list[str]:
    """Return speed-up, ideal and accuracy of B against A, with a word on each."""
    said = found.said
    speed = spread(said.speedup, TIMES, " to ")
    ahead = points(said.difference, " points")
    margin = f" (margin {found.margin:g})" if said.level in ("no worse", "worse") else ""
    ideal = "Ideal: not known, for the work of these runs was not counted."
    if not math.isnan(found.ideal):
        ideal = f"Ideal: {found.ideal:.2f}x by counted work; {found.realised:.0%} of it is realised"
        ideal += " on the clock." if len(found.off_clock) else "."
    return [
        f"Speed-up: {speed}: {said.pace}.",
        ideal,
        f"Accuracy: {ahead}: {said.level}{margin}.",
        f"B against A: {said.verdict}; {said.by}.",
    ]


def sentences(found: Comparison) -> list[str]:
    """Return where the time went, and what would have to change, for a comparison of B with A."""
    kinds = (_off_clock, _gap, _overhead, _work, _balance)
    return [sentence for say in kinds for sentence in say(found)]


def _off_clock(found: Comparison) -> list[str]:
    said = []
    for name, clocks in found.off_clock.items():
        spent = [f"{found.seconds(s)} s ({clock})" for clock, s in clocks[clocks > 0].items()]
        if spent:
            left = f"{str(name).upper()} left {listed(spent)} off the clock on purpose"
            said.append(f"{left}.")
    if said:
        said.append(
            f"The speed-up above counts that; without it, it is {found.free:.2f}x. "
            "The table and what follows leave it out."
        )
    return said


def _gap(found: Comparison) -> list[str]:
    """Say where B loses, or gains, against its ideal."""
    if math.isnan(found.ideal):
        return []
    total, seconds, least = found.total, found.seconds, SLIGHT * found.total["ideal"]
    allowed = seconds(total["ideal"])
    takes = f"B takes {seconds(total['b'])} s where its counted work allows {allowed} s"
    slower = total["lost"] >= -least
    changes = found.phases["lost"] if slower else -found.phases["lost"]
    main, back = changes[changes > 0], -changes[changes < 0]
    most, made_up = (fewest(part, _MOST * part.sum())[:_SHOWN] for part in (main, back))
    if abs(total["lost"]) <= least:
        if back.sum() <= least:
            return [f"{takes}: nothing to speak of is lost."]
        take = "takes" if len(most) == 1 else "take"
        lost = f"what {listed(most.index)} {take} beyond it is made up for"
        return [f"{takes}: {lost} in {listed(made_up.index)}."]
    kind, gap, again = (
        ("more", "Lost", "made up for") if slower else ("less", "Gained", "lost again")
    )
    where = ", ".join(f"{phase} {seconds(s)} s ({s / main.sum():.0%})" for phase, s in most.items())
    text = f"{takes}, {seconds(abs(total['lost']))} s {kind}. {gap}: {where}"
    if back.sum() > least:
        text += f"; {seconds(back.sum())} s of that are {again} in {listed(made_up.index)}"
    return [f"{text}."]


def _overhead(found: Comparison) -> list[str]:
    extra, total, seconds = overhead(found.phases), found.total["b"], found.seconds
    if extra.sum() <= SLIGHT * total:
        return [f"Overhead of B ({', '.join(OVERHEAD)}) is slight: {seconds(extra.sum())} s."]
    notable = extra[extra > SLIGHT / 2 * total]
    where = ", ".join(f"{phase} {seconds(value)} s" for phase, value in notable.items())
    share = f"{seconds(extra.sum())} s, {extra.sum() / total:.0%} of its time"
    return [f"Overhead: B spends {share}, on what A does not need: {where}."]


def _balance(found: Comparison) -> list[str]:
    """Say what brings a slower B level with A, or what a faster one has to spare."""
    total, seconds = found.total, found.seconds
    behind = total["b"] - total["a"]
    if abs(behind) <= SLIGHT / 2 * total["a"]:
        return ["B and A take about the same time."]
    if behind > 0:
        return [_ways(found, behind, "break even", f"A's {seconds(total['a'])} s")]
    said = [
        f"B could spend another {seconds(-behind)} s, {-behind / total['a']:.0%} of A's time, "
        "before it is as slow as A."
    ]
    if total["lost"] > SLIGHT * total["ideal"]:
        target = f"its ideal of {seconds(total['ideal'])} s"
        said.append(_ways(found, total["lost"], "reach its ideal", target))
    return said


def _ways(found: Comparison, surplus: float, goal: str, target: str) -> str:
    """Say which phase alone saves the surplus, or which together, or that none do."""
    phases, seconds = found.phases, found.seconds
    goal = f"To {goal}, B has to save {seconds(surplus)} s"
    if len(able := cheaper(phases["b"], surplus)[:_SHOWN]):
        ways = [
            f"{phase} {seconds(line['now'])} -> {seconds(line['needed'])} s "
            f"({line['saving']:.0%} cheaper)"
            for phase, line in able.iterrows()
        ]
        return f"{goal}; one phase alone would do: {', or '.join(ways)}."
    goal = f"{goal}; no single phase can"
    own = phases["b"][overhead(phases).index]
    together = fewest(own, surplus)
    if together.sum() >= surplus:
        return (
            f"{goal}, but {listed(together.index)} together, {seconds(together.sum())} -> "
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
