"""The cost preview: exact bookkeeping by a fake clock, stand-ins, troubles, bytes, and words."""

import copy
import math
import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from dataeff import hookimpl
from dataeff.bench import pace, runner, trial
from dataeff.bench.preview import (
    Line,
    Preview,
    asks,
    duration,
    preview,
    quick,
    sentence,
    size,
    table,
)
from dataeff.bench.runner import Cell, Settings, describe
from dataeff.data import load_dataset
from dataeff.models.small import TinyNet
from dataeff.plugins import compose
from dataeff.training import checkpoint
from dataeff.training.cell import train_on
from dataeff.training.task import Task

# 81 samples to train in batches of 16, 16, 16, 16 and 17; 9 to validate, 20 to test.
TASK = Task(
    dataset="synthetic[samples=90,test_samples=20,classes=4,size=8]",
    model="ticking",
    epochs=3,
    batch_size=16,
    lr=0.05,
)
# Seconds that a row takes by the fake clock.
TRAINED, SCORED = 0.01, 0.001


class Clock:
    """A clock that moves only when it is told to."""

    time = 100.0

    def __call__(self):
        return self.time


CLOCK = Clock()


class TickingNet(TinyNet):
    """Every row takes its time, by the fake clock."""

    def forward_features(self, x):
        if x.device.type != "meta":
            CLOCK.time += len(x) * (TRAINED if self.training else SCORED)
        return super().forward_features(x)


def ticking(classes, shape, *, width: int = 8):
    return TickingNet(classes, shape, width)


@pytest.fixture
def fake(installed, monkeypatch):
    """Return what is installed, with the ticking model, by whose clock all is timed."""
    for module in (trial, pace):
        monkeypatch.setattr(module, "perf_counter", CLOCK)
    installed.models.register("ticking", ticking, source="test")
    return installed


@pytest.fixture
def settings(tmp_path):
    return Settings(results=tmp_path / "results", device="cpu", in_process=True)


def cells_of(installed, settings, *strategies, seeds=1, name="blobs", **task):
    task = TASK.model_copy(update=task)
    return [
        Cell(
            settings.results / "try",
            "try",
            name,
            task,
            strategy,
            seed,
            "data",
            *describe(compose(strategy, installed)),
            conditions={"threads": 1},
        )
        for seed in range(seeds)
        for strategy in strategies
    ]


def line_of(installed, settings, strategy="baseline", steps=5, **task):
    """Return the one line of a strategy; a class is registered first."""
    if not isinstance(strategy, str):
        installed.strategies.register("probe", strategy, source="test")
        strategy = "probe"
    (line,) = preview(
        cells_of(installed, settings, strategy, **task), settings, installed, steps
    ).lines
    return line


# Time ------------------------------------------------------------------------------------------


def test_rows_epochs_and_looks_are_extrapolated(fake, settings):
    line = line_of(fake, settings, test_every=2)
    assert (line.cells, line.finished, line.trouble) == (1, 0, "")
    assert (line.steps, line.epochs) == (5, 3)
    assert line.step == pytest.approx(TRAINED * 81 / 5)
    # Two full batches, the last one there and back, and the last one without gradients.
    assert line.start == pytest.approx(TRAINED * (16 + 16 + 17) + SCORED * 17)
    assert line.prepare == 0
    assert line.train == pytest.approx(TRAINED * 81 * 3)
    # The test set is looked at after the second epoch and after the last.
    assert line.evaluate == pytest.approx(SCORED * (9 * 3 + 20 * 2))
    assert line.seconds == pytest.approx(line.start + line.train + line.evaluate)


def test_the_process_of_a_cell_takes_a_while_to_start(fake, settings):
    here = line_of(fake, settings)
    apart = line_of(fake, Settings(settings.results, "cpu"))
    assert apart.start == pytest.approx(here.start + 0.4)


@pytest.mark.parametrize(
    ("strategy", "rows", "epochs", "looks"),
    [
        ("short_schedule[share=0.5]", 81, 1.5, 2),
        # Of a plan that is cut to 0.6 epochs, 49 rows.
        ("short_schedule[share=0.2]", 49 / 0.6, 0.6, 1),
        ("random_subset[keep=0.5]", 40, 3, 3),
        ("random_backprop[keep=0.5]", 40, 3, 3),
        ("random_subset[keep=0.5]+short_schedule[share=0.5]", 40, 1.5, 2),
    ],
)
def test_shorter_schedules_and_shorter_plans_take_less(
    fake, settings, strategy, rows, epochs, looks
):
    line = line_of(fake, settings, strategy)
    assert line.epochs == pytest.approx(epochs)
    assert line.train == pytest.approx(TRAINED * rows * epochs)
    assert line.evaluate == pytest.approx(SCORED * (9 + 20) * looks)


def test_the_first_step_and_single_slow_ones_do_not_count(fake, settings):
    @dataclass(eq=False)
    class Hesitant:
        @hookimpl
        def select_batch(self, run):
            CLOCK.time += {0: 1000, 2: 100}.get(run.batch, 0)

    assert line_of(fake, settings, Hesitant).train == pytest.approx(TRAINED * 81 * 3)


@pytest.mark.parametrize(("steps", "workers"), [(3, 0), (1, 2)])
def test_no_more_steps_are_taken_than_are_asked_for(fake, settings, steps, workers):
    """Loader processes deliver together: with two of them, two batches are one measurement."""
    taken = []

    @dataclass(eq=False)
    class Counting:
        @hookimpl
        def optimizer_step(self, run):
            taken.append(run.batch)
            run.optimizer.step()

    line = line_of(fake, settings, Counting, steps=steps, workers=workers)
    assert taken == [0, 1, 2, 3]
    assert line.step == pytest.approx(TRAINED * 81 / 5)


def test_a_plan_takes_its_time_in_every_epoch(fake, settings):
    @dataclass(eq=False)
    class Planner:
        @hookimpl
        def on_epoch_start(self):
            CLOCK.time += 7

    line = line_of(fake, settings, Planner, epochs=2.5)
    assert line.train == pytest.approx(3 * 7 + TRAINED * 81 * 2.5)


def test_a_step_may_take_several_batches(fake, settings):
    @dataclass(eq=False)
    class EverySecond:
        @hookimpl
        def select_batch(self, run, batch):
            if run.batch % 2 == 0:
                batch.keep_rows(torch.tensor([], dtype=torch.long))

    line = line_of(fake, settings, EverySecond)
    assert line.steps == 2.5
    assert line.train == pytest.approx(TRAINED * 81 * 3 / 2)
    assert line.step == pytest.approx(TRAINED * 81 / 5)


def test_gathered_gradients_are_one_step(fake, settings):
    @dataclass(eq=False)
    class Gather:
        @hookimpl
        def should_step(self, run):
            return run.batch % 2 == 1

    line = line_of(fake, settings, Gather)
    assert line.steps == 2.5
    assert line.step == pytest.approx(2 * TRAINED * 81 / 5)
    assert line.train == pytest.approx(TRAINED * 81 * 3)


def test_a_plan_of_one_batch_is_measured_as_it_is(fake, settings):
    line = line_of(fake, settings, batch_size=200)
    assert (line.steps, line.train) == (1, pytest.approx(TRAINED * 81 * 3))


def test_a_plan_that_is_never_stepped_is_one_step(fake, settings):
    @dataclass(eq=False)
    class Never:
        @hookimpl
        def should_step(self):
            return False

    line = line_of(fake, settings, Never)
    assert (line.steps, line.train) == (1, pytest.approx(TRAINED * 81 * 3))


# What takes long -------------------------------------------------------------------------------


@dataclass(eq=False)
class Parent:
    """Trains two children, scores the set with both, and keeps the harder half."""

    @hookimpl
    def prepare(self, run):
        half = run.split("train")[::2]
        self.children = [
            run.train_child("proxy", 0, 2),
            run.train_child("proxy", k=1, epochs=1.5, indices=half),
        ]
        scores = [run.score_dataset(model=child.model) for child in self.children]
        self.children[0].score_dataset(indices=half)
        mean = sum(scores) / 2
        assert mean.shape == (81,)
        assert torch.isfinite(mean).all()
        assert len(mean.unique()) > 10
        self.mask = torch.zeros(90, dtype=torch.bool)
        self.mask[run.split("train")[mean.argsort()[:40]]] = True
        whole, part = self.children
        assert (whole.epochs, whole.epoch, part.epochs, part.epoch) == (2, 2, 1.5, 2)
        for child in self.children:
            mine = child.split("train")
            assert torch.isfinite(child.ledger.last_loss[mine]).all()
            assert torch.isfinite(child.ledger.previous_loss[mine]).all()
            assert (child.ledger.times_trained[mine] == 2).all()
            assert math.isfinite(child.train_loss)
        seen.append([child.meter.steps for child in self.children])

    @hookimpl
    def prune_dataset(self):
        return self.mask

    def state_dict(self):
        return {}


seen = []


def test_children_are_charged_in_full_and_take_a_few_steps(fake, settings):
    line = line_of(fake, settings, Parent, batch_size=8)
    assert line.trouble == ""
    children = TRAINED * (81 * 2 + 41 * 1.5)
    assert line.prepare == pytest.approx(children + SCORED * (81 * 2 + 41))
    assert line.train == pytest.approx(TRAINED * 40 * 3)
    assert seen.pop() == [6, 2]


def test_scores_outside_of_prepare_are_charged_in_full_as_well(fake, settings):
    scored = []

    @dataclass(eq=False)
    class Rescoring:
        @hookimpl
        def on_epoch_start(self, run):
            before = CLOCK.time
            assert run.score_dataset().shape == (81,)
            scored.append(CLOCK.time - before)

    line = line_of(fake, settings, Rescoring, batch_size=8, steps=2)
    assert line.train == pytest.approx(3 * 81 * (SCORED + TRAINED))
    # One batch to begin with, and two that are timed.
    assert scored == [pytest.approx(SCORED * 8 * 3)]


def test_a_child_scores_a_few_batches_as_well(fake, settings):
    scored = []

    @dataclass(eq=False)
    class Delegating:
        @hookimpl
        def prepare(self, run):
            child = run.train_child("proxy", 0, 1)
            before = CLOCK.time
            assert child.score_dataset().shape == (81,)
            scored.append(CLOCK.time - before)

    line = line_of(fake, settings, Delegating, batch_size=8, steps=2)
    assert line.prepare == pytest.approx(81 * (TRAINED + SCORED))
    assert scored == [pytest.approx(SCORED * 8 * 3)]


def test_evaluation_looks_at_a_few_batches(fake, settings):
    before = CLOCK.time
    line = line_of(
        fake, settings, dataset="synthetic[samples=90,test_samples=5000,classes=4,size=8]"
    )
    assert line.evaluate == pytest.approx(3 * SCORED * (9 + 5000))
    assert CLOCK.time - before < 5


def test_a_prepare_that_fails_on_made_up_scores_is_unknown(fake, settings):
    @dataclass(eq=False)
    class Picky:
        @hookimpl
        def prepare(self, run):
            run.train_child("proxy", 0, 1).history[-1]

    line = line_of(fake, settings, Picky)
    assert math.isnan(line.prepare)
    assert line.trouble == (
        "prepare failed on made-up scores: probe, in prepare: IndexError: list index out of range"
    )
    assert line.train == pytest.approx(TRAINED * 81 * 3)
    assert line.seconds == pytest.approx(line.start + line.train + line.evaluate)
    assert not line.known


def test_the_trouble_is_what_went_wrong_first(fake, settings):
    @dataclass(eq=False)
    class Half:
        @hookimpl
        def prepare(self):
            raise ValueError("as asked")

        @hookimpl
        def prune_dataset(self):
            return self.mask

    line = line_of(fake, settings, Half)
    assert line.trouble == (
        "prepare failed on made-up scores: probe, in prepare: ValueError: as asked"
    )
    assert math.isnan(line.train)


# Troubles --------------------------------------------------------------------------------------


@dataclass(eq=False)
class Failing:
    """Fails in its first batch."""

    @hookimpl
    def transform_batch(self):
        raise ValueError("as asked\nand more")


def test_what_fails_is_said_and_the_rest_goes_on(fake, settings):
    fake.strategies.register("failing", Failing, source="test")
    cells = cells_of(fake, settings, "failing", "baseline", seeds=2)
    told = []
    cost = preview(cells, settings, fake, tell=told.append)
    failing, baseline = cost.lines
    assert failing.trouble == "failing, in transform_batch: ValueError: as asked"
    assert (failing.seconds, failing.known, failing.disk) == (0, False, 0)
    assert baseline.trouble == ""
    assert cost.seconds == baseline.seconds > 0
    assert cost.unknown == 2
    assert told == ["Measuring failing on blobs", "Measuring baseline on blobs"]
    assert table(cost)[1][0][2:] == ["2", "0", *["?"] * 9, failing.trouble]


def test_a_strategy_that_is_gone_is_said_too(fake, settings):
    cells = cells_of(fake, settings, "random_subset")
    del fake.strategies._entries["random_subset"]
    (line,) = preview(cells, settings, fake).lines
    assert "no strategy 'random_subset'" in line.trouble


# Finished cells --------------------------------------------------------------------------------


def test_finished_cells_are_counted_and_cost_nothing(installed, settings):
    cells = cells_of(installed, settings, "baseline", "random_backprop", seeds=3, model="tiny")
    for cell in cells[:3]:
        runner.run_cell(cell, settings, lambda *line: None)
    told = []
    cost = preview(cells, settings, installed, tell=told.append)
    baseline, control = cost.lines
    assert (baseline.cells, baseline.finished) == (1, 2)
    assert (control.cells, control.finished) == (2, 1)
    assert (cost.cells, cost.finished, cost.unknown) == (6, 3, 0)
    assert cost.seconds == pytest.approx(sum(baseline.parts) + 2 * sum(control.parts))
    assert cost.disk == baseline.disk + 2 * control.disk
    assert len(told) == 2


def test_nothing_is_measured_where_all_is_finished_but_fresh_runs_it_again(installed, settings):
    cells = cells_of(installed, settings, "baseline", model="tiny")
    runner.run_cell(cells[0], settings, lambda *line: None)
    for ask in (preview, quick):
        cost = ask(cells, settings, installed)
        assert cost.lines == (Line("blobs", "baseline", 0, 1),)
        assert sentence(cost) == "1 cell (1 finished), nothing to run."
        again = ask(cells, settings, installed, again=lambda record: True)
        assert (again.lines[0].cells, again.finished) == (1, 0)
        assert again.seconds > 0


# The quick one ---------------------------------------------------------------------------------


def test_the_quick_one_measures_the_first_and_gives_its_pace_to_the_others(fake, settings):
    @dataclass(eq=False)
    class Untouched:
        @hookimpl
        def prepare(self):
            raise AssertionError("the quick one does not prepare others")

        @hookimpl
        def on_epoch_start(self):
            raise AssertionError("the quick one does not train others")

    fake.strategies.register("untouched", Untouched, source="test")
    cells = cells_of(fake, settings, "baseline", "short_schedule[share=0.5]", "untouched")
    first, short, other = quick(cells, settings, fake).lines
    assert first.train == pytest.approx(TRAINED * 81 * 3)
    assert first.evaluate == pytest.approx(SCORED * (9 + 20) * 3)
    assert short.train == pytest.approx(first.train / 2)
    assert short.evaluate == pytest.approx(first.evaluate * 2 / 3)
    assert (short.start, short.step) == (first.start, first.step)
    assert other == Line(**{**vars(first), "strategy": "untouched"})
    assert short.disk < first.disk


def test_the_quick_one_measures_the_next_where_the_first_fails(fake, settings):
    fake.strategies.register("failing", Failing, source="test")
    cells = cells_of(fake, settings, "failing", "baseline", "random_subset")
    failing, baseline, subset = quick(cells, settings, fake).lines
    assert failing.trouble
    assert subset.train == baseline.train == pytest.approx(TRAINED * 81 * 3)


def test_what_the_first_prepares_is_its_own(fake, settings):
    fake.strategies.register("parent", Parent, source="test")
    cells = cells_of(fake, settings, "parent", "baseline", batch_size=8)
    parent, baseline = quick(cells, settings, fake).lines
    assert parent.prepare > 0
    assert baseline.prepare == 0


def test_each_task_has_a_pace_of_its_own(fake, settings):
    short = cells_of(fake, settings, "baseline", "random_subset", name="short", epochs=1)
    long = cells_of(fake, settings, "baseline", "random_subset", name="long", epochs=2)
    for ask in (preview, quick):
        lines = ask([*short, *long], settings, fake).lines
        assert [line.task for line in lines] == ["short", "short", "long", "long"]
        assert lines[2].train == pytest.approx(2 * lines[0].train)


# Bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "epochs", "test_every", "classes"),
    [(90, 3, 1, 4), (90, 40, 10, 4), (3000, 2, 1, 50)],
)
def test_the_disk_is_about_what_a_cell_leaves(
    installed, settings, samples, epochs, test_every, classes
):
    dataset = f"synthetic[samples={samples},test_samples=200,classes={classes},size=8]"
    options = {"dataset": dataset, "epochs": epochs, "test_every": test_every, "model": "tiny"}
    (cell,) = cells_of(installed, settings, "baseline", **options)
    line = preview([cell], settings, installed).lines[0]
    runner.run_cell(cell, settings, lambda *line: None)
    real = sum(path.stat().st_size for path in cell.folder.iterdir())
    assert real / 1.5 < line.disk < real * 1.5


def test_the_checkpoint_is_about_what_a_cell_writes(installed, settings, tmp_path):
    options = {"model": "resnet8", "optimizer": "adam", "epochs": 1}
    (cell,) = cells_of(installed, settings, "baseline", **options)
    line = preview([cell], settings, installed).lines[0]
    data = load_dataset(
        cell.task.dataset, installed.datasets, root=None, device=torch.device("cpu")
    )
    strategies = compose("baseline", installed)
    device = torch.device("cpu")
    result = train_on(data, cell.task, strategies, 0, installed=installed, device=device)
    checkpoint.save(result.run, tmp_path / "checkpoint.pt")
    real = (tmp_path / "checkpoint.pt").stat().st_size
    assert real / 1.5 < line.checkpoint < real * 1.5


def test_checkpoints_of_children_come_on_top(fake, settings):
    alone = line_of(fake, settings, batch_size=8)
    parent = line_of(fake, settings, Parent, batch_size=8)
    assert parent.checkpoint == pytest.approx(3 * alone.checkpoint, rel=0.01)


# What is left behind ---------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [preview, quick])
def test_random_state_is_untouched_and_nothing_is_written(installed, settings, tmp_path, ask):
    @dataclass(eq=False)
    class Drawing:
        @hookimpl
        def setup(self):
            self.drawn = [torch.rand(1), random.random(), np.random.rand()]  # noqa: NPY002

        @hookimpl
        def transform_batch(self):
            self.drawn = [torch.rand(1), random.random(), np.random.rand()]  # noqa: NPY002

        def state_dict(self):
            return {}

    installed.strategies.register("drawing", Drawing, source="test")
    cells = cells_of(installed, settings, "drawing", "baseline", model="tiny", deterministic=True)
    before = torch.get_rng_state(), random.getstate(), copy.deepcopy(np.random.get_state())  # noqa: NPY002
    cost = ask(cells, settings, installed)
    assert cost.unknown == 0
    _, keys, *rest = np.random.get_state()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(keys, before[2][1])
    assert rest == list(before[2][2:])
    assert not torch.are_deterministic_algorithms_enabled()
    assert list(tmp_path.iterdir()) == []


# Words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.2, "<1 s"),
        (40.4, "40 s"),
        (59.6, "1 min"),
        (720, "12 min"),
        (3569, "59 min"),
        (3599, "1 h"),
        (4200, "1 h 10 min"),
        (86399, "1 d"),
        (86400 * 3 + 4 * 3600 + 60, "3 d 4 h"),
        (math.nan, "?"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (640, "640 B"), (999.6, "1 kB"), (38_200_000, "38 MB"), (1.24e9, "1.2 GB")],
)
def test_sizes(count, words):
    assert size(count) == words


def cost_of(*cells, finished=0, **changes):
    line = Line("t", "s", 0, finished, 0.02, 19, 12, 0.5, 100, 4000, 99.5, 1_000_000, 5_000)
    return Preview(tuple(Line(**{**vars(line), "cells": count, **changes}) for count in cells))


def test_one_sentence_says_it_all():
    cost = cost_of(1, 2, finished=4)
    assert cost.seconds == 3 * 4200
    assert sentence(cost) == "11 cells (8 finished), about 3 h 30 min, 3 MB on disk."
    assert sentence(cost_of(1)) == "1 cell, about 1 h 10 min, 1 MB on disk."
    partly = cost_of(2, prepare=math.nan)
    assert sentence(partly) == (
        "2 cells, at least 2 h 17 min (2 cells of unknown length), 2 MB on disk."
    )


def test_the_largest_checkpoint_counts():
    lines = (*cost_of(1).lines, *cost_of(5, checkpoint=7_000).lines)
    assert Preview(lines).checkpoint == 7_000
    assert Preview(()).checkpoint == 0


def test_the_table_has_a_text_for_every_column():
    header, lines = table(cost_of(2, 0))
    assert [len(line) for line in lines] == [len(header)] * 2
    assert dict(zip(header, lines[0], strict=True)) == {
        "task": "t",
        "strategy": "s",
        "to run": "2",
        "finished": "0",
        "step": "20 ms",
        "steps/epoch": "19",
        "epochs": "12",
        "prepare": "2 min",
        "train": "1 h 7 min",
        "evaluate": "2 min",
        "all cells": "2 h 20 min",
        "disk": "2 MB",
        "checkpoint": "5 kB",
        "trouble": "",
    }
    assert lines[1] == ["t", "s", "0", "0", *[""] * 10]


def test_above_an_hour_it_asks():
    assert not asks(3600)
    assert asks(3601)
