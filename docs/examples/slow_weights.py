"""Slow weights: at the end of each epoch, go half of the way."""

import torch

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("slow_weights", SlowWeights)


class SlowWeights(Strategy):
    """Average the weights with those at the end of the epoch before."""

    @hookimpl
    def setup(self):
        self.before = []

    @hookimpl
    @torch.no_grad()
    def end_epoch(self, run):
        weights = list(run.model.parameters())
        for before, now in zip(self.before, weights, strict=False):
            now.lerp_(before, 0.5)
        self.before = [now.clone() for now in weights]
