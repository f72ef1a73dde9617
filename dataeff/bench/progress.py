"""What is shown while a suite runs: a bar with time left, or one line per cell when piped."""

from pathlib import Path
from typing import Any

from rich import markup
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dataeff.bench.results import clocked_seconds
from dataeff.bench.runner import Event
from dataeff.errors import one_line
from dataeff.plural import counted
from dataeff.printable import printable


def escape(text: str) -> str:
    """Return a text that rich prints as it is."""
    return markup.escape(printable(text))


class _Bar(Progress):
    """A progress bar while it is entered; nothing but printed lines where there is no terminal."""

    line: Any = None

    def __init__(self, console: Console) -> None:
        percent = TextColumn("{task.percentage:3.0f}%")
        times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        columns = (TextColumn("{task.description}"), BarColumn(), percent, *times)
        super().__init__(*columns, console=console, disable=not console.is_terminal)


class Watch(_Bar):
    """Shows cells done, the current epoch and the time left."""

    skipped = 0

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        # How far each cell has come: several are alive at once.
        self._shares: dict[Path, float] = {}
        # A line for each lane, where there are several.
        self._lanes: dict[str, Any] = {}

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self.skipped:
            cells = counted(self.skipped, "finished cell was", "finished cells were")
            self.console.print(f"{cells} skipped (--fresh runs them again).")

    def __call__(self, event: Event) -> None:
        """Show one event of the runner."""
        if self.line is None:
            self.line = self.add_task("", total=event.total)
        if event.kind == "skipped":
            # A skipped cell costs no time: it leaves the total, so that the time left stays true.
            self.skipped += 1
            self.update(self.line, total=event.total - self.skipped)
            return
        place = f"cell {event.number}/{event.total}"
        epoch = f" epoch {event.record['epoch'] + 1}" if event.kind == "epoch" else ""
        over = event.kind in ("ended", "elsewhere")
        self._shares[event.cell.folder] = 1.0 if over else event.share
        title, done = escape(event.cell.title), sum(self._shares.values())
        self.update(self.line, description=f"{place}: {title}{epoch}", completed=done)
        self._show_lane(event, f"{title}{epoch}")
        if over:
            self.console.print(
                f"{place}: {title}: {escape(outcome(event.kind, event.record))}", soft_wrap=True
            )

    def _show_lane(self, event: Event, what: str) -> None:
        """Show where a lane is, once a second one is heard of."""
        self._lanes.setdefault(event.lane, None)
        if len(self._lanes) == 1:
            return
        if self._lanes[event.lane] is None:
            self._lanes[event.lane] = self.add_task("", total=1.0)
        told = f"  {escape(event.lane)}: {what}"
        self.update(self._lanes[event.lane], description=told, completed=event.share)

    def say(self, line: str, ended: bool) -> None:
        """Show what goes on between two cells; what has ended stays."""
        if self.line is not None:
            self.update(self.line, description=escape(line))
        if ended:
            self.console.print(escape(line), soft_wrap=True)


class StudyWatch(_Bar):
    """Shows the run that an analysis trains now, and one line for each that it has trained."""

    def show(self, kind: str, title: str, share: float, record: dict[str, Any]) -> None:
        """Show how a run of a study goes on."""
        title = escape(title)
        if kind == "started":
            self.line = self.add_task(f"training {title}", total=1.0)
        self.update(self.line, completed=share)
        if kind == "ended":
            self.remove_task(self.line)
            self.console.print(f"trained {title}: {escape(outcome(kind, record))}", soft_wrap=True)


def outcome(kind: str, record: dict[str, Any]) -> str:
    """Say in a few words how a cell ended."""
    if kind == "elsewhere":
        return "another process has it"
    if record["status"] != "finished":
        return f"{record['status']}: {one_line(record['error'])}"
    accuracy = record["metrics"].get("test_top1")
    what = "prepared" if accuracy is None else f"{accuracy:.2f}%"
    return f"{what} in {clocked_seconds(record):.1f} s"
