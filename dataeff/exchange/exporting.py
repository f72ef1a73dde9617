"""Exporting: what training made of each sample, as one table per cell for other programs."""

import io
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd

from dataeff.bench.results import cell_record
from dataeff.checked import read_checked, read_whole
from dataeff.damage import Damaged, put_aside
from dataeff.errors import DataeffError, did_you_mean
from dataeff.files import slug, write_csv, write_parquet
from dataeff.forms import ARTEFACT
from dataeff.report.read import Read, current_runs, read_suite

INDEX = "cells.csv"
"""One line per cell that was exported."""
# What each of these is called beside the others of a cell.
_ORDER = ("sample", "label", "trainable", "kept", "times_trained", "last_weight")


class Exported:
    """What was exported: the lines of the index, and sentences on what could not be."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.notes: list[str] = []


def export(folder: Path, wanted: Sequence[str], out: Path) -> Exported:
    """Write tables of the samples of cells: all that tables are made of, or those that are wanted.

    Each is a name of a cell's folder, which may have wildcards, or a strategy.
    """
    runs, done = _chosen(folder, wanted), Exported()
    for run in runs:
        name = run.line["folder"]
        table = samples_of(folder / name)
        if table is None:
            done.notes.append(f"{name} has no samples.parquet, so it is left out.")
            continue
        write_parquet(out / f"{name}.parquet", table)
        write_csv(out / f"{name}.csv", table)
        done.lines.append(_line(run, table))
    if done.lines:
        write_csv(out / INDEX, pd.DataFrame(done.lines))
    return done


def _chosen(folder: Path, wanted: Sequence[str]) -> list[Read]:
    runs, _ = current_runs(folder, read_suite(folder))
    runs = [run for run in runs if run.line["status"] in ("finished", "diverged")]
    if not runs:
        raise DataeffError(
            f"{folder} holds no cells that have ended, and tables say nothing of samples; type: "
            f"dataeff run {folder.name}"
        )
    found = {text: [run for run in runs if _is_meant(run, text)] for text in wanted}
    for text, meant in found.items():
        if not meant:
            names = dict.fromkeys(name for run in runs for name in (run.label[2], _name(run)))
            hint = did_you_mean(text, names) or f" Strategies: {_listed(runs)}."
            raise DataeffError(f"No cell of {folder} is called {text!r}.{hint}")
    if not wanted:
        return runs
    return [run for run in runs if any(_is_meant(run, text) for text in wanted)]


def _is_meant(run: Read, text: str) -> bool:
    return text in (run.label[2], _name(run)) or fnmatchcase(_name(run), text)


def _name(run: Read) -> str:
    return str(run.line["folder"])


def _listed(runs: Iterable[Read]) -> str:
    return ", ".join(dict.fromkeys(run.label[2] for run in runs))


def samples_of(cell: Path) -> pd.DataFrame | None:
    """Return one line per training sample of a cell; None where it has left none.

    `kept` are those that were trained at all: of a strategy that chooses once, what it has chosen.
    Beside them stand the scores that the cell went by, `score_NAME` for each that it has used.
    """
    record, path = cell_record(cell), cell / "samples.parquet"
    if record is None or not path.exists():
        return None
    table = pd.read_parquet(path)
    if "last_weight" not in table:
        # Cells from before weights were written down: it is not known.
        table["last_weight"] = float("nan")
    table["last_weight"] = table["last_weight"].where(table["times_trained"] > 0)
    table["kept"] = table["times_trained"] > 0
    for part in record.get("artefacts") or ():
        scores = _scores(cell.parent.parent / "artefacts", part)
        if scores is not None:
            table[f"score_{part['name']}"] = table["sample"].map(scores)
    rest = [name for name in table if name not in _ORDER]
    return table[[*_ORDER, *rest]]


def _scores(folder: Path, part: dict[str, Any]) -> pd.Series | None:
    """Return the scores of an artefact by sample; None where they are no longer there."""
    stem = f"{slug(part['name'])}-{slug(part['key'])}"
    said, path = read_checked(folder / f"{stem}.json", ARTEFACT), folder / f"{stem}.parquet"
    try:
        content = read_whole(path, ((said or {}).get("files") or {}).get(path.name))
    except Damaged as damage:
        put_aside(path, damage, ARTEFACT.cure)
        return None
    if content is None:
        return None
    return pd.read_parquet(io.BytesIO(content)).set_index("sample")["score"]


def _line(run: Read, table: pd.DataFrame) -> dict[str, Any]:
    known = ("task_name", "conditions_id", "strategy", "seed", "status", "test_top1")
    return {
        "cell": _name(run),
        **{name: run.line.get(name) for name in known},
        "samples": len(table),
        "trainable": int(table["trainable"].sum()),
        "kept": int(table["kept"].sum()),
        "times_trained": int(table["times_trained"].sum()),
        "scores": " ".join(name for name in table if name.startswith("score_")),
    }
