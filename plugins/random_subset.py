"""Random subset: the control that every data-selection method must beat.

Okanovic et al. 2023, Repeated Random Sampling, https://arxiv.org/abs/2305.18424
"""

from dataclasses import dataclass
from typing import Literal

import torch

from dataeff import Share, Strategy, hookimpl, portion


@hookimpl
def register_strategies(register):
    register("random_subset", RandomSubset)


@dataclass(eq=False)
class RandomSubset(Strategy):
    """Train on a uniformly drawn share of the samples, one for the run or a new one each epoch."""

    keep: Share = 0.5
    redraw: Literal["never", "epoch"] = "never"
    saves = "rows"
    control = True

    @hookimpl
    def setup(self):
        self.mask = None

    @hookimpl
    def prune_dataset(self, run):
        if self.mask is None or self.redraw == "epoch":
            samples = run.split("train")
            order = torch.randperm(len(samples), generator=run.rng("random_subset"))
            chosen = samples[order[: portion(self.keep, len(samples))]]
            self.mask = torch.zeros(len(run.labels), dtype=torch.bool)
            self.mask[chosen] = True
        return self.mask
