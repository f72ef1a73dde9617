"""The cost preview: exact bookkeeping by a fake clock, and short stand-ins for what takes long."""

import math
from dataclasses import dataclass

import pytest
import torch
from conftest import drawn
from previews import line_of, with_fake_clock
from ticking import CLOCK, SCORED, TRAINED

from dataeff import Strategy, hookimpl
from dataeff.foretell import pace
from dataeff.lab import Lab


@pytest.fixture
def fake(installed, monkeypatch):
    return with_fake_clock(installed, monkeypatch)


@pytest.fixture
def cold(monkeypatch):
    """Have nothing warm up: what is counted are the steps that are measured."""
    monkeypatch.setattr(pace, "warm_up", lambda job: None)


def test_rows_epochs_and_tests_are_extrapolated(fake):
    line = line_of(fake, test_every=2)
    assert (line.cells, line.finished, line.trouble) == (1, 0, "")
    assert (line.steps, line.epochs) == (5, 3)
    assert line.step == pytest.approx(TRAINED * 81 / 5)
    # A full batch, a part of one, the last one; a full one and what is left without gradients.
    assert line.start == pytest.approx(TRAINED * (16 + 12 + 17) + SCORED * (16 + 1))
    assert line.prepare == 0
    assert line.train == pytest.approx(TRAINED * 81 * 3)
    # The test set is tested after the second epoch and after the last.
    assert line.evaluate == pytest.approx(SCORED * (9 * 3 + 20 * 2))
    assert line.seconds == pytest.approx(line.start + line.train + line.evaluate)


def test_the_process_of_a_cell_takes_a_while_to_start(fake):
    here = line_of(fake)
    apart = line_of(fake, apart=True)
    assert apart.start == pytest.approx(here.start + 0.4)


def test_the_process_of_a_cell_loads_the_data_again(fake, monkeypatch):
    monkeypatch.setattr(Lab, "loading_seconds", lambda lab, task: 7.0)
    here = line_of(fake)
    apart = line_of(fake, apart=True)
    assert apart.start == pytest.approx(here.start + 7.4)


@pytest.mark.parametrize(
    ("strategy", "rows", "epochs", "tests"),
    drawn(
        [
            # A tenth of 243 rows is one test on the way, after the second epoch.
            ("short_schedule[share=0.5]", 81, 1.5, 1),
            # Of a plan that is cut to 0.6 epochs, 49 rows.
            ("short_schedule[share=0.2]", 49 / 0.6, 0.6, 1),
            ("random_subset[keep=0.5]", 40, 3, 2),
            ("random_backprop[keep=0.5]", 40, 3, 2),
            ("random_subset[keep=0.5]+short_schedule[share=0.5]", 40, 1.5, 1),
        ],
        2,
    ),
)
def test_shorter_schedules_and_shorter_plans_take_less(fake, strategy, rows, epochs, tests):
    line = line_of(fake, strategy)
    assert line.epochs == pytest.approx(epochs)
    assert line.train == pytest.approx(TRAINED * rows * epochs)
    assert line.evaluate == pytest.approx(SCORED * (9 * math.ceil(epochs) + 20 * tests))


def test_the_first_step_and_single_slow_ones_do_not_count(fake):
    @dataclass(eq=False)
    class Hesitant(Strategy):
        @hookimpl
        def select_batch(self, run):
            CLOCK.time += {0: 1000, 2: 100}.get(run.batch, 0)

    assert line_of(fake, Hesitant).train == pytest.approx(TRAINED * 81 * 3)


@pytest.mark.parametrize(("steps", "workers"), [(3, 0), (1, 2)])
def test_no_more_steps_are_taken_than_are_asked_for(fake, cold, steps, workers):
    """Loader processes deliver together: with two of them, two batches are one measurement."""
    taken = []

    @dataclass(eq=False)
    class Counting(Strategy):
        @hookimpl
        def optimizer_step(self, run):
            taken.append(run.batch)
            run.optimizer.step()

    line = line_of(fake, Counting, steps=steps, workers=workers)
    assert taken == [0, 1, 2, 3]
    assert line.step == pytest.approx(TRAINED * 81 / 5)


def test_a_plan_takes_its_time_in_every_epoch(fake):
    @dataclass(eq=False)
    class Planner(Strategy):
        @hookimpl
        def on_epoch_start(self):
            CLOCK.time += 7

    line = line_of(fake, Planner, epochs=2.5)
    assert line.train == pytest.approx(3 * 7 + TRAINED * 81 * 2.5)


def test_a_step_may_take_several_batches(fake):
    @dataclass(eq=False)
    class EverySecond(Strategy):
        @hookimpl
        def select_batch(self, run, batch):
            if run.batch % 2 == 0:
                batch.keep_rows(torch.tensor([], dtype=torch.long))

    line = line_of(fake, EverySecond)
    assert line.steps == 2.5
    assert line.train == pytest.approx(TRAINED * 81 * 3 / 2)
    assert line.step == pytest.approx(TRAINED * 81 / 5)


def test_gathered_gradients_are_one_step(fake):
    @dataclass(eq=False)
    class Gather(Strategy):
        @hookimpl
        def should_step(self, run):
            return run.batch % 2 == 1

    line = line_of(fake, Gather)
    assert line.steps == 2.5
    assert line.step == pytest.approx(2 * TRAINED * 81 / 5)
    assert line.train == pytest.approx(TRAINED * 81 * 3)


def test_a_plan_of_one_batch_is_measured_as_it_is(fake):
    line = line_of(fake, batch_size=200)
    assert (line.steps, line.train) == (1, pytest.approx(TRAINED * 81 * 3))


def test_a_plan_that_is_never_stepped_is_one_step(fake):
    @dataclass(eq=False)
    class Never(Strategy):
        @hookimpl
        def should_step(self):
            return False

    line = line_of(fake, Never)
    assert (line.steps, line.train) == (1, pytest.approx(TRAINED * 81 * 3))


# What takes long -------------------------------------------------------------------------------


@dataclass(eq=False)
class Parent(Strategy):
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
            assert math.isfinite(child._job.train_loss)
        seen.append([child._job.meter.steps for child in self.children])

    @hookimpl
    def prune_dataset(self):
        return self.mask

    def state_dict(self):
        return {}


seen = []


def test_children_are_charged_in_full_and_take_a_few_steps(fake):
    line = line_of(fake, Parent, batch_size=8)
    assert line.trouble == ""
    children = TRAINED * (81 * 2 + 41 * 1.5)
    assert line.prepare == pytest.approx(children + SCORED * (81 * 2 + 41))
    assert line.train == pytest.approx(TRAINED * 40 * 3)
    assert seen.pop() == [6, 2]


def test_scores_outside_of_prepare_are_charged_in_full_as_well(fake, cold):
    scored = []

    @dataclass(eq=False)
    class Rescoring(Strategy):
        @hookimpl
        def on_epoch_start(self, run):
            before = CLOCK.time
            assert run.score_dataset().shape == (81,)
            scored.append(CLOCK.time - before)

    line = line_of(fake, Rescoring, batch_size=8, steps=2)
    assert line.train == pytest.approx(3 * 81 * (SCORED + TRAINED))
    # One batch to begin with, and two that are timed.
    assert scored == [pytest.approx(SCORED * 8 * 3)]


def test_a_child_scores_a_few_batches_as_well(fake):
    scored = []

    @dataclass(eq=False)
    class Delegating(Strategy):
        @hookimpl
        def prepare(self, run):
            child = run.train_child("proxy", 0, 1)
            before = CLOCK.time
            assert child.score_dataset().shape == (81,)
            scored.append(CLOCK.time - before)

    line = line_of(fake, Delegating, batch_size=8, steps=2)
    assert line.prepare == pytest.approx(81 * (TRAINED + SCORED))
    assert scored == [pytest.approx(SCORED * 8 * 3)]


def test_evaluation_takes_a_few_batches(fake):
    before = CLOCK.time
    many = "synthetic[samples=90,test_samples=5000,classes=4,size=8]"
    line = line_of(fake, dataset=many, test_every=1)
    assert line.evaluate == pytest.approx(3 * SCORED * (9 + 5000))
    assert CLOCK.time - before < 5


def test_tests_on_the_way_are_of_a_part_and_the_last_of_all(fake):
    more = "synthetic[samples=900,test_samples=5000,classes=4,size=8]"
    line = line_of(fake, dataset=more)
    assert line.evaluate == pytest.approx(SCORED * (3 * 90 + 243 + 5000))


def test_a_prepare_that_fails_on_made_up_scores_is_unknown(fake):
    @dataclass(eq=False)
    class Picky(Strategy):
        @hookimpl
        def prepare(self, run):
            run.train_child("proxy", 0, 1)._job.history[-1]

    line = line_of(fake, Picky)
    assert math.isnan(line.prepare)
    assert line.trouble == (
        "prepare failed on made-up scores: probe, in prepare: IndexError: list index out of range"
    )
    assert line.train == pytest.approx(TRAINED * 81 * 3)
    assert line.seconds == pytest.approx(line.start + line.train + line.evaluate)
    assert not line.known


def test_the_trouble_is_what_went_wrong_first(fake):
    @dataclass(eq=False)
    class Half(Strategy):
        @hookimpl
        def prepare(self):
            raise ValueError("as asked")

        @hookimpl
        def prune_dataset(self):
            return self.mask

    line = line_of(fake, Half)
    assert line.trouble == (
        "prepare failed on made-up scores: probe, in prepare: ValueError: as asked"
    )
    assert math.isnan(line.train)
