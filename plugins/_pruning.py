"""Pruning by a score: rank the training samples once, before training, and drop a share for good.

What EL2N, GraNd and forgetting events have in common; they differ in the score.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeInt, PositiveInt

from dataeff import Share, Strategy, hookimpl, portion

Offset = Annotated[float, Field(ge=0, lt=1)]


@dataclass(eq=False)
class ScorePruning(Strategy):
    """Keep a share of the samples by a score that `models` networks of their own have given.

    choose: `hardest` keeps the highest scores, `easiest` the lowest, `offset` the next ones above
    the share `offset` of lowest scores. stratified: keep the same share of every class.
    steps: `epochs` trains as many epochs as without pruning, so fewer steps; `fixed` as many steps,
    so more epochs. reuse: take scores that another run has left, or leave them, the same for all
    seeds; what they cost is charged in full all the same, and the table also says what it is when
    those who use them share the cost.
    """

    keep: Share = 0.75
    models: PositiveInt = 10
    epochs: NonNegativeInt = 20
    choose: Literal["hardest", "easiest", "offset"] = "hardest"
    offset: Offset = 0.0
    stratified: bool = False
    steps: Literal["epochs", "fixed"] = "epochs"
    reuse: bool = False

    def __post_init__(self):
        if self.offset and self.choose != "offset":
            raise ValueError("offset is for choose=offset only")
        if self.offset + self.keep > 1:
            raise ValueError(f"offset={self.offset} leaves less than keep={self.keep}")

    @property
    def saves(self):
        """Rows, unless the steps of the whole set are taken."""
        return "rows" if self.steps == "epochs" else ""

    @hookimpl
    def setup(self, run):
        self.scores = self.mask = None
        if self.steps == "fixed":
            run.epochs /= self.keep

    @hookimpl
    def prepare(self, run):
        self.scores = run.artefact(self, self.settings, lambda: self._mean_score(run), self.reuse)
        samples = self.ordered(run, run.split("train"))
        labels = run.labels.cpu()[samples] if self.stratified else None
        which = self.keep, self.choose, self.offset, labels
        kept = samples[kept_by_score(self.scores[samples], *which)]
        self.mask = torch.zeros(len(run.labels), dtype=torch.bool).index_fill_(0, kept, True)

    @hookimpl
    def prune_dataset(self):
        return self.mask

    def _mean_score(self, run):
        """Return the mean over networks for each sample, NaN for those held out of training."""
        samples = run.split("train")
        total = torch.zeros(len(samples))
        for k in range(self.models):
            total += self.score(run, k, samples).cpu()
        scores = torch.full((len(run.labels),), torch.nan)
        scores[samples] = total / self.models
        return scores

    @property
    def settings(self):
        """Return what the scores hang on."""
        return {"models": self.models, "epochs": self.epochs}

    def ordered(self, run, samples):
        """Return the samples in the order in which equal scores are ranked."""
        return samples

    def score(self, run, k, samples):
        """Return the scores that the k-th network gives to these samples."""
        raise NotImplementedError

    def network_of(self, run, k, probe=None):
        """Train the k-th scoring network: on the task's own schedule, for its first epochs only."""
        name, epochs = type(self).__name__.lower(), run.task.epochs
        until = min(self.epochs, math.ceil(epochs))
        return run.train_child(name, k, epochs, until=until, probe=probe, shared=self.reuse)


def kept_by_score(scores, keep, choose="hardest", offset=0.0, labels=None):
    """Return the places of those kept; with labels, the same share of every class.

    Equal scores rank in the order in which they are given.
    """
    if labels is not None:
        groups = [(labels == label).nonzero()[:, 0] for label in labels.unique()]
        kept = [group[kept_by_score(scores[group], keep, choose, offset)] for group in groups]
        return torch.cat(kept)
    count = max(1, portion(keep, len(scores)))
    first = {"hardest": len(scores) - count, "easiest": 0, "offset": portion(offset, len(scores))}
    ascending = scores.argsort(stable=True)
    return ascending[first[choose] :][:count]
