"""Progressive resizing: begin with small images, end with full ones.

As in Composer, after fast.ai,
https://docs.mosaicml.com/projects/composer/en/latest/method_cards/progressive_resizing.html
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from dataeff_plugins._resizing import cells, grown, readable_size, resized, scaled
from pydantic import Field, PositiveInt

from dataeff import Share, Strategy, hookimpl

Part = Annotated[float, Field(ge=0, le=1)]


@hookimpl
def register_strategies(register):
    register("progressive_resizing", ProgressiveResizing)


@dataclass(eq=False)
class ProgressiveResizing(Strategy):
    """Train at `initial` of the size for `delay` of training, then at ever larger sizes.

    The scale grows linearly and is 1 for the last `finetune` of training. Sides are rounded to a
    multiple of `multiple` (4 in Composer, which leaves two sizes to images of 8x8). `resize` is
    bilinear, without smoothing; `crop` cuts out a part, at one random place per batch. An image is
    not made so small that the network's last feature map has a single cell.
    """

    initial: Share = 0.5
    delay: Part = 0.5
    finetune: Part = 0.2
    multiple: PositiveInt = 2
    mode: Literal["resize", "crop"] = "resize"
    reserves = ("resolution",)
    saves = "flops"

    def __post_init__(self):
        if self.delay + self.finetune > 1 + 1e-9:
            raise ValueError("delay and finetune must add up to 1 or less; lower one of them")

    @hookimpl
    def setup(self, run):
        self._least = readable_size(run, self.initial, self.multiple)
        # What reads two sizes in a row reads all further ones: patches then divide the step.
        cells(run, grown(self._least, run.shape[1:], self.multiple))

    @hookimpl
    def resize_batch(self, run, batch):
        scale = scale_at(run.progress, self.initial, self.delay, self.finetune)
        size = tuple(map(max, scaled(run.shape[1:], scale, self.multiple), self._least))
        if self.mode == "resize":
            batch.x = resized(batch.x, size)
        elif size != tuple(batch.x.shape[-2:]):
            luck = torch.rand(2, generator=run.rng("progressive_resizing")).tolist()
            batch.x = cropped(batch.x, size, luck)


def scale_at(progress, initial, delay, finetune):
    """Return the scale at this progress in [0, 1]."""
    full = 1 - finetune
    if progress >= full:
        return 1.0
    if progress < delay:
        return initial
    return initial + (1 - initial) * (progress - delay) / (full - delay)


def cropped(x, size, luck):
    """Return one box of all images, at the place that two numbers in [0, 1) stand for."""
    free = (whole - side for whole, side in zip(x.shape[-2:], size, strict=True))
    top, left = (int(part * (room + 1)) for part, room in zip(luck, free, strict=True))
    last = x.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last else torch.contiguous_format
    part = x[..., top : top + size[0], left : left + size[1]]
    return part.contiguous(memory_format=layout)
