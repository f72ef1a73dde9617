"""Before cells are run: what they will take, by a few measured steps; what strategies refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dataeff.bench.cells import Again, Cell
from dataeff.bench.guest import Died
from dataeff.bench.results import settled
from dataeff.errors import Refused
from dataeff.foretell.pace import Estimate
from dataeff.notation import is_open
from dataeff.plural import counted

if TYPE_CHECKING:
    from dataeff.bench.desk import Desk

REMARK = (
    "Estimated from the first steps of each strategy, with this machine as busy as it is now. "
    "A strategy that saves only later in training, stops early or reuses scores takes less than "
    "that."
)
ASK_ABOVE = 3600.0


@dataclass(frozen=True)
class Preview:
    """What a list of cells takes, one line per task and strategy, on so many lanes at once."""

    lines: tuple[Estimate, ...]
    lanes: int = 1

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
        """Return the seconds until all cells have run, as far as they are known."""
        return sum(line.seconds for line in self.lines) / self.lanes

    @property
    def disk(self) -> int:
        """Return the bytes that these cells will leave."""
        return sum(line.cells * line.disk for line in self.lines)

    @property
    def checkpoint(self) -> int:
        """Return the bytes of the largest two of a cell; they are deleted when it is finished."""
        return max((line.checkpoint for line in self.lines), default=0)


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

    def by_task(self) -> Iterator[list[tuple[Estimate, Cell]]]:
        """Yield the lines of each task, still empty, each with a cell to measure it by."""
        tasks: dict[str, dict[str, list[Cell]]] = {}
        for cell in self.cells:
            tasks.setdefault(cell.task_name, {}).setdefault(cell.strategy, []).append(cell)
        for task, strategies in tasks.items():
            group = []
            for strategy, seeds in strategies.items():
                records = [(cell, cell.record()) for cell in seeds]
                finished = sum(settled(r) and not self.again(cell, r) for cell, r in records)
                group.append((Estimate(task, strategy, len(seeds) - finished, finished), seeds[0]))
            alike = {text: cell for text, cell in self.unsolved if cell.task_name == task}
            count = len({cell.seed for _, cell in self.unsolved})
            group += [(Estimate(task, text, count, 0), cell) for text, cell in alike.items()]
            yield group


def preview(
    coming: Coming,
    desk: Desk,
    steps: int = 5,
    tell: Callable[[str], None] = lambda line: None,
    by_first: bool = False,
) -> Preview:
    """Measure a few steps of every strategy that has cells to run, and extrapolate.

    Nothing is written. What goes wrong with one strategy is said on its line.
    """
    lines: list[Estimate] = []
    how = {"steps": steps, "apart": coming.apart, "by_first": by_first}
    for group in coming.by_task():
        busy = any(line.cells for line, _ in group)
        wanted = [(line, cell) for line, cell in group if line.cells or (by_first and busy)]
        told = [(line, cell.strategy, cell.seed, _record_bytes(cell)) for line, cell in wanted]
        filled = iter(desk.estimate(group[0][1].task, told, tell, **how) if told else ())
        chosen = [line for line, _ in wanted]
        lines += [next(filled) if line in chosen else line for line, _ in group]
    desk.let_go()
    return Preview(tuple(lines), len(desk.lanes))


def _record_bytes(cell: Cell) -> int:
    """Return the bytes of what run.json repeats of its cell."""
    what, scene = cell.composition, cell.scene
    told = [what.parameters, what.sources, scene.conditions, scene.provenance]
    repeated = json.dumps([cell.task.model_dump(mode="json"), *told], indent=1, default=str)
    return len(repeated)


def quick(coming: Coming, desk: Desk) -> Preview:
    """Measure the first strategy of each task, and give its pace to the others.

    The others are only set up, for that is where a schedule becomes shorter: what they would
    prepare, and what they save in an epoch, is not seen.
    """
    return preview(coming, desk, steps=3, by_first=True)


# Refusing --------------------------------------------------------------------------------------


def check_setups(coming: Coming, desk: Desk) -> None:
    """Set up each strategy that has cells to run, once per task; raise what the first refuses with.

    Controls that may join are left to their cells, and so is a strategy whose process dies of it.
    """
    groups = list(coming.by_task())
    for group in groups:
        asked = [_ways(line.strategy, cell, desk) for line, cell in group if line.cells]
        asked = [ways for ways in asked if desk.composition(ways[0].strategy).has_setup]
        if asked and (why := _refusal(asked, desk)):
            raise Refused(f"{group[0][0].task}: {why}" if len(groups) > 1 else why)


def _ways(strategy: str, cell: Cell, desk: Desk) -> list[Cell]:
    """Return what is to be set up: for a pattern, the values without which there is no search."""
    if not is_open(strategy):
        return [cell]
    pattern = desk.composition(strategy)
    guesses = pattern.range.guesses if pattern.range else ()
    return [replace(cell, composition=desk.filled(pattern, value)) for value in guesses]


def _refusal(asked: list[list[Cell]], desk: Desk) -> str:
    """Return what the first strategy says that can be had in none of its ways, if there is one."""
    refused: list[tuple[list[Cell], str]] = []
    # The CPU first, to leave an accelerator's memory alone; but it may be all that is refused.
    for on_cpu in (True, False) if desk.lanes[0].device != "cpu" else (True,):
        told = [(ways, [_says(cell, desk, on_cpu) for cell in ways]) for ways in asked]
        refused = [(ways, reasons[0]) for ways, reasons in told if all(reasons)]
        asked = [ways for ways, _ in refused]
    desk.let_go()
    return refused[0][1] if refused else ""


def _says(cell: Cell, desk: Desk, on_cpu: bool) -> str:
    try:
        return desk.refusal(cell.task, cell.strategy, cell.seed, on_cpu)
    except Died:
        # Its cell will say so, and all others can be run.
        return ""


# Showing ---------------------------------------------------------------------------------------


def asks(seconds: float) -> bool:
    """Say whether to ask before so long a run."""
    return seconds > ASK_ABOVE


def table(cost: Preview) -> tuple[list[str], list[list[str]]]:
    """Return the lines of a preview as text: a header, and one list of cells per line."""
    header = ["task", "strategy", "to run", "finished", "step", "steps/epoch", "epochs"]
    header += ["prepare", "train", "evaluate", "all cells", "disk", "checkpoint", "trouble"]
    return header, [_texts(line) for line in cost.lines]


def _texts(line: Estimate) -> list[str]:
    counts = [line.task, line.strategy, str(line.cells), str(line.finished)]
    if not line.cells:
        return [*counts, *[""] * 10]
    if math.isnan(line.step):
        return [*counts, *["?"] * 9, line.trouble]
    steps = [f"{1000 * line.step:.3g} ms", f"{line.steps:.0f}", f"{line.epochs:g}"]
    times = map(duration, (line.prepare, line.train, line.evaluate, line.seconds))
    sizes = map(size, (line.cells * line.disk, line.checkpoint))
    return [*counts, *steps, *times, *sizes, line.trouble]


def sentence(cost: Preview) -> str:
    """Say in one sentence what a preview comes to."""
    cells = counted(cost.cells, "cell")
    if cost.finished:
        cells += f" ({cost.finished} finished)"
    if cost.cells == cost.finished:
        return f"{cells}, nothing to run."
    time = f"about {duration(cost.seconds)}"
    if cost.unknown:
        unknown = counted(cost.unknown, "cell")
        time = f"at least {duration(cost.seconds)} ({unknown} of unknown length)"
    on = f" on {cost.lanes} lanes" if cost.lanes > 1 else ""
    return f"{cells}, {time}{on}, {size(cost.disk)} on disk."


def duration(seconds: float) -> str:
    """Write a time in one or two units."""
    if not math.isfinite(seconds):
        return "?"
    if round(seconds) < 60:
        return "<1 s" if 0 < seconds < 0.5 else f"{round(seconds)} s"
    units, (large, small) = ("h", "min"), divmod(round(seconds / 60), 60)
    if large >= 24:
        units, (large, small) = ("d", "h"), divmod(round(seconds / 3600), 24)
    both = zip((large, small), units, strict=True)
    return " ".join(f"{count} {unit}" for count, unit in both if count)


def size(count: float) -> str:
    """Write a number of bytes with two or three digits."""
    unit = "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if count < 999.5:
            break
        count, unit = count / 1000, larger
    return f"{count:.2g} {unit}" if count < 9.95 else f"{count:.0f} {unit}"
