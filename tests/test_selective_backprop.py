"""Selective-Backprop against its algorithm, written out sample by sample."""

from collections import deque

import pytest
import torch
from dataeff_plugins._holding import Holding
from dataeff_plugins.selective_backprop import percentiles
from probes import Stateless
from selections import stream_of, watched

from dataeff import Batch, DataeffError, hookimpl
from dataeff.testing import TASK, train_tiny, weights

SIZE = TASK.batch_size


class Naive:
    """The algorithm, with Python's own containers: what it lets through, batch by batch."""

    def __init__(self, coins, beta=1.0, history=1024, stale=1, primed=1):
        self.coins, self.beta, self.stale, self.primed = coins, beta, stale, primed
        self.recent = deque(maxlen=history)
        self.cache, self.age = {}, {}
        self.queue = []
        self.scored = 0

    def batch(self, epoch, rows, is_last):
        """Return the rows that are trained now, of those that came in with their true losses."""
        if epoch < self.primed:
            return [[i for i, _ in row] for row in rows]
        losses = [max(self.loss(i, true) for i, true in row) for row in rows]
        self.recent.extend(losses)
        coins = torch.rand(len(rows), generator=self.coins).tolist()
        for row, loss, coin in zip(rows, losses, coins, strict=True):
            below = sum(other < loss for other in self.recent)
            if coin < (below / len(self.recent)) ** self.beta:
                self.queue.append([i for i, _ in row])
        full = max(SIZE, len(rows))
        if len(self.queue) < full:
            return []
        return self.pop(full + 4 if is_last and len(self.queue) <= full + 4 else full)

    def loss(self, i, true):
        if self.age.get(i, self.stale) >= self.stale:
            self.cache[i], self.age[i] = true, 0
            self.scored += 1
        return self.cache[i]

    def trained(self, i, loss):
        self.cache[i], self.age[i] = loss, 0

    def pop(self, count):
        now, self.queue = self.queue[:count], self.queue[count:]
        return now

    def older(self):
        self.age = {i: age + 1 for i, age in self.age.items()}


class Training(Stateless):
    """Write down the loss of every training forward."""

    def __init__(self):
        self.seen = [{}]

    @hookimpl
    def observe_batch(self, batch, losses):
        unmixed = ~batch.mixed
        self.seen[-1] |= dict(
            zip(batch.idx[unmixed].tolist(), losses[unmixed].tolist(), strict=True)
        )

    @hookimpl
    def end_epoch(self):
        self.seen.append({})


def compare(installed, text, naive, *others, epochs=5):
    """Hold a run against the naive algorithm; return the run."""
    training = Training()
    before, after, result = watched(text, installed, training, *others, epochs=epochs)
    naive.coins = stream_of(result, "selective_backprop")
    left = iter(after.batches)
    for epoch in range(epochs):
        batches = [rows for when, _, _, rows in before.batches if when == epoch]
        for number, rows in enumerate(batches, 1):
            assert next(left) == (epoch, naive.batch(epoch, rows, number == len(batches)))
        assert len(naive.queue) != 1, "a seed that leaves one row over shows something else"
        if naive.queue:
            assert next(left) == (epoch, naive.pop(SIZE + 4)), "the rest ends the epoch"
        for i, loss in training.seen[epoch].items():
            naive.trained(i, loss)
        naive.older()
    assert next(left, None) is None
    assert result.record["rows"]["scored"] == naive.scored
    return before, after, result


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"beta": 3.0},
        {"beta": 0.5, "history": 20},
        {"history": 5, "primed": 2},
        {"stale": 2},
        {"stale": 3, "primed": 0},
    ],
    ids=str,
)
def test_batches_are_those_of_the_algorithm(installed, parameters):
    inner = ",".join(f"{key}={value}" for key, value in parameters.items())
    text = f"selective_backprop[{inner}]" if inner else "selective_backprop"
    _, _, result = compare(installed, text, Naive(None, **parameters))
    assert result.record["rows"]["trained"] < 5 * 81, "nothing was selected"


@pytest.mark.parametrize("stale", [1, 2])
def test_rows_of_two_samples_count_by_the_harder_one(installed, stale):
    naive = Naive(None, stale=stale)
    text = f"selective_backprop[stale={stale}]"
    _, after, _ = compare(installed, text, naive, "mixtrain_mixup[selection=none]")
    assert any(len(row) == 2 for epoch, rows in after.batches if epoch for row in rows)


def test_what_is_trained_is_the_view_that_was_scored(installed):
    before, after, _ = watched("selective_backprop", installed)
    assert len(after.images) < len(before.images)
    for key, x in after.images.items():
        assert torch.equal(x, before.images[key])


def test_keeping_all_is_the_baseline(installed):
    result = train_tiny("selective_backprop[beta=0]", installed=installed)
    assert torch.equal(weights(result), weights(train_tiny(installed=installed)))
    assert result.record["rows"]["scored"] == 3 * 81


def test_a_loss_is_refreshed_when_it_is_due_and_only_then(installed):
    """Each sample is scored at most every third epoch, and never right after its training."""
    scored = [[]]

    class Look(Stateless):
        @hookimpl(wrapper=True)
        def network(self, x):
            if not torch.is_grad_enabled():
                scored[-1].append(len(x))
            return (yield)

        @hookimpl
        def end_epoch(self):
            scored.append([])

    task = TASK.model_copy(update={"epochs": 7})
    train_tiny("selective_backprop[stale=3]", Look(), installed=installed, task=task)
    assert scored[0] == scored[1] == scored[2] == [], "all were trained in the first epoch"
    assert 0 < sum(scored[3]) < 81, "who was trained meanwhile is not due"
    assert sum(map(sum, scored)) < 81 * 4 / 3


def test_percentiles_count_what_is_strictly_below():
    recent = torch.tensor([3.0, 1.0, 1.0, 2.0])
    losses = torch.tensor([1.0, 2.0, 3.0, 0.0, 9.0])
    assert percentiles(losses, recent).tolist() == [0, 0.5, 0.75, 0, 1]


def test_batch_norm_counts_what_is_scored_only_in_train_mode(installed):
    counted = {}
    for mode in ("eval", "train"):
        text = f"selective_backprop[beta=0,score_mode={mode}]"
        state = train_tiny(text, installed=installed).run.model.state_dict()
        (counted[mode],) = {int(v) for k, v in state.items() if k.endswith("num_batches_tracked")}
    assert counted == {"eval": 20, "train": 35}


# Holding ---------------------------------------------------------------------------------------


class Chosen(Holding):
    """Hold a given number of rows of each batch."""

    def __init__(self, *counts):
        self.counts = counts

    @hookimpl
    def select_batch(self, run, batch):
        self.hold(run, batch, torch.arange(self.counts[run.batch]))


@pytest.mark.parametrize(
    ("size", "counts", "trained"),
    [
        (16, (16, 16, 16, 16, 17), [16, 16, 16, 16, 17]),
        (18, (18, 18, 18, 18, 9), [18, 18, 18, 18, 9]),
        (18, (10, 10, 10, 10, 7), [18, 18, 11]),
        (18, (10, 9, 0, 0, 5), [18, 6]),
        (18, (18, 18, 18, 10, 9), [18, 18, 18, 19]),
        (18, (18, 18, 18, 13, 9), [18, 18, 18, 22]),
        (18, (18, 18, 18, 14, 9), [18, 18, 18, 18, 5]),
        (18, (18, 0, 0, 0, 1), [18]),
        (18, (18, 0, 0, 0, 2), [18, 2]),
        (18, (0, 0, 0, 0, 2), [2]),
    ],
)
def test_batches_are_filled_and_no_row_is_trained_alone(installed, size, counts, trained):
    sizes = []

    class Sizes(Stateless):
        @hookimpl
        def observe_batch(self, batch):
            sizes.append(batch.R)

    task = TASK.model_copy(update={"epochs": 1, "batch_size": size})
    train_tiny(Chosen(*counts), Sizes(), installed=installed, task=task)
    assert sizes == trained


def test_rows_held_back_keep_all_that_belongs_to_them(installed):
    run = train_tiny(installed=installed).run
    run.batch, run.batches = 0, 9
    holder, seen = Chosen(10, 10), []
    holder.setup()
    for first in (0, 10):
        idx = torch.arange(first, first + 10)
        batch = Batch(torch.rand(10, 3, 8, 8), idx, run.labels[idx])
        batch.fields["mark"] = idx.float()
        batch.weight *= idx + 1
        seen.append(batch.x)
        holder.select_batch(run, batch)
        assert len(batch.x) == (16 if first else 0)
    rest = holder.drain()
    assert holder.drain() is None
    both = Batch.cat([batch, rest])
    assert both.idx.tolist() == list(range(20))
    assert torch.equal(both.x, torch.cat(seen))
    assert torch.equal(both.y, run.labels[:20])
    assert both.fields["mark"].tolist() == [float(i) for i in range(20)]
    assert both.weight.tolist() == [i + 1.0 for i in range(20)]


def test_what_makes_no_sense_is_refused(installed):
    for parameters in ("beta=-1", "stale=0", "history=0", "stale=2,score_mode=train"):
        with pytest.raises(DataeffError):
            train_tiny(f"selective_backprop[{parameters}]", installed=installed)
