"""The order of cells, and the line that joins once costs are measured; nothing is trained."""

import json
from math import nan

import pytest
from benches import cells_of

from dataeff.bench.desk import Desk
from dataeff.bench.line import budgets, line_kinds, longer
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.cost import cost, shared_costs
from dataeff.errors import DataeffError
from dataeff.lab import Lab
from dataeff.plugins import load_plugins

TASK = {"dataset": "synthetic[samples=40,classes=2]", "model": "tiny", "epochs": 2}
METHODS = '''
from dataclasses import dataclass
from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    for name in ("quick", "quicker", "thrifty", "slow"):
        register(name, Method)
    register("mine", Mine)


@dataclass(eq=False)
class Method(Strategy):
    """Does nothing: how long it takes is written by hand."""


@dataclass(eq=False)
class Mine(Strategy):
    """A control of somebody else's."""

    share: float = 0.5
    control = True

    @staticmethod
    def at_cost(share):
        return {"share": share}
'''
SECONDS = {"baseline": 10.0, "quick": 5.0, "quicker": 4.8, "thrifty": 7.0, "slow": 12.0}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    plugins = tmp_path_factory.mktemp("plugins")
    (plugins / "methods.py").write_text(METHODS)
    return load_plugins([plugins])


@pytest.fixture(scope="module")
def lab(installed):
    return Lab(installed, "cpu")


@pytest.fixture
def bench(tmp_path, lab):
    return Bench(tmp_path / "results", lab)


class Bench:
    """Goes through a schedule as the runner does, and writes the record of each cell by hand."""

    def __init__(self, results, lab):
        self.results, self.lab = results, lab
        self.seconds, self.work, self.busy = dict(SECONDS), dict(SECONDS), ()

    def schedule(self, *strategies, seeds=2, tasks=("blobs",), fresh=False, looks=None, **more):
        content = {"name": "try", "seeds": seeds, "strategies": ["baseline", *strategies], **more}
        content["tasks"] = dict.fromkeys(tasks, TASK)
        desk = Desk.beside(self.lab)
        suite = make_suite(content, desk, where="test")
        return Schedule(suite, desk, self.results, fresh, looks)

    def run(self, schedule, again=False):
        """Return what was run, as (strategy, seed); a finished cell is skipped, as in a suite."""
        done = []
        for cell in cells_of(schedule):
            if again or not (cell.folder / "run.json").exists():
                done.append((cell.strategy, cell.seed))
                self.write(cell)
        return done

    def write(self, cell, status="finished"):
        name, _, rest = cell.strategy.partition("[")
        share = float(rest.split("=")[1].split(",")[0].rstrip("]")) if rest else 1.0
        record = {
            "status": status,
            "task_name": cell.task_name,
            "strategy": cell.strategy,
            "seed": cell.seed,
            "version": cell.version,
            **dict.fromkeys(("task_id", "conditions_id"), "same"),
            "conditions": {},
            "control": name in ("random_backprop", "short_schedule", "mine"),
            "clocks": {"prepare": 0.0, "train": self.seconds.get(name, 10.0 * share)},
            "flops": 100 * self.work.get(name, 10.0 * share),
            "machine": {"flags": ["others were busy"] if name in self.busy else []},
        }
        cell.folder.mkdir(parents=True, exist_ok=True)
        (cell.folder / "run.json").write_text(json.dumps(record))


def line_at(*shares):
    """Return the line at these budgets, in order."""
    return sorted(
        name
        for share in shares
        for name in (
            f"random_backprop[keep={share},mode=accumulate]",
            f"short_schedule[share={share}]",
        )
    )


def names(ran, seed=0):
    """Return what was run of a seed, in order of the names: the order itself is drawn."""
    return sorted(name for name, at in ran if at == seed)


# Of a method that costs half.
LINE = line_at(0.45, 0.59, 0.77)


def test_the_line_joins_after_the_first_block(bench):
    schedule = bench.schedule("quick")
    assert len(schedule) == 4
    ran = bench.run(schedule)
    assert {name for name, _ in ran[:2]} == {"baseline", "quick"}
    assert sorted(name for name, seed in ran[2:8] if seed == 0) == LINE
    assert names(ran, 1) == sorted(["baseline", "quick", *LINE])
    assert len(schedule) == len(schedule.cells) == len(ran) == 16


def test_several_lanes_begin_with_a_block_each_and_what_joins_comes_last(bench):
    """So that no lane waits for the first block, nor for the last."""
    seen = []
    for wave in bench.schedule("quick", seeds=5).waves(lanes=2):
        seen.append([(block.cells[0].seed, len(block.cells)) for block in wave])
        for cell in (cell for block in wave for cell in block.cells):
            bench.write(cell)
    methods, whole = 2, 2 + len(LINE)
    late = [(0, len(LINE)), (1, len(LINE))]
    assert [wave for wave in seen if wave] == [
        [(0, methods), (1, methods)],
        [(2, whole), (3, whole), (4, whole), *late],
    ]


def test_the_order_of_a_block_is_another_one_in_each_seed_and_the_same_again(bench):
    def order(seed):
        cells = bench.schedule("quick", "quicker", "thrifty", "slow", seeds=6, controls=False)
        return [cell.strategy for cell in cells_of(cells) if cell.seed == seed]

    drawn = [order(seed) for seed in range(6)]
    assert len({tuple(names) for names in drawn}) > 3
    assert len({names.index("baseline") for names in drawn}) > 1
    assert drawn == [order(seed) for seed in range(6)]


def test_the_line_is_shared_by_all_methods(bench):
    ran = bench.run(bench.schedule("quick", "quicker", "thrifty", "slow", seeds=1))
    added = [name for name in names(ran) if "[" in name]
    assert added == line_at(0.43, 0.57, 0.76)


def test_a_strategy_that_the_suite_names_is_not_run_twice(bench):
    ran = bench.run(bench.schedule("quick", "short_schedule[share=0.59]", seeds=1))
    assert names(ran) == sorted(["baseline", "quick", *LINE])


def test_a_line_needs_a_method_that_saves_time(bench):
    assert len(bench.run(bench.schedule("slow", "short_schedule[share=0.3]", seeds=1))) == 3


def test_the_line_can_be_switched_off_or_its_kinds_named(bench, installed):
    assert len(bench.run(bench.schedule("quick", seeds=1, controls=False))) == 2
    ran = bench.run(bench.schedule("quick", seeds=1, controls=["short_schedule", "mine"]))
    shorter = [name for name in LINE if name.startswith("short")]
    mine = [f"mine[share={share}]" for share in (0.45, 0.59, 0.77)]
    assert names(ran) == [*mine, *shorter]
    kinds = [entry.name for entry in line_kinds(True, installed)]
    assert kinds == ["random_backprop", "short_schedule"], "an installed plugin does not join"
    with pytest.raises(DataeffError, match=r"'baseline' cannot be had at any cost\. Known: mine"):
        line_kinds(["baseline"], installed)


def test_a_second_run_goes_on_with_its_line_although_times_have_drifted(bench):
    bench.run(bench.schedule("quick"))
    again = bench.schedule("quick", seeds=3)
    bench.seconds |= {"quick": 6.0, "short_schedule": 9.0}
    assert names(bench.run(again), 2) == sorted(["baseline", "quick", *LINE])
    assert bench.run(bench.schedule("quick", seeds=3)) == []


def test_a_run_that_was_stopped_within_the_line_goes_on_with_all_of_it(bench):
    for number, cell in enumerate(cells_of(bench.schedule("quick", seeds=1))):
        if number == 4:
            break
        bench.write(cell)
    bench.seconds["quick"] = 5.4
    bench.run(bench.schedule("quick", seeds=1))
    strategies = {cell.strategy for cell in cells_of(bench.schedule("quick", seeds=1))}
    assert strategies == {"baseline", "quick", *LINE}


def test_what_is_fresh_chooses_its_budgets_anew(bench):
    bench.run(bench.schedule("quick", seeds=1))
    bench.work["quick"] = bench.seconds["quick"] = 7.0
    ran = bench.run(bench.schedule("quick", seeds=1, fresh=True), again=True)
    assert names(ran) == sorted(["baseline", "quick", *line_at(0.63, 0.79)])


def test_points_of_older_results_are_the_line_as_far_as_they_reach(bench):
    bench.run(bench.schedule("quick", seeds=1))
    for path in (bench.results / "try").glob("line.json*"):
        path.unlink()
    assert bench.run(bench.schedule("quick", seeds=1)) == []


def test_the_clock_decides_where_it_has_seen_what_the_count_has_not(bench):
    bench.work["quick"] = 10.0
    assert names(bench.run(bench.schedule("quick", seeds=1))) == sorted(
        ["baseline", "quick", *LINE]
    )


def test_a_point_that_failed_is_not_tried_at_another_cost(bench):
    schedule, order = bench.schedule("quick", seeds=3), []
    for cell in cells_of(schedule):
        order.append(cell.strategy)
        bench.work["quick"] = 5.0 + 0.1 * cell.seed
        bench.write(cell, "failed" if "short" in cell.strategy else "finished")
    assert set(order) == {"baseline", "quick", *LINE}


def test_times_of_a_busy_machine_decide_nothing(bench):
    bench.seconds["quick"], bench.busy = 2.0, ("quick",)
    ran = bench.run(bench.schedule("quick"))
    assert {name for name, _ in ran} == {"baseline", "quick", *LINE}


@pytest.mark.parametrize(
    ("times", "work", "share"),
    [
        ([0.6, 0.6], 0.5, 0.5),
        ([0.63, 0.63], 0.5, 0.63),
        ([0.39, 0.39], 0.5, 0.39),
        ([0.8], 0.5, 0.5),
        ([0.8, 0.6], 0.5, 0.5),
        ([0.8, 0.3], 0.5, 0.5),
        ([0.8, nan], 0.5, 0.5),
        ([], 0.5, 0.5),
        ([0.4, 0.9, nan], nan, 0.6),
    ],
)
def test_what_a_strategy_costs(times, work, share):
    assert cost(times, work) == pytest.approx(share)


def test_a_line_is_made_longer_where_it_does_not_reach(bench):
    bench.run(bench.schedule("thrifty", seeds=1))
    ran = bench.run(bench.schedule("quick", seeds=1))
    assert names(ran) == sorted(["quick", *line_at(0.45, 0.53)])
    assert bench.run(bench.schedule("thrifty", "quick", seeds=1)) == []


def test_a_method_whose_first_seed_failed_gets_its_line_later(bench):
    schedule = bench.schedule("quick")
    order = []
    for cell in cells_of(schedule):
        order.append((cell.strategy, cell.seed))
        bench.write(cell, "failed" if order[-1] == ("quick", 0) else "finished")
    assert {name for name, _ in order[:4]} == {"baseline", "quick"}
    assert names(order[4:], 0) == names(order[4:], 1) == LINE


def test_each_task_has_a_line_of_its_own(bench):
    schedule = bench.schedule("quick", seeds=1, tasks=("blobs", "others"))
    assert len(bench.run(schedule)) == 16
    places = {cell.task_name for cell in schedule.cells if cell.strategy == LINE[0]}
    assert places == {"blobs", "others"}


def test_without_a_finished_reference_nothing_is_known_of_costs(bench):
    order = []
    for cell in cells_of(bench.schedule("quick", seeds=1)):
        order.append(cell.strategy)
        bench.write(cell, "failed" if cell.strategy == "baseline" else "finished")
    assert sorted(order) == ["baseline", "quick"]


@pytest.mark.parametrize(
    ("costs", "shared"),
    [
        ([], []),
        ([0.5], [0.5]),
        ([0.55, 0.5], [0.52]),
        ([0.5, 0.56, 0.61], [0.5, 0.58]),
        ([0.014], [0.014]),
        ([0.0251], [0.025]),
    ],
)
def test_similar_costs_are_joined(costs, shared):
    assert shared_costs(costs) == shared


@pytest.mark.parametrize(
    ("costs", "chosen"),
    [
        ([], []),
        ([0.97, 1.2], []),
        ([0.95], [0.75, 0.87]),
        ([0.7, 0.9], [0.63, 0.79]),
        ([0.5], [0.45, 0.59, 0.77]),
        ([0.37, 1.5], [0.33, 0.44, 0.58, 0.76]),
        ([0.01], [0.1, 0.18, 0.32, 0.56]),
    ],
)
def test_budgets_go_in_equal_ratios_from_below_the_cheapest(costs, chosen):
    assert budgets(costs) == chosen


def test_up_to_a_tenth_a_line_goes_on_by_itself():
    assert longer([0.5, 0.7], [0.46]) == []
    assert longer([0.5, 0.7], [0.44]) == [0.4]
    assert longer([0.5, 0.7], []) == []
    assert longer([0.5], [0.2]) == [0.18, 0.23, 0.3, 0.39]


def test_a_strategy_for_some_tasks_runs_on_these_alone(bench):
    cells = bench.schedule(
        "quick", tasks=("one", "two"), only={"quick": ["two"]}, seeds=1, controls=False
    )
    assert sorted((cell.task_name, cell.strategy) for cell in cells_of(cells)) == [
        ("one", "baseline"),
        ("two", "baseline"),
        ("two", "quick"),
    ]
    assert len(cells) == 3
