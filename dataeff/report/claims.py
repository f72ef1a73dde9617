"""Claims of papers, judged by what was measured: confirmed, not confirmed, or undecided.

Each is judged by the 95% interval of its own comparison, paired by seed. Unlike the verdicts of a
table they are no family of tests: the suite names them before anything is measured.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dataeff.report.frames import Record, finished, numbers, of_strategy, resolution, tables
from dataeff.report.read import Matches
from dataeff.report.stats import named, paired
from dataeff.report.words import factor, points

CONFIRMED, NOT_CONFIRMED, UNDECIDED = "confirmed", "not confirmed", "undecided"
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


def claims_table(
    runs: pd.DataFrame, suite: dict[str, Any], margin: float, matches: Matches
) -> pd.DataFrame:
    """Return one line per claim of the suite and table (task and conditions) that it speaks of.

    `matches` are the strategies that patterns have become, by task, conditions and pattern.
    """
    measured = [(*key, finished(group)) for key, group in tables(runs)]
    lines = []
    # Results of version 0.1.0 and before know no claims.
    for claim in suite.get("claims", []):
        for task in suite["tasks"] if claim["task"] is None else [claim["task"]]:
            here = [(conditions, cells) for name, conditions, cells in measured if name == task]
            for conditions, cells in here or [("", runs[:0])]:
                meant = {
                    key: matches.get((task, conditions, claim[key]), claim[key])
                    for key in ("strategy", "against")
                }
                line = _line(claim | meant, cells, margin)
                lines.append({"task": task, "conditions": conditions} | line)
    return pd.DataFrame(lines, columns=COLUMNS)


def _line(claim: Record, cells: pd.DataFrame, margin: float) -> Record:
    ours, theirs = (of_strategy(cells, claim[key]) for key in ("strategy", "against"))
    accuracy, seconds = "test_top1", f"{claim['clock']}_seconds"
    ahead = paired(numbers(ours, accuracy) - numbers(theirs, accuracy), resolution(cells))
    pace = paired(np.log(numbers(theirs, seconds) / numbers(ours, seconds)))
    difference, speedup = ahead.interval(), pace.interval().exp()
    parts = []
    if (word := claim["accuracy"]) is not None:
        verdict = judge_accuracy(word, difference.low, difference.high, margin)
        word += " to" if word == "equal" else " than"
        parts.append((verdict, word, points(difference, " points"), ahead.n[0]))
    if (least := claim["speedup"]) is not None:
        verdict = judge_speedup(least, speedup.low, speedup.high)
        clock = " on the train clock" if claim["clock"] == "train" else ""
        word = f"at least {least:g}x as fast{clock} as"
        parts.append((verdict, word, factor(speedup), pace.n[0]))
    verdicts, claimed, measured, seeds = zip(*parts, strict=True)
    n = int(min(seeds))
    return {
        "verdict": judge_all(verdicts),
        "text": " ".join(claim["text"].split()),
        **{key: claim[key] for key in ("source", "strategy", "against", "clock")},
        "claimed": f"{' and '.join(claimed)} {claim['against']}",
        "measured": _measured(measured, n, ran=bool(len(ours) and len(theirs))),
        "n": n,
        "margin": margin,
        **named(difference, "difference"),
        **named(speedup, "speedup"),
    }


def _measured(parts: Sequence[str], n: int, ran: bool) -> str:
    if n == 0:
        return "they share no seed" if ran else "not run"
    return ", ".join(parts) + ("; one seed shows no spread: add seeds" if n == 1 else "")
