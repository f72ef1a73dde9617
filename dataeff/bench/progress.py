"""What is shown while a suite runs: a bar with time left, or a few lines where it is a log."""

import math
from collections.abc import Iterable
from datetime import timedelta
from threading import Event as Signal
from threading import Thread
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from dataeff.bench.headway import Headway
from dataeff.bench.results import clocked_seconds
from dataeff.bench.runner import Event
from dataeff.errors import one_line
from dataeff.plural import counted
from dataeff.printable import fitted, printable

SECONDS = 60.0
"""A log has a line after each so many, besides those of what has ended."""
# What the widest bar leaves for the other columns of 60 letters.
_BAR = 16
# Letters of a title that are always shown.
_LEAST = 16
# In place of a lane, where none has anything to do.
_BETWEEN = "between"


class _Left(ProgressColumn):
    """The time that is left."""

    def __init__(self, watch: "_Bar") -> None:
        super().__init__()
        self._watch = watch

    def render(self, task: Task) -> Text:
        seconds = self._watch.headway.left
        return Text("-:--:--" if math.isnan(seconds) else str(timedelta(seconds=round(seconds))))


class _Bar(Progress):
    """A bar while it is entered, and below it what goes on.

    Where there is no terminal, printed lines: one a minute says how far all has come.
    """

    def __init__(self, console: Console, headway: Headway, every: float = SECONDS) -> None:
        percent = TextColumn("{task.percentage:3.0f}%")
        times = (TimeElapsedColumn(), TextColumn("left"), _Left(self))
        columns = (TextColumn("{task.description}"), BarColumn(_BAR), percent, *times)
        self.headway = headway
        # What goes on, by lane.
        self.now: dict[str, str] = {}
        super().__init__(*columns, console=console, disable=not console.is_terminal)
        self.line = self.add_task("", total=None)
        self._over, self._every = Signal(), every
        self._minutes = Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        if self.disable:
            self._minutes.start()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        self._over.set()
        self.now = {}
        super().__exit__(*error)

    def _tell(self) -> None:
        while not self._over.wait(self._every):
            if told := self.headway.told():
                self.keep(told)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar and, each on one line, what goes on."""
        yield from super().get_renderables()
        now = list(self.now.items())
        for lane, what in now:
            what = f"{lane}: {what}" if len(now) > 1 else what
            yield Text(fitted(what, self.console.width), no_wrap=True, overflow="ellipsis")

    def keep(self, line: str) -> None:
        """Print a line, which stays."""
        self.console.print(Text(printable(line)), soft_wrap=not self.console.is_terminal)

    def keep_ended(self, head: str, title: str, how: str) -> None:
        """Print how something has ended; where there is a terminal on one line, if that can be."""
        if self.console.is_terminal:
            room = self.console.width - len(f"{head}: {how}")
            title = fitted(title, max(_LEAST, room))
        self.keep(f"{head}{title}: {how}")


class Watch(_Bar):
    """Shows cells done, the current epochs and the time left."""

    def __init__(self, console: Console, every: float = SECONDS) -> None:
        super().__init__(console, Headway(), every)
        self.skipped = 0

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self.skipped:
            cells = counted(self.skipped, "finished cell was", "finished cells were")
            self.console.print(f"{cells} skipped (--fresh runs them again).")

    def __call__(self, event: Event) -> None:
        """Show one event of the runner."""
        headway, title = self.headway, event.cell.title
        headway.total = event.total
        epochs = event.record["epoch"] + 1 if event.kind == "epoch" else 0
        headway.hear(event.kind, event.cell.folder, event.share, epochs)
        # A skipped cell costs no time: it leaves the total, so that the share stays true.
        told = f"{headway.ended}/{headway.cells} cells"
        self.update(self.line, description=told, completed=headway.done, total=headway.cells)
        if event.kind == "skipped":
            self.skipped += 1
            return
        self.now.pop(_BETWEEN, None)
        self.now[event.lane] = f"{title} epoch {epochs}" if epochs else title
        if event.kind in ("ended", "elsewhere"):
            how = outcome(event.kind, event.record)
            self.keep_ended(f"cell {event.number}/{event.total}: ", title, how)

    def say(self, line: str, ended: bool) -> None:
        """Show what goes on between two cells; what has ended stays."""
        if ended:
            self.keep(line)
        else:
            self.now = {_BETWEEN: line}


class StudyWatch(_Bar):
    """Shows the run that an analysis trains now, and one line for each that it has trained."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, Headway())

    def show(self, kind: str, title: str, share: float, record: dict[str, Any]) -> None:
        """Show how a run of a study goes on."""
        if kind == "started":
            self.headway.total += 1
        self.headway.hear(kind, title, share, record.get("epoch", -1) + 1)
        self.now = {_BETWEEN: title}
        self.update(self.line, description="training", completed=share, total=1.0)
        if kind == "ended":
            self.now = {}
            self.keep_ended("trained ", title, outcome(kind, record))


def outcome(kind: str, record: dict[str, Any]) -> str:
    """Say in a few words how a cell ended."""
    if kind == "elsewhere":
        return "another process has it"
    if record["status"] != "finished":
        return f"{record['status']}: {one_line(record['error'])}"
    accuracy = record["metrics"].get("test_top1")
    what = "prepared" if accuracy is None else f"{accuracy:.2f}%"
    return f"{what} in {clocked_seconds(record):.1f} s"
