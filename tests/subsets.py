"""What tests of subset selection share: books about a run that know nothing of its strategy."""

from copy import deepcopy
from functools import cached_property
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from probes import Stateless

from dataeff import hookimpl
from dataeff.plugins import load_plugins
from dataeff.testing import TASK, train_tiny

INSTALLED = load_plugins()


class Look:
    """A split as the last layer sees it; `gradient` has that of each sample, by autograd.

    A gradient is a matrix, one line per class; its last column is that of the bias.
    """

    def __init__(self, run, split):
        self.samples = run.split(split)
        self.head, self.y = deepcopy(run.model.head), run.labels[self.samples]
        handle = run.model.head.register_forward_pre_hook(self.hold)
        run.model.eval()
        with torch.no_grad():
            self.logits = run.model(next(iter(run.train.stream([self.samples], None))))
        run.model.train()
        handle.remove()

    def hold(self, head, args):
        self.inputs = args[0]

    @cached_property
    def gradient(self):
        each = zip(self.samples.tolist(), self.inputs, self.y, strict=True)
        return {i: gradient(self.head, h, y) for i, h, y in each}


class Books(Stateless):
    """Write down, for each epoch, the network it began with, who was trained, and the weights."""

    def __init__(self, strategy):
        self.strategy = strategy
        self.epochs = []

    @hookimpl(tryfirst=True)
    def on_epoch_start(self, run):
        looks = {split: Look(run, split) for split in ("train", "validation")}
        self.epochs.append(SimpleNamespace(seen=set(), labels=run.labels, **looks))

    @hookimpl
    def observe_batch(self, batch):
        self.epochs[-1].seen |= set(batch.idx.tolist())

    @hookimpl
    def end_epoch(self):
        table = getattr(self.strategy, "weight", None)
        self.epochs[-1].weight = None if table is None else table.clone()


def gradient(head, h, y):
    """Return the gradient of one sample's loss, weights and bias side by side."""
    weight, bias = (p.detach().clone().requires_grad_() for p in (head.weight, head.bias))
    F.cross_entropy((weight @ h + bias)[None], y[None]).backward()
    return torch.cat([weight.grad, bias.grad[:, None]], 1)


def booked(strategy, *others, **changes):
    """Train the kit's little task; return the books and the result."""
    books = Books(strategy)
    return books, trained(books, strategy, *others, **changes)


def trained(*strategies, seed=0, **changes):
    """Train the kit's little task, changed in these fields."""
    task = TASK.model_copy(update=changes)
    return train_tiny(*strategies, installed=INSTALLED, seed=seed, task=task)


def vectors(line, samples, features):
    """Return the gradients of these samples as float64 vectors."""
    found = [line.train.gradient[i] for i in samples]
    parts = [g.flatten() if features else g[:, -1] for g in found]
    return torch.stack(parts).double()


def by_class(line):
    """Return the training samples of each class."""
    classes = {}
    for i in line.train.gradient:
        classes.setdefault(int(line.labels[i]), []).append(i)
    return classes
