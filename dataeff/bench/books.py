"""Books: what the runner keeps of a cell while it runs, out of reach of the cell's own process.

That is the figures of every test, and time by the runner's own clock. They are written whenever the
cell has written a checkpoint, so that both go on from the same place.
"""

from pathlib import Path
from time import perf_counter
from typing import Any

from dataeff.bench.results import BOOKS as NAME
from dataeff.checked import read_checked, write_checked
from dataeff.forms import BOOKS

# Of two clocks of the same thing, one in another process: share and seconds by which they may
# differ.
_SHARE, _SECONDS = 0.05, 0.15


class Stopwatch:
    """Adds up the seconds of a cell, by what it is at: starting, on the clock, or off it."""

    def __init__(self) -> None:
        self.seconds = {"start": 0.0, "on": 0.0, "off": 0.0}
        self.parts = 1
        self._at, self._since = "", perf_counter()

    def to(self, state: str) -> None:
        """Charge what has passed, and go on with another state; one of none is not counted."""
        now = perf_counter()
        if self._at in self.seconds:
            self.seconds[self._at] += now - self._since
        self._at, self._since = state, now

    def back(self, seconds: dict[str, float], parts: int) -> None:
        """Go on from what earlier parts of the cell took; all of this one so far was its start."""
        self.to(self._at)
        start = sum(self.seconds.values())
        self.seconds = seconds | {"start": seconds["start"] + start}
        self.parts = parts + 1


class Books:
    """The lines of a cell's epochs with the figures of their tests, and its stopwatch."""

    def __init__(self, folder: Path, heat: str = "") -> None:
        self.path, self._heat = folder / NAME, heat
        self.watch = Stopwatch()
        self.lines: list[dict[str, Any]] = []
        self.final: dict[str, Any] = {}
        self._tests: dict[int, dict[str, Any]] = {}
        self._pages: list[dict[str, Any]] = []

    def test(self, epoch: int, figures: dict[str, Any]) -> None:
        """Enter what a test after this epoch came to; one on the whole test set is the last.

        It comes before the line of its epoch or, where a cell ends early, after it.
        """
        if epoch - len(self.lines) not in (0, -1):
            raise ValueError(f"a test after epoch {epoch}, when {len(self.lines)} have ended")
        self._tests[epoch] = {f"test_{name}": value for name, value in figures["part"].items()}
        if "whole" in figures:
            self.final = {"epoch": epoch} | figures
        for line in self.lines:
            if line["epoch"] == epoch:
                line.update(self._tests[epoch])

    def epoch(self, line: dict[str, Any]) -> dict[str, Any]:
        """Enter the line of an epoch; what it says of tests is not its own to say."""
        told = {name: value for name, value in line.items() if not name.startswith("test_")}
        self.lines.append(told | self._tests.get(line["epoch"], {}))
        return self.lines[-1]

    def saved(self, epoch: int) -> None:
        """Write down how things stand, now that a checkpoint has this epoch as its next."""
        watch = {"seconds": dict(self.watch.seconds), "parts": self.watch.parts}
        self._pages = [page for page in self._pages if page["next"] < epoch][-1:]
        self._pages.append({"next": epoch, "watch": watch})
        self._write()

    def begin(self) -> None:
        """Write down the heat that a cell begins in; one that was stopped has its pages."""
        if not self.path.exists():
            self._write()

    def _write(self) -> None:
        told = {"pages": self._pages, "lines": self.lines, "final": self.final}
        write_checked(self.path, told | {"heat": self._heat}, BOOKS)

    def resumed(self, epoch: int) -> bool:
        """Go on from where a checkpoint with this epoch was written; say whether that is known."""
        known = read_checked(self.path, BOOKS) or {}
        pages = [page for page in known.get("pages", ()) if page["next"] == epoch]
        lines = [line for line in known.get("lines", ()) if line["epoch"] < epoch]
        if not pages or len(lines) != epoch:
            return False
        self._pages, self.lines = pages, lines
        self.final = known["final"]
        self.watch.back(**pages[0]["watch"])
        return True

    @staticmethod
    def heat_of(folder: Path) -> str:
        """Return the heat that a stopped cell was in; nothing where it has not begun."""
        heat: str = (read_checked(folder / NAME, BOOKS) or {}).get("heat", "")
        return heat

    def doubts(self, told: float) -> list[str]:
        """Say whether the cell's own clock agrees with ours; `told` is what it says to have run."""
        seen = self.watch.seconds["on"]
        if abs(seen - told) <= _SHARE * seen + _SECONDS * self.watch.parts:
            return []
        return [f"its own clock says {told:.2f} s, the runner's {seen:.2f} s"]
