"""AutoAssist against an assistant in plain numpy, one sample after the other."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.auto_assist import hardness, learn, repeated
from probes import Stateless
from selections import stream_of

from dataeff import DataeffError, Plan, hookimpl
from dataeff.testing import TASK, train_tiny, weights


class Start(Stateless):
    """Write down what is offered to the strategy."""

    def __init__(self, events):
        self.events = events

    @hookimpl
    def select_batch(self, run, batch):
        rows = [[] for _ in range(batch.R)]
        for row, i, y in zip(*(c.tolist() for c in (batch.row, batch.idx, batch.y)), strict=True):
            rows[row].append((i, y))
        images = dict(zip(batch.idx.tolist(), batch.x.double().numpy(), strict=True))
        self.events.append(("offered", run.epoch, rows, images))


class End(Stateless):
    """Write down what the strategy left, and what was trained."""

    def __init__(self, events):
        self.events = events

    @hookimpl
    def select_batch(self, batch):
        rows = [[] for _ in range(batch.R)]
        for row, i in zip(batch.row.tolist(), batch.idx.tolist(), strict=True):
            rows[row].append(i)
        self.events.append(("left", rows))

    @hookimpl
    def observe_batch(self, batch, logits, losses):
        right = (logits.argmax(1) == batch.y).tolist()
        samples = zip(batch.idx.tolist(), batch.y.tolist(), losses.tolist(), right, strict=True)
        self.events.append(("trained", list(samples)))


class Naive:
    """The assistant and its coins, as the paper and its code have them."""

    def __init__(
        self, stream, gamma=0.3, lr=0.01, decay=1e-3, momentum=0.75, target="mean", bootstrap=1
    ):
        self.stream, self.gamma, self.lr, self.decay = stream, gamma, lr, decay
        self.momentum, self.target, self.bootstrap = momentum, target, bootstrap
        start = 0.001 * torch.randn(3 * 8 * 8 + 4, generator=stream).double().numpy()
        self.W, self.U = start[:-4].copy(), start[-4:].copy()
        self.sum = self.count = 0.0
        self.images = {}
        self.passed = self.offered = self.agreed = self.judged = 0

    def g(self, i, y):
        return 1 / (1 + np.exp(-(self.W @ self.images[i].ravel() + self.U[y])))

    def passing(self, epoch, rows):
        if epoch < self.bootstrap:
            return [[i for i, _ in row] for row in rows]
        kept = []
        for row, coin in zip(rows, torch.rand(len(rows), generator=self.stream), strict=True):
            again = (coin.item() - self.gamma) / (1 - self.gamma)
            if coin < self.gamma or any(again < self.g(i, y) for i, y in row):
                kept.append([i for i, _ in row])
        self.offered += len(rows)
        self.passed += len(kept)
        return kept

    def train(self, samples):
        a, B = self.momentum, len(samples)
        self.sum = a * self.sum + (1 - a) * sum(loss for _, _, loss, _ in samples)
        self.count = a * self.count + (1 - a) * B
        mean = self.sum / self.count
        guesses = [self.g(i, y) for i, y, _, _ in samples]
        step = np.zeros_like(self.W)
        for (i, y, loss, right), g in zip(samples, guesses, strict=True):
            t = int(loss > mean) if self.target == "mean" else int(not right)
            self.agreed += (g > 0.5) == t
            self.judged += 1
            step += (g - t) * self.images[i].ravel()
            self.U[y] -= self.lr / B * ((g - t) + self.decay * self.U[y])
        self.W -= self.lr / B * (step + self.decay * self.W)


class Halved(Stateless):
    """Train on smaller images."""

    @hookimpl
    def resize_batch(self, batch):
        batch.x = F.avg_pool2d(batch.x, 2)


@pytest.mark.parametrize(
    ("parameters", "others"),
    [
        ({}, ()),
        ({"gamma": 0.1, "target": "pred", "bootstrap": 0}, ()),
        ({"momentum": 0.0, "gamma": 0.0}, ()),
        ({"lr": 0.05, "decay": 0.1}, ()),
        ({}, ("mixtrain_mixup[selection=none]",)),
        ({}, (Halved(),)),
    ],
    ids=["defaults", "pred", "no momentum", "decay", "mixed", "halved"],
)
def test_rows_pass_and_the_assistant_learns_as_on_paper(installed, parameters, others):
    events = []
    inner = ",".join(f"{key}={value}" for key, value in parameters.items())
    text = f"auto_assist[{inner}]" if inner else "auto_assist"
    # Written first, the others resize and mix before it where order is all that counts.
    result = train_tiny(*others, Start(events), text, End(events), installed=installed)
    naive = Naive(stream_of(result, "auto_assist"), **parameters)
    passed, left = [], []
    for kind, *what in events:
        if kind == "offered":
            epoch, rows, images = what
            naive.images |= images
            passed += naive.passing(epoch, rows)
        elif kind == "left":
            left += what[0]
        else:
            naive.train(*what)
    assert left == passed
    assert len(left) == result.record["rows"]["trained"] < 4 * 81 / len(left[0])
    plugin = next(s.plugin for s in result.run.strategies if s.entry.name == "auto_assist")
    assert np.allclose(plugin.pixels.numpy(), naive.W, atol=1e-6)
    # Theirs decays with what earlier samples of the batch have made of it.
    assert np.allclose(plugin.classes.numpy(), naive.U, atol=1e-4)
    columns = result.record["columns"]
    assert columns["assistant_pass_rate"] == pytest.approx(naive.passed / naive.offered)
    assert columns["assistant_accuracy"] == pytest.approx(naive.agreed / naive.judged)


def test_the_assistant_learns_what_is_hard_where_pixels_tell():
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(12, generator=generator)
    pixels, classes = torch.zeros(12), torch.zeros(2)
    for _ in range(300):
        x = torch.randn(64, 12, generator=generator)
        y = torch.randint(2, (64,), generator=generator)
        hard = x @ truth + 3.0 * y > 1
        learn(pixels, classes, x, y, hard, lr=1.0, decay=1e-3)
    guess = hardness(pixels, classes, x, y)
    assert ((guess > 0.5) == hard).float().mean() > 0.95
    assert classes[1] > classes[0]


def test_passing_all_is_the_baseline(installed):
    result = train_tiny("auto_assist[gamma=1]", installed=installed)
    assert torch.equal(weights(result), weights(train_tiny(installed=installed)))
    assert result.record["columns"]["assistant_pass_rate"] == 1
    assert "scored" not in result.record["rows"], "the assistant costs no forward"


def test_batches_are_full_but_the_last(installed):
    sizes = []

    class Sizes(Stateless):
        @hookimpl
        def observe_batch(self, run, batch):
            sizes.append((run.epoch, batch.R))

    task = TASK.model_copy(update={"batch_size": 18})
    train_tiny("auto_assist", Sizes(), installed=installed, task=task)
    for epoch in range(4):
        *full, last = [size for when, size in sizes if when == epoch]
        assert set(full) == {18}
        assert last <= 19


def test_an_epoch_of_batches_goes_round_until_as_many_rows_have_passed(installed):
    """Rounds continue in order, as many as the share that passed in the epoch before asks for."""
    events = []
    text = "auto_assist[epoch=batches,gamma=0.2]"
    task = TASK.model_copy(update={"epochs": 8})
    train_tiny(Start(events), text, End(events), installed=installed, task=task)
    offered, passed = [[] for _ in range(8)], [0] * 8
    for kind, *what in events:
        if kind == "offered":
            epoch = what[0]
            offered[epoch] += [row[0][0] for row in what[1]]
        elif kind == "left":
            # What was held until now is left now; nothing is held across epochs.
            passed[epoch] += len(what[0])
    n = len(offered[0])
    assert passed[0] == n == 81
    rate = (1 + 0.2) / 2
    for epoch in range(1, 8):
        assert len(offered[epoch]) == pytest.approx(n / rate, abs=1)
        assert offered[epoch] == (offered[epoch][:n] * 5)[: len(offered[epoch])]
        rate = passed[epoch] / len(offered[epoch])
    assert sum(passed[2:]) == pytest.approx(6 * n, rel=0.1), "as many as without the assistant"


@pytest.mark.parametrize(
    ("times", "rows", "sizes"),
    [
        (1.0, [*range(15)], [8, 7]),
        (1.2, [*range(15), *range(3)], [8, 10]),
        (1.4, [*range(15), *range(6)], [8, 7, 6]),
        (2.0, [*range(15)] * 2, [8, 7, 8, 7]),
        (2.6, [*range(15)] * 2 + [*range(9)], [8, 7, 8, 7, 9]),
    ],
)
def test_a_plan_gone_through_again(times, rows, sizes):
    plan = repeated(Plan(torch.arange(15), [8, 7]), times)
    assert (plan.rows[:, 0].tolist(), plan.sizes) == (rows, sizes)


def test_what_makes_no_sense_is_refused(installed):
    for parameters in ("gamma=1.1", "lr=0", "momentum=1", "bootstrap=-1", "target=loss", "epoch=1"):
        with pytest.raises(DataeffError):
            train_tiny(f"auto_assist[{parameters}]", installed=installed)
