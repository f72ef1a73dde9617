"""A small set as one uint8 tensor on the device, augmented batch-wise there."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import torch
from torch.nn.functional import pad

from dataeff.data.augment import crop_flip, draws
from dataeff.data.images import Normaliser


class MemorySplit:
    """Images and labels held on the device; `crop` is the padding that a random crop moves in."""

    def __init__(
        self,
        images: torch.Tensor,
        labels: torch.Tensor,
        normalise: Normaliser,
        *,
        crop: int = 0,
        flip: bool = False,
    ) -> None:
        self.size = tuple(images.shape[1:3])
        self.data = pad(images, (0, 0, crop, crop, crop, crop)).contiguous()
        self.labels = labels
        self.normalise = normalise
        self.crop = crop
        self.flip = flip

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> MemorySplit:
        """Return the same split on another device."""
        moved = copy.copy(self)
        moved.data = self.data.to(device)
        moved.labels = self.labels.to(device)
        moved.normalise = self.normalise.to(device)
        return moved

    def stream(
        self, batches: Sequence[torch.Tensor], augment: tuple[int, int] | None
    ) -> Iterator[torch.Tensor]:
        """Yield the images of each batch of indices: plain, or augmented for (seed, epoch)."""
        if not batches:
            return
        sizes = [len(batch) for batch in batches]
        # One copy to the device for the whole plan, instead of one per batch.
        index = torch.cat(list(batches)).to(self.data.device, non_blocking=True)
        if augment is None or not (self.crop or self.flip):
            for part in index.split(sizes):
                yield self._plain(part)
            return
        seed, epoch = augment
        dy, dx = (draws(seed, epoch, index, draw, 2 * self.crop + 1) for draw in (0, 1))
        flip = draws(seed, epoch, index, 2, 1 + self.flip)
        for parts in zip(*(column.split(sizes) for column in (index, dy, dx, flip)), strict=True):
            yield self.normalise(crop_flip(self.data, *parts, self.size))

    def _plain(self, index: torch.Tensor) -> torch.Tensor:
        (height, width), edge = self.size, self.crop
        padded = self.data.index_select(0, index)
        return self.normalise(padded[:, edge : edge + height, edge : edge + width])
