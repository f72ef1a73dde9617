"""The schedule: which cells a suite needs, in which order; controls join once costs are known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from dataeff.bench.conditions import conditions, provenance
from dataeff.bench.controls import control_kinds, matching_controls
from dataeff.bench.results import clocked_seconds, flags_of, read_json, read_runs
from dataeff.bench.runner import Cell, Settings, check_task, describe
from dataeff.bench.suite import Suite
from dataeff.cost import cost
from dataeff.errors import DataeffError
from dataeff.plugins import Installed, compose
from dataeff.training.cell import is_control, pick_device


class Schedule:
    """The cells of a suite, seed by seed, so that drift of the machine hits all strategies alike.

    Once a seed is through, the measured costs say which controls are missing: they are run for that
    seed and those before it, and take part in the rest. `cells` are those known so far.
    """

    def __init__(self, suite: Suite, settings: Settings, installed: Installed) -> None:
        self._suite, self._installed = suite, installed
        self._root = settings.results / suite.name
        self._stamp = {
            "conditions": conditions(pick_device(settings.device)),
            "provenance": provenance(installed),
        }
        self.data = {
            name: check_task(task, settings, installed) for name, task in suite.tasks.items()
        }
        self._kinds = control_kinds(suite.controls, installed)
        # Once per strategy, not per cell: a source hash reads and parses files.
        self._parts = {text: compose(text, installed) for text in suite.strategies}
        self._described = {text: describe(parts) for text, parts in self._parts.items()}
        # With the cost that each was made for.
        self._controls: dict[str, dict[str, float]] = {name: {} for name in suite.tasks}
        self.cells = [
            self._cell(task, strategy, seed)
            for task in suite.tasks
            for seed in range(suite.seeds)
            for strategy in suite.strategies
        ]

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells in order; the next is asked for when the one before has ended."""
        for task in self._suite.tasks:
            for seed in range(self._suite.seeds):
                strategies = [*self._suite.strategies, *self._controls[task]]
                yield from (self._cell(task, strategy, seed) for strategy in strategies)
                new = self._new_controls(task)
                for earlier in range(seed + 1):
                    yield from (self._cell(task, strategy, earlier) for strategy in new)

    def _cell(self, task: str, strategy: str, seed: int) -> Cell:
        if strategy not in self._described:
            self._described[strategy] = describe(compose(strategy, self._installed))
        what = (self._suite.name, task, self._suite.tasks[task], strategy, seed, self.data[task])
        return Cell(self._root, *what, *self._described[strategy], **self._stamp)

    # Controls ---------------------------------------------------------------------------------

    @property
    def control_names(self) -> list[str]:
        """Return the names of the controls that may join; none where no method is judged."""
        return [kind.name for kind in self._kinds] if self.methods else []

    def _is_control(self, strategy: str) -> bool:
        return is_control(self._parts.get(strategy) or compose(strategy, self._installed))

    @property
    def methods(self) -> list[str]:
        """Return the strategies that controls are for."""
        return [
            text
            for text, parts in self._parts.items()
            if text != self._suite.reference and not is_control(parts)
        ]

    def _new_controls(self, task: str) -> list[str]:
        """Plan the controls that the costs measured so far ask for; return those that are new."""
        if not (self._kinds and self.methods):
            return []
        planned = [*self._suite.strategies, *self._controls[task]]
        known = self._costs(task, dict.fromkeys([*planned, *self._controls_on_disk(task)]))
        costs = [known[name] for name in self.methods if name in known]
        # One that failed, or is not finished yet, is there as well.
        existing = self._controls[task] | known
        wanted = matching_controls(costs, existing, self._kinds, self._installed)
        new = {label: share for label, share in wanted.items() if label not in planned}
        self._controls[task] |= new
        seeds = range(self._suite.seeds)
        self.cells += [self._cell(task, label, seed) for seed in seeds for label in new]
        return list(new)

    def _controls_on_disk(self, task: str) -> list[str]:
        """List the controls that an earlier command has run, as they would be run now."""
        found = {}
        for record in read_runs(self._root):
            if record.get("control") and record["task_name"] == task:
                label = record["strategy"]
                try:
                    current = self._cell(task, label, record["seed"]).folder.name
                except DataeffError:
                    continue
                found[label] = found.get(label) or current == record["folder"]
        return [label for label, current in found.items() if current]

    def _costs(self, task: str, strategies: Iterable[str]) -> dict[str, float]:
        """Return what each strategy costs, as a share of the reference, over the seeds of both."""
        base = self._finished(task, self._suite.reference)
        costs = {}
        for strategy in strategies:
            mine = self._finished(task, strategy)
            both = [(mine[seed], base[seed]) for seed in mine if seed in base]
            work = cost([ours["flops"] / theirs["flops"] for ours, theirs in both], math.nan)
            times = [_seconds(ours) / _seconds(theirs) for ours, theirs in both]
            # A control is what was counted, whatever its clock says.
            known = work if self._is_control(strategy) else cost(times, work)
            if not math.isnan(known):
                costs[strategy] = known
        return costs

    def _finished(self, task: str, strategy: str) -> dict[int, dict[str, Any]]:
        """Return the records of the finished cells, by seed."""
        cells = [self._cell(task, strategy, seed) for seed in range(self._suite.seeds)]
        records = {cell.seed: read_json(cell.folder / "run.json") for cell in cells}
        return {seed: r for seed, r in records.items() if r and r["status"] == "finished"}


def _seconds(record: dict[str, Any]) -> float:
    """Return prepare + train, NaN where the machine was busy with something else."""
    return math.nan if flags_of(record) else clocked_seconds(record)
