"""Values written `?`: reading them, solving, pilots by a fake clock, freezing, and what is said."""

import json
import math
import random
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, ClassVar, Literal

import pytest
import torch
from pydantic import Field, PositiveInt
from records import Folder
from shell import call, mistake, ok

from dataeff import Share, hookimpl
from dataeff.bench import matches, matching, preview, schedule
from dataeff.bench.matching import Pilot, solve, spread
from dataeff.bench.pattern import Pattern, canonical_form
from dataeff.bench.results import claimed
from dataeff.bench.runner import Cell, Settings, describe, write_suite
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.errors import DataeffError
from dataeff.models.small import TinyNet
from dataeff.plugins import compose
from dataeff.registry import Entry, Parameter, Range
from dataeff.report import page, terminal
from dataeff.testing import TASK
from dataeff.training import meter
from dataeff.training.cell import train_on

CPU = torch.device("cpu")


# Reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "default", "low", "high", "guesses"),
    [
        (Share, 0.5, 0.01, 1, (0.333, 0.667)),
        (Annotated[float, Field(ge=0, lt=1)], 0.25, 0, 0.99, (0.333, 0.667)),
        (Annotated[float, Field(gt=1, lt=3)], 2.0, 1.02, 2.98, (1.67, 2.33)),
        (Annotated[float, Field(gt=0)], 2.0, 0.06, 200, (2, 4)),
        (Annotated[float, Field(gt=5)], 10.0, 5.3, 1000, (10, 20)),
        (Annotated[float, Field(le=3)], 2.0, 0.02, 3, (2, 3)),
        (float, 2.0, 0.02, 200, (2, 4)),
        (PositiveInt, 4, 1, 400, (4, 8)),
        (Annotated[int, Field(gt=0, lt=10)], 4, 1, 9, (3, 7)),
        (Annotated[int, Field(ge=0)], 2, 0, 200, (2, 4)),
        (int | None, 4, 1, 400, (4, 8)),
        (float, 0.0, None, None, None),
        (int | None, None, None, None, None),
        (str, "", None, None, None),
        (bool, True, None, None, None),
        (Literal[1, 2], 1, None, None, None),
        (Annotated[int, Field(ge=3, le=3)], 3, None, None, None),
    ],
)
def test_where_to_look_for_a_value(kind, default, low, high, guesses):
    found = Parameter("x", kind, default).range
    if low is None:
        assert found is None
        return
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.guesses == guesses
    assert found.whole == isinstance(default, int)
    for value in (found.low, found.high, *found.guesses):
        assert Parameter("x", kind, default).read(value) == value


def test_values_have_three_digits_or_are_whole():
    share, count = Range(0.01, 1, False, (0, 1)), Range(1, 9, True, (0, 1))
    assert [share.nearest(value) for value in (0.31249, 0.0012, 2)] == [0.312, 0.01, 1]
    assert [count.nearest(value) for value in (0.2, 3.6, 12)] == [1, 4, 9]


def test_a_pattern_has_one_canonical_form(installed):
    text = " random_backprop[mode=accumulate, keep = ?] + amp[dtype=auto]"
    assert canonical_form(text, installed) == "random_backprop[keep=?,mode=accumulate]+amp"
    assert canonical_form("random_subset[keep=0.50]", installed) == "random_subset[keep=0.5]"
    pattern = Pattern.read("random_subset[keep=0.75]+random_backprop[keep=?]", installed)
    assert pattern.at(0.5) == "random_subset[keep=0.75]+random_backprop[keep=0.5]"
    assert (pattern.key, pattern.place) == ("keep", 1)


SUITE = """
seeds = 2
match = "random_subset[keep=0.60]"
strategies = ["baseline", "random_subset[keep=0.6]", "short_schedule[share=?]"]

[tasks.blobs]
dataset = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
model = "tiny"
epochs = 4
batch_size = 16
lr = 0.05
"""
OPEN = '"short_schedule[share=?]"'
MISTAKES = {
    "no match": (
        'match = "random_subset[keep=0.60]"',
        "",
        "match: short_schedule[share=?] takes the time of another strategy, so name that one: "
        'write match = "..." in a suite, or --match; or write a value instead of the ?.',
    ),
    "nothing to find": (
        OPEN,
        '"amp"',
        "match: there is nothing to match with random_subset[keep=0.6]; add a strategy with a "
        "value to be found, such as short_schedule[share=?], or leave match out.",
    ),
    "two values": (
        OPEN,
        '"short_schedule[share=?]+random_backprop[keep=?]"',
        "strategies: short_schedule[share=?]+random_backprop[keep=?] has 2 values to find; write "
        "all but one of them.",
    ),
    "no number": (
        OPEN,
        '"random_backprop[mode=?]"',
        "strategies: random_backprop[mode=?]: mode is not a number with limits, so it cannot be "
        "found; write a value for it.",
    ),
    "a parameter that there is not": (
        OPEN,
        '"short_schedule[shar=?]"',
        "strategies: strategy short_schedule has no parameter 'shar'. Did you mean share? It "
        "takes: share.",
    ),
    "a strategy that there is not": (
        OPEN,
        '"shirt_schedule[share=?]"',
        "strategies: There is no strategy 'shirt_schedule'. Did you mean short_schedule? See: "
        "dataeff strategies",
    ),
    "twice": (
        OPEN,
        '"short_schedule[share=?]", "short_schedule[ share = ? ]"',
        "strategies: short_schedule[share=?] is there twice; delete one.",
    ),
    "the reference": (
        '"baseline", ',
        "",
        "strategies: short_schedule[share=?] is the reference; write its value.",
    ),
    "match with an unknown strategy": (
        'match = "random_subset[keep=0.60]"',
        'match = "random_subsett"',
        "match: There is no strategy 'random_subsett'. Did you mean random_subset? See: dataeff "
        "strategies",
    ),
    "match with one that does not run": (
        'match = "random_subset[keep=0.60]"',
        'match = "random_subset"',
        "match: random_subset[keep=0.5] is none of the strategies, which are: baseline, "
        "random_subset[keep=0.6].",
    ),
    "match with one to be found": (
        'match = "random_subset[keep=0.60]"',
        'match = "short_schedule[share=?]"',
        "match: short_schedule[share=?] has itself a value to be found; write it.",
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_in_one_sentence(tmp_path, old, new, sentence):
    path = tmp_path / "mine.toml"
    text = SUITE.replace(old, new)
    if old == '"baseline", ':
        text = SUITE.replace('"random_subset[keep=0.6]", ', "").replace(old, "")
    path.write_text(text)
    assert mistake("run", path) == f"{path}: {sentence}"
    assert not Path("results").exists()


BLOBS = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
ADHOC = ["run", "--dataset", BLOBS, "--model", "tiny", "--epochs", "4", "--set", "batch_size=16"]
ADHOC += ["--set", "lr=0.05", "--name", "mine", "--in-process", "--device", "cpu", "-s", "baseline"]


def test_mistakes_on_the_command_line():
    assert mistake(*ADHOC, "-s", "short_schedule[share=?]").startswith(
        "command line: match: short_schedule[share=?] takes the time of another strategy"
    )
    assert mistake(*ADHOC, "--match", "amp").startswith(
        "command line: match: there is nothing to match with amp; add"
    )
    assert mistake(*ADHOC, "-s", "short_schedule[share=?]", "--match", "ampp").startswith(
        "There is no strategy 'ampp'. Did you mean amp?"
    )


# Solving ---------------------------------------------------------------------------------------

KEEP = Range(0.01, 1.0, False, (0.333, 0.667))
SKIP = Range(0.0, 0.99, False, (0.333, 0.667))
MANY = Range(1, 400, True, (4, 8))
CURVES = {
    "dearer": (KEEP, lambda p: p),
    "dearer, with a fixed part": (KEEP, lambda p: 0.15 + p),
    "cheaper": (SKIP, lambda p: 1 - p),
    "squared": (KEEP, lambda p: 0.05 + 0.95 * p * p),
    "saturating": (KEEP, lambda p: p**0.6),
    "whole numbers": (MANY, lambda n: 0.05 + n / 100),
}


@pytest.mark.parametrize("target", [0.4, 0.69, 0.9])
@pytest.mark.parametrize(("within", "curve"), CURVES.values(), ids=CURVES)
def test_the_value_is_found_in_a_few_pilots(within, curve, target):
    for seed in range(20):
        luck = random.Random(seed).gauss
        found = solve(lambda p, luck=luck: curve(p) * math.exp(luck(0, 0.005)), target, within)
        # Whole numbers are no finer.
        finest = 0.005 / target if within.whole else 0.001
        assert abs(math.log(curve(found.value) / target)) < 0.025 + finest
        assert found.reached
        assert found.note(target, "baseline") == ""
        assert len(found.costs) <= 5


@pytest.mark.parametrize(
    ("within", "curve", "target", "end"),
    [
        (KEEP, lambda p: 0.5 + p / 4, 0.4, 0.01),
        (KEEP, lambda p: 0.5 + p / 4, 0.9, 1.0),
        (SKIP, lambda p: 1 - p / 2, 0.4, 0.99),
        (SKIP, lambda p: 0.9 - p / 2, 1.0, 0.0),
        (MANY, lambda n: 3 + n / 4, 0.9, 1),
    ],
)
def test_what_is_out_of_reach_ends_at_the_nearest_end(within, curve, target, end):
    found = solve(curve, target, within)
    assert found.value == end
    assert not found.reached
    assert found.note(target, "baseline") == (
        f"the nearest that was found takes {curve(end):.2f} of baseline's time, where {target:.2f} "
        "was wanted"
    )


def test_where_costs_come_in_steps_the_nearest_is_taken():
    tried = {}
    found = solve(lambda p: tried.setdefault(p, 0.5 if p < 0.8 else 0.9), 0.69, KEEP)
    assert found.costs == tried
    assert len(tried) == 5
    assert (tried[found.value], found.reached) == (0.9, False)


def test_a_value_is_not_moved_onto_another_step():
    found = solve(lambda p: 0.68 if 0.6 < p < 0.8 else p, 0.69, KEEP)
    assert found.costs == {0.333: 0.333, 0.667: 0.68}
    assert (found.value, found.reached) == (0.667, True)


def test_what_hardly_changes_is_looked_at_from_its_ends():
    found = solve(lambda p: 0.5 if p < 0.9 else 4 * p - 3.1, 0.6, KEEP)
    assert list(found.costs)[:3] == [0.333, 0.667, 1.0]
    flat = solve(lambda p: 0.5, 0.69, KEEP)
    assert list(flat.costs) == [0.333, 0.667, 1.0, 0.01]
    assert not flat.reached


def test_the_nearest_of_whole_numbers_is_taken():
    found = solve(lambda n: n / 10, 0.34, Range(1, 10, True, (4, 7)))
    assert (found.value, found.reached) == (3, False)
    assert len(found.costs) < 5


def test_what_cannot_be_run_narrows_the_range():
    def picky(p):
        if p < 0.2:
            raise DataeffError("Epoch 0 has no rows.")
        return p

    assert solve(picky, 0.25, KEEP).value == pytest.approx(0.25, rel=0.02)
    found = solve(picky, 0.05, KEEP)
    assert not found.reached
    assert 0.2 <= found.value < 0.333

    def low_only(p):
        if p > 0.5:
            raise ValueError("too much\nreally")
        return p

    assert solve(low_only, 0.45, KEEP).value == pytest.approx(0.45, rel=0.02)
    with pytest.raises(DataeffError, match=r"^ValueError: too much$"):
        solve(low_only, 0.5, Range(0.7, 1.0, False, (0.8, 0.9)))


def test_noise_is_averaged_near_the_target():
    """Near ones are read off a line; a single lucky hit would keep the noise of its pilot."""
    given = {0.333: 0.333, 0.667: 0.69, 0.648: 0.665}
    found = solve(given.get, 0.67, KEEP)
    assert found.costs == given
    slope = (0.665 - 0.333) / (0.648 - 0.333)
    said = [0.667 - (0.69 - 0.67) / slope, 0.648 + (0.67 - 0.665) / slope]
    assert found.value == pytest.approx(sum(said) / 2, abs=0.0005)


# Epochs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epochs", "picked"),
    [
        (0.4, [(0, 0.4)]),
        (2.5, [(0, 1), (1, 1), (2, 0.5)]),
        (5, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]),
        (25 * 0.2 + 1e-9, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]),
        (9, [(0, 1), (1, 2), (4, 2), (5, 2), (8, 2)]),
        (7, [(0, 1), (1, 1.5), (3, 1.5), (4, 1.5), (6, 1.5)]),
        (201, [(0, 1), (25, 50), (76, 50), (125, 50), (176, 50)]),
    ],
)
def test_a_few_epochs_stand_for_all(epochs, picked):
    assert [(epoch, pytest.approx(count)) for epoch, count in spread(epochs)] == picked
    assert sum(count for _, count in spread(epochs)) == pytest.approx(epochs)


# Pilots ----------------------------------------------------------------------------------------

# Seconds that a row takes by the fake clock.
TRAINED, SCORED = 0.01, 0.001


class Clock:
    """A clock that moves only when it is told to."""

    time = 100.0

    def __call__(self):
        return self.time


CLOCK = Clock()


@pytest.fixture
def ticking(monkeypatch):
    """Have training take time by the rows that it sees, and pilots go through their epochs once."""
    features = TinyNet.forward_features

    def tick(self, x):
        if x.device.type != "meta":
            CLOCK.time += len(x) * (TRAINED if self.training else SCORED)
        return features(self, x)

    monkeypatch.setattr(TinyNet, "forward_features", tick)
    monkeypatch.setattr(meter, "time", SimpleNamespace(perf_counter=CLOCK, process_time=CLOCK))
    monkeypatch.setattr(matching, "_PASSES", 1)
    monkeypatch.setattr(matching, "_PLANNING", math.inf)
    monkeypatch.setattr(matching, "_PLANS", 100)
    # Whether this machine is busy is no matter here.
    monkeypatch.setattr(schedule, "flags_of", lambda record: [])


def cell_of(installed, strategy="baseline", **changes):
    task = TASK.model_copy(update=changes)
    what = describe(compose(strategy, installed))
    return Cell(Path("results/try"), "try", "blobs", task, strategy, 0, "data", *what, {})


def cost(installed, *strategies, **changes):
    """Return what pilots say of these strategies, which share one."""
    with Pilot(cell_of(installed, **changes), Settings(device="cpu"), installed) as pilot:
        costs = [pilot.cost(strategy, 0.5) for strategy in strategies]
    return costs[0] if len(costs) == 1 else costs


def really(installed, strategy, **changes):
    """Return what whole runs say."""
    task = TASK.model_copy(update=changes)
    data = matching.Site.of(
        cell_of(installed, **changes), Settings(device="cpu"), installed, 1
    ).data
    seconds = []
    for text in (strategy, "baseline"):
        given = data, task, compose(text, installed), 0
        clocks = train_on(*given, installed=installed, device=CPU).record["clocks"]
        seconds.append(clocks["prepare"] + clocks["train"])
    return seconds[0] / seconds[1]


@pytest.mark.parametrize("epochs", [2.5, 9])
@pytest.mark.parametrize(
    "strategy",
    [
        "random_subset[keep=0.5]",
        "random_backprop[keep=0.3,mode=accumulate]",
        "short_schedule[share=0.45]",
        "random_subset[keep=0.5]+short_schedule[share=0.5]",
    ],
)
def test_a_pilot_knows_what_a_whole_run_costs(installed, ticking, strategy, epochs):
    said = cost(installed, strategy, epochs=epochs)
    assert said == pytest.approx(really(installed, strategy, epochs=epochs), rel=0.03)


def test_first_epochs_and_progress_are_taken_as_they_are(installed, ticking):
    @dataclass(eq=False)
    class Ripening:
        """Train everything at first, and from then on less and less."""

        @hookimpl
        def select_batch(self, run, batch):
            share = 1.0 if run.epoch == 0 else 1 - run.progress
            batch.keep_rows(torch.arange(max(1, round(share * batch.R))))

    installed.strategies.register("ripening", Ripening, source="test")
    said = cost(installed, "ripening", epochs=17)
    assert said == pytest.approx(really(installed, "ripening", epochs=17), rel=0.02)


def test_the_reference_is_trained_in_turn(installed, ticking):
    order = []

    @dataclass(eq=False)
    class Noted:
        @hookimpl
        def on_epoch_start(self, run, epoch):
            order.append((run.strategies[-1].entry.name, epoch))

    installed.strategies.register("noted", Noted, source="test")
    cell = cell_of(installed, "noted", epochs=17)
    with Pilot(cell, Settings(device="cpu"), installed) as pilot:
        pilot.cost("short_schedule[share=0.1]+noted+random_backprop", 0.5)
    names = ["ours" if name == "random_backprop" else "theirs" for name, _ in order]
    # 1.7 epochs are two.
    assert names == ["ours", "theirs", "theirs", "theirs", "ours", "theirs", "theirs"]
    assert [epoch for name, epoch in order if name == "noted"] == [0, 2, 7, 10, 15]


def test_batches_take_turns(installed, ticking):
    """A machine that slows down half-way slows both down."""
    calls = []

    @dataclass(eq=False)
    class Slowing:
        @hookimpl
        def observe_batch(self, run):
            calls.append(run.strategies[-1].entry.name)
            CLOCK.time += 10.0 if len(calls) > 30 else 1.0

    installed.strategies.register("slowing", Slowing, source="test")
    cell = cell_of(installed, "slowing", epochs=5)
    with Pilot(cell, Settings(device="cpu"), installed) as pilot:
        share = pilot.cost("slowing+random_backprop[keep=1]", 1.0)
    assert share == pytest.approx(1, abs=0.05)
    assert all(len(set(pair)) == 2 for pair in zip(calls[::2], calls[1::2], strict=True))


@pytest.mark.parametrize(("slower", "pace"), [(0.0, 1.0), (1.0, 2.0)])
def test_a_pace_is_time_over_counted_work(installed, ticking, slower, pace):
    @dataclass(eq=False)
    class Waiting:
        @hookimpl
        def observe_batch(self, batch):
            CLOCK.time += slower * batch.R * TRAINED

    installed.strategies.register("waiting", Waiting, source="test")
    cell = cell_of(installed, "baseline")
    with Pilot(cell, Settings(device="cpu"), installed) as pilot:
        assert pilot.pace("waiting+random_backprop[keep=0.5]") == pytest.approx(pace, rel=0.02)


def test_what_is_prepared_counts_and_nested_runs_are_trained_once(installed, ticking):
    trained = []

    @dataclass(eq=False)
    class Preparing:
        keep: Share = 0.5

        @hookimpl
        def prepare(self, run):
            before = CLOCK.time
            child = run.train_child("proxy", 0, 2)
            trained.append(CLOCK.time - before)
            run.score_dataset(model=child.model)
            CLOCK.time += 1.0

    installed.strategies.register("preparing", Preparing, source="test")
    first, second = cost(installed, "preparing", "preparing[keep=0.4]")
    # 81 samples to train, in 4 epochs; the scores of 81 and a second more.
    whole = 4 * 81 * TRAINED
    assert first == pytest.approx(1 + (2 * 81 * TRAINED + 81 * SCORED + 1) / whole)
    assert second == pytest.approx(first)
    assert trained == [pytest.approx(2 * 81 * TRAINED), 0]


def test_epochs_end_as_in_a_run_and_never_look_at_the_test_set(installed, ticking):
    seen = []

    @dataclass(eq=False)
    class Watching:
        @hookimpl
        def end_epoch(self, run):
            seen.append(("end", run.epoch, run.batch == run.batches))

        @hookimpl
        def on_epoch_end(self, epoch, metrics):
            seen.append(("metrics", epoch, sorted(metrics)))
            CLOCK.time += 1.0

    installed.strategies.register("watching", Watching, source="test")
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
    class Remembering:
        @hookimpl(wrapper=True)
        def plan_epoch(self, run):
            plan = yield
            planned.append(plan.rows[:, 0].tolist())
            return plan

        @hookimpl
        def observe_batch(self, batch):
            trained.extend(batch.idx.tolist())

    installed.strategies.register("remembering", Remembering, source="test")
    cost(installed, "remembering", epochs=1)
    assert len(planned) == 4
    assert trained == planned[-1]


def test_short_pilots_are_repeated(installed, ticking, monkeypatch):
    monkeypatch.setattr(matching, "_PASSES", 3)
    monkeypatch.setattr(matching, "_FAR", math.inf)
    times = iter([5.0, 90.0, 7.0])

    @dataclass(eq=False)
    class Moody:
        @hookimpl
        def prepare(self):
            CLOCK.time += next(times)

    installed.strategies.register("moody", Moody, source="test")
    assert cost(installed, "moody") == pytest.approx(1 + 7 / (4 * 81 * TRAINED))
    assert next(times, None) is None


@pytest.mark.parametrize(
    ("pace", "shares", "passes"),
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
    class Failing:
        @hookimpl
        def end_epoch(self):
            raise ValueError("as asked")

    installed.strategies.register("failing", Failing, source="test")
    with pytest.raises(DataeffError, match="failing, in end_epoch: ValueError: as asked"):
        cost(installed, "failing")


# The schedule ----------------------------------------------------------------------------------

TIMES = {"baseline": 10.0, "random_subset[keep=0.6]": 6.0}


class FakePilot:
    """Knows costs without training: a strategy costs its own share."""

    tried: ClassVar[list[str]] = []

    def __init__(self, reference, settings, installed):
        assert reference.strategy == "baseline"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def cost(self, strategy, target):
        self.tried.append(strategy)
        if "odd" in strategy:
            raise ValueError("as asked")
        return share_of(strategy)

    def pace(self, strategy):
        return PACES.get(strategy, 1.0)


PACES = {}


def share_of(label):
    share = float(label.split("=")[1].split(",")[0].rstrip("]"))
    return 1 - share if label.startswith("minibatch_skipping") else share


@dataclass(eq=False)
class Method:
    """Does nothing: how long it takes is written by hand."""

    keep: Share = 0.5


class Bench:
    """Goes through a schedule as the runner does, and writes the record of each cell by hand."""

    def __init__(self, results, installed):
        self.settings, self.installed = Settings(results), installed
        self.failing, self.busy, self.told = (), (), []

    def schedule(self, *patterns, fresh=False, tasks=("blobs",), epochs=2, **more):
        strategies = ["baseline", "random_subset[keep=0.6]", *patterns]
        content = {"name": "try", "seeds": 2, "controls": False, "strategies": strategies}
        task = {"dataset": "synthetic[samples=40,classes=2]", "model": "tiny", "epochs": epochs}
        content |= {"match": strategies[1], "tasks": dict.fromkeys(tasks, task)} | more
        self.suite = make_suite(content, self.installed, where="test")
        found = Schedule(self.suite, self.settings, self.installed, fresh)
        found.matches.tell = lambda line, ended: self.told.append(line) if ended else None
        return found

    def run(self, cells, most=None, again=False):
        """Return what was run, as (strategy, seed); a finished cell is skipped, as in a suite."""
        done = []
        for cell in cells:
            if again or not (cell.folder / "run.json").exists():
                done.append((cell.strategy, cell.seed))
                self.write(cell)
            if len(done) == most:
                break
        return done

    def write(self, cell):
        known = TIMES.get(cell.strategy)
        seconds = 10 * share_of(cell.strategy) if known is None else known
        failed = (cell.strategy, cell.seed) in self.failing
        record = {
            "status": "failed" if failed else "finished",
            "task_name": cell.task_name,
            "strategy": cell.strategy,
            "seed": cell.seed,
            "control": "method" not in cell.strategy,
            "clocks": {"prepare": 1.0, "train": seconds * (1 + cell.seed) - 1, "evaluate": 50.0},
            "flops": 100 * seconds,
            "machine": {"flags": ["busy"] if cell.strategy in self.busy else []},
        }
        cell.folder.mkdir(parents=True, exist_ok=True)
        (cell.folder / "run.json").write_text(json.dumps(record))

    @property
    def frozen(self):
        return json.loads((self.settings.results / "try" / "match.json").read_text())


@pytest.fixture
def bench(tmp_path, installed, monkeypatch):
    monkeypatch.setattr(matches, "Pilot", FakePilot)
    monkeypatch.setattr(FakePilot, "tried", [])
    installed.strategies.register("method", Method, source="test")
    installed.strategies.register("odd", Method, source="test")
    return Bench(tmp_path / "results", installed)


SHORT, SKIPPING = "short_schedule[share=?]", "minibatch_skipping[skip=?]"
FOUND, SKIPPED = "short_schedule[share=0.6]", "minibatch_skipping[skip=0.4]"


def test_values_are_found_after_the_first_seed_and_used_for_all(bench):
    cells = bench.schedule(SHORT, SKIPPING)
    assert (len(cells.cells), len(cells)) == (4, 8)
    assert bench.run(cells) == [
        ("baseline", 0),
        ("random_subset[keep=0.6]", 0),
        (FOUND, 0),
        (SKIPPED, 0),
        ("baseline", 1),
        ("random_subset[keep=0.6]", 1),
        (FOUND, 1),
        (SKIPPED, 1),
    ]
    assert len(cells) == len(cells.cells) == 8
    assert bench.told[:3] == [
        f"pilot: blobs {SHORT} at 0.333: 0.33 of baseline, aiming at 0.60",
        f"pilot: blobs {SHORT} at 0.667: 0.67 of baseline, aiming at 0.60",
        f"pilot: blobs {SHORT} at 0.6: 0.60 of baseline, aiming at 0.60",
    ]
    assert bench.told[3] == f"pilot: blobs {SHORT} becomes {FOUND}"


def test_what_is_frozen(bench):
    bench.run(bench.schedule(SHORT))
    (entry,) = bench.frozen
    expected = {"task": "blobs", "pattern": SHORT, "strategy": FOUND, "parameter": "share"}
    expected |= {"match": "random_subset[keep=0.6]", "reference": "baseline", "value": 0.6}
    expected |= {"reached": True, "note": "", "target": pytest.approx(0.6)}
    assert entry.items() >= expected.items()
    assert entry["pilots"] == [
        {"value": value, "cost": pytest.approx(value)} for value in (0.333, 0.667, 0.6)
    ]
    assert set(entry["sources"]) == {"baseline", "random_subset", "short_schedule"}


def test_a_run_that_was_stopped_goes_on_with_the_frozen_value(bench):
    bench.run(bench.schedule(SHORT), most=3)
    tried = len(FakePilot.tried)
    again = bench.schedule(SHORT)
    assert len(again.cells) == 6
    assert bench.run(again) == [("baseline", 1), ("random_subset[keep=0.6]", 1), (FOUND, 1)]
    assert bench.run(bench.schedule(SHORT, seeds=3)) == [
        ("baseline", 2),
        ("random_subset[keep=0.6]", 2),
        (FOUND, 2),
    ]
    assert len(FakePilot.tried) == tried


def test_a_value_that_is_there_is_interleaved_from_the_start(bench):
    bench.run(bench.schedule(SHORT), most=3)
    ran = bench.run(bench.schedule(SHORT, SKIPPING))
    assert ran[0] == (SKIPPED, 0)
    assert [name for name, _ in ran[1:]] == ["baseline", "random_subset[keep=0.6]", FOUND, SKIPPED]


def test_fresh_finds_anew_by_what_is_measured_anew(bench, monkeypatch):
    bench.run(bench.schedule(SHORT))
    monkeypatch.setitem(TIMES, "random_subset[keep=0.6]", 7.0)
    ran = bench.run(bench.schedule(SHORT, fresh=True), again=True)
    label = "short_schedule[share=0.7]"
    assert [name for name, _ in ran] == ["baseline", "random_subset[keep=0.6]", label] * 2
    (entry,) = bench.frozen
    assert entry["strategy"] == label
    assert bench.schedule(SHORT).matches.labels("blobs") == {SHORT: label}


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ("conditions", {"threads": 1}, {"threads": 2}),
        ("data", "as it was", "other data"),
    ],
)
def test_what_a_value_hangs_on_is_part_of_its_key(bench, monkeypatch, change, old, new):
    def set_to(value):
        name = "check_task" if change == "data" else "conditions"
        monkeypatch.setattr(schedule, name, lambda *given: value)

    set_to(old)
    bench.run(bench.schedule(SHORT))
    assert bench.schedule(SHORT).matches.labels("blobs") == {SHORT: FOUND}
    set_to(new)
    assert bench.schedule(SHORT).matches.labels("blobs") == {}
    bench.run(bench.schedule(SHORT))
    # Other conditions are another value, other data take its place.
    assert len(bench.frozen) == (2 if change == "conditions" else 1)
    set_to(old)
    assert bool(bench.schedule(SHORT).matches.labels("blobs")) == (change == "conditions")


def test_another_task_source_or_match_is_another_value(bench, monkeypatch):
    bench.run(bench.schedule(SHORT))
    assert bench.schedule(SHORT, "amp", match="amp").matches.labels("blobs") == {}
    assert bench.schedule(SHORT, epochs=3).matches.labels("blobs") == {}
    digest = Entry.digest.fget
    for name in ("baseline", "random_subset", "short_schedule"):
        changed = property(lambda entry, name=name: digest(entry) + "new" * (entry.name == name))
        monkeypatch.setattr(Entry, "digest", changed)
        assert bench.schedule(SHORT).matches.labels("blobs") == {}
    monkeypatch.setattr(Entry, "digest", property(digest))
    assert bench.schedule(SHORT).matches.labels("blobs") == {SHORT: FOUND}


def test_each_task_has_values_of_its_own(bench):
    cells = bench.schedule(SHORT, tasks=("blobs", "others"))
    assert len(cells) == 12
    bench.run(cells)
    assert [entry["task"] for entry in bench.frozen] == ["blobs", "others"]
    assert {cell.task_name for cell in cells.cells if cell.strategy == FOUND} == {"blobs", "others"}


def test_all_seeds_that_are_there_make_the_target(bench, monkeypatch):
    bench.run(bench.schedule("amp", match=None, strategies=["baseline", "random_subset[keep=0.6]"]))
    (path,) = (bench.settings.results / "try").glob("*random_subset*s1*/run.json")
    record = json.loads(path.read_text())
    record["flops"] = 1000 * 0.54
    path.write_text(json.dumps(record))
    bench.run(bench.schedule(SHORT))
    assert bench.frozen[0]["target"] == pytest.approx(math.sqrt(0.6 * 0.54))


def test_the_clock_of_one_run_does_not_make_the_target(bench, monkeypatch):
    monkeypatch.setitem(PACES, "random_subset[keep=0.6]", 1.1)
    bench.run(bench.schedule(match=None, strategies=["baseline", "random_subset[keep=0.6]"]))
    for path in (bench.settings.results / "try").glob("*random_subset*/run.json"):
        record = json.loads(path.read_text())
        record["clocks"]["train"] *= 2
        path.write_text(json.dumps(record))
    bench.run(bench.schedule(SHORT))
    assert bench.frozen[0]["target"] == pytest.approx(0.6 * 1.1), "its work, at the pilot's pace"
    assert bench.frozen[0]["note"] == ""


def test_a_first_seed_that_failed_is_made_up_for_by_the_next(bench):
    bench.failing = [("random_subset[keep=0.6]", 0)]
    ran = bench.run(bench.schedule(SHORT))
    assert ran[2:] == [("baseline", 1), ("random_subset[keep=0.6]", 1), (FOUND, 0), (FOUND, 1)]


def test_without_anything_to_match_there_is_no_value_and_that_is_said(bench):
    bench.failing = [("random_subset[keep=0.6]", seed) for seed in range(2)]
    cells = bench.schedule(SHORT)
    assert len(bench.run(cells)) == 4
    assert cells.matches.troubles == [
        f"blobs {SHORT}: there is no seed of random_subset[keep=0.6] and the reference to match"
    ]
    assert len(cells) == 4
    assert FakePilot.tried == []


def test_a_pattern_that_fails_does_not_stop_the_others(bench):
    cells = bench.schedule("odd[keep=?]", SHORT)
    ran = bench.run(cells)
    assert {name for name, _ in ran} == {"baseline", "random_subset[keep=0.6]", FOUND}
    assert cells.matches.troubles == ["blobs odd[keep=?]: ValueError: as asked"]
    assert bench.told[0] == "pilot: blobs odd[keep=?] at 0.333: ValueError: as asked"
    assert len(FakePilot.tried) == 2 + 3, "it is not tried again after the next seed"


def test_what_another_process_looks_for_is_left_to_it(bench):
    root = bench.settings.results / "try"
    cells = bench.schedule(SHORT)
    with claimed(root):
        assert len(bench.run(cells)) == 4
    assert bench.told == ["pilot: blobs: another process looks for these values"] * 2
    (trouble,) = cells.matches.troubles
    assert trouble.endswith("another process looks for its value; type this again later")


def test_what_another_process_has_found_is_taken(bench):
    mine, other = bench.schedule(SHORT), bench.schedule(SHORT)
    bench.run(other, most=3)
    tried = len(FakePilot.tried)
    assert bench.run(mine) == [("baseline", 1), ("random_subset[keep=0.6]", 1), (FOUND, 1)]
    assert len(FakePilot.tried) == tried


def test_a_value_may_lead_to_a_strategy_that_runs_anyway(bench):
    cells = bench.schedule(SHORT, FOUND)
    ran = bench.run(cells)
    assert len(ran) == len(cells.cells) == len(cells) == 6


def test_matched_controls_serve_as_well(bench):
    one = {"controls": ["short_schedule"], "seeds": 1}
    ran = bench.run(bench.schedule("method[keep=0.5]", SHORT, **one))
    # What costs 0.5 has no control in what costs 0.6.
    assert ran[3:] == [(FOUND, 0), ("short_schedule[share=0.5]", 0)]
    matched = bench.schedule("method[keep=?]", **one)
    assert matched.methods == ["method[keep=?]"]
    assert bench.run(matched) == [("method[keep=0.6]", 0)], "a control of this cost is there"
    assert bench.schedule(SHORT).methods == []


def test_matched_methods_get_controls_of_their_cost(bench):
    ran = bench.run(bench.schedule("method[keep=?]", controls=["short_schedule"], seeds=1))
    assert ran[2:] == [("method[keep=0.6]", 0), (FOUND, 0)]


def test_suite_json_has_labels_and_no_patterns(bench):
    cells = bench.schedule(SHORT)
    write_suite(bench.suite, cells.data, bench.settings, "dataeff run try")
    path = bench.settings.results / "try" / "suite.json"
    before = json.loads(path.read_text())
    assert before["strategies"] == ["baseline", "random_subset[keep=0.6]"]
    assert before["match"] == "random_subset[keep=0.6]"
    bench.run(cells)
    write_suite(bench.suite, cells.data, bench.settings, "dataeff run try", [FOUND])
    assert json.loads(path.read_text())["strategies"] == [*before["strategies"], FOUND]
    bench.schedule(match=None)
    write_suite(bench.suite, cells.data, bench.settings, "dataeff run try -s amp")
    after = json.loads(path.read_text())
    assert (after["match"], FOUND in after["strategies"]) == (before["match"], True)


# The command -----------------------------------------------------------------------------------


RANDOM = "random_backprop[keep=?,mode=accumulate]"
MATCHED = ["-s", SHORT, "-s", RANDOM, "--match", "random_subset[keep=0.6]", "--seeds", "2"]
RUN = [*ADHOC, *MATCHED, "--no-controls"]


def test_a_suite_with_patterns_from_end_to_end(ticking):
    first = call(*RUN)
    assert first.exit_code == 0, first.output
    pilots = [line for line in first.stdout.splitlines() if line.startswith("pilot: ")]
    assert f"pilot: synthetic {SHORT} becomes short_schedule[share=" in first.stdout
    entries = {e["pattern"]: e for e in json.loads(Path("results/mine/match.json").read_text())}
    # 48 of 81 samples are kept, so that 0.593 of the time is taken.
    for entry in (entries[SHORT], entries[RANDOM]):
        assert entry["target"] == pytest.approx(48 / 81)
        assert entry["value"] == pytest.approx(48 / 81, rel=0.02)
    labels = [entries[text]["strategy"] for text in (SHORT, RANDOM)]
    said = f"{labels[0]}: matched to random_subset[keep=0.6], 1.00x its time (1.00-1.00)."
    assert said in first.stdout
    assert f"{labels[1]}: matched to random_subset[keep=0.6], " in first.stdout
    suite = json.loads(Path("results/mine/suite.json").read_text())
    assert suite["strategies"] == ["baseline", "random_subset[keep=0.6]", *labels]
    assert len(list(Path("results/mine").glob("*/run.json"))) == 8

    again = ok(*RUN)
    assert "pilot" not in again
    assert "8 finished cells were skipped" in again
    assert said in again
    assert said in ok("leaderboard", "mine", "--markdown")
    assert "matched to" in Path("results/mine/report.html").read_text()
    said = ok(*RUN, "--dry-run")
    assert "8 cells (8 finished), nothing to run." in said
    assert "?" not in said
    assert f" {SHORT} " in ok(*RUN, "--dry-run", "--fresh")
    fresh = ok(*RUN, "--fresh")
    assert [line for line in fresh.splitlines() if line.startswith("pilot: ")] == pilots


def test_a_dry_run_counts_what_is_to_be_found(ticking):
    said = ok(*RUN, "--dry-run")
    lines = [line.split()[1:4] for line in said.splitlines()[1:5]]
    assert lines == [
        ["baseline", "2", "0"],
        ["random_subset[keep=0.6]", "2", "0"],
        [SHORT, "2", "0"],
        [RANDOM, "2", "0"],
    ]
    assert "8 cells, about " in said
    assert (
        f"Values for {SHORT} and {RANDOM} are found by pilots of a few epochs, which come on "
        "top: up to "
    ) in said
    assert not Path("results").exists()


def test_a_long_run_is_asked_about_with_all_its_cells(ticking, monkeypatch):
    from dataeff.cli import running

    asked = []
    monkeypatch.setattr(running, "_someone_is_there", lambda: True)
    monkeypatch.setattr(preview, "ASK_ABOVE", 0.0)
    monkeypatch.setattr("click.confirm", lambda text, err: asked.append(text))
    assert call(*RUN).exit_code == 1
    assert asked[0].startswith("8 cells, about ")
    assert " Pilots take up to " in asked[0]


def test_what_is_matched_comes_along(tmp_path, ticking):
    path = tmp_path / "mine.toml"
    path.write_text(SUITE)

    def names(*options):
        said = ok("run", path, *options, "--dry-run", "--no-controls", "--device", "cpu")
        return [line.split()[1] for line in said.splitlines() if line.startswith("blobs ")]

    matched = names("-s", SKIPPING)
    assert sorted(matched) == ["baseline", SKIPPING, "random_subset[keep=0.6]"]
    assert sorted(names("-s", SKIPPING, "--match", "amp")) == ["amp", "baseline", SKIPPING]
    assert names("-s", "amp") == ["baseline", "amp"]


def test_a_pattern_without_a_value_is_a_failure(ticking, tmp_path):
    plugin = tmp_path / "plugins" / "odd.py"
    plugin.parent.mkdir()
    plugin.write_text(ODD)
    given = ["--plugins-dir", plugin.parent, "-s", "odd[keep=?]", "--match", "random_subset"]
    result = call(*ADHOC, *given, "--seeds", "1", "--no-controls")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line == (
        "Failed: synthetic odd[keep=?]: odd[keep=0.333], in prepare: ValueError: as asked"
    )
    assert "random_subset" in result.stdout


ODD = '''
from dataclasses import dataclass
from dataeff import Share, hookimpl


@hookimpl
def register_strategies(register):
    register("odd", Odd)


@dataclass(eq=False)
class Odd:
    """Fail at once."""

    keep: Share = 0.5

    @hookimpl
    def prepare(self):
        raise ValueError("as asked")
'''


# What is said ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "hand").fill("base", [90.0, 91.0, 92.0], [10.0, 10.0, 10.0])


def freeze(folder, **more):
    entry = {"task": "blobs", "conditions_id": "c1", "pattern": "skip[s=?]", "match": "mix"}
    entry |= {"strategy": "skip[s=0.3]", "note": ""} | more
    path = folder.path / "match.json"
    old = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*old, entry]))


@pytest.mark.parametrize(
    ("seconds", "note", "said"),
    [
        ([6.0, 6.0, 6.0], "", "1.00x its time (1.00-1.00)."),
        ([6.1, 6.1, 6.1], "", "1.02x its time (1.02-1.02)."),
        ([6.3, 6.0, 6.6], "", "1.05x its time (0.93-1.18), off by 5%."),
        ([5.7, 5.7, 5.7], "as near as it gets", "0.95x its time (0.95-0.95), off by 5%, as near"),
    ],
)
def test_the_achieved_ratio_is_said(folder, seconds, note, said):
    folder.fill("mix", [90.0] * 3, [6.0] * 3).fill("skip[s=0.3]", [88.0] * 3, seconds)
    freeze(folder, note=note)
    board = folder.board()
    text = f"skip[s=0.3]: matched to mix, {said}"
    (sentence,) = [line for line in board.notes if "matched" in line]
    assert sentence.startswith(text)
    assert sentence in terminal.plain_text(board)
    assert sentence in terminal.markdown(board)
    assert "matched to mix, " in page.page_text(board)


def test_ratios_are_paired_by_seed(folder):
    folder.fill("mix", [90.0] * 3, [6.0, 12.0, 3.0]).fill("skip[s=0.3]", [88.0] * 2, [6.0, 12.0])
    folder.add("skip[s=0.3]", 7, 88.0, 100.0).add("skip[s=0.3]", 2)
    freeze(folder)
    assert folder.board().notes[-1] == "skip[s=0.3]: matched to mix, 1.00x its time (1.00-1.00)."


def test_preparation_counts_and_one_seed_has_no_spread(folder):
    folder.add("mix", 0, 90.0, 6.0).add("skip[s=0.3]", 0, 88.0, (3.0, 3.0))
    freeze(folder)
    assert folder.board().notes[-1] == "skip[s=0.3]: matched to mix, 1.00x its time (one seed)."


def test_nothing_is_said_before_there_are_runs_of_both(folder):
    folder.fill("mix", [90.0] * 3, [6.0] * 3)
    freeze(folder)
    freeze(folder, conditions_id="c2")
    assert folder.board().notes == []


def test_tasks_and_conditions_are_named_where_there_are_several(folder):
    folder.suite(task_ids={"blobs": "t1", "others": "t2"})
    for place in ({"task_name": "blobs"}, {"task_name": "others", "task_id": "t2"}):
        folder.fill("mix", [90.0] * 2, [6.0] * 2, **place)
        folder.fill("skip[s=0.3]", [88.0] * 2, [6.0] * 2, **place)
    freeze(folder)
    freeze(folder, task="others")
    said = [line for line in folder.board().notes if "matched" in line]
    assert [line.split(",")[0] for line in said] == [
        "skip[s=0.3]: matched to mix on blobs",
        "skip[s=0.3]: matched to mix on others",
    ]


def test_published_figures_of_a_pattern_are_shown_beside_its_value(folder):
    line = {"accuracy": 70.0, "speedup": None, "source": "Nobody 2026", "strategy": "skip[s=?]"}
    published = [{**line, "task": None}, {**line, "task": "elsewhere", "accuracy": 10.0}]
    folder.suite(published=published, match="mix")
    folder.fill("mix", [90.0] * 2, [6.0] * 2).fill("skip[s=0.3]", [88.0] * 2, [6.0] * 2)
    freeze(folder)
    assert folder.lines()["published_accuracy"]["skip[s=0.3]"] == 70.0
