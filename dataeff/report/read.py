"""Reading results: the records of a suite as it stands now, and a word on what is left out."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dataeff.bench.results import clocked_seconds, flags_of, read_runs
from dataeff.checked import read_checked
from dataeff.damage import was_put_aside
from dataeff.errors import DataeffError
from dataeff.forms import SUITE
from dataeff.plural import counted
from dataeff.report.doubts import UNVERIFIED, Doubts, add_off_clock
from dataeff.report.frames import KEYS, Record, finished, numbers
from dataeff.report.pairing import pair

Matches = dict[tuple[str, str, str], str]
"""What the suite's patterns have become, by task, conditions and pattern."""
OTHER_TASK = "the task {} was another one then"
"""Why a run of a task that has changed is left out."""


class Read(NamedTuple):
    """What is kept of a record: where it belongs, its line of runs.csv, and its classes.

    `label` is the task, the conditions and the strategy: what makes a line of a table. `suite` are
    the task and the data as they were when it ran, `version` is a hash of all that its numbers hang
    on, but the seed. `files` are the checksums of what lies beside the record. `timing` says which
    reference was alive beside it, `times` are the columns that it has a say in.
    """

    label: tuple[str, str, str]
    suite: tuple[str, str | None]
    parameters: dict[str, Any]
    sources: dict[str, str]
    version: str | None
    classes: dict[str, list] | None
    conditions: dict[str, Any]
    files: dict[str, str]
    timing: dict[str, Any]
    times: list[str]
    line: Record


def read_record(run: Record, doubts: Doubts) -> Read:
    """Keep what tables are made from; what is not believed has a status of its own."""
    if why := doubts.why(run["folder"], run.get("checksum")):
        run |= {"status": UNVERIFIED, "error": why}
    return Read(
        (run["task_name"], run["conditions_id"], run["strategy"]),
        (run["task_id"], run.get("data")),
        parameters=run.get("parameters") or {},
        sources=run.get("sources") or {},
        version=run.get("version"),
        classes=run.get("classes"),
        conditions=run["conditions"],
        files=run.get("files", {}),
        timing={name: run.get(name) or None for name in ("heat", "heats", "clocks")},
        times=_times(run),
        line=_line(run),
    )


def read_suite(folder: Path) -> dict[str, Any]:
    """Read what a results folder was asked for."""
    suite = read_checked(folder / "suite.json", SUITE)
    if suite is None and was_put_aside(folder / "suite.json"):
        raise DataeffError(
            f"What {folder} was asked for is lost with its suite.json; what was measured is not: "
            f"type the command that ran it, such as: dataeff run {folder.name}"
        )
    if suite is None:
        raise DataeffError(f"There are no results in {folder}; type: dataeff run {folder.name}")
    # Results of version 0.1.0 and before know one command only.
    return {"commands": [suite.get("command", "")], **suite}


def matches_of(entries: list[Record], suite: dict[str, Any]) -> Matches:
    """Return what the suite's patterns have become, by task, conditions and pattern.

    `entries` are those of match.json.
    """
    return {
        (entry["task"], entry["conditions_id"], entry["pattern"]): entry["strategy"]
        for entry in entries
        if entry["match"] == suite.get("match")
    }


def published_lines(suite: dict[str, Any], matches: Matches) -> list[Record]:
    """Return what papers say, also of what the suite's patterns have become."""
    found = [
        {**line, "strategy": strategy, "task": task}
        for (task, _, pattern), strategy in matches.items()
        for line in suite["published"]
        if line["strategy"] == pattern and line["task"] in (None, task)
    ]
    return [*suite["published"], *found]


def short_names(suite: dict[str, Any], matches: Matches) -> dict[str, str]:
    """Return the short names of strategies, also of what the suite's patterns have become."""
    names = suite.get("names", {})
    found = {name: names[text] for (_, _, text), name in matches.items() if text in names}
    return {**found, **names}


def current_runs(folder: Path, suite: dict[str, Any]) -> tuple[list[Read], list[str]]:
    """Return the runs of the suite as it stands now, and sentences on those left out.

    Left out is another task or other data under the name, and what the suite's commands do not
    count: by hashes, never by time.
    """
    tasks, data, doubts = suite["task_ids"], suite.get("data", {}), Doubts(folder)
    left_out: Counter[str] = Counter()
    kept, undecided = [], []
    for run in read_runs(folder, keep=partial(read_record, doubts=doubts)):
        task, conditions, strategy = run.label
        counts = suite.get("counts", {}).get(task, {}).get(strategy, {}).get(conditions)
        if run.suite[0] != tasks.get(task):
            left_out[OTHER_TASK.format(task)] += 1
        elif run.suite[1] != data.get(task):
            left_out[f"the data of {task} were others then"] += 1
        elif counts is None:
            undecided.append(run)
        elif counts == run.version:
            kept.append(run)
        else:
            left_out[f"{strategy} had another source, network or other defaults then"] += 1
    kept += _newest(undecided, left_out)
    places = {name: place for place, name in enumerate(tasks)}
    kept.sort(key=lambda run: (places[run.label[0]], run.line["folder"]))
    return kept, told_left_out(left_out)


def told_left_out(left_out: Mapping[str, int]) -> list[str]:
    """Say how many runs were left out, by the reason."""
    return [
        f"{counted(count, 'run was', 'runs were')} left out: {why}."
        for why, count in left_out.items()
    ]


def _newest(runs: list[Read], left_out: Counter[str]) -> list[Read]:
    """Return the newest of what no command here has decided on: of version 0.1, or copied here."""
    runs = sorted(runs, key=lambda run: run.line["ended"] or "")
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
    # One line per seed, the newest, also where folders were copied together.
    single = list({(run.label, run.line["seed"]): run for run in kept}.values())
    if len(single) < len(kept):
        left_out["a newer run of the same cell is there"] += len(kept) - len(single)
    return single


def runs_table(runs: list[Read], reference: str) -> pd.DataFrame:
    """Return one line per cell."""
    pair(runs, reference)
    table = pd.DataFrame([run.line for run in runs])
    add_amortised(table)
    add_off_clock(table, reference)
    return table


def add_amortised(runs: pd.DataFrame) -> None:
    """Add what each run takes if all finished runs that use an artefact share the cost of it.

    `artefact_uses` says how many share; both are NaN where nothing is shared.
    """
    reused = finished(runs)["reused"].str.split()
    used = {at: dict(part.rsplit(":", 1) for part in told) for at, told in reused.items() if told}
    uses = Counter(name for parts in used.values() for name in parts)
    saved = {
        place: sum(float(seconds) * (1 - 1 / uses[name]) for name, seconds in parts.items())
        for place, parts in used.items()
    }
    shared = {place: min(uses[name] for name in parts) for place, parts in used.items()}
    runs["amortised_seconds"] = numbers(runs, "clocked_seconds") - pd.Series(saved, dtype=float)
    runs["artefact_uses"] = pd.Series(shared, dtype=float)


_HEAD = ("suite", "task_name", "strategy", "seed", "status", "error", "conditions_id", "task_id")
_TAIL = (
    *("steps", "epochs", "train_loss", "flops", "peak_memory", "peak_memory_of"),
    *("ranked", "control", "no_effect", "lanes", "ended", "folder"),
)
_NAMED = {
    "clocks": "{}_seconds",
    "process_clocks": "{}_process_seconds",
    "phases": "{}_phase_seconds",
    "rows": "rows_{}",
}


def _times(run: Record) -> list[str]:
    kinds = ("clocks", "phases")
    told = [_NAMED[kind].format(name) for kind in kinds for name in run.get(kind, {})]
    return [*told, "clocked_seconds", "total_seconds"]


def balanced_accuracy(classes: Record) -> float | None:
    """Return the mean accuracy of the classes; None where it is that of the images."""
    sizes = [size for size in classes.get("test", ()) if size]
    # As even as whole numbers allow is even.
    if not sizes or max(sizes) - min(sizes) <= 1:
        return None
    known = [accuracy for accuracy in classes["accuracy"] if accuracy is not None]
    return sum(known) / len(known)


def _line(run: Record) -> Record:
    line = {name: run.get(name) for name in _HEAD} | run.get("metrics", {})
    for kind, form in _NAMED.items():
        line |= {form.format(name): value for name, value in run.get(kind, {}).items()}
    line |= {name: run.get(name) for name in _TAIL}
    energy, classes, use, machine, provenance, sources, outside = (
        run.get(kind) or {}
        for kind in ("energy", "classes", "use", "machine", "provenance", "sources", "outside")
    )
    clocks, clocked = run.get("clocks", {}), clocked_seconds(run)
    off_clock = sum(seconds for name, seconds in clocks.items() if name.startswith("off_"))
    known = [accuracy for accuracy in classes.get("accuracy", ()) if accuracy is not None]
    joules = energy.get("prepare", 0.0) + energy["train"] if "train" in energy else None
    reused = [part for part in run.get("artefacts") or () if part["reuse"]]
    line |= {
        "clocked_seconds": clocked or None,
        "total_seconds": clocked + off_clock or None,
        "pace": None,
        "energy_joules": joules,
        "worst_class": min(known, default=None),
        "balanced_accuracy": balanced_accuracy(classes),
        "test_samples": sum(classes.get("test", ())) or None,
        "test_part": run.get("part"),
        **{name: use.get(name) for name in ("never_trained", "class_balance")},
        "load_average": machine.get("load_high"),
        "process_share": machine.get("process_share"),
        "contended": "; ".join(flags_of(run)),
        # Records of version 0.1.0 and before do not know it.
        "device": machine.get("device_line") or "",
        "off_seconds": outside.get("off"),
        # Once for each part of a cell that was stopped and went on.
        "start_seconds": outside["start"] / outside["parts"] if outside else None,
        "reused": " ".join(f"{p['name']}-{p['key']}:{p['seconds']:.6g}" for p in reused),
        "commit": provenance.get("commit"),
        "sources": _pairs(sources),
        "plugins": _pairs(provenance.get("versions") or {}),
    }
    # What a strategy reports never takes the place of what was measured.
    return line | run.get("columns", {}) | line


def _pairs(texts: dict[str, str]) -> str:
    return " ".join(f"{name}:{text}" for name, text in texts.items())


def classes_table(runs: list[Read], reference: str) -> pd.DataFrame:
    """Return accuracy and use of each class, and the difference to the reference, over seeds.

    A cell that was never tested has no accuracies.
    """
    numbered = {"label": int, "accuracy": float, "trained": float}
    found = [
        (
            *run.label,
            run.line["seed"],
            range(len(told["accuracy"])),
            told["accuracy"],
            told["trained"],
        )
        for run in runs
        if run.line["status"] == "finished"
        and (told := run.classes)
        and len(told["accuracy"]) == len(told["trained"])
    ]
    table = pd.DataFrame(found, columns=[*KEYS, "strategy", "seed", *numbered])
    table = table.explode(list(numbered), ignore_index=True).astype(numbered)
    # Seed by seed, as all else: seeds that only one of them has do not count.
    place = [*KEYS, "seed", "label"]
    base = table.loc[table["strategy"] == reference, [*place, "accuracy"]]
    theirs = table[place].merge(base, how="left", on=place)["accuracy"]
    table["difference"] = table["accuracy"] - theirs
    by_class = table.drop(columns="seed").groupby([*KEYS, "strategy", "label"], sort=False)
    return by_class.mean()[["accuracy", "difference", "trained"]].reset_index()
