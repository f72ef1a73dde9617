"""The runner: decides which cell is next, gives each a process of its own, and writes its record.

No plugin's code runs here, but with `--in-process`: a cell's process sends what it measured, the
evaluator what it tested, and the clock of the runner says how long that took.
"""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dataeff.bench.blocks import Block, Track
from dataeff.bench.cells import Again, Cell, Settings, never
from dataeff.bench.desk import Desk
from dataeff.bench.ended import fail, finish
from dataeff.bench.results import empty, held, settled
from dataeff.bench.training import write_samples
from dataeff.composition import Composition
from dataeff.errors import DiskFull
from dataeff.lab import Lab
from dataeff.training.cell import OnEpoch
from dataeff.training.heap import steady_heap
from dataeff.training.job import Place
from dataeff.training.weights import Packer


@dataclass
class Event:
    """What the runner tells whoever watches: a cell started, went on, or ended."""

    kind: str
    cell: Cell
    share: float
    record: dict[str, Any]
    number: int = 1
    total: int = 1


Watcher = Callable[[Event], None]


class Planned(Protocol):
    """What is to be run; more may join meanwhile."""

    def waves(self) -> Iterator[list[Block]]:
        """Yield blocks that wait for nothing; the next ones are asked for when these have ended."""

    def __len__(self) -> int:
        """Return the number of cells."""


def run_cells(
    planned: Planned, desk: Desk, settings: Settings, watch: Watcher, again: Again = never
) -> None:
    """Run what is not finished yet; a cell that fails is recorded and the rest goes on.

    `again` says which finished cells to start anew.
    """
    numbers: dict[Path, int] = {}

    def tell(kind: str, cell: Cell, share: float = 0.0, record: dict | None = None) -> None:
        number = numbers.setdefault(cell.folder, len(numbers) + 1)
        watch(Event(kind, cell, share, record or {}, number, len(planned)))

    for wave in planned.waves():
        for block in wave:
            with ExitStack() as stack:
                if todo := _todo(block, stack, tell, again):
                    _run(block, todo, desk, settings, tell)


def _todo(block: Block, stack: ExitStack, tell: Callable[..., None], again: Again) -> list[Cell]:
    """Hold the cells of a block for this process, and return those that are to be run.

    Who has the reference has the block: its record says how long it took beside the others.
    """
    reference, todo = block.reference, []
    mine = reference is None or stack.enter_context(held(reference.folder))
    for cell in block.cells:
        held_already = reference is not None and cell.folder == reference.folder
        if not (mine and (held_already or stack.enter_context(held(cell.folder)))):
            tell("elsewhere", cell)
            continue
        record = cell.record()
        if again(cell, record):
            empty(cell.folder)
        elif settled(record):
            tell("skipped", cell, record=record)
            continue
        todo.append(cell)
    return todo


def _run(
    block: Block, todo: list[Cell], desk: Desk, settings: Settings, tell: Callable[..., None]
) -> None:
    if desk.evaluator:
        Track(block, desk, settings, tell).run(todo)
        return
    assert desk.lab, "who has no evaluator has a lab"
    for cell in todo:

        def tell_epoch(epoch: int, epochs: float, line: Mapping[str, Any]) -> None:
            tell("epoch", cell, min(1.0, epoch / epochs), dict(line))  # noqa: B023

        tell("started", cell)
        (cell.folder / "run.json").unlink(missing_ok=True)
        run_cell(cell, desk.lab, settings, tell_epoch)
        tell("ended", cell, record=cell.record())


def run_cell(cell: Cell, lab: Lab, settings: Settings, on_epoch: OnEpoch) -> None:
    """Train a cell in this process and write its folder, whatever happens; if there is room."""
    place = Place(cell.folder, cell.shelf(settings.results))
    try:
        with steady_heap():
            what = cell.composition
            composition = what if isinstance(what, Composition) else lab.composition(what.text)
            result = lab.run(cell.task, composition, cell.seed, place, on_epoch)
        write_samples(cell.folder, result)
        result.record["network_form"] = Packer(result.job).pack(cell.folder)
    except DiskFull:
        raise
    except Exception as error:
        fail(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
        return
    hits = [] if result.hits is None else result.hits.tolist()
    finish(cell, result.record, result.epochs, hits)
