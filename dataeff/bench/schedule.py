"""The schedule: which cells a suite needs, in which order; some join once costs are known."""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataeff.bench.cells import Cell, Scene
from dataeff.bench.conditions import conditions, provenance
from dataeff.bench.controls import control_kinds, matching_controls
from dataeff.bench.matches import Matches
from dataeff.bench.results import clocked_seconds, flags_of, read_runs
from dataeff.bench.suite import Suite
from dataeff.composition import Composition
from dataeff.cost import cost
from dataeff.errors import DataeffError
from dataeff.lab import Lab


class Schedule:
    """The cells of a suite, seed by seed, so that drift of the machine hits all strategies alike.

    Once a seed is through, the measured costs say at which values patterns match, and which
    controls are missing: they are run for that seed and those before it, and take part in the rest.
    `cells` are those known so far. What is `fresh` goes by nothing that was measured before.
    """

    def __init__(self, suite: Suite, lab: Lab, results: Path, fresh: bool = False) -> None:
        self.suite, self._lab, self._fresh = suite, lab, fresh
        self._root = results / suite.name
        stamp = {"conditions": conditions(lab.device), "provenance": provenance(lab.installed)}
        self.scenes = {name: Scene.of(name, task, lab, stamp) for name, task in suite.tasks.items()}
        self._kinds = control_kinds(suite.controls, lab.installed)
        # With the cost that each was made for.
        self._controls: dict[str, dict[Composition, float]] = {name: {} for name in suite.tasks}
        self.matches = Matches(suite, lab, self._root, self._cell, fresh)
        self.cells = [
            self._cell(task, strategy, seed)
            for task in suite.tasks
            for seed in range(suite.seeds)
            for strategy in self._planned(task)
        ]

    def __len__(self) -> int:
        return len(self.cells) + len(self.unsolved)

    @property
    def unsolved(self) -> list[tuple[str, Cell]]:
        """Return a pair for each cell whose value is not found: its pattern, and one as costly."""
        return [
            (text, self._cell(task, self.suite.matched, seed))
            for task in self.suite.tasks
            for text in self.matches.waiting(task)
            for seed in range(self.suite.seeds)
        ]

    def _planned(self, task: str) -> list[str]:
        """List the strategies that run on a task, as far as they are known."""
        found = self.matches.labels(task).values()
        controls = [control.text for control in self._controls[task]]
        return list(dict.fromkeys([*self.suite.complete_on(task), *found, *controls]))

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells in order; the next is asked for when the one before has ended."""
        seeds = range(self.suite.seeds)
        for task in self.suite.tasks:
            for seed in seeds:
                yield from (self._cell(task, strategy, seed) for strategy in self._planned(task))
                for plan in (self._plan_matches, self._plan_controls):
                    before = self._planned(task)
                    plan(task, seed)
                    new = [label for label in self._planned(task) if label not in before]
                    cells = [self._cell(task, label, n) for n in seeds for label in new]
                    self.cells += cells
                    yield from (cell for cell in cells if cell.seed <= seed)
            for text in self.matches.waiting(task):
                known = self._work_to_match(task, self.suite.seeds)
                missing = f"there is no seed of {self.suite.match} and the reference to match"
                elsewhere = "another process looks for its value; type this again later"
                self.matches.give_up(task, text, elsewhere if known else missing)

    def _cell(self, task: str, strategy: str, seed: int) -> Cell:
        composition = self._lab.composition(strategy)
        return Cell(self._root, self.suite.name, self.scenes[task], composition, seed)

    # Matches ----------------------------------------------------------------------------------

    def _plan_matches(self, task: str, seed: int) -> None:
        """Find the values of patterns, once it is known what they are to be matched to."""
        if self.matches.waiting(task) and (work := self._work_to_match(task, seed)):
            self.matches.find(task, work)

    def _work_to_match(self, task: str, seed: int) -> float | None:
        """Return the counted work to be matched, as a share of the reference's, of all seeds.

        Counts are exact where the clock of a single run is off by several percent.
        """
        base = self._records(task, self.suite.reference)
        shares = [
            ours["flops"] / theirs["flops"]
            for ours, theirs in self._pairs(task, self.suite.matched, base)
            if ours["seed"] <= seed or not self._fresh
        ]
        return cost(shares, math.nan) if shares else None

    # Controls ---------------------------------------------------------------------------------

    @property
    def control_names(self) -> list[str]:
        """Return the names of the controls that may join; none where no method is judged."""
        return [kind.name for kind in self._kinds] if self.methods else []

    def _is_control(self, strategy: str) -> bool:
        return self._lab.composition(strategy).is_control

    @property
    def methods(self) -> list[str]:
        """Return the strategies that controls are for."""
        others = [text for text in self.suite.strategies if text != self.suite.reference]
        return [text for text in others if not self._is_control(text)]

    def _plan_controls(self, task: str, seed: int) -> None:
        """Plan the controls that the costs measured so far ask for."""
        if not (self._kinds and self.methods):
            return
        planned, found = self._planned(task), self.matches.labels(task)
        known = self._costs(task, dict.fromkeys([*planned, *self._controls_on_disk(task)]))
        methods = [found.get(name, name) for name in self.methods]
        costs = [known[name] for name in methods if name in known]
        # One that failed, or is not finished yet, is there as well.
        existing = self._controls[task] | {
            self._lab.composition(name): share for name, share in known.items()
        }
        for control, share in matching_controls(costs, existing, self._kinds).items():
            if control.text not in planned:
                self._controls[task][self._lab.know(control)] = share

    def _controls_on_disk(self, task: str) -> list[str]:
        """List the controls that an earlier command has run, as they would be run now."""
        found = []
        for record in read_runs(self._root):
            if record.get("control") and record["task_name"] == task:
                label = record["strategy"]
                # Its strategy may be gone by now.
                with suppress(DataeffError):
                    if self._cell(task, label, record["seed"]).version == record.get("version"):
                        found.append(label)
        return found

    def _costs(self, task: str, strategies: Iterable[str]) -> dict[str, float]:
        """Return what each strategy costs, as a share of the reference, over the seeds of both."""
        costs, base = {}, self._records(task, self.suite.reference)
        for strategy in strategies:
            both = self._pairs(task, strategy, base)
            work = cost([ours["flops"] / theirs["flops"] for ours, theirs in both], math.nan)
            times = [_seconds(ours) / _seconds(theirs) for ours, theirs in both]
            # A control is what was counted, whatever its clock says.
            known = work if self._is_control(strategy) else cost(times, work)
            if not math.isnan(known):
                costs[strategy] = known
        return costs

    def _pairs(self, task: str, strategy: str, base: list[Any]) -> list[tuple[Any, Any]]:
        """Return the records of the strategy and of the reference, for seeds both have finished."""
        pairs = zip(self._records(task, strategy), base, strict=True)
        return [two for two in pairs if all(one and one["status"] == "finished" for one in two)]

    def _records(self, task: str, strategy: str) -> list[Any]:
        seeds = range(self.suite.seeds)
        return [self._cell(task, strategy, seed).record() for seed in seeds]


def _seconds(record: dict[str, Any]) -> float:
    """Return prepare + train, NaN where the machine was busy with something else."""
    return math.nan if flags_of(record) else clocked_seconds(record)
