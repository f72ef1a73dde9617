"""The leaderboard: one line per strategy, paired with the reference seed by seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dataeff.bench.results import read_json, read_runs, write_csv
from dataeff.errors import DataeffError
from dataeff.report.controls import against_controls, paired_interval

MEBI = 2**20


def read_suite(folder: Path) -> dict[str, Any]:
    """Read what a results folder was asked for."""
    suite = read_json(folder / "suite.json")
    if suite is None:
        raise DataeffError(f"There are no results in {folder}; type: dataeff run {folder.name}")
    return suite


def current_runs(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the suite as it stands now; what an earlier version left is left out.

    Earlier are another task or other data under the name, other defaults or another source of a
    strategy.
    """
    suite = read_suite(folder)
    tasks, data = list(suite["task_ids"].items()), suite.get("data", {})
    runs = [run for run in read_runs(folder) if (run["task_name"], run["task_id"]) in tasks]
    runs = [run for run in runs if run.get("data") == data.get(run["task_name"])]
    runs.sort(key=lambda run: run.get("ended") or "")
    newest = {_label(run): _version(run) for run in runs}
    runs = [run for run in runs if _version(run) == newest[_label(run)]]
    # One line per seed, the newest, also where folders were copied together.
    runs = list({(*_label(run), run["seed"]): run for run in runs}.values())
    places = {name: place for place, (name, _) in enumerate(tasks)}
    return sorted(runs, key=lambda run: (places[run["task_name"]], run["folder"]))


def _version(run: dict[str, Any]) -> tuple[Any, Any]:
    return run.get("parameters"), run.get("sources")


def _label(run: dict[str, Any]) -> tuple[str, str, str]:
    return run["task_name"], run["conditions_id"], run["strategy"]


def runs_table(folder: Path) -> pd.DataFrame:
    """Return one line per cell of the suite as it stands now."""
    return pd.DataFrame([_line(run) for run in current_runs(folder)])


def _line(run: dict[str, Any]) -> dict[str, Any]:
    head = ("suite", "task_name", "strategy", "seed", "status", "error", "conditions_id", "task_id")
    tail = ("steps", "epochs", "train_loss", "flops", "peak_memory", "ranked", "control", "ended")
    clocks = run.get("clocks", {})
    measured = {
        **run.get("metrics", {}),
        **{f"{name}_seconds": value for name, value in clocks.items()},
        **{f"{name}_process_seconds": v for name, v in run.get("process_clocks", {}).items()},
        **{f"{name}_phase_seconds": value for name, value in run.get("phases", {}).items()},
        **{f"rows_{name}": value for name, value in run.get("rows", {}).items()},
    }
    line = {name: run.get(name) for name in head} | measured
    line |= {name: run.get(name) for name in (*tail, "folder")}
    clocked = sum(clocks.get(c, 0.0) for c in ("prepare", "train"))
    off_clock = sum(seconds for name, seconds in clocks.items() if name.startswith("off_"))
    line["clocked_seconds"], line["total_seconds"] = clocked or None, clocked + off_clock or None
    # What a strategy reports never takes the place of what was measured.
    extra = run.get("columns", {})
    return line | {name: value for name, value in extra.items() if name not in line}


def leaderboard(folder: Path) -> pd.DataFrame:
    """Return one line per task, conditions and strategy; compare within the first two only."""
    return _leaderboard(folder, runs_table(folder))


def _leaderboard(folder: Path, runs: pd.DataFrame) -> pd.DataFrame:
    suite = read_suite(folder)
    if runs.empty:
        raise DataeffError(
            f"{folder} holds no runs of this suite yet; type: dataeff run {folder.name}"
        )
    lines = []
    for (task, conditions), group in runs.groupby(["task_name", "conditions_id"], sort=False):
        finished = group[group.status == "finished"]
        reference = finished[finished.strategy == suite["reference"]].set_index("seed")
        part = [
            {"task": task, "strategy": strategy}
            | _summary(rows, reference, finished[finished.strategy == strategy].set_index("seed"))
            | {"conditions": conditions}
            | _published(suite, task, strategy)
            for strategy, rows in group.groupby("strategy", sort=False)
        ]
        for line in part:
            line["against_controls"] = against_controls(line, part, finished, suite["reference"])
        lines += sorted(part, key=lambda line: _place(line, suite["reference"]))
    return pd.DataFrame(lines)


def _place(line: dict[str, Any], reference: str) -> tuple[bool, bool, float]:
    """Return where a line belongs: the reference, then by speed-up, then what has no rank."""
    speedup = np.nan_to_num(line["speedup"], nan=0.0)
    return line["strategy"] != reference, not line["ranked"], -speedup


def _summary(rows: pd.DataFrame, reference: pd.DataFrame, ours: pd.DataFrame) -> dict[str, Any]:
    both = reference.index.intersection(ours.index)
    base, mine = reference.loc[both], ours.loc[both]
    difference, low, high = paired_interval(mine.get("test_top1"), base.get("test_top1"))
    speedup = _ratio(base, mine, "total_seconds")
    clocked, ideal = _ratio(base, mine, "clocked_seconds"), _ratio(base, mine, "flops")
    mean = ours.mean(numeric_only=True)
    failed = rows.status.value_counts().drop("finished", errors="ignore")
    trouble = [f"{count} {status}" for status, count in failed.items()]
    if len(both) < len(ours):
        trouble.append(f"{len(both)} of {len(ours)} seeds paired")
    return {
        "n": len(ours),
        "accuracy": mean.get("test_top1", np.nan),
        "accuracy_std": ours["test_top1"].std() if len(ours) > 1 else np.nan,
        "difference": difference,
        "difference_low": low,
        "difference_high": high,
        "macro_f1": mean.get("test_macro_f1", np.nan),
        "prepare_seconds": mean.get("prepare_seconds", np.nan),
        "train_seconds": mean.get("train_seconds", np.nan),
        "speedup": speedup,
        "oracle": np.nan if ours.ranked.all() else clocked,
        "ideal_speedup": ideal,
        # What was left off the clock is no part of the counted work either.
        "realised": clocked / ideal,
        "rows_trained": mean.get("rows_trained", np.nan),
        "peak_memory_mib": mean.get("peak_memory", np.nan) / MEBI,
        "ranked": bool(ours.ranked.all()) if len(ours) else False,
        "control": bool(len(ours) and ours.control.eq(True).all()),
        "trouble": ", ".join(trouble),
        "note": ", ".join(_notes(ours)),
    }


def _notes(ours: pd.DataFrame) -> list[str]:
    """Return what strategies have to say about their runs: their columns `..._note`."""
    told = ours.filter(regex="_note$").stack().dropna().unique()
    return [str(text) for text in told if text]


def _ratio(base: pd.DataFrame, mine: pd.DataFrame, column: str) -> float:
    """Return the geometric mean of reference / strategy over the seeds they share."""
    if mine.empty:
        return np.nan
    return float(np.exp(np.log(base[column] / mine[column]).mean()))


def _published(suite: dict[str, Any], task: str, strategy: str) -> dict[str, Any]:
    for line in suite["published"]:
        if line["strategy"] == strategy and line["task"] in (None, task):
            return {f"published_{key}": line[key] for key in ("accuracy", "speedup", "source")}
    return {}


def write_tables(folder: Path) -> pd.DataFrame:
    """Write leaderboard.csv and runs.csv; return the leaderboard."""
    runs = runs_table(folder)
    table = _leaderboard(folder, runs)
    write_csv(folder / "leaderboard.csv", table)
    write_csv(folder / "runs.csv", runs)
    return table
