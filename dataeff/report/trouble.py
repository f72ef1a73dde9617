"""Trouble: cells that failed, are not believed or had no machine to themselves, and what to do."""

from typing import NamedTuple

import pandas as pd

from dataeff.plural import counted
from dataeff.report.doubts import UNVERIFIED
from dataeff.report.frames import records

AGAIN = "--rerun-flagged"
"""What repeats cells whose times are doubtful, or that do not verify."""
_MOST = 300


class Trouble(NamedTuple):
    """Something that went wrong, and what to type."""

    text: str
    cure: str


def troubles(runs: pd.DataFrame, command: str) -> list[Trouble]:
    """Return what went wrong in these cells; `command` is what ran them."""
    found = [Trouble(text, command) for text in _failed(runs)]
    doubtful = [*contended(runs), *unverified(runs)]
    return found + [Trouble(text, f"{command} {AGAIN}") for text in doubtful]


def _failed(runs: pd.DataFrame) -> list[str]:
    """Say of each strategy in how many seeds it failed, and why."""
    wrong = runs[runs["status"] == "failed"].fillna({"error": ""})
    said = []
    for line in records(
        wrong.groupby("strategy", sort=False)
        .agg(seeds=("seed", "nunique"), why=("error", "first"))
        .reset_index()
    ):
        seeds, why = counted(line["seeds"], "seed"), str(line["why"]).strip().partition("\n")[0]
        said.append(f"{line['strategy']} failed in {seeds}: {why[:_MOST]}")
    return said


def contended(runs: pd.DataFrame) -> list[str]:
    """Say how many of these cells have doubtful times, and what to do about it."""
    count = int((runs["contended"] != "").sum())
    if not count:
        return []
    return [
        f"{counted(count, 'cell was', 'cells were')} measured while the machine was busy with "
        "something else, or stopped, so times are doubtful; to repeat just those, add "
        "--rerun-flagged to the command that ran them."
    ]


def unverified(runs: pd.DataFrame) -> list[str]:
    """Say how many of these cells are not believed, and what to do about it."""
    wrong = runs[runs["status"] == UNVERIFIED]
    if wrong.empty:
        return []
    first = wrong.iloc[0]
    return [
        f"{counted(len(wrong), 'cell does', 'cells do')} not verify, and count nowhere (the first, "
        f"{first['strategy']} seed {first['seed']}: {first['error']}); dataeff verify tells more, "
        "and --rerun-flagged then runs them again."
    ]
