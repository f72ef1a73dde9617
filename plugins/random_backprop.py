"""Random-Backprop: drop a share of each batch before any forward.

The control of Selective-Backprop (Jiang et al. 2019, https://arxiv.org/abs/1910.00762).
"""

from dataclasses import dataclass
from typing import Literal

import torch

from dataeff import Plan, Share, Strategy, hookimpl, portion


@hookimpl
def register_strategies(register):
    register("random_backprop", RandomBackprop)


@dataclass(eq=False)
class RandomBackprop(Strategy):
    """Train a uniformly drawn share of each batch; what is dropped is not even loaded.

    `shrink` trains smaller batches, as many as before; `accumulate` fills them up, so that there
    are fewer. Remainders carry over from batch to batch: an epoch of M rows trains floor(keep * M).
    """

    keep: Share = 0.5
    mode: Literal["shrink", "accumulate"] = "shrink"
    saves = "rows"
    control = True

    @staticmethod
    def at_cost(share):
        """Fill the batches up: what is dropped then costs no time at all."""
        return {"keep": share, "mode": "accumulate"}

    @hookimpl(wrapper=True)
    def plan_epoch(self, run):
        plan = yield
        sizes = torch.tensor(plan.sizes)
        quota = kept_per_batch(sizes, self.keep)
        rows = plan.rows[draw(sizes, quota, run.rng("random_backprop"))]
        if self.mode == "accumulate":
            return Plan.cut(rows, run.task.batch_size)
        return Plan(rows, quota.tolist())


def kept_per_batch(sizes, keep):
    """Return how many rows each batch keeps: running totals are floor(keep * rows so far)."""
    totals = torch.tensor([portion(keep, rows) for rows in sizes.cumsum(0).tolist()])
    return totals.diff(prepend=totals.new_zeros(1))


def draw(sizes, quota, generator):
    """Draw `quota` rows of each batch without replacement; return them in plan order."""
    batch = torch.arange(len(sizes)).repeat_interleave(sizes)
    luck = torch.rand(len(batch), generator=generator, dtype=torch.float64)
    by_luck = (batch + luck).argsort()
    starts = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    rank = torch.arange(len(batch)) - starts
    return by_luck[rank < quota.repeat_interleave(sizes)].sort().values
