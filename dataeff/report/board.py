"""The board: everything that tables, figures and the page of a suite are made from."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dataeff.checked import read_entries
from dataeff.cost import MARGIN
from dataeff.damage import listening
from dataeff.files import make_way, uncollected, write_csv
from dataeff.forms import MATCHES
from dataeff.report import read
from dataeff.report.answer import Answer, answer
from dataeff.report.claims import claims_table
from dataeff.report.composed import compositions
from dataeff.report.foot import foot
from dataeff.report.frames import RUN_KEYS, Key, Record, finished, of_strategy, of_table, tables
from dataeff.report.hits import image_errors
from dataeff.report.judge import Judged
from dataeff.report.looks import current, read_looks, shown, with_due
from dataeff.report.stats import paired
from dataeff.report.table import leaderboard
from dataeff.report.tables import Measured, list_checksums, read_measured
from dataeff.report.trouble import contended, unverified
from dataeff.report.words import matched_to
from dataeff.report.worth import Worth


@dataclass(frozen=True, eq=False)
class Board:
    """What was measured, read once: `task` and `conditions` say what may be compared.

    `table` has one line per task, conditions and strategy; `runs` one per cell; `curves` one per
    cell and epoch; `classes` one per line of `table` and class; `compositions` one per composed
    strategy; `claims` one per claim of the suite and table. `answers` say what each table allows us
    to recommend. `conditions` are the values behind each short name, `feet` what holds for a whole
    table, by task and conditions, and `notes` what was split, left out, matched or flagged, one
    sentence each. `from_tables` says that there are no cells: `runs` and `classes` were read from
    their files.
    """

    suite: dict[str, Any]
    margin: float
    answers: list[Answer]
    table: pd.DataFrame
    runs: pd.DataFrame
    curves: pd.DataFrame
    classes: pd.DataFrame
    compositions: pd.DataFrame
    claims: pd.DataFrame
    conditions: dict[str, dict[str, Any]]
    feet: dict[Key, list[str]]
    notes: list[str]
    from_tables: bool = False


@dataclass(frozen=True, eq=False)
class Reading:
    """The results of a suite with their verdicts: what boards and comparisons are made from."""

    suite: dict[str, Any]
    margin: float
    measured: Measured
    looks: list[Record]
    judged: list[Judged]

    @property
    def runs(self) -> pd.DataFrame:
        """Return one line per cell."""
        return self.measured.runs


def judge_folder(folder: Path, margin: float | None = None, typed: str = "") -> Reading:
    """Read the runs of a suite and what its looks have said; `typed` is what would run it.

    Another margin than the suite's is read off the same intervals: nothing is tested twice.
    """
    suite = read.read_suite(folder)
    measured = read_measured(folder, suite, typed or folder.name)
    runs = measured.runs
    margin = margin or suite.get("margin") or MARGIN
    looks = with_due(runs, suite, current(read_looks(folder), suite))
    judged = [Judged(key, group, suite, looks, margin) for key, group in tables(runs)]
    return Reading(suite, margin, measured, looks, judged)


@uncollected()
def read_board(folder: Path, margin: float | None = None, target: float | None = None) -> Board:
    """Read the results of a suite; what may not be compared is split or left out, and said so."""
    heard: list[str] = []
    with listening(heard.append):
        board = _read_board(folder, margin, target)
    return replace(board, notes=[*board.notes, *heard])


def _read_board(folder: Path, margin: float | None, target: float | None) -> Board:
    reading = judge_folder(folder, margin)
    suite, runs, judged, found = reading.suite, reading.runs, reading.judged, reading.measured
    worths = [Worth(one) for one in judged]
    curves, conditions = found.curves(), found.conditions
    entries = read_entries(folder / "match.json", MATCHES)
    matches = read.matches_of(entries, suite)
    suite["published"] = read.published_lines(suite, matches)
    composed = shown(runs, reading.looks), suite["reference"], reading.margin
    images = found.images() or {
        one.table.key: image_errors(folder, one.grid, found.sums) for one in judged
    }
    return Board(
        suite=suite,
        margin=reading.margin,
        answers=list(map(answer, worths)),
        table=leaderboard(worths, curves, suite["published"], target, images),
        runs=runs,
        curves=curves,
        classes=found.classes(),
        compositions=compositions(*composed),
        claims=claims_table(judged, suite, matches),
        conditions=conditions,
        feet={one.table.key: foot(one, images.get(one.table.key, {})) for one in judged},
        notes=[
            *_split(conditions),
            *found.notes,
            *_matched(entries, runs),
            *contended(runs),
            *unverified(runs),
        ],
        from_tables=found.from_tables,
    )


def _split(conditions: dict[str, dict[str, Any]]) -> list[str]:
    """Say what differs, where runs were measured under several conditions."""
    if len(conditions) < 2:
        return []
    differs = differing(conditions).items()
    told = [f"{key} ({' / '.join(found)})" for key, found in differs if len(found) > 1]
    return [
        f"These runs were measured under {len(conditions)} conditions, which are not compared: "
        f"each has tables of its own. They differ in {', '.join(told) or 'nothing that was kept'}."
    ]


def differing(conditions: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Return the values that each key of several conditions has, each once."""
    keys = dict.fromkeys(key for values in conditions.values() for key in values)
    return {
        key: list(dict.fromkeys(str(values.get(key)) for values in conditions.values()))
        for key in keys
    }


def _matched(entries: list[Record], runs: pd.DataFrame) -> list[str]:
    """Say of each strategy that was matched how its time compares, over the seeds of both."""
    runs, said = finished(runs), []
    for entry in entries:
        key = (entry["task"], entry["conditions_id"])
        ours, theirs = (
            of_strategy(of_table(runs, key), entry[name])["clocked_seconds"]
            for name in ("strategy", "match")
        )
        if len(ratios := (ours / theirs).dropna()):
            several = zip(key, RUN_KEYS, strict=True)
            where = [name for name, column in several if runs[column].nunique() > 1]
            said.append(matched_to(entry, paired(np.log(ratios)), " under ".join(where)))
    return said


def places(board: Board) -> list[str]:
    """Return where each claim was judged, as far as there is more than one place."""
    several = {"task": len(board.suite["tasks"]) > 1, "conditions": len(board.conditions) > 1}
    names = [name for name, is_so in several.items() if is_so]
    return [" ".join(line).strip() for line in board.claims[names].to_numpy(str)]


def write_tables(folder: Path, board: Board) -> list[str]:
    """Write leaderboard.csv, runs.csv and classes.csv, and claims.csv where there are claims.

    What the board was read from stays as it is. Returns the names of the files; their checksums
    are listed beside them.
    """
    tables = {"leaderboard.csv": board.table}
    if not board.from_tables:
        tables |= {"runs.csv": board.runs, "classes.csv": board.classes}
    if len(board.claims):
        tables["claims.csv"] = board.claims
    else:
        # Those that an earlier version of the suite made are no longer judged.
        (folder / "claims.csv").unlink(missing_ok=True)
    for name, table in tables.items():
        make_way(folder / name)
        write_csv(folder / name, table)
    list_checksums(folder, tables, board.from_tables)
    return list(tables)
