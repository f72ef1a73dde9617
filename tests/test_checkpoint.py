"""Checkpoints: plain data, all of a strategy's state, and the same numbers after a stop."""

from collections import deque

import pytest
import torch
import torch.nn.functional as F
from probes import Stateless
from torch import nn

from dataeff import Batch, Strategy, StrategyError, hookimpl
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training.checkpoint import load_strategy_state, strategy_state
from dataeff.training.job import Place
from dataeff.training.meter import Meter


class Stop(Exception):
    """Stands for a kill between two epochs."""


def stop_after(number):
    def on_epoch(epoch, epochs, record):
        if epoch == number:
            raise Stop

    return on_epoch


class Holder(Strategy):
    """A strategy with one of everything."""

    @hookimpl
    def setup(self):
        self.net = nn.Linear(2, 3)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)

    def fill(self):
        F.mse_loss(self.net(torch.ones(1, 2)), torch.ones(1, 3)).backward()
        self.optimizer.step()
        batch = Batch(torch.ones(2, 1), torch.tensor([4, 5]), torch.tensor([0, 1]))
        batch.fields["mark"] = torch.tensor([7, 8])
        self.queue = deque([batch, batch], maxlen=5)
        self.nested = {"a": [1, (2.5, None, "x")], 3: {True}}
        self.table = torch.arange(4)
        self.names = frozenset({"u"})


def test_everything_a_strategy_may_hold_survives(tmp_path):
    first, second = Holder(), Holder()
    first.setup()
    first.fill()
    second.setup()
    torch.save(strategy_state(first), tmp_path / "state.pt")
    load_strategy_state(second, torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(second.net.weight, first.net.weight)
    ours, theirs = (holder.optimizer.state_dict()["state"] for holder in (second, first))
    assert torch.equal(ours[0]["momentum_buffer"], theirs[0]["momentum_buffer"])
    assert isinstance(second.queue, deque)
    assert second.queue.maxlen == 5
    assert second.queue[1].idx.tolist() == [4, 5]
    assert second.queue[0].fields["mark"].tolist() == [7, 8]
    assert second.nested == first.nested
    assert second.names == first.names
    assert torch.equal(second.table, first.table)


def test_what_cannot_be_held_is_named():
    holder = Holder()
    holder.handle = lambda: None
    with pytest.raises(StrategyError, match=r"Holder\.handle is a function"):
        strategy_state(holder)


def test_what_setup_must_create_is_named():
    first, second = Holder(), Holder()
    first.setup()
    with pytest.raises(StrategyError, match="create it in setup"):
        load_strategy_state(second, strategy_state(first))


class DropoutNet(nn.Module):
    """A network whose training draws from the global random state."""

    def __init__(self, classes: int, shape: tuple[int, int, int]):
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 8, 3, stride=2)
        self.head = nn.Linear(8, classes)

    def forward_features(self, x):
        return F.dropout(F.relu(self.conv(x)), 0.3, self.training)

    def forward_head(self, z):
        return self.head(z.mean((2, 3)))

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


@pytest.mark.parametrize("stopped_after", [1, 2, 3, 4])
def test_resume_with_dropout_gives_the_uninterrupted_numbers(installed, tmp_path, stopped_after):
    installed.models.register("dropout_net", DropoutNet)
    task = TASK.model_copy(update={"model": "dropout_net", "optimizer": "adamw", "lr": 0.01})
    options = {"installed": installed, "task": task}
    whole = train_tiny("random_backprop[keep=0.7]", **options)
    with pytest.raises(Stop):
        train_tiny(
            "random_backprop[keep=0.7]",
            place=Place(tmp_path),
            on_epoch=stop_after(stopped_after),
            **options,
        )
    resumed = train_tiny("random_backprop[keep=0.7]", place=Place(tmp_path), **options)
    assert torch.equal(weights(resumed), weights(whole))
    kept = ("epoch", "lr", "train_loss", "test_top1", "test_loss", "validation_loss", "steps")
    for ours, theirs in zip(resumed.epochs, whole.epochs, strict=True):
        assert {key: ours.get(key) for key in kept} == {key: theirs.get(key) for key in kept}
    assert resumed.record["metrics"] == whole.record["metrics"]
    assert resumed.record["rows"] == whole.record["rows"]
    for name, column in whole.samples.items():
        assert torch.equal(resumed.samples[name].nan_to_num(-1), column.nan_to_num(-1))


def test_dropout_depends_on_the_seed_and_not_on_the_caller(installed):
    installed.models.register("dropout_net", DropoutNet)
    task = TASK.model_copy(update={"model": "dropout_net"})
    results = []
    for caller in (1, 2):
        torch.manual_seed(caller)
        results.append(weights(train_tiny("baseline", installed=installed, task=task)))
    assert torch.equal(*results)


def test_clocks_go_on_where_they_stood(installed, tmp_path):
    with pytest.raises(Stop):
        train_tiny("baseline", installed=installed, place=Place(tmp_path), on_epoch=stop_after(3))
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert saved["run"]["epoch"] == 2
    result = train_tiny("baseline", installed=installed, place=Place(tmp_path))
    assert result.record["clocks"]["train"] > saved["meter"]["wall"]["train"] > 0
    assert [line["epoch"] for line in result.epochs] == [0, 1, 2, 3]


@pytest.mark.parametrize(("every", "written"), [(0.0, 4), (2.5, 1), (60.0, 0)])
def test_checkpoints_are_as_rare_as_is_wanted_where_epochs_are_short(
    installed, tmp_path, monkeypatch, every, written
):
    """Each epoch lasts a second by the run's own clock, whatever others do meanwhile."""
    monkeypatch.setattr(Meter, "lived", lambda self: (float(ends.count(True)), 0.0, 0.0))
    saved, ends = [], []
    monkeypatch.setattr("dataeff.training.checkpoint.write_state", lambda *told: saved.append(told))
    place = Place(tmp_path, saves_every=every)
    train_tiny("baseline", installed=installed, place=place, on_epoch=lambda *a: ends.append(True))
    # One before the first epoch, whatever is wanted: what was prepared is not to be lost.
    assert len(saved) == 1 + written


def test_a_child_is_not_trained_again_after_a_stop(installed, tmp_path):
    trained = []

    class Parent(Stateless):
        @hookimpl
        def prepare(self, run):
            child = run.train_child("proxy", 0, epochs=2)
            trained.append((child._job.meter.wall["train"], weights_of(child.model)))
            if len(trained) == 1:
                raise Stop

    with pytest.raises(StrategyError):
        train_tiny(Parent(), installed=installed, place=Place(tmp_path))
    result = train_tiny(Parent(), installed=installed, place=Place(tmp_path))
    (first, before), (second, after) = trained
    assert torch.equal(before, after)
    assert second == first, "the finished child was read, not trained again"
    assert result.record["clocks"]["prepare"] >= second


def weights_of(model):
    return torch.cat([value.flatten().double() for value in model.state_dict().values()])
