"""The plan of an epoch: its rows, in order, cut into batches. It lives on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dataeff.errors import DataeffError


class Layout(NamedTuple):
    """All samples of a plan in order, on the CPU and on the device, and their rows in a batch."""

    samples: Tensor
    idx: Tensor
    row: Tensor | None = None


@dataclass(eq=False)
class Rows:
    """The rows of one planned batch, cut out of the whole plan when they are asked for."""

    layout: Layout
    part: slice
    R: int
    width: int | None = 1

    @property
    def samples(self) -> Tensor:
        """Return the indices of the samples, on the CPU."""
        return self.layout.samples[self.part]

    @property
    def idx(self) -> Tensor:
        """Return the indices of the samples, on the device."""
        return self.layout.idx[self.part]

    @property
    def row(self) -> Tensor | None:
        """Return the row of each sample, on the device; None where each is a row of its own."""
        return None if self.layout.row is None else self.layout.row[self.part]


class Plan:
    """Rows (M, k) of sample indices, padded with -1, and how many rows each batch takes.

    A last batch of one row joins the one before it: BatchNorm has no variance of one.
    """

    def __init__(self, rows: Tensor, sizes: list[int]) -> None:
        if sum(sizes) != len(rows):
            raise ValueError(f"batch sizes add up to {sum(sizes)}, the plan has {len(rows)} rows")
        self.rows = rows if rows.ndim == 2 else rows[:, None]
        self.sizes = [size for size in sizes if size]
        if len(self.sizes) > 1 and self.sizes[-1] == 1:
            self.sizes[-2:] = [self.sizes[-2] + 1]

    @classmethod
    def cut(cls, rows: Tensor, batch_size: int) -> Plan:
        """Cut rows into batches of equal size; the last one takes what is left."""
        full, rest = divmod(len(rows), batch_size)
        return cls(rows, [batch_size] * full + [rest] * (rest > 0))

    def __len__(self) -> int:
        return len(self.sizes)

    def head(self, share: float) -> Plan:
        """Return the first part of the plan, a row at least: a fractional last epoch."""
        if share >= 1:
            return self
        count = min(len(self.rows), max(1, round(share * len(self.rows))))
        sizes: list[int] = []
        for size in self.sizes:
            sizes.append(min(size, count - sum(sizes)))
        return Plan(self.rows[:count], sizes)

    def on(self, device: torch.device) -> list[Rows]:
        """Return the batches with their indices on the device: one copy for the whole epoch."""
        real = self.rows >= 0
        samples = self.rows[real]
        if self.rows.shape[1] == 1:
            layout = Layout(samples, samples.to(device, non_blocking=True))
            ends = torch.tensor(self.sizes).cumsum(0).tolist()
            parts = zip(ends, self.sizes, strict=True)
            return [Rows(layout, slice(end - size, end), size) for end, size in parts]
        sizes, widths = torch.tensor(self.sizes), real.sum(1)
        ends = sizes.cumsum(0)
        starts = ends - sizes
        row = torch.arange(len(self.rows)) - starts.repeat_interleave(sizes)
        row = row.repeat_interleave(widths)
        first = widths[starts]
        odd = widths != first.repeat_interleave(sizes)
        total, oddities = (F.pad(part.cumsum(0), (1, 0)) for part in (widths, odd))
        alike = (oddities[ends] == oddities[starts]).tolist()
        both = torch.stack([samples, row]).to(device, non_blocking=True)
        layout = Layout(samples, *both)
        borders = zip(total[starts].tolist(), total[ends].tolist(), strict=True)
        parts = zip(borders, self.sizes, first.tolist(), alike, strict=True)
        return [
            Rows(layout, slice(*border), size, width if same else None)
            for border, size, width, same in parts
        ]


def checked_mask(mask: Tensor, trainable: Tensor) -> Tensor:
    """Return what `prune_dataset` gave, on the CPU, if it is a mask over all samples."""
    if mask.dtype != torch.bool or mask.shape != trainable.shape:
        raise DataeffError(
            f"prune_dataset must return a boolean mask over all {len(trainable)} samples."
        )
    return mask.to(trainable.device)


def checked_plan(plan: Plan | None, trainable: Tensor, epoch: int) -> Plan:
    """Return what `plan_epoch` gave, if it plans training samples and some of them."""
    if plan is None:
        raise DataeffError("plan_epoch gave no plan: a wrapper must return one.")
    if not len(plan):
        raise DataeffError(
            f"Epoch {epoch} has no rows: every sample was pruned; keep more of them."
        )
    if not trainable[plan.rows[plan.rows >= 0]].all():
        raise DataeffError("plan_epoch planned validation samples: plan what is kept.")
    return plan
