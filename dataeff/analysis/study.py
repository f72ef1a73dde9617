"""A study: what an analysis is given to train strategies, look into them, and draw what it saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from torch import Tensor

from dataeff.analysis.picture import picture
from dataeff.bench.cells import Cell, Scene, write_record
from dataeff.bench.conditions import conditions
from dataeff.bench.desk import Desk
from dataeff.bench.results import empty, held, settled
from dataeff.bench.runner import Event, Watcher
from dataeff.composition import Active, Composition, Part, check_conflicts, watching
from dataeff.errors import DataeffError, UnknownName
from dataeff.files import write_csv
from dataeff.lab import Lab
from dataeff.names import check_folder_name
from dataeff.registry import Entry
from dataeff.strategy import Strategy
from dataeff.training.cell import Result
from dataeff.training.job import Place
from dataeff.training.task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Watched(Composition):
    """A composition with those that look on: they tell its runs apart, and are not on its label."""

    named: Composition = field(kw_only=True)

    @property
    def text(self) -> str:
        """Return the label, without those that look on."""
        return self.named.text


@dataclass(eq=False)
class Study:
    """One task and one seed, on which an analysis trains what it needs; all of it off the clock.

    Figures are kept in `folder`, and runs in `runs`, or else beside them; scores are shared with
    all that lies in `results`. `asked` are the figures that the user wants: nothing means all.
    """

    suite: str
    task_name: str
    task: Task
    folder: Path
    lab: Lab
    seed: int = 0
    asked: Sequence[str] = ()
    fresh: bool = False
    results: Path | None = None
    runs: Path | None = None
    watch: Watcher = lambda event: None
    tell: Callable[[str], None] = lambda line: None
    _opened: list[Path] = field(default_factory=list, init=False)

    def wanted(self, figure: str) -> bool:
        """Say whether to draw this figure; whoever asks for 8 wants 8a and 8b."""
        return not self.asked or any(shows(figure, asked) for asked in self.asked)

    def train(self, strategy: str, *probes: Strategy, model: str | None = None) -> Result:
        """Train a strategy, with probes that look on, to the end; never twice.

        `model` is a network to train on the task in place of its own.

        A probe is an object with hooks, like a strategy; it is no part of the label, and should
        work inside `run.off_clock("diagnostics")`. What it keeps in its attributes is there again
        when a run that was trained earlier is only read. A run is known by all that a cell is known
        by, and by its probes: their attributes when given, and their source.
        """
        named = self.lab.composition(strategy)
        looking = [watching(probe) for probe in probes]
        check_conflicts([*named.parts, *looking])
        cell = self._cell(named, looking, model)
        with held(cell.folder) as mine:
            if not mine:
                raise DataeffError(f"Another process trains {cell.title}; wait until it has ended.")
            if self.fresh and cell.folder not in self._opened:
                empty(cell.folder)
            self._opened.append(cell.folder)
            result = self._train(cell, [*named.fresh(), *looking])
        if result.record["status"] != "finished":
            raise DataeffError(f"{cell.title}: {result.record['error']}")
        return result

    def _cell(self, named: Composition, looking: list[Active], model: str | None) -> Cell:
        name, task = self.task_name, self.task
        if model is not None and model != task.model:
            name, task = f"{name} {model}", task.model_copy(update={"model": model})
        stamp = {"conditions": conditions(self.lab.device)}
        scene = Scene.of(name, task, Desk.beside(self.lab), stamp)
        seen = [Part(part.entry, dict(vars(part.plugin))) for part in looking]
        root = self.runs or self.folder / "runs"
        return Cell(root, self.suite, scene, Watched((*named.parts, *seen), named=named), self.seed)

    @property
    def classes(self) -> int:
        """Return the number of classes of the dataset."""
        return self.lab.data(self.task).classes

    def samples(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return training samples as one sees them, uint8 (n, H, W, C), and their labels."""
        split = self.lab.data(self.task).train
        (batch,) = split.stream([indices], None)
        return split.normalise.undo(batch).cpu(), split.labels.cpu()[indices]

    def _train(self, cell: Cell, parts: list[Active]) -> Result:
        # The last checkpoint stays, and holds the whole run: what is done is read by resuming it.
        done = settled(cell.record()) and (cell.folder / "checkpoint.pt").exists()

        def tell(kind: str, share: float = 0.0, record: Mapping[str, Any] | None = None) -> None:
            if not done:
                self.watch(Event(kind, cell, share, dict(record or {})))

        def on_epoch(epoch: int, epochs: float, line: Mapping[str, Any]) -> None:
            tell("epoch", min(1.0, epoch / epochs), line)

        tell("started")
        place = Place(cell.folder, cell.shelf(self.results) if self.results else None)
        result = self.lab.run(cell.task, parts, self.seed, place, on_epoch)
        result.record["strategy"] = cell.strategy
        if not done:
            write_csv(cell.folder / "epochs.csv", pd.DataFrame(result.epochs))
            write_record(cell, result.record)
        tell("ended", 1.0, result.record)
        return result

    @contextmanager
    def figure(self, name: str, title: str, table: Any, says: str = "") -> Iterator[Axes]:
        """Yield axes to draw on; leave NAME.png, and its numbers in NAME.csv.

        `table` is a DataFrame or what makes one, such as a list of lines; `says` is what the
        console tells of the figure: its main numbers.
        """
        check_folder_name("the figure", name)
        task = self.task
        size = f"{task.epochs:g} epochs, batches of {task.batch_size}, lr {task.lr:g}"
        note = f"{self.task_name}: {task.model} on {task.dataset}, {size}; seed {self.seed}"
        with picture(self.folder / f"{name}.png", f"Figure {name}: {title}", note) as axes:
            yield axes
        write_csv(self.folder / f"{name}.csv", pd.DataFrame(table))
        self.tell(f"fig {name}: {says}")


def shows(figure: str, asked: str) -> bool:
    """Say whether a figure is the one asked for, or one of its panels."""
    return figure == asked or (figure[-1].isalpha() and figure[:-1] == asked)


def check_figures(entry: Entry, asked: Sequence[str]) -> None:
    """Refuse a figure that an analysis does not draw, before anything is trained."""
    known = getattr(entry.factory, "figures", ())
    for name in asked:
        if not any(shows(figure, name) for figure in known):
            names = ", ".join(known) or "all at once"
            raise UnknownName(f"{entry.name} draws no figure {name!r}; it draws: {names}.")
