"""Cells: task x strategy x seed, known by all that may change their numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from dataeff.bench.conditions import conditions_id
from dataeff.bench.results import cell_record, checksums
from dataeff.checked import write_checked
from dataeff.files import slug
from dataeff.forms import RECORD
from dataeff.training.artefact import Shelf
from dataeff.training.numerics import expected
from dataeff.training.task import Task

if TYPE_CHECKING:
    from dataeff.bench.desk import Desk


@dataclass(frozen=True)
class Settings:
    """How to run, as opposed to what: nothing here may change a cell's numbers.

    A cell in a process of its own trains for `saves_every` seconds, at least, between checkpoints.
    """

    results: Path = Path("results")
    device: str = "auto"
    data_root: Path | None = None
    plugin_dirs: tuple[Path, ...] = ()
    in_process: bool = False
    timeout: float = 3600.0
    saves_every: float = 1.0


@dataclass(frozen=True)
class Scene:
    """What all cells of a task share: the task, hashes of its data and its network, conditions."""

    name: str
    task: Task
    data: str
    network: str
    conditions: dict[str, Any] = field(repr=False)
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)
    """Commit and versions of plugins: worth knowing, but no other cell."""

    @classmethod
    def of(cls, name: str, task: Task, desk: Desk, stamp: dict[str, Any]) -> Self:
        """Look at the task's data and network; fail with one sentence where there are none."""
        facts = desk.facts(task)
        stamp = stamp | {"conditions": stamp["conditions"] | expected(task)}
        return cls(name, task, facts.data, facts.network, **stamp)

    @cached_property
    def conditions_id(self) -> str:
        """Return a short name for the conditions."""
        return conditions_id(self.conditions)


class Known(Protocol):
    """What a cell must know of a composition: with its code, or without."""

    @property
    def text(self) -> str:
        """Return the one canonical form."""

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        """Return every parameter of every part."""

    @property
    def sources(self) -> dict[str, str]:
        """Return the hash of every part's source."""


@dataclass(frozen=True)
class Cell:
    """One training run of a suite, and the folder below `root` that it fills.

    It is known by its task, the data's content, the network, the strategy's parameters and source,
    the seed and the conditions: who changes one of them gets another cell.
    """

    root: Path
    suite: str
    scene: Scene
    composition: Known
    seed: int

    @property
    def task(self) -> Task:
        """Return its task."""
        return self.scene.task

    @property
    def task_name(self) -> str:
        """Return the name of its task in the suite."""
        return self.scene.name

    @property
    def strategy(self) -> str:
        """Return its strategy as the tables have it."""
        return self.composition.text

    @property
    def title(self) -> str:
        """Return what a progress bar shows."""
        return f"{self.task_name} {self.strategy} seed {self.seed}"

    @cached_property
    def version(self) -> str:
        """Return a hash of all that its numbers hang on but the seed: who shares it is averaged."""
        scene, composition = self.scene, self.composition
        key: list[Any] = [scene.name, scene.task.id, scene.data, scene.network, scene.conditions_id]
        key += [composition.parameters, composition.sources]
        return hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:12]

    @cached_property
    def folder(self) -> Path:
        """Return its folder: readable, and unique by all that may change its numbers."""
        what = f"{slug(self.task_name)[:60]}-{slug(self.strategy)[:60]}"
        return self.root / f"{what}-s{self.seed}-{self.version[:8]}"

    def record(self) -> Any:
        """Read what came of it; None where that is not known yet."""
        return cell_record(self.folder)

    def shelf(self, results: Path) -> Shelf:
        """Return where it leaves, and finds, what other cells may reuse."""
        scene = self.scene
        return Shelf(results / "artefacts", (scene.data, scene.network, scene.conditions_id))


def write_record(cell: Cell, record: dict[str, Any]) -> str:
    """Write run.json: what was trained, under which conditions, and what came of it.

    Returns its checksum.
    """
    scene, composition = cell.scene, cell.composition
    content = {
        "suite": cell.suite,
        "task_name": cell.task_name,
        "data": scene.data,
        "network": scene.network,
        "version": cell.version,
        "strategy": cell.strategy,
        "parameters": composition.parameters,
        "task": cell.task.model_dump(mode="json"),
        "task_id": cell.task.id,
        "seed": cell.seed,
        **record,
        "sources": composition.sources,
        "conditions_id": scene.conditions_id,
        "conditions": scene.conditions,
        "provenance": scene.provenance,
        "ended": datetime.now(UTC).isoformat(timespec="microseconds"),
        "files": checksums(cell.folder),
    }
    return write_checked(cell.folder / "run.json", content, RECORD)


Again = Callable[[Cell, dict[str, Any] | None], bool]
"""Says of a cell and its record, None where there is none, whether to start the cell anew."""


def never(cell: Cell, record: dict[str, Any] | None) -> bool:
    """Start no finished cell anew."""
    return False
