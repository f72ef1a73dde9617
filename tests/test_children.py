"""Nested runs, other models and work off the clock: who pays for what."""

import pytest
import torch
from probes import Stateless, fresh_job

from dataeff import hookimpl
from dataeff.models import build_model
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training.job import Place


class Oracle(Stateless):
    """Score everything after each epoch, off the clock."""

    @hookimpl
    def end_epoch(self, run):
        with run.off_clock("oracle"):
            run.score_dataset()


def test_a_child_is_charged_to_the_prepare_clock_and_disturbs_nothing(installed):
    class Parent(Stateless):
        @hookimpl
        def prepare(self, run):
            before = torch.get_rng_state()
            self.children = [run.train_child("proxy", k, epochs=2) for k in range(2)]
            assert torch.equal(torch.get_rng_state(), before)

    parent = Parent()
    result = train_tiny(parent, "amp", installed=installed)
    plain = train_tiny("amp", installed=installed)
    assert torch.equal(weights(result), weights(plain))
    first, second = parent.children
    assert first.seed != second.seed
    assert [s.label for s in first.strategies] == ["amp"]
    assert torch.equal(first.trainable, result.run.trainable), "no child sees validation samples"
    rows = plain.record["rows"]["trained"]
    assert result.record["rows"]["trained"] == rows, "children are counted apart"
    assert result.record["rows"]["prepare_trained"] == 2 * 2 * 81
    spent = sum(child._job.meter.wall["train"] for child in parent.children)
    assert result.record["clocks"]["prepare"] >= spent > 0
    assert set(result.record["clocks"]) == {"prepare", "train", "evaluate"}
    assert result.record["flops"] == pytest.approx(plain.record["flops"] * 2)


def test_a_child_trains_on_the_samples_it_is_given(installed):
    class Parent(Stateless):
        @hookimpl
        def prepare(self, run):
            self.child = run.train_child("half", 0, epochs=1, indices=torch.arange(0, 90, 2))

    parent = Parent()
    train_tiny(parent, installed=installed)
    trained = parent.child.ledger.times_trained > 0
    assert trained.nonzero()[:, 0].tolist() == list(range(0, 90, 2))


def test_off_clock_work_is_named_and_unranked(installed):
    record = train_tiny(Oracle(), installed=installed).record
    assert record["clocks"]["off_oracle"] > 0
    assert record["ranked"] is False


def test_a_child_goes_through_the_whole_schedule(installed):
    class Parent(Stateless):
        @hookimpl
        def prepare(self, run):
            self.child = run.train_child("proxy", 0, epochs=1)

    parent = Parent()
    task = TASK.model_copy(
        update={"schedule": "step", "milestones": (2, 3), "warmup": 1, "validation": 0}
    )
    train_tiny(parent, installed=installed, task=task)
    assert parent.child.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * TASK.lr)


def test_children_that_differ_do_not_share_a_checkpoint(installed, tmp_path):
    class Parent(Stateless):
        @hookimpl
        def prepare(self, run):
            self.epochs = [run.train_child("proxy", 0, epochs=e).epoch for e in (1, 3)]

    parent = Parent()
    train_tiny(parent, installed=installed, place=Place(tmp_path))
    assert parent.epochs == [1, 3]


def test_scoring_with_another_model_costs_what_that_model_costs(installed):
    flops = []
    for name in ("tiny", "tiny[width=64]"):
        job = fresh_job(installed)
        other = build_model(name, installed.models, classes=4, shape=(3, 8, 8))
        job.run.score_dataset(model=other)
        job.close_work()
        flops.append(job.meter.flops)
    assert flops[1] > 10 * flops[0]


def test_off_clock_work_is_no_part_of_the_counted_work(installed):
    record = train_tiny(Oracle(), installed=installed).record
    assert record["flops"] == train_tiny(installed=installed).record["flops"]
    assert record["rows"]["off_oracle_scored"] == 4 * 81


def test_scoring_after_the_last_epoch_is_counted(installed):
    class Late(Stateless):
        @hookimpl
        def on_epoch_end(self, run):
            run.score_dataset(indices=torch.arange(4))

    record = train_tiny(Late(), installed=installed).record
    assert record["flops"] > train_tiny(installed=installed).record["flops"]


def test_models_scored_one_after_the_other_are_counted_each(installed):
    job, flops = fresh_job(installed), []
    for name in ("tiny", "tiny[width=64]", "tiny"):
        before = job.meter.flops
        other = build_model(name, installed.models, classes=4, shape=(3, 8, 8))
        job.run.score_dataset(model=other)
        flops.append(job.meter.flops - before)
    assert flops[0] == flops[2] < flops[1] / 10
