"""Pilots: what a strategy costs beside another one, by a fake clock."""

import math
from contextlib import closing
from dataclasses import dataclass

import pytest
import torch
from conftest import drawn
from ticking import CLOCK, SCORED, TRAINED, tick

from dataeff import Share, Strategy, hookimpl
from dataeff.errors import DataeffError
from dataeff.foretell import match as matching
from dataeff.foretell.match import Pilot
from dataeff.testing import TASK, lab_of


@pytest.fixture
def ticking(monkeypatch):
    tick(monkeypatch)


def pilot_of(installed, reference="baseline", **changes):
    return Pilot(lab_of(installed), TASK.model_copy(update=changes), reference)


def cost(installed, *strategies, **changes):
    """Return what pilots say of these strategies, which share one."""
    with closing(pilot_of(installed, **changes)) as pilot:
        costs = [pilot.cost(strategy, 0.5) for strategy in strategies]
    return costs[0] if len(costs) == 1 else costs


def really(installed, strategy, **changes):
    """Return what whole runs say."""
    lab, task, seconds = lab_of(installed), TASK.model_copy(update=changes), []
    for text in (strategy, "baseline"):
        clocks = lab.run(task, lab.composition(text), 0).record["clocks"]
        seconds.append(clocks["prepare"] + clocks["train"])
    return seconds[0] / seconds[1]


@pytest.mark.parametrize("epochs", [2.5, 9])
@pytest.mark.parametrize(
    "strategy",
    drawn(
        [
            "random_subset[keep=0.5]",
            "random_backprop[keep=0.3,mode=accumulate]",
            "short_schedule[share=0.45]",
            "random_subset[keep=0.5]+short_schedule[share=0.5]",
        ],
        3,
    ),
)
def test_a_pilot_knows_what_a_whole_run_costs(installed, ticking, strategy, epochs):
    said = cost(installed, strategy, epochs=epochs)
    assert said == pytest.approx(really(installed, strategy, epochs=epochs), rel=0.03)


def test_first_epochs_and_progress_are_taken_as_they_are(installed, ticking):
    @dataclass(eq=False)
    class Ripening(Strategy):
        """Train everything at first, and from then on less and less."""

        @hookimpl
        def select_batch(self, run, batch):
            share = 1.0 if run.epoch == 0 else 1 - run.progress
            batch.keep_rows(torch.arange(max(1, round(share * batch.R))))

    installed.add_strategy("ripening", Ripening, "test")
    said = cost(installed, "ripening", epochs=17)
    assert said == pytest.approx(really(installed, "ripening", epochs=17), rel=0.02)


def test_the_reference_is_trained_in_turn(installed, ticking):
    order = []

    @dataclass(eq=False)
    class Noted(Strategy):
        @hookimpl
        def on_epoch_start(self, run, epoch):
            order.append((run.strategies[-1].entry.name, epoch))

    installed.add_strategy("noted", Noted, "test")
    with closing(pilot_of(installed, "noted", epochs=17)) as pilot:
        pilot.cost("short_schedule[share=0.1]+noted+random_backprop", 0.5)
    names = ["ours" if name == "random_backprop" else "theirs" for name, _ in order]
    # 1.7 epochs are two.
    assert names == ["ours", "theirs", "theirs", "theirs", "ours", "theirs", "theirs"]
    assert [epoch for name, epoch in order if name == "noted"] == [0, 2, 7, 10, 15]


def test_batches_take_turns(installed, ticking):
    """A machine that slows down half-way slows both down."""
    calls = []

    @dataclass(eq=False)
    class Slowing(Strategy):
        @hookimpl
        def observe_batch(self, run):
            calls.append(run.strategies[-1].entry.name)
            CLOCK.time += 10.0 if len(calls) > 30 else 1.0

    installed.add_strategy("slowing", Slowing, "test")
    with closing(pilot_of(installed, "slowing", epochs=5)) as pilot:
        share = pilot.cost("slowing+random_backprop[keep=1]", 1.0)
    assert share == pytest.approx(1, abs=0.05)
    assert all(len(set(pair)) == 2 for pair in zip(calls[::2], calls[1::2], strict=True))


@pytest.mark.parametrize(("slower", "pace"), [(0.0, 1.0), (1.0, 2.0)])
def test_a_pace_is_time_over_counted_work(installed, ticking, slower, pace):
    @dataclass(eq=False)
    class Waiting(Strategy):
        @hookimpl
        def observe_batch(self, batch):
            CLOCK.time += slower * batch.R * TRAINED

    installed.add_strategy("waiting", Waiting, "test")
    with closing(pilot_of(installed, "baseline")) as pilot:
        assert pilot.pace("waiting+random_backprop[keep=0.5]") == pytest.approx(pace, rel=0.02)


def test_what_is_prepared_counts_and_nested_runs_are_trained_once(installed, ticking):
    trained = []

    @dataclass(eq=False)
    class Preparing(Strategy):
        keep: Share = 0.5

        @hookimpl
        def prepare(self, run):
            before = CLOCK.time
            child = run.train_child("proxy", 0, 2)
            trained.append(CLOCK.time - before)
            run.score_dataset(model=child.model)
            CLOCK.time += 1.0

    installed.add_strategy("preparing", Preparing, "test")
    first, second = cost(installed, "preparing", "preparing[keep=0.4]")
    # 81 samples to train, in 4 epochs; the scores of 81 and a second more.
    whole = 4 * 81 * TRAINED
    assert first == pytest.approx(1 + (2 * 81 * TRAINED + 81 * SCORED + 1) / whole)
    assert second == pytest.approx(first)
    assert trained == [pytest.approx(2 * 81 * TRAINED), 0]


def test_epochs_end_as_in_a_run_and_never_look_at_the_test_set(installed, ticking):
    seen = []

    @dataclass(eq=False)
    class Watching(Strategy):
        @hookimpl
        def end_epoch(self, run):
            seen.append(("end", run.epoch, run.batch == run.batches))

        @hookimpl
        def on_epoch_end(self, epoch, metrics):
            seen.append(("metrics", epoch, sorted(metrics)))
            CLOCK.time += 1.0

    installed.add_strategy("watching", Watching, "test")
    said = cost(installed, "watching", epochs=1)
    assert seen == [("end", 0, True), ("metrics", 0, ["loss", "macro_f1", "top1", "top5"])]
    assert said == pytest.approx(1 + 1 / (81 * TRAINED))


def test_coins_for_whole_batches_do_not_decide(installed, ticking):
    """A few epochs skip too many batches or too few; on average it is what was asked for."""
    skips = [0.2, 0.3, 0.5, 0.7]
    texts = [f"minibatch_skipping[skip={skip}]" for skip in skips]
    costs = cost(installed, *texts, batch_size=4, epochs=1)
    assert costs == pytest.approx([1 - skip for skip in skips], abs=0.025)


def test_a_plan_that_is_drawn_again_is_the_one_that_is_trained(installed, ticking):
    planned, trained = [], []

    @dataclass(eq=False)
    class Remembering(Strategy):
        @hookimpl(wrapper=True)
        def plan_epoch(self, run):
            plan = yield
            planned.append(plan.rows[:, 0].tolist())
            return plan

        @hookimpl
        def observe_batch(self, batch):
            trained.extend(batch.idx.tolist())

    installed.add_strategy("remembering", Remembering, "test")
    cost(installed, "remembering", epochs=1)
    assert len(planned) == 4
    assert trained == planned[-1]


def test_short_pilots_are_repeated(installed, ticking, monkeypatch):
    monkeypatch.setattr(matching, "_PASSES", 3)
    monkeypatch.setattr(matching, "_FAR", math.inf)
    times = iter([5.0, 90.0, 7.0])

    @dataclass(eq=False)
    class Moody(Strategy):
        @hookimpl
        def prepare(self):
            CLOCK.time += next(times)

    installed.add_strategy("moody", Moody, "test")
    assert cost(installed, "moody") == pytest.approx(1 + 7 / (4 * 81 * TRAINED))
    assert next(times, None) is None


@pytest.mark.parametrize(
    ("pace", "shares", "passes"),
    drawn(
        [
            # Enough is enough, where passes agree.
            (2.0, [0.5, 0.5, 0.51], 3),
            (1.0, [0.5] * 9, 6),
            # Where they do not, patience ends it, or there have been enough of them.
            (2.0, [0.5, 0.6] * 9, 8),
            (0.1, [0.5, 0.6] * 9, 15),
            # Long ones even out by themselves.
            (12.0, [0.5] * 9, 2),
            (16.0, [0.5] * 9, 1),
            # What is far from the target, here 0.5, need not be known well.
            (1.0, [0.7] * 9, 1),
            (1.0, [0.59, 0.7, 0.7], 2),
        ],
        3,
    ),
)
def test_how_often_a_pilot_goes_through_its_epochs(installed, monkeypatch, pace, shares, passes):
    time, taken = [0.0], []
    monkeypatch.setattr(matching, "perf_counter", lambda: time[0])

    def measured(self, strategy):
        time[0] += pace
        taken.append(shares[len(taken)])
        return taken[-1], 1.0

    monkeypatch.setattr(Pilot, "_shares", measured)
    cost(installed, "baseline")
    assert len(taken) == passes


def test_pilots_leave_nothing_behind(installed, ticking, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = torch.get_rng_state()
    cost(installed, "random_subset", deterministic=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled()
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_its_strategy(installed, ticking):
    @dataclass(eq=False)
    class Failing(Strategy):
        @hookimpl
        def end_epoch(self):
            raise ValueError("as asked")

    installed.add_strategy("failing", Failing, "test")
    with pytest.raises(DataeffError, match="failing, in end_epoch: ValueError: as asked"):
        cost(installed, "failing")
