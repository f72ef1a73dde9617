"""What was measured: from the cells of a folder or, where there are none, from its tables."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pandas.api.types import is_integer_dtype, is_numeric_dtype

from dataeff.checked import Sums, digest, read_checked, read_whole, write_checked
from dataeff.damage import Damaged, got_anew, put_aside, was_put_aside
from dataeff.errors import DataeffError
from dataeff.files import parse_csv, read_bytes
from dataeff.forms import CHECKSUMS, CONDITIONS
from dataeff.report import read
from dataeff.report.curves import CLOCKS, published_curves, read_curves
from dataeff.report.frames import KEYS, RUN_KEYS, Key
from dataeff.report.naming import Parameters

TABLES = ("runs.csv", "curves.csv", "classes.csv", "conditions.json")
"""What a folder without cells is read from, beside what was asked for; only the first must be."""

# What is not measured in runs.csv is text, however much a hash looks like a number.
_TEXTS = {
    *("suite", *RUN_KEYS, *KEYS, "strategy", "status", "error", "task_id", "no_effect", "ended"),
    *("folder", "contended", "device", "peak_memory_of", "reused", "commit", "sources", "plugins"),
}
# Columns that a table must have, with a value in each line; those of `_COUNTS` are whole numbers.
_NEEDED = {
    "runs.csv": {*RUN_KEYS, "strategy", "seed", "status", "task_id"},
    "curves.csv": {"task", "strategy", "seed", "epoch"},
    "classes.csv": {*KEYS, "strategy", "label"},
    "leaderboard.csv": set[str](),
}
_COUNTS = {"seed", "epoch", "label"}
# What was measured is a number, where it is known.
_FIGURES = re.compile(
    r"(test|validation|rows)_.*|.*_seconds|seconds|seed|epochs?|label|steps|flops|peak_memory"
    r"|train_loss|kept|mixed|worst_class|balanced_accuracy|never_trained|class_balance|load_average|process_share"
    r"|energy_joules|accuracy|difference|trained|image_error|ranked|control"
)
_REUSED = r"(\S+:[\d.e+-]+( |$))*"
_CLASSES = {"label": int, "accuracy": float, "difference": float, "trained": float}


class Measured(NamedTuple):
    """What a folder holds of a suite as it stands now.

    `parameters` are what each strategy was recorded with, defaults included, as far as that is
    known; `conditions` the values behind each short name, `notes` sentences on what was left out.
    `curves`, `classes` and `images`, what test images add to errors, read theirs when called.
    `sums` are the checksums of each cell's files.
    """

    runs: pd.DataFrame
    parameters: Mapping[str, Parameters]
    conditions: dict[str, dict[str, Any]]
    notes: list[str]
    curves: Callable[[], pd.DataFrame]
    classes: Callable[[], pd.DataFrame]
    images: Callable[[], dict[Key, dict[str, float]]]
    from_tables: bool
    sums: Mapping[str, Sums]


def read_measured(folder: Path, suite: dict[str, Any], typed: str) -> Measured:
    """Read the runs of a suite; `typed` is what would run it."""
    found, notes = read.current_runs(folder, suite)
    if found:
        return _from_cells(folder, suite, found, notes)
    # Cells that were all left out are cells all the same: older tables say nothing of them.
    measured = None if notes else _from_tables(folder, suite)
    if measured is None:
        anew = "get runs.csv anew, or " if was_put_aside(folder / "runs.csv") else ""
        raise DataeffError(
            f"{folder} holds no runs of this suite yet; {anew}type: dataeff run {typed}"
        )
    return measured


def _from_cells(
    folder: Path, suite: dict[str, Any], found: list[read.Read], notes: list[str]
) -> Measured:
    runs = read.runs_table(found, suite["reference"])
    sums = {run.line["folder"]: run.files for run in found}
    return Measured(
        runs=runs,
        parameters={run.label[2]: run.parameters for run in found},
        conditions={run.label[1]: run.conditions for run in found},
        notes=notes,
        curves=partial(read_curves, folder, runs, sums),
        classes=partial(read.classes_table, found, suite["reference"]),
        images=dict,
        from_tables=False,
        sums=sums,
    )


# Tables ------------------------------------------------------------------------------------------


def _from_tables(folder: Path, suite: dict[str, Any]) -> Measured | None:
    """Read what tables hold of the suite's tasks; None where that is nothing."""
    lines = _table(folder, "runs.csv")
    if lines is None:
        return None
    runs, notes = _of_suite(lines, suite["task_ids"])
    if runs.empty:
        return None
    return Measured(
        runs=runs,
        # What is not the default stands in the name of a strategy; of the rest nothing is known.
        parameters={name: {} for name in runs["strategy"]},
        conditions=_conditions(folder, list(runs["conditions_id"].unique())),
        notes=notes,
        curves=lambda: published_curves(_table(folder, "curves.csv"), runs),
        classes=partial(_classes, folder),
        images=partial(_images, folder),
        from_tables=True,
        sums={},
    )


def _table(folder: Path, name: str) -> pd.DataFrame | None:
    """Read a table; None where there is none, and where it was damaged, and is set aside now."""
    try:
        content = read_whole(folder / name, _checksums(folder).get(name))
        if content is None:
            return None
        table = parse_csv(content, lambda name: name in _TEXTS or name.endswith("_note"))
        _check(table, name)
    except Damaged as damage:
        put_aside(folder / name, damage, got_anew)
        return None
    except ValueError as error:
        put_aside(folder / name, Damaged(str(error).partition("\n")[0]), got_anew)
        return None
    return table


def _check(table: pd.DataFrame, name: str) -> None:
    """Hold a table to its columns and their types; ValueError where it does not fit."""
    needed = _NEEDED[name]
    if missing := sorted(needed - set(table)):
        raise ValueError(f"it has no column {', '.join(missing)}")
    if empty := [name for name in sorted(needed) if table[name].isna().any()]:
        raise ValueError(f"{empty[0]} is missing in a line")
    if name == "curves.csv" and "seconds" not in table and not {*CLOCKS} <= set(table):
        raise ValueError("it has no times")
    for column in filter(_FIGURES.fullmatch, table):
        wanted = is_integer_dtype if column in _COUNTS & needed else is_numeric_dtype
        # Where some are missing, a column of yes and no is made of objects.
        known = table[column].dropna().infer_objects()
        if len(known) and not wanted(known):
            raise ValueError(f"{column} is no number")
    if "reused" in table and not table["reused"].fillna("").str.fullmatch(_REUSED).all():
        raise ValueError("reused names no seconds")


def _checksums(folder: Path) -> Sums:
    """Return the checksums of a folder's tables, as far as they are listed."""
    return (read_checked(folder / "checksums.json", CHECKSUMS) or {}).get("files", {})


def list_checksums(folder: Path, names: Iterable[str], published: bool) -> None:
    """List the checksums of files that were just written; in what is published, if any are."""
    path = folder / "checksums.json"
    if published and not path.exists():
        return
    files = {**_checksums(folder), **dict.fromkeys(names, "")}
    there = [name for name in files if (folder / name).is_file()]
    known = {name: files[name] or digest(read_bytes(folder / name)) for name in there}
    write_checked(path, {"files": known}, CHECKSUMS)


def _of_suite(lines: pd.DataFrame, tasks: dict[str, str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the runs of the suite's tasks, in their order, as cells give them; and who is left."""
    same = lines["task_id"] == lines["task_name"].map(tasks)
    left_out = Counter(map(read.OTHER_TASK.format, lines.loc[~same, "task_name"]))
    places = {name: place for place, name in enumerate(tasks)}
    order = lines.loc[same, "task_name"].map(places).sort_values(kind="stable").index
    runs = lines.loc[order].reset_index(drop=True)
    for name in ("contended", "reused", "device"):
        # Tables of version 0.1.0 and before do not know them.
        runs[name] = runs[name].fillna("") if name in runs else ""
    read.add_amortised(runs)
    return runs, read.told_left_out(left_out)


def _conditions(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Return the values behind each short name: of one alone they stand as they are."""
    told = read_checked(folder / "conditions.json", CONDITIONS) or {}
    told.pop("schema", None)
    if len(names) == 1 and names[0] not in told:
        return {names[0]: told}
    known = {name: told.get(name) for name in names}
    return {name: one if isinstance(one, dict) else {} for name, one in known.items()}


def _classes(folder: Path) -> pd.DataFrame:
    table = _table(folder, "classes.csv")
    table = pd.DataFrame() if table is None else table
    return table.reindex(columns=[*KEYS, "strategy", *_CLASSES]).astype(_CLASSES)


def _images(folder: Path) -> dict[Key, dict[str, float]]:
    """Return what test images add to errors, by table: of that, only the leaderboard is kept."""
    table = _table(folder, "leaderboard.csv")
    if table is None or not {*KEYS, "strategy", "image_error"} <= set(table):
        return {}
    known = table.dropna(subset=["image_error"]).groupby(KEYS)
    return {key: dict(zip(p["strategy"], p["image_error"], strict=True)) for key, p in known}
