"""Claims of papers, judged by what was measured: confirmed, not confirmed, or open.

What is claimed against the reference is judged by the intervals of its table, so that both say the
same. Other claims, against another strategy or on the train clock, are judged by intervals of their
own, paired by seed, which share one chance of being wrong.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dataeff.report.frames import Record
from dataeff.report.judge import Judged
from dataeff.report.read import Matches
from dataeff.report.stats import Flags, Interval, Paired, Spread, named, spread
from dataeff.report.verdicts import CHANCE
from dataeff.report.words import factor, points

CONFIRMED, NOT_CONFIRMED, UNDECIDED = "confirmed", "not confirmed", "open"
COLUMNS = [
    *("verdict", "text", "source", "task", "conditions", "strategy", "against", "claimed"),
    *("measured", "n", "difference", "difference_low", "difference_high", "margin"),
    *("speedup", "speedup_low", "speedup_high", "clock"),
]
"""The columns of claims.csv, in order."""


def judge_accuracy(claimed: str, low: float, high: float, margin: float) -> str:
    """Judge a claim on accuracy by the interval of the difference in points.

    Less than the margin counts as no worse, and as equal. NaN decides nothing.
    """
    holds, fails = {
        "better": (low > 0, high <= 0),
        "no worse": (low > -margin, high < -margin),
        "equal": (low > -margin and high < margin, high < -margin or low > margin),
        "worse": (high < 0, low >= 0),
    }[claimed]
    return _verdict(holds, fails)


def judge_speedup(least: float, low: float, high: float) -> str:
    """Judge a claim of a speed-up of at least so much by its interval; NaN decides nothing."""
    return _verdict(low >= least, high < least)


def _verdict(holds: bool, fails: bool) -> str:
    return CONFIRMED if holds else NOT_CONFIRMED if fails else UNDECIDED


def judge_all(verdicts: Sequence[str]) -> str:
    """Judge a claim of several parts, of which all must hold."""
    return next((word for word in (NOT_CONFIRMED, UNDECIDED) if word in verdicts), CONFIRMED)


class Pair(NamedTuple):
    """What a claim compares, as measured: intervals, the seeds of each, and whether both ran."""

    difference: Interval
    speedup: Interval
    n: tuple[int, int]
    ran: bool
    diverged: bool


def claims_table(judged: list[Judged], suite: dict[str, Any], matches: Matches) -> pd.DataFrame:
    """Return one line per claim of the suite and table (task and conditions) that it speaks of.

    `matches` are the strategies that patterns have become, by task, conditions and pattern.
    """
    # Results of version 0.1.0 and before know no claims.
    claims = suite.get("claims", [])
    measured = {table.table.key: _on_table(claims, table, matches) for table in judged}
    lines = []
    for number, claim in enumerate(claims):
        for task in suite["tasks"] if claim["task"] is None else [claim["task"]]:
            here = [key for key in measured if key[0] == task] or [(task, "")]
            for key in here:
                meant, pair = measured.get(key, {}).get(number, (claim, _NOT_RUN))
                head = {"task": task, "conditions": key[1]}
                lines.append(head | _line(meant, pair, judged[0].margin if judged else 0.0))
    return pd.DataFrame(lines, columns=COLUMNS)


_WHO = ("strategy", "against")
_UNKNOWN = Interval(*[math.nan] * 3)
_NOT_RUN = Pair(_UNKNOWN, _UNKNOWN, (0, 0), False, False)


def _line(claim: Record, pair: Pair, margin: float) -> Record:
    difference, speedup = pair.difference, pair.speedup
    parts = []
    if (word := claim["accuracy"]) is not None:
        verdict = judge_accuracy(word, difference.low, difference.high, margin)
        if verdict == CONFIRMED and word != "worse" and pair.diverged:
            verdict = NOT_CONFIRMED
        word += " to" if word == "equal" else " than"
        parts.append((verdict, word, points(difference, " points"), pair.n[0]))
    if (least := claim["speedup"]) is not None:
        verdict = judge_speedup(least, speedup.low, speedup.high)
        clock = " on the train clock" if claim["clock"] == "train" else ""
        word = f"at least {least:g}x as fast{clock} as"
        parts.append((verdict, word, factor(speedup), pair.n[1]))
    verdicts, claimed, measured, counts = zip(*parts, strict=True)
    return {
        "verdict": judge_all(verdicts),
        "text": " ".join(claim["text"].split()),
        **{key: claim[key] for key in ("source", "strategy", "against", "clock")},
        "claimed": f"{' and '.join(claimed)} {claim['against']}",
        "measured": _measured(measured, min(counts), pair.ran),
        "n": min(counts),
        "margin": margin,
        **named(difference, "difference"),
        **named(speedup, "speedup"),
    }


def _on_table(
    claims: list[Record], table: Judged, matches: Matches
) -> dict[int, tuple[Record, Pair]]:
    """Return the claims on one table by number, patterns filled in, and what each compares."""
    key = table.table.key
    meant = {
        number: claim | {who: matches.get((*key, claim[who]), claim[who]) for who in _WHO}
        for number, claim in enumerate(claims)
        if claim["task"] in (None, key[0])
    }
    there = set(table.grid.cells["strategy"])
    ran = {n: one for n, one in meant.items() if {one[who] for who in _WHO} <= there}
    pairs = dict(zip(ran, _pairs(list(ran.values()), table), strict=True))
    return {n: (one, pairs.get(n, _NOT_RUN)) for n, one in meant.items()}


def _pairs(claims: list[Record], table: Judged) -> list[Pair]:
    """Return what was measured of each claim: by the table's intervals where it judges the same."""
    if not claims:
        return []
    grid = table.grid
    ours, theirs = (np.array([grid.names.index(one[who]) for one in claims]) for who in _WHO)
    told = (theirs == grid.base) & table.listed[ours]
    timed = told & np.array([claim["clock"] == "total" for claim in claims])
    accuracy = grid("test_top1")
    ahead = accuracy[ours] - accuracy[theirs]
    clocks = [grid(f"{claim['clock']}_seconds") for claim in claims]
    both = zip(clocks, ours, theirs, strict=True)
    pace = np.log([seconds[j] / seconds[i] for seconds, i, j in both])
    asked = [np.array([one[key] is not None for one in claims]) for key in ("accuracy", "speedup")]
    chance = CHANCE / max(1, int((asked[0] & ~told).sum() + (asked[1] & ~timed).sum()))
    own = spread(ahead[~told], grid.step), spread(pace[~timed])
    points, speeds = (
        _intervals(Paired(*(part[ours] for part in found)), one, chance, flags)
        for found, one, flags in zip((table.points, table.speed), own, (told, timed), strict=True)
    )
    if not table.against:
        # Nothing is said before a look.
        points, speeds = (
            [Interval(i.mean, math.nan, math.nan) for i in part] for part in (points, speeds)
        )
    counts = zip(*((~np.isnan(part)).sum(1) for part in (ahead, pace)), strict=True)
    parts = zip(points, speeds, counts, table.diverged[ours] > 0, strict=True)
    return [
        Pair(difference, speed.exp(), (int(n[0]), int(n[1])), True, bool(diverged))
        for difference, speed, n, diverged in parts
    ]


def _intervals(of_table: Paired, own: Spread, chance: float, told: Flags) -> list[Interval]:
    """Return the intervals of claims: those of the table where it has told, else their own."""
    lines = np.array([of_table.mean, of_table.low, of_table.high])
    lines[:, ~told] = own.mean, *own.limits(chance)
    return [Interval(*map(float, line)) for line in lines.T]


def _measured(parts: Sequence[str], n: int, ran: bool) -> str:
    if n == 0:
        return "they share no seed" if ran else "not run"
    return ", ".join(parts) + ("; one seed shows no spread: add seeds" if n == 1 else "")
