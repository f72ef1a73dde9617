"""Every other half: train half of every other batch, and report how many these were."""

import torch

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("every_other_half", EveryOtherHalf)


class EveryOtherHalf(Strategy):
    """Train the first half of every other batch."""

    saves = "rows"

    @hookimpl
    def setup(self):
        self.halved = 0

    @hookimpl
    def select_batch(self, run, batch):
        if run.batch % 2:
            batch.keep_rows(torch.arange(batch.R // 2 + 1, device=run.device))
            self.halved += 1

    # A column of runs.csv.
    @hookimpl
    def report(self):
        return {"batches_halved": self.halved}
