"""One hole: blank out a square of each batch's images."""

import torch

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("one_hole", OneHole)


class OneHole(Strategy):
    """Set a square of half the height to zero, at one random place per batch."""

    @hookimpl
    def transform_batch(self, run, batch):
        height, width = batch.x.shape[-2:]
        side = height // 2
        # Drawn on the CPU: nothing has to be read back.
        luck = torch.rand(2, generator=run.rng("one_hole")).tolist()
        top, left = int(luck[0] * (height - side)), int(luck[1] * (width - side))
        batch.x = batch.x.clone()
        batch.x[..., top : top + side, left : left + side] = 0
