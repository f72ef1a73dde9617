"""The schedule: which cells a suite needs, in which order; some join once costs are known."""

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from dataeff.bench.blocks import Block
from dataeff.bench.cells import Cell, Scene
from dataeff.bench.conditions import provenance
from dataeff.bench.desk import Desk
from dataeff.bench.lanes import as_typed
from dataeff.bench.line import Budgets, budgets, longer
from dataeff.bench.matches import Matches
from dataeff.bench.results import clocked_seconds, empty, flags_of, pairing, read_runs, settled
from dataeff.bench.stages import Looks, Stages
from dataeff.bench.suite import Suite
from dataeff.cost import cost
from dataeff.errors import DataeffError
from dataeff.notation import pattern_of


class Schedule:
    """The cells of a suite, seed by seed, so that drift of the machine hits all strategies alike.

    Once a seed is through, the measured costs say at which values patterns match, and at which
    budgets the line is to be run: these cells are run for that seed and those before it, and take
    part in the rest. Seeds come in stages: after each comes a look, and only what is not settled
    then goes on. `cells` are those known so far; `joined` is called when there are more. What is
    `fresh` goes by nothing measured before.
    """

    def __init__(
        self,
        suite: Suite,
        desk: Desk,
        results: Path,
        fresh: bool = False,
        looks: Looks | None = None,
    ) -> None:
        self.suite, self._desk, self._fresh = suite, desk, fresh
        self._root = results / suite.name
        found = desk.conditions | {"timing": desk.timing(suite.timing)}
        stamp = {"conditions": found, "provenance": provenance(desk.plugins())}
        tasks = suite.tasks.items()
        self.scenes = {name: Scene.of(name, task, desk, stamp) for name, task in tasks}
        self.kinds = desk.kinds(suite.controls)
        # Who leaves the line out may find one that was run before.
        self.patterns = [kind.pattern for kind in self.kinds or desk.kinds(True)]
        self._budgets = Budgets(self._root)
        self.stages = Stages(suite.seeds, looks, self.scenes)
        self._added: dict[str, list[str]] = {}
        self.matches = Matches(suite, desk, self._root, self._cell, fresh)
        self.cells: list[Cell] = []
        self.joined: Callable[[], None] = lambda: None
        for task in suite.tasks:
            self._added[task] = [] if fresh else self._line_on_disk(task)
            self._plan_stages(task)

    def __len__(self) -> int:
        return len(self.cells) + len(self.unsolved)

    @property
    def seeds(self) -> range:
        """Return the seeds that are run of every strategy."""
        return self.stages.all[0]

    @property
    def devices(self) -> dict[str, Any]:
        """Return what later commands are to know of the lanes; nothing where there are none."""
        if self._desk.lab:
            return {}
        return {"devices": as_typed(self._desk.lanes), "calibration": self._desk.calibration}

    @property
    def has_line(self) -> bool:
        """Say whether all of the line is among the cells already."""
        return all(self._added.values())

    @property
    def unsolved(self) -> list[tuple[str, Cell]]:
        """Return a pair for each cell whose value is not found: its pattern, and one as costly."""
        return [
            (text, self._cell(task, self.suite.matched, seed))
            for task in self.suite.tasks
            for text in self.matches.waiting(task)
            for seed in self.seeds
        ]

    def unplanned(self, task: str) -> list[str]:
        """Return the patterns whose cells nobody knows yet: values to be found, and the line."""
        chosen = self._added[task] or self._budgets.read(task, self._line_id(task)) is not None
        line = [] if chosen or not self.methods else [kind.pattern for kind in self.kinds]
        return [*self.matches.waiting(task), *line]

    def _planned(self, task: str) -> list[str]:
        """List the strategies that run on a task, as far as they are known."""
        found = self.matches.labels(task).values()
        names = dict.fromkeys([*self.suite.complete_on(task), *found])
        if (going := self.stages.going.get(task)) is not None:
            # What they are compared with goes on too.
            needed = {self.suite.reference, *([self.suite.match] if self.suite.patterns else [])}
            names = dict.fromkeys(name for name in names if name in going | needed)
        return list(dict.fromkeys([*names, *self._added[task]]))

    def waves(self, lanes: int = 1) -> Iterator[list[Block]]:
        """Yield blocks that wait for nothing; the next are asked for when these have ended.

        What joins once the first blocks have told what methods cost comes last of the next ones:
        it is less than a block, and so the lanes end together.
        """
        for task in self.suite.tasks:
            self.stages.going.pop(task, None)
            for seeds in self.stages.all:
                joined: list[Block] = []
                for wave in _waves(seeds, lanes):
                    blocks = [self._block(task, seed, self._planned(task)) for seed in wave]
                    yield [*blocks, *joined]
                    joined = []
                    for plan in (self._plan_matches, self._plan_line):
                        joined += self._joining(task, wave.stop - 1, seeds, plan)
                        if lanes == 1 or wave.stop == seeds.stop:
                            yield joined
                            joined = []
                if not self._look(task, seeds.stop):
                    break
            for text in self.matches.waiting(task):
                known = self._work_to_match(task, self.seeds.stop)
                missing = f"there is no seed of {self.suite.match} and the reference to match"
                elsewhere = "another process looks for its value; type this again later"
                self.matches.give_up(task, text, elsewhere if known else missing)

    def _block(self, task: str, seed: int, planned: list[str]) -> Block:
        """Return the cells of one seed.

        Their order is another one in each seed: who is always first meets another machine.
        """
        planned = list(planned)
        random.Random(f"{task} {seed}").shuffle(planned)
        cells = [self._cell(task, strategy, seed) for strategy in planned]
        return Block(cells, self.reference_of(cells[0]), partial(self._expected, task, planned))

    def _joining(
        self, task: str, seed: int, seeds: range, plan: Callable[[str, int], None]
    ) -> list[Block]:
        """Return the blocks of those that join when a seed is through, for those before it too."""
        before = self._planned(task)
        plan(task, seed)
        new = [label for label in self._planned(task) if label not in before]
        if not new:
            return []
        self.cells += [self._cell(task, label, n) for n in seeds for label in new]
        self.joined()
        return [self._block(task, n, new) for n in seeds if n <= seed]

    def _expected(self, task: str, strategies: Iterable[str]) -> dict[str, float]:
        """Return the seconds that strategies took on their clocks, by the runner's own."""
        took = {name: [_on_clock(r) for r in self._records(task, name)] for name in strategies}
        return {name: _mean([*filter(None, took[name])]) for name in took if any(took[name])}

    def _cell(self, task: str, strategy: str, seed: int) -> Cell:
        composition = self._desk.composition(strategy)
        return Cell(self._root, self.suite.name, self.scenes[task], composition, seed)

    def reference_of(self, cell: Cell) -> Cell:
        """Return the cell that its time is compared with."""
        return self._cell(cell.task_name, self.suite.reference, cell.seed)

    def forget(self) -> None:
        """Delete what there is of later stages: it would be judged beside what is run anew."""
        for task in self.suite.tasks:
            for seeds in self.stages.all[1:]:
                for cell in (self._cell(task, n, s) for s in seeds for n in self._planned(task)):
                    if cell.folder.is_dir():
                        empty(cell.folder)

    # Looks ------------------------------------------------------------------------------------

    def _plan_stages(self, task: str) -> None:
        """Plan the cells of the first stage, and of later ones as far as looks have been made."""
        for seeds in self.stages.all:
            cells = self._join(task, seeds)
            ended = not self._fresh and all(settled(cell.record()) for cell in cells)
            if not ended or not self.stages.after(task, seeds.stop):
                break
        self.stages.going.pop(task, None)

    def _join(self, task: str, seeds: range) -> list[Cell]:
        """Add the cells of a stage to those that are known, as far as they are not; return them."""
        cells = [self._cell(task, name, seed) for seed in seeds for name in self._planned(task)]
        known = {cell.folder for cell in self.cells}
        self.cells += [cell for cell in cells if cell.folder not in known]
        return cells

    def _look(self, task: str, n: int) -> bool:
        """Look at a task's table after n seeds; say whether there is a stage after it."""
        if not (told := self.stages.look(task, n)):
            return False
        if stage := self.stages.after(task, n):
            self._join(task, stage)
            told += f"; {self.stages.foretold(task, stage, self._seconds(task, len(stage)))}"
        self.matches.tell(f"{task} after {n} seeds: {told}", True)
        return bool(stage)

    def _seconds(self, task: str, count: int) -> float:
        """Return about what so many more seeds take, by those that have been run."""
        return count * sum(
            _mean([_whole_seconds(record) for record in self._records(task, name) if record])
            for name in self._planned(task)
        )

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

    # The line ---------------------------------------------------------------------------------

    @property
    def kind_names(self) -> list[str]:
        """Return the names of the kinds that the line is made of; none where nobody needs one."""
        return [kind.name for kind in self.kinds] if self.methods else []

    @property
    def methods(self) -> list[str]:
        """Return the strategies that the line is for."""
        others = [text for text in self.suite.strategies if text != self.suite.reference]
        return [text for text in others if not self._desk.composition(text).is_control]

    def _plan_line(self, task: str, seed: int) -> None:
        """Plan the line once a block has told what methods cost; longer where it does not reach."""
        if seed not in self.seeds or not self.kind_names:
            return
        found = self.matches.labels(task)
        costs = self._costs(task, [found.get(name, name) for name in self.methods]).values()
        points = product(self._chosen(task, costs), self.kinds)
        labels = [self._desk.at_cost(kind, share).text for share, kind in points]
        self._added[task] += [label for label in labels if label not in self._planned(task)]

    def _chosen(self, task: str, costs: Collection[float]) -> list[float]:
        """Return the budgets of a task, and keep them; those run before stay as they are."""
        line_id = self._line_id(task)
        # What is fresh chooses anew, and only once.
        forgotten = self._fresh and not self._added[task]
        known = None if forgotten else self._budgets.read(task, line_id)
        # Old results have points of the line, and no budgets.
        there = [] if known else list(self._costs(task, self._added[task]).values())
        reach = known or there
        chosen = [*longer(reach, costs), *(known or ())] if reach else budgets(costs)
        if chosen != known and costs:
            self._budgets.keep(task, line_id, chosen)
        return chosen

    def _line_id(self, task: str) -> str:
        """Return all that the budgets of a task hang on."""
        scene = self.scenes[task]
        return f"{scene.conditions_id} {scene.task.id} {scene.data} {scene.network}"

    def _line_on_disk(self, task: str) -> list[str]:
        """List what an earlier command has run of the line, as it would be run now."""
        if not self.kind_names:
            return []
        patterns, found = {kind.pattern for kind in self.kinds}, []
        for record in read_runs(self._root):
            label = record["strategy"]
            if record["task_name"] != task or pattern_of(label) not in patterns:
                continue
            # Its strategy may be gone by now.
            with suppress(DataeffError):
                if self._cell(task, label, record["seed"]).version == record.get("version"):
                    found.append(label)
        return [label for label in dict.fromkeys(found) if label not in self.suite.strategies]

    def _costs(self, task: str, strategies: Iterable[str]) -> dict[str, float]:
        """Return what each strategy costs, as a share of the reference, over the seeds of both."""
        costs, base = {}, self._records(task, self.suite.reference)
        for strategy in strategies:
            both = self._pairs(task, strategy, base)
            work = cost([ours["flops"] / theirs["flops"] for ours, theirs in both], math.nan)
            times = [_seconds(us) / _seconds(them) * pairing(us, them)[0] for us, them in both]
            # A control is what was counted, whatever its clock says.
            is_control = self._desk.composition(strategy).is_control
            known = work if is_control else cost(times, work, least=1)
            if not math.isnan(known):
                costs[strategy] = known
        return costs

    def _pairs(self, task: str, strategy: str, base: list[Any]) -> list[tuple[Any, Any]]:
        """Return the records of the strategy and of the reference, for seeds both have finished."""
        pairs = zip(self._records(task, strategy), base, strict=True)
        return [two for two in pairs if all(one and one["status"] == "finished" for one in two)]

    def _records(self, task: str, strategy: str) -> list[Any]:
        return [self._cell(task, strategy, seed).record() for seed in self.seeds]


def _whole_seconds(record: dict[str, Any]) -> float:
    """Return all that a cell took, evaluation included."""
    return sum(record.get("clocks", {}).values())


def _waves(seeds: range, lanes: int) -> list[range]:
    """Cut seeds into waves: one for each lane, and then, where there are several, all the rest."""
    first, last = seeds.start, seeds.stop
    if lanes == 1:
        return [range(seed, seed + 1) for seed in seeds]
    cut = min(last, first + lanes)
    return [range(first, cut), *([range(cut, last)] if cut < last else [])]


def _on_clock(record: dict[str, Any] | None) -> float:
    """Return the seconds that a cell took of its lane, on its clocks; 0 where that is not known."""
    finished = record is not None and record["status"] == "finished"
    return ((record or {}).get("outside") or {}).get("on", 0.0) if finished else 0.0


def _mean(values: list[float]) -> float:
    return sum(values) / max(1, len(values))


def _seconds(record: dict[str, Any]) -> float:
    """Return prepare + train, NaN where the machine was busy with something else."""
    return math.nan if flags_of(record) else clocked_seconds(record)
