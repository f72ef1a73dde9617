"""The lab: what a process works with is loaded, read and built once for all its runs."""

from collections import Counter
from dataclasses import dataclass

import pytest
import torch
from probes import fresh_job

import dataeff.composition
import dataeff.lab
from dataeff import DataeffError, Strategy, hookimpl
from dataeff.lab import Lab
from dataeff.testing import TASK, train_tiny
from dataeff.training.job import Place

ONCE = TASK.model_copy(update={"epochs": 1})


def counted(monkeypatch, module, name):
    """Count the calls of a function."""
    calls, function = [], getattr(module, name)

    def call(*arguments, **options):
        calls.append(arguments[0])
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, call)
    return calls


def test_many_runs_load_data_and_read_a_text_once(installed, monkeypatch):
    built = Counter()

    @dataclass(eq=False)
    class Counting(Strategy):
        """Count how often it is built."""

        rate: float = 0.5

        def __post_init__(self):
            built["counting"] += 1

        @hookimpl
        def lr_factor(self):
            return self.rate

    installed.add_strategy("counting", Counting, "test")
    loads = counted(monkeypatch, dataeff.lab, "load_dataset")
    texts = counted(monkeypatch, dataeff.composition, "parse")
    lab = Lab(installed, "cpu")
    for seed in range(3):
        lab.run(ONCE, lab.composition("counting[rate=0.50]"), seed)
    assert loads == [ONCE.dataset]
    assert texts == ["counting[rate=0.50]"]
    assert built["counting"] == 3 * 2 + 1, "once to see that it can be built; a run also warms up"


def test_the_canonical_form_of_what_was_read_is_known(installed, monkeypatch):
    texts = counted(monkeypatch, dataeff.composition, "parse")
    lab = Lab(installed, "cpu")
    first = lab.composition(" random_backprop[mode=shrink, keep=0.250] ")
    assert lab.composition(first.text) is first
    assert len(texts) == 1


def test_tasks_that_share_their_data_load_them_once(installed, monkeypatch):
    loads = counted(monkeypatch, dataeff.lab, "load_dataset")
    lab = Lab(installed, "cpu")
    for changes in ({"lr": 0.1}, {"batch_size": 8}, {"dataset": "synthetic[samples=30,size=8]"}):
        lab.data(TASK.model_copy(update=changes))
    assert loads == [TASK.dataset, "synthetic[samples=30,size=8]"]


def test_each_run_has_strategies_of_its_own(installed):
    composition = Lab(installed, "cpu").composition("random_backprop+amp")
    first, second = composition.fresh(), composition.fresh()
    assert [part.label for part in first] == [part.label for part in second]
    assert not {id(part.plugin) for part in first} & {id(part.plugin) for part in second}


def test_a_run_that_is_set_up_leaves_no_trace_in_the_process(installed):
    before = torch.get_rng_state()
    lab = Lab(installed, "cpu")
    task = ONCE.model_copy(update={"deterministic": True})
    with lab.started(task, [], 0) as job:
        assert torch.are_deterministic_algorithms_enabled()
        torch.rand(3)
        assert job.run.epoch == 0
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.equal(torch.get_rng_state(), before)


# Seconds of a strategy's own ----------------------------------------------------------------------


class Stop(Exception):
    """Stands for a kill between two epochs."""


class Timing(Strategy):
    """Time what it does in an epoch."""

    @hookimpl
    def on_epoch_start(self, run, epoch):
        with run.timed("scoring"):
            run.score_dataset()

    @hookimpl
    def end_epoch(self, run):
        self.share = run.timed_share("scoring")


def test_what_is_timed_is_a_column_and_stays_on_the_clock(installed):
    result = train_tiny(Timing(), installed=installed)
    seconds = result.record["columns"]["scoring_seconds"]
    assert 0 < seconds < result.record["clocks"]["train"]
    assert 0 < result.run.strategies[0].plugin.share < 1
    assert result.record["ranked"]


def test_what_is_timed_goes_on_after_a_stop(installed, tmp_path):
    def stop(epoch, epochs, line):
        if epoch == 3:
            raise Stop

    with pytest.raises(Stop):
        train_tiny(Timing(), installed=installed, place=Place(tmp_path), on_epoch=stop)
    before = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["meter"]["timed"]["scoring"]
    result = train_tiny(Timing(), installed=installed, place=Place(tmp_path))
    assert result.record["columns"]["scoring_seconds"] > before > 0


def test_a_column_that_is_timed_and_reported_is_a_clash(installed):
    class Twice(Timing):
        @hookimpl
        def report(self, run):
            return {"scoring_seconds": 1.0}

    with pytest.raises(DataeffError, match="'scoring_seconds'"):
        train_tiny(Twice(), installed=installed)


# Page-locked memory ------------------------------------------------------------------------------


def test_pinning_says_whether_there_is_anything_to_pin(installed):
    job = fresh_job(installed)
    before = job.train
    assert job.run.pin() is False, "a small set lives on the device"
    assert job.run.train is before


def test_pinning_is_for_this_run_alone(installed, monkeypatch):
    job = fresh_job(installed)
    ours, pinned = job.train, object()
    monkeypatch.setattr(type(ours), "pinned", lambda self: pinned, raising=False)
    assert job.run.pin() is True
    assert job.run.train is pinned
    assert fresh_job(installed).train is not pinned
