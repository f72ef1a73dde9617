"""Looks: a table is judged at planned numbers of seeds, and what was said then stays.

A look is kept in looks.json with the chance that it spent, so that a table that is read twice is
not tested twice. An answer belongs to the cells that it was drawn from: where a strategy has
changed or was run again it is lost, and that strategy alone is judged anew, at its share.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dataeff.checked import read_entries, write_entries
from dataeff.forms import LOOKS
from dataeff.report.frames import Key, Record, tables
from dataeff.report.questions import (
    REFERENCE,
    AgainstLine,
    AgainstReference,
    Held,
    Questions,
    Table,
    ends_of,
)
from dataeff.report.verdicts import CHANCE, SHARE, Ends, Verdicts
from dataeff.seeds import AUTO, looks_at

# What was said -----------------------------------------------------------------------------------


def holding(questions: Questions, looks: Iterable[Record]) -> Held:
    """Return the answers that still hold: those whose cells are as they were."""
    held: Held = {}
    for look in looks_of(looks, questions.table.key, questions.about):
        for name, answer in look["answers"].items():
            listed = name in questions.names
            if listed and questions.cells(name, look["n"], answer) == answer["cells"]:
                held[name] = answer | {"n": look["n"]}
    return held


def settled(table: Table, held: Held) -> set[str]:
    """Return who needs no more seeds, by the margin as it is now.

    Who has not finished a single seed is not asked for more either.
    """
    names = list(held)
    (points, *ends), (_, *speeds) = (ends_of(held, names, key) for key in ("difference", "speed"))
    diverged = np.array([held[name]["diverged"] for name in names], bool)
    found = Verdicts(Ends(*ends, *speeds), diverged, table.margin)
    return {
        name for name, done in zip(names, found.settled | np.isnan(points), strict=True) if done
    }


def looks_of(looks: Iterable[Record], key: Key, about: str = REFERENCE) -> list[Record]:
    """Return the looks at one table, in the order in which they were made."""
    wanted = (*key, about)
    return [look for look in looks if (look["task"], look["conditions"], look["about"]) == wanted]


def spent(looks: Iterable[Record]) -> float:
    """Return the chance of being wrong that looks have spent."""
    return sum(look["chance"] for look in looks)


def stopped(table: Table, held: Held, n: int) -> set[str]:
    """Return who runs no more seeds: those settled by a look before, where all else goes on."""
    if table.suite["seeds"] != AUTO:
        return set()
    return {name for name in settled(table, held) if held[name]["n"] < n}


def read_looks(folder: Path) -> list[Record]:
    """Read the looks of a results folder."""
    looks = read_entries(folder / "looks.json", LOOKS)
    for look in looks:
        for answer in look["answers"].values():
            for key in {"difference", "speed", "gain"} & set(answer):
                mean, low, high = answer[key]
                # JSON has no infinity.
                ends = (math.nan, mean), (-math.inf, low), (math.inf, high)
                answer[key] = [empty if value is None else value for empty, value in ends]
    return looks


# Looking -----------------------------------------------------------------------------------------


def with_due(
    runs: pd.DataFrame, suite: Mapping[str, Any], looks: list[Record], most: float = math.inf
) -> list[Record]:
    """Return the looks, and those that are due by now: all cells that they wait for have ended.

    None is made at more than `most` seeds.
    """
    found = list(looks)
    for key, group in tables(runs):
        table = Table(key, group, suite)
        for n in (size for size in looks_at(suite["seeds"]) if size <= most):
            out = stopped(table, holding(AgainstReference(table), found), n)
            for questions in (AgainstReference(table), AgainstLine(table)):
                if look := _look(questions, n, found, out):
                    found.append(look)
    return found


def _look(questions: Questions, n: int, looks: list[Record], out: set[str]) -> Record | None:
    """Look at a table after n seeds, where anybody waits for it and all that is needed is there."""
    table, about = questions.table, questions.about
    held = holding(questions, looks)
    going = [name for name in questions.names if name not in out]
    ended = [name for name in going if table.whole.ended([name], n)]
    who = [name for name in ended if name not in held or held[name]["n"] < n]
    waits = [name for name in going if name in table.awaited and name not in ended]
    if not who or waits or not table.whole.ended(questions.needed, n):
        return None
    earlier = looks_of(looks, table.key, about)
    chance = CHANCE if table.suite["seeds"] != AUTO and not spent(earlier) else SHARE * CHANCE
    if len(who) < len(going):
        # The others have had theirs, or will have it.
        chance *= len(who) / len(questions.names)
    answers = questions.judged(n, who, chance, held)
    if not answers:
        return None
    if not any(_says_something(answer) for answer in answers.values()):
        # One seed, or none that has finished: nothing was asked.
        chance = 0.0
    task, conditions = table.key
    head = {"task": task, "conditions": conditions, "about": about, "n": n, "chance": chance}
    head["of"] = identity(table.suite, task)
    told = {name: {"cells": questions.cells(name, n)} | one for name, one in answers.items()}
    return head | {"answers": told}


def _says_something(answer: Record) -> bool:
    ends = [answer[key][1:] for key in ("difference", "speed", "gain") if key in answer]
    return any(math.isfinite(end) for pair in ends for end in pair)


def identity(suite: Mapping[str, Any], task: str) -> str:
    """Return what tells a task from another one of its name: keys, data and network."""
    keys = ("task_ids", "data", "networks")
    return " ".join(str((suite.get(key) or {}).get(task, "")) for key in keys)


def current(looks: Iterable[Record], suite: Mapping[str, Any]) -> list[Record]:
    """Return the looks at the suite's tasks as they are now."""
    return [look for look in looks if look["of"] == identity(suite, look["task"])]


def write_looks(folder: Path, looks: list[Record]) -> None:
    """Keep what was said."""
    write_entries(folder / "looks.json", looks, LOOKS)


# What is shown -----------------------------------------------------------------------------------


def seeds_shown(looks: Iterable[Record], key: Key) -> float:
    """Return how many seeds a table shows: those of its last look, all before there is one."""
    return max((look["n"] for look in looks_of(looks, key)), default=math.inf)


def shown(runs: pd.DataFrame, looks: Iterable[Record]) -> pd.DataFrame:
    """Return the runs that tables are made from: none beyond the last look."""
    if runs.empty:
        return runs
    limits = {key: seeds_shown(looks, key) for key, _ in tables(runs)}
    keys = zip(runs["task_name"], runs["conditions_id"], strict=True)
    return runs[runs["seed"] < np.array([limits[key] for key in keys])]


class Next(NamedTuple):
    """The next look at a table: at how many seeds, how many are there, and for whom it waits."""

    n: int
    there: int
    going: list[str]


def next_look(table: Table, looks: list[Record]) -> Next | None:
    """Return the look that a table waits for; None where there is nothing to wait for."""
    held = holding(AgainstReference(table), looks)
    for n in looks_at(table.suite["seeds"]):
        going = [name for name in table.awaited if name not in stopped(table, held, n)]
        if any(name not in held or held[name]["n"] < n for name in going):
            cells = table.group[table.group["strategy"].isin([*going, table.suite["reference"]])]
            counts = cells[cells["seed"] < n].groupby("seed")["strategy"].nunique()
            return Next(n, int((counts == len(going) + 1).sum()), going)
    return None
