"""A small set as one uint8 tensor on the device or the host; augmented batch-wise on the device."""

import copy
from collections.abc import Iterator, Sequence
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from dataeff.data.augment import crop_flip, draws
from dataeff.data.images import Normaliser, Split, View


class MemorySplit(Split):
    """Images and labels held on the device; `crop` is the padding that a random crop moves in."""

    _moving: tuple[str, ...] = ("data", "labels", "normalise")

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        normalise: Normaliser,
        *,
        crop: int = 0,
        flip: bool = False,
    ) -> None:
        self.size = (images.shape[1], images.shape[2])
        self.data = pad(images, (0, 0, crop, crop, crop, crop)).contiguous()
        self.labels = labels
        self.normalise = normalise
        self.crop = crop
        self.flip = flip

    def stream(self, batches: Sequence[Tensor], augment: View) -> Iterator[Tensor]:
        """Yield the images of each batch of indices: plain, or augmented for (seed, epoch)."""
        if not batches:
            return
        sizes = [len(batch) for batch in batches]
        # One copy to the device for the whole plan, instead of one per batch.
        index = torch.cat(list(batches)).to(self.labels.device, non_blocking=True)
        if augment is None or not (self.crop or self.flip):
            (height, width), edge = self.size, self.crop
            for batch, part in zip(batches, index.split(sizes), strict=True):
                data, at = self._at_hand(batch, part)
                padded = data.index_select(0, at)
                yield self.normalise(padded[:, edge : edge + height, edge : edge + width])
            return
        seed, epoch = augment
        dy, dx = (draws(seed, epoch, index, draw, 2 * self.crop + 1) for draw in (0, 1))
        flip = draws(seed, epoch, index, 2, 1 + self.flip)
        parts, *luck = (column.split(sizes) for column in (index, dy, dx, flip))
        for batch, part, y, x, mirror in zip(batches, parts, *luck, strict=True):
            data, at = self._at_hand(batch, part)
            yield self.normalise(crop_flip(data, at, y, x, mirror, self.size))

    def _at_hand(self, batch: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return images on the device, and which of them are the batch; `index` is there too."""
        return self.data, index


class HostSplit(MemorySplit):
    """Images held in host memory, from where each batch is copied; labels on the device."""

    _moving = Split._moving
    _pin = False

    def pinned(self) -> Self:
        """Return the same split with page-locked batches, whose copies nobody waits for."""
        pinned = copy.copy(self)
        pinned._pin = True
        return pinned

    def _at_hand(self, batch: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        # New memory for every batch: torch reuses it only once the copy out of it is done.
        rows = self.data.new_empty(len(batch), *self.data.shape[1:], pin_memory=self._pin)
        torch.index_select(self.data, 0, batch, out=rows)
        rows = rows.to(index.device, non_blocking=self._pin)
        return rows, torch.arange(len(batch), device=index.device)
