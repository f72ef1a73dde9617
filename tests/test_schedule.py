"""The order of cells, and the controls that join once costs are measured; nothing is trained."""

import json
from math import nan

import pytest

from dataeff.bench.controls import control_kinds, matching_controls
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

    def schedule(self, *strategies, seeds=2, tasks=("blobs",), **more):
        content = {"name": "try", "seeds": seeds, "strategies": ["baseline", *strategies], **more}
        content["tasks"] = dict.fromkeys(tasks, TASK)
        suite = make_suite(content, self.lab, where="test")
        return Schedule(suite, self.lab, self.results)

    def run(self, schedule):
        """Return what was run, as (strategy, seed); a finished cell is skipped, as in a suite."""
        done = []
        for cell in schedule:
            if not (cell.folder / "run.json").exists():
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
            "control": name in ("random_backprop", "short_schedule", "mine"),
            "clocks": {"prepare": 0.0, "train": self.seconds.get(name, 10.0 * share)},
            "flops": 100 * self.work.get(name, 10.0 * share),
            "machine": {"flags": ["others were busy"] if name in self.busy else []},
        }
        cell.folder.mkdir(parents=True, exist_ok=True)
        (cell.folder / "run.json").write_text(json.dumps(record))


RANDOM, SHORT = "random_backprop[keep=0.5,mode=accumulate]", "short_schedule[share=0.5]"


def test_seed_by_seed_and_the_controls_join_after_the_first(bench):
    schedule = bench.schedule("quick")
    assert len(schedule) == 4
    assert bench.run(schedule) == [
        ("baseline", 0),
        ("quick", 0),
        (RANDOM, 0),
        (SHORT, 0),
        ("baseline", 1),
        ("quick", 1),
        (RANDOM, 1),
        (SHORT, 1),
    ]
    assert len(schedule) == len(schedule.cells) == 8


def test_methods_of_similar_cost_share_their_controls(bench):
    ran = bench.run(bench.schedule("quick", "quicker", "thrifty", "slow", seeds=1))
    assert [name for name, _ in ran][5:] == [
        "random_backprop[keep=0.49,mode=accumulate]",
        "random_backprop[keep=0.7,mode=accumulate]",
        "short_schedule[share=0.49]",
        "short_schedule[share=0.7]",
    ]


def test_controls_that_the_suite_names_serve_as_well(bench):
    ran = bench.run(bench.schedule("quick", "short_schedule[share=0.52]", seeds=1))
    assert [name for name, _ in ran][3:] == [RANDOM]


def test_controls_need_a_method_that_saves_time(bench):
    assert len(bench.run(bench.schedule("slow", "short_schedule[share=0.3]", seeds=1))) == 3


def test_controls_can_be_switched_off_or_named(bench, installed):
    assert len(bench.run(bench.schedule("quick", seeds=1, controls=False))) == 2
    ran = bench.run(bench.schedule("quick", seeds=1, controls=["short_schedule", "mine"]))
    assert sorted(name for name, _ in ran) == ["mine", SHORT]
    assert [entry.name for entry in control_kinds(True, installed)] == [
        "random_backprop",
        "short_schedule",
    ], "a plugin that is installed does not join by itself"
    with pytest.raises(DataeffError, match=r"'baseline' cannot be had at any cost\. Known: mine"):
        control_kinds(["baseline"], installed)


def test_a_second_run_finds_its_controls_although_times_have_drifted(bench):
    bench.run(bench.schedule("quick"))
    again = bench.schedule("quick", seeds=3)
    bench.seconds |= {"quick": 6.0, "short_schedule": 9.0}
    assert bench.run(again) == [("baseline", 2), ("quick", 2), (RANDOM, 2), (SHORT, 2)]
    assert bench.run(bench.schedule("quick", seeds=3)) == []


def test_the_clock_decides_where_it_has_seen_what_the_count_has_not(bench):
    bench.work["quick"] = 10.0
    assert len(bench.run(bench.schedule("quick", seeds=1))) == 2, "one seed may be noise"
    assert [name for name, _ in bench.run(bench.schedule("quick"))][2:] == [RANDOM, SHORT] * 2


def test_a_control_that_failed_is_not_tried_at_another_cost(bench):
    schedule, order = bench.schedule("quick", seeds=3), []
    for cell in schedule:
        order.append(cell.strategy)
        bench.work["quick"] = 5.0 + 0.1 * cell.seed
        bench.write(cell, "failed" if "short" in cell.strategy else "finished")
    assert set(order) == {"baseline", "quick", RANDOM, SHORT}


def test_times_of_a_busy_machine_decide_nothing(bench):
    bench.seconds["quick"], bench.busy = 2.0, ("quick",)
    ran = bench.run(bench.schedule("quick"))
    assert {name for name, _ in ran} == {"baseline", "quick", RANDOM, SHORT}


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


def test_controls_of_another_cost_do_not_serve(bench):
    bench.run(bench.schedule("quick", seeds=1))
    ran = bench.run(bench.schedule("thrifty", seeds=1))
    assert [name for name, _ in ran] == [
        "thrifty",
        "random_backprop[keep=0.7,mode=accumulate]",
        "short_schedule[share=0.7]",
    ]


def test_a_method_whose_first_seed_failed_gets_its_controls_later(bench):
    schedule = bench.schedule("quick")
    order = []
    for cell in schedule:
        order.append((cell.strategy, cell.seed))
        bench.write(cell, "failed" if order[-1] == ("quick", 0) else "finished")
    assert order[2:] == [
        ("baseline", 1),
        ("quick", 1),
        (RANDOM, 0),
        (SHORT, 0),
        (RANDOM, 1),
        (SHORT, 1),
    ]


def test_each_task_has_controls_of_its_own(bench):
    schedule = bench.schedule("quick", seeds=1, tasks=("blobs", "others"))
    assert len(bench.run(schedule)) == 8
    assert {cell.task_name for cell in schedule.cells if cell.strategy == SHORT} == {
        "blobs",
        "others",
    }


def test_without_a_finished_reference_nothing_is_known_of_costs(bench):
    order = []
    for cell in bench.schedule("quick", seeds=1):
        order.append(cell.strategy)
        bench.write(cell, "failed" if cell.strategy == "baseline" else "finished")
    assert order == ["baseline", "quick"]


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


def test_what_saves_next_to_nothing_needs_no_control(installed):
    kinds = control_kinds(True, installed)
    assert matching_controls([0.97, 1.2], {}, kinds) == {}
    assert len(matching_controls([0.95], {}, kinds)) == 2


def test_the_nearest_control_serves(installed, lab):
    kinds = control_kinds(["short_schedule"], installed)
    far, near, other = map(lab.composition, ("short_schedule[share=0.45]", SHORT, "mine"))
    assert matching_controls([0.5], {far: 0.45, near: 0.51, other: 0.5}, kinds) == {near: 0.51}
    (found,) = matching_controls([0.5], {near: 0.6}, kinds).items()
    assert (found[0].text, found[1]) == (SHORT, 0.5)


def test_a_strategy_for_some_tasks_runs_on_these_alone(bench):
    cells = bench.schedule(
        "quick", tasks=("one", "two"), only={"quick": ["two"]}, seeds=1, controls=False
    )
    assert [(cell.task_name, cell.strategy) for cell in cells] == [
        ("one", "baseline"),
        ("two", "baseline"),
        ("two", "quick"),
    ]
    assert len(cells) == 3
