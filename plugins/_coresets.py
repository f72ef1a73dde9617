"""What strategies share that choose a new subset, by the last layer's gradients, now and then."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from dataeff_plugins._overhead import told
from pydantic import Field

from dataeff import Share, Strategy, hookimpl, portion


@dataclass(eq=False)
class Coreset(Strategy):
    """Choose a subset every few epochs with the network as it is, and train on nothing else.

    `keep` is the share of the samples that is chosen, `every` how many epochs it stays. The first
    choice is the untrained network's, unless `warm` is above 0: then ceil(warm * keep * epochs)
    epochs on all samples come before it. (The published warm start is as long, and then skips
    epochs up to warm * epochs; here every epoch is trained.) The papers keep 0.1 and choose every
    20 of 300 epochs; the defaults are for shorter runs. Scores are those of the network in eval
    mode on plain images.
    """

    keep: Share = 0.3
    every: Annotated[int, Field(ge=1)] = 5
    warm: Annotated[float, Field(ge=0, lt=1)] = 0.0
    saves = "rows"
    reserves = ("coreset",)

    @property
    def name(self):
        """Return the name of the strategy, which its columns and its random stream begin with."""
        return type(self).__name__.lower()

    @hookimpl
    def setup(self, run):
        self.mask = torch.ones(len(run.labels), dtype=torch.bool)
        self.selections = 0

    @hookimpl
    def on_epoch_start(self, run, epoch):
        age = epoch - warm_epochs(self.warm, self.keep, run.epochs)
        if age < 0 or age % self.every:
            return
        with run.timed(self.name):
            samples = run.split("train")
            chosen, weights = self.choose(run, samples, max(1, portion(self.keep, len(samples))))
            self.take(samples[chosen], weights)
        self.selections += 1

    def choose(self, run, samples, k):
        """Return about k places in `samples`, and their weights in any unit."""
        raise NotImplementedError

    def take(self, chosen, weights):
        """Make these samples the subset; weights are for those who use them."""
        self.mask = torch.zeros_like(self.mask).index_fill_(0, chosen, True)

    @hookimpl
    def prune_dataset(self):
        return self.mask

    @hookimpl
    def report(self, run):
        return {
            f"{self.name}_selections": self.selections,
            f"{self.name}_note": told("choosing", run.timed_share(self.name)),
        }


@dataclass(eq=False)
class WeightedCoreset(Coreset):
    """Choose a subset with weights; the loss of a batch is sum(w * loss) / sum(w)."""

    reserves = (*Coreset.reserves, "normaliser")

    @hookimpl
    def setup(self, run):
        super().setup(run)
        self.weight = torch.ones(len(run.labels), device=run.device)

    def take(self, chosen, weights):
        """Make these samples the subset, with weights whose mean is 1."""
        super().take(chosen, weights)
        table = torch.ones(len(self.weight))
        table[chosen] = (weights / weights.mean()).float()
        self.weight = table.to(self.weight.device)

    @hookimpl(wrapper=True)
    def reduce_loss(self, batch):
        before = batch.weight.sum()
        batch.weight = batch.weight * self.weight[batch.idx]
        numerator, denominator = yield
        # Others' weights keep the meaning they have without ours: alone this is sum(w).
        return numerator, denominator * (batch.weight.sum() / before)


def warm_epochs(warm, keep, epochs):
    """Return how many epochs on all samples come first."""
    # 0.2 * 0.4 * 50 is a little above 4: that is no fifth epoch.
    return math.ceil(warm * keep * epochs - 1e-9)


def budgets(labels, k):
    """Yield the places of each class and its part of k, rounded up."""
    for label in labels.unique():
        places = (labels == label).nonzero()[:, 0]
        yield places, math.ceil(k * len(places) / len(labels))


@dataclass(eq=False)
class Gradients:
    """Gradients of the last layer, one per sample: the outer product of `errors` and `inputs`.

    `errors` are p - y, one number per class. `inputs` are what the layer reads and a 1 for the
    bias, or that 1 alone. The products, many times as large, are made only by `flat`.
    """

    errors: torch.Tensor
    inputs: torch.Tensor

    def __len__(self):
        return len(self.errors)

    def __getitem__(self, places):
        return Gradients(self.errors[places], self.inputs[places])

    def of_class(self, label):
        """Return the part that belongs to one class: its row of the weights."""
        return Gradients(self.errors[:, label, None], self.inputs)

    def double(self):
        """Return them as float64."""
        return Gradients(self.errors.double(), self.inputs.double())

    def sum(self):
        """Return the summed gradient, classes x inputs."""
        return self.errors.T @ self.inputs

    def flat(self):
        """Return all of them as vectors."""
        return (self.errors[:, :, None] * self.inputs[:, None]).flatten(1)

    def dot(self, gradient):
        """Return everyone's product with a gradient, classes x inputs."""
        return (self.inputs @ gradient.T * self.errors).sum(1)

    def squares(self):
        """Return everyone's product with itself."""
        return self.errors.square().sum(1) * self.inputs.square().sum(1)

    def products(self, others):
        """Return the products of all of these with all of those."""
        return (self.errors @ others.errors.T) * (self.inputs @ others.inputs.T)


def last_layer(run, split, features):
    """Return (logits, labels, inputs) of a split, on the CPU.

    `inputs` end with the bias's 1; with `features`, what the last layer reads comes before it.
    """
    classes = 0

    def lines(logits, y, *h):
        nonlocal classes
        classes = logits.shape[1]
        return torch.cat([logits, *h, torch.ones_like(logits[:, :1])], 1)

    scores = run.score_dataset(lines, split=split, features=features).cpu()
    return scores[:, :classes], run.labels.cpu()[run.split(split)], scores[:, classes:]


def gradients(logits, labels, inputs):
    """Return the gradients of the cross-entropy."""
    return Gradients(logits.softmax(1) - F.one_hot(labels, logits.shape[1]), inputs)
