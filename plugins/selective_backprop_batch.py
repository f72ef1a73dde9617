"""In-batch Selective-Backprop: score a batch, train the rows of it that still hurt.

Composer's form of Jiang et al. 2019, https://arxiv.org/abs/1910.00762
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from dataeff_plugins._lookahead import ScoreMode, losses_of
from pydantic import Field

from dataeff import DataeffError, Share, Strategy, hookimpl, portion

Moment = Annotated[float, Field(ge=0, le=1)]


@hookimpl
def register_strategies(register):
    register("selective_backprop_batch", SelectiveBackpropBatch)


@dataclass(eq=False)
class SelectiveBackpropBatch(Strategy):
    """Draw a share of each batch, with odds that rise with the rank of the loss.

    The batch shrinks to that share, but not below two rows: BatchNorm has no variance of one.
    Active from `start` to `end` of training, except for every `interrupt`-th batch of an epoch (2:
    every other one, 0: none), which is trained whole. `scale` shrinks the images that are scored.
    `score_mode=train` scores as Composer does: BatchNorm also counts what is not trained.
    """

    keep: Share = 0.5
    start: Moment = 0.5
    end: Moment = 0.9
    interrupt: Annotated[int, Field(ge=0)] = 2
    scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    score_mode: ScoreMode = "eval"
    saves = "rows"

    def __post_init__(self):
        if self.start >= self.end:
            raise ValueError(f"start={self.start:g} must come before end={self.end:g}")

    @hookimpl
    def setup(self, run):
        side = min(run.shape[1:])
        if self.scale * side < 1:
            raise DataeffError(
                f"selective_backprop_batch: scale={self.scale:g} leaves nothing of images of "
                f"{side} pixels; write {math.ceil(1000 / side) / 1000:g} or more."
            )

    @hookimpl
    def select_batch(self, run, batch):
        count = max(min(2, batch.R), portion(self.keep, batch.R))
        if count == batch.R or not self.is_active(run.progress, run.batch):
            return
        x = batch.x
        if self.scale < 1:
            x = F.interpolate(x, scale_factor=self.scale, mode="bilinear")
        losses = batch.per_row(losses_of(run, x, batch.y, self.score_mode))
        ranks = draw_ranks(batch.R, count, self.keep, run.rng("selective_backprop_batch"))
        batch.keep_rows(losses.argsort()[ranks.to(losses.device, non_blocking=True)])

    def is_active(self, progress, batch):
        """Say whether this batch of the epoch is selected from."""
        whole = self.interrupt > 0 and (batch + 1) % self.interrupt == 0
        return self.start <= progress < self.end and not whole


def draw_ranks(n, count, keep, generator):
    """Draw `count` of n ranks without replacement, with odds percentile ** (1 / keep - 1).

    The odds depend on ranks alone, so the draw needs no losses: only their order is of the device.
    """
    percentile = (torch.arange(n) + 0.5) / n
    luck = torch.empty(n).exponential_(generator=generator)
    # In logarithms, because odds of small shares are too small for a float: Gumbel top-k.
    keys = (1 / keep - 1) * percentile.log() - luck.log()
    return keys.topk(count).indices
