"""Looks at a results folder while it is filled."""

from collections.abc import Callable
from contextlib import suppress
from math import isnan, nan
from pathlib import Path

from dataeff.checked import read_checked
from dataeff.errors import DataeffError
from dataeff.forms import SUITE
from dataeff.report.board import Reading, judge_folder
from dataeff.report.frames import Key
from dataeff.report.judge import Judged
from dataeff.report.looks import current, holding, read_looks, settled, with_due, write_looks
from dataeff.report.missing import missing, still_missing
from dataeff.report.questions import AgainstReference


class Looking:
    """Judges a results folder's tables at planned numbers of seeds, and keeps what was said."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Read once, and again after cells have run: what is asked between two looks is the same.
        self._known: list[Reading] | None = None
        # Writes down what was asked for: a look goes by that.
        self.before: Callable[[], None] = lambda: None

    def make(self, n: int) -> None:
        """Make the looks that are due, at n seeds at most, and keep them."""
        self.before()
        self._known = None
        if (reading := self._reading()) is None:
            return
        kept = read_looks(self._folder)
        ours = current(kept, reading.suite)
        new = with_due(reading.runs, reading.suite, ours, n)[len(ours) :]
        if new:
            write_looks(self._folder, [*kept, *new])

    def going(self, task: str, conditions: str, n: int) -> list[str] | None:
        """Return who was not settled by n seeds; None where not all have been looked at by then."""
        if (judged := self._judged((task, conditions))) is None:
            return None
        table = judged.table
        # Who goes on was said then, whatever later looks say.
        held = holding(AgainstReference(table), [one for one in judged.looks if one["n"] <= n])
        if any(name not in held for name in table.awaited):
            return None
        done = settled(table, held)
        going = [name for name in table.awaited if name not in done]
        return None if any(held[name]["n"] < n for name in going) else going

    def chances(self, task: str, conditions: str) -> dict[str, float]:
        """Return how likely the next look settles each of those that are not settled."""
        if (judged := self._judged((task, conditions))) is None:
            return {}
        told = zip(judged.grid.names, judged.settled, judged.foreseen()[1], strict=True)
        known = {name: chance for name, done, chance in told if not done and not isnan(chance)}
        return {name: known[name] for name in judged.table.awaited if name in known}

    def typical(self, task: str, conditions: str) -> float:
        """Return the typical spread of paired differences in points, NaN where it is not known."""
        judged = self._judged((task, conditions))
        return nan if judged is None else judged.typical()[0]

    def missing(self) -> str:
        """Say what of all that was asked for has not ended by now; nothing where all has."""
        self._known = None
        if (suite := read_checked(self._folder / "suite.json", SUITE)) is None:
            return ""
        reading = self._reading()
        return still_missing(reading.missing if reading else missing(suite, []))

    def _judged(self, key: Key) -> Judged | None:
        reading = self._reading()
        found = [one for one in reading.judged if one.table.key == key] if reading else []
        return found[0] if found else None

    def _reading(self) -> Reading | None:
        """Read what is there, if anything is."""
        if self._known is None:
            self._known = []
            if read_checked(self._folder / "suite.json", SUITE) is not None:
                with suppress(DataeffError):
                    self._known = [judge_folder(self._folder)]
        return self._known[0] if self._known else None
