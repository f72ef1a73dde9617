"""The runner: has the cells of a suite run, block by block, and tells whoever watches.

No plugin's code runs here, but with `--in-process`: a cell's process sends what it measured, the
evaluator what it tested, and the clock of the runner says how long that took.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dataeff.bench.backends import open_backend
from dataeff.bench.blocks import Block
from dataeff.bench.cells import Again, Cell, Settings, never
from dataeff.bench.desk import Desk


@dataclass
class Event:
    """What the runner tells whoever watches: a cell started, went on, or ended; on which lane."""

    kind: str
    cell: Cell
    share: float
    record: dict[str, Any]
    number: int = 1
    total: int = 1
    lane: str = ""


Watcher = Callable[[Event], None]


class Planned(Protocol):
    """What is to be run; more may join meanwhile."""

    def waves(self, lanes: int) -> Iterator[list[Block]]:
        """Yield blocks that wait for nothing; the next ones are asked for when these have ended.

        So many `lanes` work on them at a time.
        """

    def __len__(self) -> int:
        """Return the number of cells."""


def run_cells(
    planned: Planned, desk: Desk, settings: Settings, watch: Watcher, again: Again = never
) -> None:
    """Run what is not finished yet; a cell that fails is recorded and the rest goes on.

    `again` says which finished cells to start anew.
    """
    numbers: dict[Path, int] = {}

    def tell(
        kind: str, cell: Cell, share: float = 0.0, record: dict | None = None, lane: str = ""
    ) -> None:
        number = numbers.setdefault(cell.folder, len(numbers) + 1)
        watch(Event(kind, cell, share, record or {}, number, len(planned), lane))

    with open_backend(desk, settings, again) as backend:
        for wave in planned.waves(backend.lanes):
            for block in wave:
                backend.submit(block)
            backend.finish(tell)
