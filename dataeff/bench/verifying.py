"""Verifying: whether cells are what they say, by all that can be looked at again.

A record is held against its seal, its files against their hashes, its accuracy against a test of
the weights that were kept, in a process that never ran a strategy; and some cells are trained
again, from the beginning, to see whether all comes out the same to the last bit.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from dataeff.bench.blocks import Cells
from dataeff.bench.cells import Cell, Scene, Settings
from dataeff.bench.desk import Desk
from dataeff.bench.results import read_runs, settled
from dataeff.bench.runner import Event, run_cells
from dataeff.checked import digest, read_checked
from dataeff.errors import DataeffError
from dataeff.files import read_bytes
from dataeff.forms import RECORD
from dataeff.seals import Seals
from dataeff.training.task import Task
from dataeff.training.weights import FILES

Outcome = Literal["verified", "not verified", "does not verify"]
# What a second run need not reproduce: what a clock or the system says.
_TIMES = ("prepare_seconds", "train_seconds")
_TOLD = (
    *("status", "weights", "metrics", "part", "classes", "use", "train_loss"),
    *("rows", "steps", "flops", "epochs"),
)


@dataclass(frozen=True)
class Finding:
    """What was found of one cell: `checksum` is that of the record which was looked at."""

    cell: str
    strategy: str
    seed: int
    outcome: Outcome
    why: str = ""
    repeated: str = ""
    checksum: str = ""


class Verifier:
    """Looks at the cells of a suite again, one by one."""

    def __init__(self, folder: Path, desk: Desk, settings: Settings) -> None:
        self._folder, self._desk, self._settings = folder, desk, settings
        self._seals = Seals(folder)

    def cells(self) -> list[tuple[str, dict[str, Any]]]:
        """Return name and record of every cell that has ended."""
        return [(run["folder"], run) for run in read_runs(self._folder) if settled(run)]

    def look(self, name: str, record: dict[str, Any]) -> Finding:
        """Look at a cell: seal, hashes, accuracy."""
        found, checksum = self._looked(name, record), record.get("checksum", "")
        return Finding(name, record["strategy"], record["seed"], *found, checksum=checksum)

    def _looked(self, name: str, record: dict[str, Any]) -> tuple[Outcome, str]:
        folder = self._folder / name
        sealed = self._seals.holds(name, record.get("checksum", ""))
        if sealed is False:
            return "does not verify", "its record was changed after it was written"
        for file, known in record.get("files", {}).items():
            if (folder / file).exists() and digest(read_bytes(folder / file)) != known:
                return "does not verify", f"{file} was changed after it was written"
        form = record.get("network_form")
        if form not in FILES or not (folder / FILES[form]).exists():
            return "not verified", "its weights were not kept"
        if digest(read_bytes(folder / FILES[form])) != record.get("weights"):
            return "does not verify", "its weights were changed after they were written"
        try:
            return self._tested(folder, record, form, sealed)
        except DataeffError as error:
            return "not verified", f"its weights could not be tested: {error}"

    def _tested(
        self, folder: Path, record: dict[str, Any], form: Any, sealed: bool | None
    ) -> tuple[Outcome, str]:
        task, evaluator = Task(**record["task"]), self._desk.evaluator
        assert evaluator, "verifying takes an evaluator"
        facts = self._desk.facts(task)
        for what, now in (("data", facts.data), ("network", facts.network)):
            if record[what] != now:
                return "not verified", f"its {what} is another one by now"
        figures = evaluator.test(task, form, folder / FILES[form], whole=True)["whole"]
        evaluator.forget(folder)
        told = record["metrics"].get("test_top1")
        if figures["top1"] != told:
            return "does not verify", f"its weights reach {figures['top1']:.2f}%, not {told:.2f}%"
        packed = np.packbits(np.array(figures["hits"], dtype=np.bool_)).tobytes()
        if (folder / "hits.bin").exists() and read_bytes(folder / "hits.bin") != packed:
            return "does not verify", "its weights get other images right"
        if form == "pickle":
            return "not verified", "its network can be neither rebuilt nor exported"
        return ("not verified", "it has no seal of yours") if sealed is None else ("verified", "")

    # Training again ---------------------------------------------------------------------------

    def repeat(self, finding: Finding, record: dict[str, Any]) -> Finding:
        """Train a cell again, from the beginning, and say whether it comes out the same."""
        cell = self._again(record)
        if cell is None:
            return replace(finding, repeated="strategy, network, data or conditions have changed")
        with tempfile.TemporaryDirectory(prefix="dataeff-verify-") as name:
            cell = replace(cell, root=Path(name) / "results" / cell.suite)
            settings = replace(self._settings, results=Path(name) / "results")
            run_cells(Cells([cell]), self._desk, settings, _unwatched)
            if differs := differing(self._folder / finding.cell, cell.folder):
                why = f"trained again, it differs in {differs}"
                return replace(finding, outcome="does not verify", why=why, repeated=differs)
        return replace(finding, repeated="bit-identical")

    def _again(self, record: dict[str, Any]) -> Cell | None:
        """Return the cell as it would be run now; None where that is another one."""
        task = Task(**record["task"])
        # Alone, it has nobody to take turns with; its numbers are the same.
        found = self._desk.conditions | {"timing": record["conditions"].get("timing")}
        stamp = {"conditions": found, "provenance": record["provenance"]}
        try:
            scene = Scene.of(record["task_name"], task, self._desk, stamp)
            composition = self._desk.composition(record["strategy"])
        except DataeffError:
            return None
        cell = Cell(self._folder, record["suite"], scene, composition, record["seed"])
        return cell if cell.version == record["version"] else None


def _unwatched(event: Event) -> None:
    """Take no notice."""


def differing(one: Path, other: Path) -> str:
    """Say in what two cells differ that no clock has a say in; nothing where they are the same."""
    ours, theirs = (read_checked(folder / "run.json", RECORD) or {} for folder in (one, other))
    for key in _TOLD:
        if ours.get(key) != theirs.get(key):
            return key
    tables = [pd.read_csv(folder / "epochs.csv") for folder in (one, other)]
    if not tables[0].drop(columns=[*_TIMES]).equals(tables[1].drop(columns=[*_TIMES])):
        return "epochs.csv"
    samples = [pd.read_parquet(folder / "samples.parquet") for folder in (one, other)]
    if not samples[0].equals(samples[1]):
        return "samples.parquet"
    hits = [folder / "hits.bin" for folder in (one, other)]
    if hits[0].exists() and hits[0].read_bytes() != hits[1].read_bytes():
        return "hits.bin"
    return ""


def chosen(cells: Sequence[tuple[str, Any]], share: float) -> set[str]:
    """Draw the cells that are trained again, each time others: at least one, where any are."""
    names = [name for name, _ in cells]
    count = min(len(names), max(1, round(share * len(names)))) if share else 0
    return set(random.SystemRandom().sample(names, count))
