"""Resizing: which size a scale stands for, and images of that size."""

import math

import torch
import torch.nn.functional as F

from dataeff import DataeffError


def scaled(size, scale, multiple):
    """Return (h, w) times `scale`, each side rounded to a multiple, one at least; 1 is as it is."""
    if scale >= 1:
        return tuple(size)
    sides = (max(1, round(scale * pixels / multiple)) * multiple for pixels in size)
    return tuple(map(min, sides, size))


def grown(size, full, multiple):
    """Return the next size up: each side one multiple longer, but not beyond the full one."""
    return tuple(min(side + multiple, whole) for side, whole in zip(size, full, strict=True))


def readable_size(run, scale, multiple):
    """Return the smallest size of this scale or more whose last feature map has two cells.

    One cell leaves nothing to average, and nothing to share for strategies that mix; a network
    that has no more for full images is left with it.
    """
    full = tuple(run.shape[1:])
    enough = min(2, cells(run, full))
    size = scaled(full, scale, multiple)
    while size != full and cells(run, size) < enough:
        size = grown(size, full, multiple)
    return size


def cells(run, size):
    """Return how many cells (or tokens) the last feature map has for images of this size."""
    try:
        features = run.feature_shape((run.shape[0], *size))
    except (AssertionError, RuntimeError):
        raise DataeffError(
            f"{run.task.model} cannot read images of {size[0]}x{size[1]}: write another scale or "
            "multiple, or take a network for any size (timm's vit_* with dynamic_img_size=true)."
        ) from None
    return features[0] if len(features) == 2 else math.prod(features[1:])


def resized(x, size):
    """Return the images at this size, in the layout that they have.

    Plain bilinear: smoothing against aliasing takes up to four times as long on a CPU, for no gain
    that three seeds could show at 0.75.
    """
    if x.shape[-2:] == torch.Size(size):
        return x
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False)
