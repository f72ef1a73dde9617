"""Reading results: the records of a suite as it stands now, and a word on what is left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dataeff.bench.results import clocked_seconds, flags_of, read_json, read_runs
from dataeff.errors import DataeffError
from dataeff.report.preparing import add_amortised, reused_text
from dataeff.report.sentences import counted

Record = dict[str, Any]


@dataclass(frozen=True, eq=False, slots=True)
class Read:
    """What is kept of a record: where it belongs, its line of runs.csv, and its classes."""

    label: tuple[str, str, str]
    """The task, the conditions and the strategy: what makes a line of a table."""
    seed: int
    finished: bool
    folder: str
    ended: str
    suite: tuple[str, str | None]
    """The task and the data as they were when it ran."""
    parameters: dict[str, Any]
    sources: dict[str, str]
    line: Record
    classes: dict[str, list] | None
    conditions: dict[str, Any]


def read_record(run: Record) -> Read:
    """Keep what tables are made from."""
    return Read(
        label=(run["task_name"], run["conditions_id"], run["strategy"]),
        seed=run["seed"],
        finished=run["status"] == "finished",
        folder=run["folder"],
        ended=run.get("ended") or "",
        suite=(run["task_id"], run.get("data")),
        parameters=run.get("parameters") or {},
        sources=run.get("sources") or {},
        line=_line(run),
        classes=run.get("classes"),
        conditions=run["conditions"],
    )


def read_suite(folder: Path) -> dict[str, Any]:
    """Read what a results folder was asked for."""
    suite = read_json(folder / "suite.json")
    if suite is None:
        raise DataeffError(f"There are no results in {folder}; type: dataeff run {folder.name}")
    # Results of version 0.1.0 and before know one command only.
    return {"commands": [suite.get("command", "")], **suite}


def read_matches(folder: Path, suite: dict[str, Any]) -> dict[tuple[str, str, str], str]:
    """Return what the suite's patterns have become, by task, conditions and pattern."""
    return {
        (entry["task"], entry["conditions_id"], entry["pattern"]): entry["strategy"]
        for entry in read_json(folder / "match.json") or []
        if entry["match"] == suite.get("match")
    }


def published_lines(
    suite: dict[str, Any], matches: dict[tuple[str, str, str], str]
) -> list[dict[str, Any]]:
    """Return what papers say, also of what the suite's patterns have become."""
    lines = suite["published"]
    return [
        *lines,
        *(
            {**line, "strategy": strategy, "task": task}
            for (task, _, pattern), strategy in matches.items()
            for line in lines
            if line["strategy"] == pattern and line["task"] in (None, task)
        ),
    ]


def current_runs(folder: Path, suite: dict[str, Any]) -> tuple[list[Read], list[str]]:
    """Return the runs of the suite as it stands now, and sentences on those left out.

    Left out is what an earlier version left: another task or other data under the name, other
    defaults or another source of a strategy.
    """
    tasks, data = suite["task_ids"], suite.get("data", {})
    left_out: Counter[str] = Counter()
    runs = []
    for run in read_runs(folder, keep=read_record):
        task = run.label[0]
        if run.suite[0] != tasks.get(task):
            left_out[f"the task {task} was another one then"] += 1
        elif run.suite[1] != data.get(task):
            left_out[f"the data of {task} were others then"] += 1
        else:
            runs.append(run)
    runs.sort(key=lambda run: run.ended)
    newest = {run.label: run.parameters for run in runs}
    # By part: a composition is as old as the oldest of its parts.
    sources = {(*run.label[:2], part): hash_ for run in runs for part, hash_ in run.sources.items()}
    kept = []
    for run in runs:
        current = all(sources[*run.label[:2], part] == h for part, h in run.sources.items())
        if current and run.parameters == newest[run.label]:
            kept.append(run)
        else:
            left_out[f"{run.label[2]} had another source or other defaults then"] += 1
    runs = kept
    # One line per seed, the newest, also where folders were copied together.
    single = list({(run.label, run.seed): run for run in runs}.values())
    if len(single) < len(runs):
        left_out["a newer run of the same cell is there"] += len(runs) - len(single)
    places = {name: place for place, name in enumerate(tasks)}
    single.sort(key=lambda run: (places[run.label[0]], run.folder))
    return single, [
        f"{counted(count, 'run was', 'runs were')} left out: {why}."
        for why, count in left_out.items()
    ]


def runs_table(runs: list[Read]) -> pd.DataFrame:
    """Return one line per cell."""
    table = pd.DataFrame([run.line for run in runs])
    if len(table):
        add_amortised(table)
    return table


def _line(run: Record) -> Record:
    head = ("suite", "task_name", "strategy", "seed", "status", "error", "conditions_id", "task_id")
    tail = ("steps", "epochs", "train_loss", "flops", "peak_memory", "ranked", "control")
    clocks = run.get("clocks", {})
    line = {name: run.get(name) for name in head}
    line |= run.get("metrics", {})
    line |= {f"{name}_seconds": value for name, value in clocks.items()}
    line |= {f"{name}_process_seconds": v for name, v in run.get("process_clocks", {}).items()}
    line |= {f"{name}_phase_seconds": value for name, value in run.get("phases", {}).items()}
    line |= {f"rows_{name}": value for name, value in run.get("rows", {}).items()}
    line |= {name: run.get(name) for name in (*tail, "no_effect", "ended", "folder")}
    clocked = clocked_seconds(run)
    off_clock = sum(seconds for name, seconds in clocks.items() if name.startswith("off_"))
    line["clocked_seconds"], line["total_seconds"] = clocked or None, clocked + off_clock or None
    energy = run.get("energy") or {}
    line["energy_joules"] = (
        energy.get("prepare", 0.0) + energy["train"] if "train" in energy else None
    )
    classes = run.get("classes") or {}
    line["worst_class"] = min(
        (a for a in classes.get("accuracy", ()) if a is not None), default=None
    )
    line["test_samples"] = sum(classes.get("test", ())) or None
    line |= {name: (run.get("use") or {}).get(name) for name in ("never_trained", "class_balance")}
    machine = run.get("machine") or {}
    line["load_average"] = machine.get("load_high")
    line["process_share"] = machine.get("process_share")
    line["contended"] = "; ".join(flags_of(run))
    line["reused"] = reused_text(run)
    provenance = run.get("provenance") or {}
    line["commit"] = provenance.get("commit")
    line["sources"] = " ".join(
        f"{name}:{hash_}" for name, hash_ in (run.get("sources") or {}).items()
    )
    line["plugins"] = " ".join(f"{n}:{v}" for n, v in (provenance.get("versions") or {}).items())
    # What a strategy reports never takes the place of what was measured.
    extra = run.get("columns", {})
    return line | {name: value for name, value in extra.items() if name not in line}


def classes_table(runs: list[Read], reference: str) -> pd.DataFrame:
    """Return accuracy and use of each class, and the difference to the reference, over seeds."""
    runs = [run for run in runs if run.finished and run.classes]
    columns = ["task", "conditions", "strategy", "label", "accuracy", "difference", "trained"]
    if not runs:
        return pd.DataFrame(columns=columns)
    sizes = [len(run.classes["accuracy"]) for run in runs]
    labels = pd.DataFrame([(*run.label, run.seed) for run in runs], columns=[*columns[:3], "seed"])
    table = labels.loc[np.repeat(np.arange(len(runs)), sizes)].reset_index(drop=True)
    table["label"] = np.concatenate([np.arange(size) for size in sizes])
    for name in ("accuracy", "trained"):
        table[name] = np.concatenate([np.array(run.classes[name], dtype=float) for run in runs])
    place = ["task", "conditions", "seed", "label"]
    base = table[table["strategy"] == reference].set_index(place)["accuracy"]
    theirs = base.reindex(pd.MultiIndex.from_frame(table[place])).to_numpy()
    # Seed by seed, as all else: seeds that only one of them has do not count.
    table["difference"] = table["accuracy"] - theirs
    keys = ["task", "conditions", "strategy", "label"]
    return table.drop(columns="seed").groupby(keys, sort=False).mean().reset_index()[columns]
