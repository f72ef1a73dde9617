"""Small start: train on images of half the size for the first half."""

import torch.nn.functional as F

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("small_start", SmallStart)


class SmallStart(Strategy):
    """Halve height and width until half of training is done."""

    reserves = ("resolution",)
    saves = "flops"

    @hookimpl
    def resize_batch(self, run, batch):
        if run.progress < 0.5:
            batch.x = F.interpolate(batch.x, scale_factor=0.5, mode="bilinear")
