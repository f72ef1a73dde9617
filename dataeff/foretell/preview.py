"""The cost preview: what cells will take, estimated from a few measured steps per strategy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dataeff.bench.results import settled
from dataeff.files import read_json
from dataeff.foretell.pace import Pace, Site, let_go
from dataeff.lab import Lab
from dataeff.plural import counted

if TYPE_CHECKING:
    from dataeff.bench.cells import Again, Cell

REMARK = (
    "Estimated from the first steps of each strategy, with this machine as busy as it is now. "
    "A strategy that saves only later in training, stops early or reuses scores takes less than "
    "that."
)
ASK_ABOVE = 3600.0

# Bytes of epochs.csv, from finished cells: its header, its lines, and what a look at the test set
# adds to a line.
_HEADER, _LINE, _LOOK = 200, 165, 60


# What is known ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """What the cells of one strategy on one task take; seconds and bytes are those of one cell.

    `cells` are those still to run; `step` is the seconds of one step, `steps` how many there are in
    an epoch. What is not known is NaN, and `trouble` says why.
    """

    task: str
    strategy: str
    cells: int
    finished: int
    step: float = math.nan
    steps: float = math.nan
    epochs: float = math.nan
    start: float = math.nan
    prepare: float = math.nan
    train: float = math.nan
    evaluate: float = math.nan
    disk: int = 0
    checkpoint: int = 0
    trouble: str = ""

    @property
    def parts(self) -> tuple[float, ...]:
        """Return the seconds of a cell, part by part."""
        return self.start, self.prepare, self.train, self.evaluate

    @property
    def known(self) -> bool:
        """Say whether the time is known in all its parts."""
        return not self.cells or all(map(math.isfinite, self.parts))

    @property
    def seconds(self) -> float:
        """Return the seconds of all its cells, as far as they are known."""
        return self.cells * sum(filter(math.isfinite, self.parts))


@dataclass(frozen=True)
class Preview:
    """What a list of cells takes, one line per task and strategy."""

    lines: tuple[Line, ...]

    @property
    def cells(self) -> int:
        """Return the number of cells, finished ones included."""
        return sum(line.cells + line.finished for line in self.lines)

    @property
    def finished(self) -> int:
        """Return how many of them need no more running."""
        return sum(line.finished for line in self.lines)

    @property
    def unknown(self) -> int:
        """Return how many cells take time that is not known, or not in all its parts."""
        return sum(line.cells for line in self.lines if not line.known)

    @property
    def seconds(self) -> float:
        """Return the seconds of the cells that are still to run, as far as they are known."""
        return sum(line.seconds for line in self.lines)

    @property
    def disk(self) -> int:
        """Return the bytes that these cells will leave."""
        return sum(line.cells * line.disk for line in self.lines)

    @property
    def checkpoint(self) -> int:
        """Return the bytes of the largest checkpoint; it is deleted when its cell is finished."""
        return max((line.checkpoint for line in self.lines), default=0)


Group = list[tuple[Line, "Cell"]]


@dataclass(frozen=True, eq=False)
class Coming:
    """The cells that are to come.

    `again` says of a cell's record whether it is to be run again, as in `run_cells`. `unsolved` are
    cells of which only the cost is known: that of another one. `apart` says that each has a process
    of its own.
    """

    cells: Sequence[Cell]
    again: Again
    unsolved: Sequence[tuple[str, Cell]] = ()
    apart: bool = True

    def by_task(self) -> Iterator[Group]:
        """Yield the lines of each task, still empty, each with a cell to measure it by."""
        for task in dict.fromkeys(cell.task_name for cell in self.cells):
            group = []
            ours = [cell for cell in self.cells if cell.task_name == task]
            for strategy in dict.fromkeys(cell.strategy for cell in ours):
                seeds = [cell for cell in ours if cell.strategy == strategy]
                records = [read_json(cell.folder / "run.json") for cell in seeds]
                finished = sum(settled(record) and not self.again(record) for record in records)
                group.append((Line(task, strategy, len(seeds) - finished, finished), seeds[0]))
            alike = {text: cell for text, cell in self.unsolved if cell.task_name == task}
            count = len({cell.seed for _, cell in self.unsolved})
            group += [(Line(task, text, count, 0), cell) for text, cell in alike.items()]
            yield group


def preview(
    coming: Coming, lab: Lab, steps: int = 5, tell: Callable[[str], None] = lambda line: None
) -> Preview:
    """Measure a few steps of every strategy that has cells to run, and extrapolate.

    Nothing is written. What goes wrong with one strategy is said on its line.
    """

    def measured(group: Group) -> Iterator[Line]:
        site = None
        for line, cell in group:
            if line.cells:
                tell(f"Measuring {line.strategy} on {line.task}")
                site = site or Site(lab, cell, steps, coming.apart)
                line = _filled(line, site.pace(cell))
            yield line

    return _collected(map(measured, coming.by_task()), lab)


def quick(coming: Coming, lab: Lab) -> Preview:
    """Measure the first strategy of each task, and give its pace to the others.

    The others are only set up, for that is where a schedule becomes shorter: what they would
    prepare, and what they save in an epoch, is not seen.
    """

    def measured(group: Group) -> Iterator[Line]:
        if not any(line.cells for line, _ in group):
            yield from (line for line, _ in group)
            return
        site, known = Site(lab, group[0][1], 3, coming.apart), Pace()
        for line, cell in group:
            pace = site.length(cell, known) if known.measured else site.pace(cell)
            known = known if known.measured else pace
            yield _filled(line, pace) if line.cells else line

    return _collected(map(measured, coming.by_task()), lab)


def _collected(groups: Iterable[Iterable[Line]], lab: Lab) -> Preview:
    """Gather the lines, and leave the machine to the cells."""
    lines = tuple(line for group in groups for line in group)
    let_go(lab.device)
    return Preview(lines)


def _filled(line: Line, pace: Pace) -> Line:
    """Extrapolate a pace to a whole cell."""
    epoch, count = pace.epoch, pace.epoch_count
    if epoch is None:
        return replace(line, trouble=pace.trouble)
    return replace(
        line,
        step=epoch.row * epoch.rows / epoch.steps,
        steps=epoch.steps,
        epochs=pace.epochs,
        start=pace.start,
        prepare=pace.prepare,
        train=epoch.seconds(pace.epochs, count),
        evaluate=count * pace.validation + pace.tests * pace.test,
        disk=pace.disk + _HEADER + count * _LINE + pace.tests * _LOOK,
        checkpoint=pace.checkpoint,
        trouble=pace.trouble,
    )


# Showing ---------------------------------------------------------------------------------------


def asks(seconds: float) -> bool:
    """Say whether to ask before so long a run."""
    return seconds > ASK_ABOVE


def table(cost: Preview) -> tuple[list[str], list[list[str]]]:
    """Return the lines of a preview as text: a header, and one list of cells per line."""
    header = ["task", "strategy", "to run", "finished", "step", "steps/epoch", "epochs"]
    header += ["prepare", "train", "evaluate", "all cells", "disk", "checkpoint", "trouble"]
    return header, [_texts(line) for line in cost.lines]


def _texts(line: Line) -> list[str]:
    counts = [line.task, line.strategy, str(line.cells), str(line.finished)]
    if not line.cells:
        return [*counts, *[""] * 10]
    if math.isnan(line.step):
        return [*counts, *["?"] * 9, line.trouble]
    return [
        *counts,
        f"{1000 * line.step:.3g} ms",
        f"{line.steps:.0f}",
        f"{line.epochs:g}",
        duration(line.prepare),
        duration(line.train),
        duration(line.evaluate),
        duration(line.seconds),
        size(line.cells * line.disk),
        size(line.checkpoint),
        line.trouble,
    ]


def sentence(cost: Preview) -> str:
    """Say in one sentence what a preview comes to."""
    cells = counted(cost.cells, "cell")
    if cost.finished:
        cells += f" ({cost.finished} finished)"
    if cost.cells == cost.finished:
        return f"{cells}, nothing to run."
    time = f"about {duration(cost.seconds)}"
    if cost.unknown:
        time = (
            f"at least {duration(cost.seconds)} ({counted(cost.unknown, 'cell')} of unknown length)"
        )
    return f"{cells}, {time}, {size(cost.disk)} on disk."


def duration(seconds: float) -> str:
    """Write a time in one or two units."""
    if not math.isfinite(seconds):
        return "?"
    if round(seconds) < 60:
        return "<1 s" if 0 < seconds < 0.5 else f"{round(seconds)} s"
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return _two_units(minutes, 60, "h", "min")
    return _two_units(hours, 24, "d", "h")


def _two_units(count: int, per: int, large: str, small: str) -> str:
    whole, rest = divmod(count, per)
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"


def size(count: float) -> str:
    """Write a number of bytes with two or three digits."""
    unit = "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if count < 999.5:
            break
        count, unit = count / 1000, larger
    return f"{count:.2g} {unit}" if count < 9.95 else f"{count:.0f} {unit}"
