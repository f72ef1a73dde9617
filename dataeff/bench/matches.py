"""Matches: the values of a suite's patterns, found once and frozen beside its results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dataeff.bench.cells import Cell
from dataeff.bench.desk import Desk, Piloting
from dataeff.bench.results import held
from dataeff.bench.sketch import Sketch
from dataeff.bench.suite import Suite
from dataeff.checked import read_entries, write_entries
from dataeff.errors import DiskFull
from dataeff.foretell.solve import Solution, solve
from dataeff.foretell.steps import reason
from dataeff.forms import MATCHES
from dataeff.notation import format_value

# What an entry of match.json is for; the rest of its key says whether it still holds.
_FOR = ("task", "conditions_id", "pattern", "match")


class Matches:
    """Knows at which value each pattern of a suite takes the time of the strategy it is matched to.

    A value is found once per task and conditions, and used for all seeds and by later commands,
    until the task, its data or the source of a strategy that it hangs on has changed. `tell` hears
    of pilots, and whether one has ended; `troubles` say why a pattern has no value.
    """

    def __init__(
        self,
        suite: Suite,
        desk: Desk,
        root: Path,
        cell: Callable[[str, str, int], Cell],
        fresh: bool,
    ) -> None:
        self._suite, self._desk = suite, desk
        self._cell, self._fresh = cell, fresh
        self._path = root / "match.json"
        self._patterns = {text: desk.composition(text) for text in suite.patterns}
        self.tell: Callable[[str, bool], None] = lambda line, ended: None
        self.troubles: list[str] = []
        # By task and pattern: a label, or None where there is none to be had.
        self._found: dict[tuple[str, str], str | None] = {}
        for task in suite.tasks:
            self._look_up(task)

    def labels(self, task: str) -> dict[str, str]:
        """Return the label of each pattern that has its value on this task."""
        found = {text: self._found.get((task, text)) for text in self._patterns}
        return {text: label for text, label in found.items() if label}

    def waiting(self, task: str) -> list[str]:
        """Return the patterns whose value is not known yet."""
        return [text for text in self._patterns if (task, text) not in self._found]

    def give_up(self, task: str, text: str, why: str) -> None:
        """Go on without a pattern."""
        self._found[task, text] = None
        self.troubles.append(f"{task} {text}: {why}")

    def find(self, task: str, work: float) -> None:
        """Find the values that are missing, by pilots, and freeze them.

        `work` is the counted work of the strategy to be matched, as a share of the reference's: a
        pilot says how long it takes.
        """
        with held(self._path.parent) as mine:
            if not mine:
                self.tell(f"pilot: {task}: another process looks for these values", True)
                return
            # That process may have found them.
            self._look_up(task)
            if not self.waiting(task):
                return
            with self._desk.pilot(self._suite.tasks[task], self._suite.reference) as pilot:
                target = work * pilot.pace(self._suite.matched)
                for text in self.waiting(task):
                    try:
                        solution = self._solve(task, self._patterns[text], pilot, target)
                    except DiskFull:
                        raise
                    except Exception as error:
                        self.give_up(task, text, reason(error))
                    else:
                        self._freeze(task, text, solution, target)

    def _filled(self, pattern: Sketch, value: float) -> str:
        return self._desk.filled(pattern, value).text

    def _solve(self, task: str, pattern: Sketch, pilot: Piloting, target: float) -> Solution:
        reference = self._suite.reference

        def cost(value: float) -> float:
            place = f"pilot: {task} {pattern.text} at {format_value(value)}"
            self.tell(place, False)
            try:
                share = pilot.cost(self._filled(pattern, value), target)
            except Exception as error:
                self.tell(f"{place}: {reason(error)}", True)
                raise
            self.tell(f"{place}: {share:.2f} of {reference}, aiming at {target:.2f}", True)
            return share

        assert pattern.range, "a pattern has a value to be found"
        return solve(cost, target, pattern.range)

    # On disk ----------------------------------------------------------------------------------

    def _key(self, task: str, text: str) -> dict[str, Any]:
        """Return all that a value hangs on."""
        names = (self._suite.reference, self._suite.matched)
        base, match = (self._cell(task, name, 0) for name in names)
        sources = self._patterns[text].sources
        return {
            "task": task,
            "conditions_id": base.scene.conditions_id,
            "pattern": text,
            "match": match.strategy,
            "reference": base.strategy,
            "task_id": base.task.id,
            "data": base.scene.data,
            "network": base.scene.network,
            "sources": {**base.composition.sources, **match.composition.sources, **sources},
        }

    def _look_up(self, task: str) -> None:
        """Take the values that are frozen and still hold."""
        if self._fresh or not self.waiting(task):
            return
        for entry in read_entries(self._path, MATCHES):
            text = entry["pattern"]
            if text in self.waiting(task) and self._key(task, text).items() <= entry.items():
                self._found[task, text] = entry["strategy"]

    def _freeze(self, task: str, text: str, solution: Solution, target: float) -> None:
        pattern, key = self._patterns[text], self._key(task, text)
        label = self._filled(pattern, solution.value)
        entry = key | {
            "strategy": label,
            "parameter": pattern.free,
            "value": solution.value,
            "target": target,
            "reached": solution.reached,
            "pilots": [{"value": value, "cost": cost} for value, cost in solution.costs.items()],
            "note": solution.note(target, key["reference"]),
        }
        before = read_entries(self._path, MATCHES)
        others = [old for old in before if any(old[name] != key[name] for name in _FOR)]
        write_entries(self._path, [*others, entry], MATCHES)
        self._found[task, text] = label
        self.tell(f"pilot: {task} {text} becomes {label}", True)
