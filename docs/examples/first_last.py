"""First last: hold the first batch of an epoch back, and train it at the end."""

import copy

import torch

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("first_last", FirstLast)


class FirstLast(Strategy):
    """Train the first batch of each epoch as its last one."""

    @hookimpl
    def setup(self):
        self.held = None

    @hookimpl
    def select_batch(self, run, batch):
        if run.batch == 0:
            self.held = copy.copy(batch)
            batch.keep_rows(torch.arange(0, device=run.device))

    @hookimpl
    def drain(self):
        held, self.held = self.held, None
        return held
