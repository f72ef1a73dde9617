"""What was measured: from the cells of a folder or, where there are none, from its tables."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dataeff.errors import DataeffError
from dataeff.files import read_csv, read_json
from dataeff.report import read
from dataeff.report.curves import published_curves, read_curves
from dataeff.report.frames import KEYS, RUN_KEYS, Key
from dataeff.report.naming import Parameters

TABLES = ("runs.csv", "curves.csv", "classes.csv", "conditions.json")
"""What a folder without cells is read from, beside what was asked for; only the first must be."""

# What is not measured in runs.csv is text, however much a hash looks like a number.
_TEXTS = {
    *("suite", *RUN_KEYS, *KEYS, "strategy", "status", "error", "task_id", "no_effect", "ended"),
    *("folder", "contended", "reused", "commit", "sources", "plugins"),
}
_NEEDED = {*RUN_KEYS, "strategy", "seed", "status", "task_id"}
_CLASSES = {"label": int, "accuracy": float, "difference": float, "trained": float}


class Measured(NamedTuple):
    """What a folder holds of a suite as it stands now.

    `parameters` are what each strategy was recorded with, defaults included, as far as that is
    known; `conditions` the values behind each short name, `notes` sentences on what was left out.
    `curves`, `classes` and `images`, what test images add to errors, read theirs when called.
    """

    runs: pd.DataFrame
    parameters: Mapping[str, Parameters]
    conditions: dict[str, dict[str, Any]]
    notes: list[str]
    curves: Callable[[], pd.DataFrame]
    classes: Callable[[], pd.DataFrame]
    images: Callable[[], dict[Key, dict[str, float]]]
    from_tables: bool


def read_measured(folder: Path, suite: dict[str, Any], typed: str) -> Measured:
    """Read the runs of a suite; `typed` is what would run it."""
    found, notes = read.current_runs(folder, suite)
    if found:
        return _from_cells(folder, suite, found, notes)
    # Cells that were all left out are cells all the same: older tables say nothing of them.
    measured = None if notes else _from_tables(folder, suite)
    if measured is None:
        raise DataeffError(f"{folder} holds no runs of this suite yet; type: dataeff run {typed}")
    return measured


def _from_cells(
    folder: Path, suite: dict[str, Any], found: list[read.Read], notes: list[str]
) -> Measured:
    runs = read.runs_table(found)
    return Measured(
        runs=runs,
        parameters={run.label[2]: run.parameters for run in found},
        conditions={run.label[1]: run.conditions for run in found},
        notes=notes,
        curves=partial(read_curves, folder, runs),
        classes=partial(read.classes_table, found, suite["reference"]),
        images=dict,
        from_tables=False,
    )


# Tables ------------------------------------------------------------------------------------------


def _from_tables(folder: Path, suite: dict[str, Any]) -> Measured | None:
    """Read what tables hold of the suite's tasks; None where that is nothing."""
    lines = _table(folder / "runs.csv")
    if lines is None:
        return None
    if missing := sorted(_NEEDED - set(lines)):
        raise DataeffError(f"{folder / 'runs.csv'} has no column {', '.join(missing)}.")
    runs, notes = _of_suite(lines, suite["task_ids"])
    if runs.empty:
        return None
    return Measured(
        runs=runs,
        # What is not the default stands in the name of a strategy; of the rest nothing is known.
        parameters={name: {} for name in runs["strategy"]},
        conditions=_conditions(folder, list(runs["conditions_id"].unique())),
        notes=notes,
        curves=lambda: published_curves(_table(folder / "curves.csv"), runs),
        classes=partial(_classes, folder),
        images=partial(_images, folder),
        from_tables=True,
    )


def _table(path: Path) -> pd.DataFrame | None:
    return read_csv(path, lambda name: name in _TEXTS or name.endswith("_note"))


def _of_suite(lines: pd.DataFrame, tasks: dict[str, str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the runs of the suite's tasks, in their order, as cells give them; and who is left."""
    same = lines["task_id"] == lines["task_name"].map(tasks)
    left_out = Counter(map(read.OTHER_TASK.format, lines.loc[~same, "task_name"]))
    places = {name: place for place, name in enumerate(tasks)}
    order = lines.loc[same, "task_name"].map(places).sort_values(kind="stable").index
    runs = lines.loc[order].reset_index(drop=True)
    for name in ("contended", "reused"):
        # Tables of version 0.1.0 and before do not know them.
        runs[name] = runs[name].fillna("") if name in runs else ""
    read.add_amortised(runs)
    return runs, read.told_left_out(left_out)


def _conditions(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Return the values behind each short name: of one alone they stand as they are."""
    told = read_json(folder / "conditions.json") or {}
    if len(names) == 1 and names[0] not in told:
        return {names[0]: told}
    return {name: told.get(name, {}) for name in names}


def _classes(folder: Path) -> pd.DataFrame:
    table = _table(folder / "classes.csv")
    table = pd.DataFrame() if table is None else table
    return table.reindex(columns=[*KEYS, "strategy", *_CLASSES]).astype(_CLASSES)


def _images(folder: Path) -> dict[Key, dict[str, float]]:
    """Return what test images add to errors, by table: of that, only the leaderboard is kept."""
    table = _table(folder / "leaderboard.csv")
    if table is None or "image_error" not in table:
        return {}
    known = table.dropna(subset=["image_error"]).groupby(KEYS)
    return {key: dict(zip(p["strategy"], p["image_error"], strict=True)) for key, p in known}
