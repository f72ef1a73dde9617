"""Hard half: train only the rows of a batch that still hurt.

Your paper 2026, https://arxiv.org/abs/0000.00000
"""

from dataclasses import dataclass

from dataeff import Share, Strategy, hookimpl, portion


@hookimpl
def register_strategies(register):
    register("hard_half", HardHalf)


@dataclass(eq=False)
class HardHalf(Strategy):
    """Keep the share of each batch with the highest loss, by an extra forward pass."""

    keep: Share = 0.5
    saves = "rows"

    @hookimpl
    def select_batch(self, run, batch):
        losses = batch.per_row(run.score(batch))  # metered, on the clock
        batch.keep_rows(losses.topk(max(1, portion(self.keep, batch.R))).indices)
