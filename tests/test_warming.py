"""Warm-up: it goes through a strategy's own hooks, and leaves nothing but what is warm."""

import io
import sys
import threading
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from conftest import drawn
from probes import fresh_job
from test_same_numbers import ALL

from dataeff import Plan, Strategy, hookimpl
from dataeff.lab import Lab
from dataeff.saving import save
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training import cell, warming
from dataeff.training.checkpoint import strategy_state
from dataeff.training.rng import global_state
from dataeff.training.warming import excerpt, warm_up
from dataeff.whereabouts import HERE


@pytest.fixture
def thorough(monkeypatch):
    """Warm up as on a GPU."""
    monkeypatch.setattr(warming, "is_worthwhile", lambda job: True)


def state_of(job):
    """Return a checksum of all that a run has to itself."""
    run = job.run
    held = (run.model, run.optimizer, run.ledger, job.meter, run.rng)
    places = run.epoch, run.batch, run.epochs, job.version, job.history, job.artefacts
    strategies = [strategy_state(part.plugin) for part in run.strategies]
    states = [one.state_dict() for one in held]
    return save([states, places, strategies, global_state(run.device)], io.BytesIO())


CASES = drawn(ALL, 10)


@pytest.mark.parametrize(("text", "model"), CASES, ids=[text for text, _ in CASES])
def test_numbers_are_those_of_a_run_without(shared_installed, monkeypatch, thorough, text, model):
    task, results = TASK.model_copy(update={"model": model}), []
    for warm in (lambda job: None, warm_up):
        monkeypatch.setattr(cell, "warm_up", warm)
        results.append(train_tiny(text, installed=shared_installed, task=task))
    without, beside = results
    assert torch.equal(weights(without), weights(beside))
    for name in ("rows", "flops", "steps", "metrics", "train_loss"):
        assert without.record[name] == beside.record[name], name


@pytest.mark.parametrize("text", ["mixtrain_cutmix", "auto_assist", "craig", "el2n[models=1]"])
def test_it_leaves_no_trace(shared_installed, thorough, tmp_path, text):
    job = fresh_job(shared_installed, text)
    before, threads = state_of(job), threading.active_count()
    warm_up(job)
    assert state_of(job) == before
    assert threading.active_count() == threads
    assert not list(tmp_path.iterdir())


def test_what_it_draws_nobody_misses(installed):
    drawn = []

    class Draws(Strategy):
        """Draw from the global random state, as dropout does."""

        @hookimpl
        def observe_batch(self):
            drawn.append(float(torch.rand(())))

    installed.add_strategy("draws", Draws, "test")
    job = fresh_job(installed, "draws")
    before = state_of(job)
    warm_up(job)
    assert len(drawn) == 3
    assert state_of(job) == before


def test_after_an_epoch_all_samples_look_trained_and_half_of_them_right(installed, thorough):
    """Else a strategy that mixes or hides what is learnt would find nothing to do."""
    shares = []

    class Reads(Strategy):
        """Read the ledger."""

        @hookimpl
        def end_epoch(self, run):
            ledger = run.ledger
            right, loss = ledger.last_correct, ledger.last_loss
            assert loss[right].max() < loss[~right].min()
            shares.append((float(right.float().mean()), int(ledger.times_trained.min())))

    installed.add_strategy("reads", Reads, "test")
    warm_up(fresh_job(installed, "reads"))
    assert [times for _, times in shares] == [1, 2, 3]
    assert all(0.3 < right < 0.7 for right, _ in shares)


def looked_at(installed, **changes):
    """Return what the hooks of a strategy are called with while it warms up."""
    seen = []

    class Looks(Strategy):
        """Note what is asked of it."""

        @hookimpl
        def prepare(self, run):
            seen.append(("prepare", run.progress, 0))

        @hookimpl
        def observe_batch(self, run, batch):
            seen.append(("batch", run.progress, batch.R))

        @hookimpl(wrapper=True)
        def network(self, run, x):
            if not run.model.training:
                seen.append(("score", run.progress, len(x)))
            return (yield)

        @hookimpl
        def end_epoch(self, run):
            seen.append(("end", run.progress, 0))

    installed.add_strategy("looks", Looks, "test")
    job = fresh_job(installed, "looks", **changes)
    seen.clear()
    warm_up(job)
    return seen


def test_it_takes_batches_from_the_beginning_to_the_end_of_training(installed, thorough):
    seen = looked_at(installed, epochs=100)
    batches = [(progress, rows) for kind, progress, rows in seen if kind == "batch"]
    # 81 samples are trained: five batches of 16, and one row joins the last of them.
    assert [rows for _, rows in batches] == [16, 12, 8, 17] * 3
    assert [int(100 * progress) for progress, _ in batches] == [0] * 4 + [50] * 4 + [99] * 4
    assert [progress for kind, progress, _ in seen if kind == "end"] == [0.01, 0.51, 1.0]
    assert [rows for kind, _, rows in seen if kind == "score"] == [16, 1, 12, 8, 1]
    assert all(kind != "prepare" for kind, *_ in seen)


def test_a_short_run_is_gone_through_in_one_epoch(installed, thorough):
    seen = looked_at(installed, epochs=1, batch_size=4)
    places = [progress for kind, progress, _ in seen if kind == "batch"]
    assert len(places) == 12
    assert places[0] == 0
    assert places[-1] > 0.85


def test_on_a_processor_a_few_batches_are_enough(installed):
    seen = looked_at(installed, epochs=100)
    assert [rows for kind, _, rows in seen if kind == "batch"] == [16, 12, 17]


def test_samples_are_as_many_as_some_batches(installed, thorough):
    chosen = []

    class Chooses(Strategy):
        """Look at all samples before each epoch."""

        @hookimpl
        def on_epoch_start(self, run):
            chosen.append(run.split("train"))

    installed.add_strategy("chooses", Chooses, "test")
    warm_up(fresh_job(installed, "chooses", batch_size=3))
    # Of 81 samples 16 batches, from all over the set.
    assert {len(samples) for samples in chosen} == {48}
    assert chosen[0].min() < 5
    assert chosen[0].max() > 84


@dataclass(eq=False)
class Fails(Strategy):
    """Fail in the second object of its kind, which is the one that warms up."""

    way: str = "raise"

    @hookimpl
    def setup(self):
        type(self).made += 1
        self._wicked = type(self).made == 2

    @hookimpl
    def select_batch(self):
        if self._wicked and self.way == "raise":
            raise ValueError("only here")
        if self._wicked and self.way == "exit":
            sys.exit(3)


@pytest.mark.parametrize("way", ["raise", "exit"])
def test_what_fails_in_it_fails_nothing_else(installed, way):
    Fails.made = 0
    installed.add_strategy("fails", Fails, "test")
    place = HERE.now
    result = train_tiny(f"fails[way={way}]", installed=installed)
    assert Fails.made == 2
    assert result.record["status"] == "finished"
    assert torch.equal(weights(result), weights(train_tiny(installed=installed)))
    assert HERE.now == place, "nobody is to blame for what comes after"


def test_whoever_looks_on_is_left_alone(installed):
    calls = []

    class Probe(Strategy):
        """Count batches."""

        @hookimpl
        def observe_batch(self):
            calls.append(1)

    result = train_tiny("baseline", Probe(), installed=installed)
    assert len(calls) == result.record["steps"]


def test_loaders_that_it_has_started_are_used_by_the_run(installed, tmp_path, monkeypatch):
    from PIL import Image

    for split, count in (("train", 12), ("val", 2)):
        for label in ("a", "b"):
            (tmp_path / split / label).mkdir(parents=True)
            for number in range(count):
                image = Image.new("RGB", (20, 24), (20 * number, 0, 99))
                image.save(tmp_path / split / label / f"{number}.png")
    dataset = f"image_folder[path={tmp_path},size=16]"
    task = TASK.model_copy(update={"dataset": dataset, "batch_size": 4, "workers": 1})
    lab = Lab(installed, "cpu")
    with lab.started(task, lab.composition("mixtrain_cutmix").fresh(), 0) as job:
        warm_up(job)
        monkeypatch.setattr(job.train, "_new_loader", partial(pytest.fail, "on the clock"))
        cell.train(job, lambda job: {})
    assert job.run.epoch == 4


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ([16, 16, 16, 9], 4, [16, 12, 8, 9]),
        ([16, 16, 16, 16, 9], 3, [16, 12, 9]),
        ([8, 7], 3, [8, 7]),
        ([8], 3, [8]),
        ([8, 8, 8, 8, 7], 1, [8]),
        ([40] * 9, 9, [40, 30, 8, 40, 30, 8, 40, 30, 40]),
    ],
)
def test_an_excerpt_has_the_first_and_the_last_batch(sizes, count, expected):
    plan = Plan(torch.arange(sum(sizes)), sizes)
    part = excerpt(plan, count)
    assert part.sizes == expected
    assert part.rows[0] == 0
    if count > 1:
        assert part.rows[-1] == sum(sizes) - 1
