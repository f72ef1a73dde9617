"""Forgetting events: drop, before training, the samples that are learned once and never lost.

Toneva et al. 2019, https://arxiv.org/abs/1812.05159
"""

from dataclasses import dataclass

import torch
from dataeff_plugins._pruning import ScorePruning
from pydantic import PositiveInt

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("forgetting", Forgetting)


@dataclass(eq=False)
class Forgetting(ScorePruning):
    """Keep the share of the samples that are forgotten most often, over `models` complete runs.

    A sample is forgotten when it was right at its last presentation and is wrong at this one, as
    training sees it: in train mode, augmented. One that is never right counts as forgotten each
    time. The runs last as long as the task, at most `epochs`. Many samples are never forgotten:
    equal counts are told apart at random.
    """

    models: PositiveInt = 5
    epochs: PositiveInt = 200

    def score(self, run, k, samples):
        """Return how often each sample was forgotten."""
        probe = EventCounter(len(run.labels), run.device)
        self.network_of(run, k, probe)
        return probe.score()[samples.to(run.device)]

    def ordered(self, run, samples):
        """Return the samples in a random order, in which equal scores are ranked."""
        return samples[torch.randperm(len(samples), generator=run.rng("forgetting"))]


class EventCounter(Strategy):
    """Looks on while a network trains, and counts how often each sample is forgotten."""

    def __init__(self, n, device):
        self.right = torch.zeros(n, dtype=torch.bool, device=device)
        self.ever_right = self.right.clone()
        self.events = torch.zeros(n, dtype=torch.int32, device=device)
        self.seen = self.events.clone()

    @hookimpl
    def observe_batch(self, batch, logits):
        idx, right = batch.idx, logits.argmax(1) == batch.y
        self.events[idx] += self.right[idx] & ~right
        self.right[idx] = right
        self.ever_right[idx] |= right
        self.seen[idx] += 1

    def score(self):
        """Return the count of each sample: of all its presentations where it was never right."""
        return torch.where(self.ever_right, self.events, self.seen).float()
