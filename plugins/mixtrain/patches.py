"""Patches: which part of a composite image shows the first sample of the pair.

Section 2 of the paper; CutMix is Yun et al. 2019, https://arxiv.org/abs/1905.04899. A patch is a
rectangle that covers some cells of the last feature map, never all and never none: either would
leave one of the two samples without a feature.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F


class Patch(NamedTuple):
    """Pixels (R, H, W) and cells (R, h, w) of the first sample of each row, and its share (R,)."""

    pixels: torch.Tensor
    cells: torch.Tensor
    share: torch.Tensor


def grid_boxes(h, w):
    """List the boxes (top, left, bottom, right) of half of h x w cells, grouped by their shape.

    Half is as near as a rectangle comes to it: 2x4 or 4x2 of 4x4 cells, 4x6, 5x5 or 6x4 of 7x7.
    """
    off = {(a, b): abs(2 * a * b - h * w) for a in range(1, h + 1) for b in range(1, w + 1)}
    return [
        [(i, j, i + a, j + b) for i in range(h - a + 1) for j in range(w - b + 1)]
        for a, b in off
        if off[a, b] == min(off.values()) and a * b < h * w
    ]


def half_boxes(h, w):
    """List the left, right, top and bottom halves of h x w cells, one group each."""
    sides = [(0, 0, h, w // 2), (0, w - w // 2, h, w), (0, 0, h // 2, w), (h - h // 2, 0, h, w)]
    return [[(i, j, k, m)] for i, j, k, m in sides if i < k and j < m]


BOXES = {"grid": grid_boxes, "half": half_boxes}


@lru_cache
def bank(kind, size, grid, device):
    """Return every box of a kind as a patch, and the upper bound of its share of [0, 1).

    It is made once per size: call it before the batches, which then copy nothing to the device.
    """
    groups = BOXES[kind](*grid)
    weights = [1 / len(groups) / len(group) for group in groups for _ in group]
    boxes = torch.tensor([box for group in groups for box in group])
    scale = torch.tensor([n / cells for n, cells in zip(size, grid, strict=True)] * 2)
    cells = cover(boxes, *grid).float()
    pixels = cover((boxes * scale).round().long(), *size)
    bounds = torch.tensor(weights).cumsum(0)[:-1]
    tables = (pixels, cells, cells.mean((1, 2)), bounds)
    pixels, cells, share, bounds = (table.to(device, non_blocking=True) for table in tables)
    return Patch(pixels, cells, share), bounds


def cover(boxes, h, w):
    """Return which of h x w cells each box holds, as booleans."""
    rows, columns = (torch.arange(n, device=boxes.device) for n in (h, w))
    top, left, bottom, right = (side[:, None] for side in boxes.unbind(1))
    inside_rows = (rows >= top) & (rows < bottom)
    inside_columns = (columns >= left) & (columns < right)
    return inside_rows[:, :, None] & inside_columns[:, None, :]


def aligned_patch(luck, size, grid, kind="grid"):
    """Return the patch that each number in [0, 1) stands for: borders are borders of cells.

    Any shape is as likely as any other, then any place; the share is that of the cells.
    """
    boxes, bounds = bank(kind, tuple(size), tuple(grid), luck.device)
    chosen = torch.bucketize(luck.contiguous(), bounds, right=True)
    return Patch(*(part[chosen] for part in boxes))


def free_patch(luck, size, grid, soft=False):
    """Return CutMix's own patch: its area uniform (Beta(1, 1)), clipped at the image's borders.

    A cell belongs to the sample that has half of its pixels or more or, `soft`, to both in part.
    Where that leaves one sample without a cell, an aligned patch takes its place. `luck` has four
    columns: area, centre, and the patch that may have to stand in.
    """
    reach = luck[:, 0].sqrt() / 2
    corners = [(luck[:, 1 + i] + sign * reach) * size[i] for sign in (-1, 1) for i in (0, 1)]
    pixels = cover(torch.stack(corners, dim=1).round().long(), *size)
    covered = F.adaptive_avg_pool2d(pixels.float()[:, None], grid)[:, 0]
    cells = covered if soft else (covered >= 0.5).float()
    taken = cells.mean((1, 2))
    valid = ((taken > 0) & (taken < 1))[:, None, None]
    other = aligned_patch(luck[:, 3], size, grid)
    return Patch(
        torch.where(valid, pixels, other.pixels),
        torch.where(valid, cells, other.cells),
        torch.where(valid[:, 0, 0], pixels.float().mean((1, 2)), other.share),
    )


def region_scale(region):
    """Return mask / mean(mask): under it, the mean over all cells is the mean over the region."""
    dims = tuple(range(1, region.ndim))
    return region / region.mean(dims, keepdim=True)
