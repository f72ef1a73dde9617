"""The plan of an epoch: its rows, in order, cut into batches. It lives on the CPU."""

from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from dataeff.errors import DataeffError

_FEW = 4


class Rows(NamedTuple):
    """The rows of one planned batch."""

    samples: Tensor
    """The indices of the samples, on the CPU."""
    idx: Tensor
    """The same on the device."""
    R: int
    """How many rows there are."""
    row: Tensor | None = None
    """The row of each sample, on the device; None where each is a row of its own."""
    width: int | None = 1
    """How many samples each row holds; None where they differ."""


class Plan:
    """Rows (M, k) of sample indices, padded with -1, and how many rows each batch takes.

    A last batch of up to four rows joins the one before it, if that has more of them: a whole step
    on so few would follow their noise. A single row always does: BatchNorm has no variance of one.
    """

    def __init__(self, rows: Tensor, sizes: list[int]) -> None:
        if sum(sizes) != len(rows):
            raise ValueError(f"batch sizes add up to {sum(sizes)}, the plan has {len(rows)} rows")
        self.rows = rows if rows.ndim == 2 else rows[:, None]
        self.sizes = [size for size in sizes if size]
        if len(self.sizes) > 1 and self.joins(self.sizes[-1], self.sizes[-2]):
            self.sizes[-2:] = [sum(self.sizes[-2:])]

    @staticmethod
    def joins(rows: int, before: int) -> bool:
        """Say whether a last batch of so many rows joins the one before it, which has `before`."""
        return rows <= 1 or (rows <= _FEW and rows < before)

    @classmethod
    def cut(cls, rows: Tensor, batch_size: int) -> Self:
        """Cut rows into batches of equal size; the last one takes what is left."""
        full, rest = divmod(len(rows), batch_size)
        return cls(rows, [batch_size] * full + [rest] * (rest > 0))

    def __len__(self) -> int:
        return len(self.sizes)

    def head(self, share: float) -> Self:
        """Return the first part of the plan, a row at least: a fractional last epoch."""
        if share >= 1:
            return self
        count = min(len(self.rows), max(1, round(share * len(self.rows))))
        sizes: list[int] = []
        for size in self.sizes:
            sizes.append(min(size, count - sum(sizes)))
        return type(self)(self.rows[:count], sizes)

    def on(self, device: torch.device) -> list[Rows]:
        """Return the batches with their indices on the device: one copy for the whole epoch."""
        real = self.rows >= 0
        samples = self.rows[real]
        if self.rows.shape[1] == 1:
            parts = (
                part.split(self.sizes) for part in (samples, samples.to(device, non_blocking=True))
            )
            return [Rows(*part) for part in zip(*parts, self.sizes, strict=True)]
        sizes, widths = torch.tensor(self.sizes), real.sum(1)
        ends = sizes.cumsum(0)
        starts = ends - sizes
        row = torch.arange(len(self.rows)) - starts.repeat_interleave(sizes)
        row = row.repeat_interleave(widths)
        first = widths[starts]
        odd = widths != first.repeat_interleave(sizes)
        total, oddities = (F.pad(part.cumsum(0), (1, 0)) for part in (widths, odd))
        alike = (oddities[ends] == oddities[starts]).tolist()
        counts = (total[ends] - total[starts]).tolist()
        both = torch.stack([samples, row]).to(device, non_blocking=True)
        parts = (part.split(counts) for part in (samples, *both))
        shared = [w if same else None for w, same in zip(first.tolist(), alike, strict=True)]
        return [
            Rows(own, idx, size, row, width)
            for own, idx, row, size, width in zip(*parts, self.sizes, shared, strict=True)
        ]


def trouble_of_mask(mask: Any, trainable: Tensor) -> str:
    """Say what is wrong with what `prune_dataset` gave; nothing where it is right.

    None has no opinion.
    """
    if mask is None:
        return ""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != trainable.shape:
        return f"it must return a boolean mask over all {len(trainable)} samples."
    return ""


def trouble_of_plan(plan: Any, trainable: Tensor) -> str:
    """Say what is wrong with what `plan_epoch` gave; nothing where it is right."""
    if not isinstance(plan, Plan):
        return f"it must return a Plan, not {type(plan).__name__}; a wrapper returns one as well."
    rows = plan.rows
    if rows.is_floating_point() or rows.device.type != "cpu":
        return "the rows of a plan are whole numbers on the CPU: sample indices, padded with -1."
    if len(rows) and not (int(rows.min()) >= -1 and int(rows.max()) < len(trainable)):
        return f"it planned samples that there are not: they are 0..{len(trainable) - 1}."
    if not trainable[rows[rows >= 0]].all():
        return "it planned validation samples: plan what is kept."
    return ""


def checked(plan: Plan, epoch: int) -> Plan:
    """Return the plan, if it has any rows."""
    if not len(plan):
        raise DataeffError(
            f"Epoch {epoch} has no rows: every sample was pruned; keep more of them."
        )
    return plan
