"""Sets and batches of uint8 images (N, H, W, C): how they are changed, and how a run reads them."""

import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import interpolate

View = tuple[int, int] | None
"""How images are seen: augmented for (seed, epoch), or plain."""


def resize(images: Tensor, size: int | None) -> Tensor:
    """Resize to size x size, bilinear with antialias; None leaves the images as they are."""
    if size is None or images.shape[1:3] == (size, size):
        return images
    planes = images.permute(0, 3, 1, 2)
    resized = interpolate(planes, size=(size, size), mode="bilinear", antialias=True)
    return resized.permute(0, 2, 3, 1).contiguous()


def statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return each channel's mean and standard deviation, in units of the pixels."""
    # Counting the 256 values is exact, and needs no copy of the set as floats.
    counts = [torch.bincount(channel.flatten(), minlength=256) for channel in images.unbind(-1)]
    share = torch.stack(counts).double() / (images.numel() / images.shape[-1])
    values = torch.arange(256, dtype=torch.float64)
    mean = share @ values
    variance = share @ values**2 - mean**2
    return mean, variance.clamp(min=1).sqrt()


class Normaliser(NamedTuple):
    """Turn uint8 images (B, H, W, C) into float32 (B, C, H, W), channels last."""

    scale: Tensor
    shift: Tensor

    @classmethod
    def of(cls, mean: Tensor, std: Tensor, width: int) -> "Normaliser":
        """Bring each channel of images of this width to mean 0 and deviation 1."""
        # One whole row of pixels: broadcasting over three channels would not vectorise.
        return cls((1 / std).float().repeat(width), (-mean / std).float().repeat(width))

    def to(self, device: torch.device | str) -> "Normaliser":
        """Return the same on another device."""
        return Normaliser(self.scale.to(device), self.shift.to(device))

    def __call__(self, images: Tensor) -> Tensor:
        """Normalise a batch; `images` stays as it was."""
        batch, height, width, channels = images.shape
        rows = images.reshape(batch, height, width * channels).float()
        # Not fused into one operation: whether it rounds once or twice would depend on the batch.
        rows.mul_(self.scale).add_(self.shift)
        return rows.view(batch, height, width, channels).permute(0, 3, 1, 2)

    def undo(self, batch: Tensor) -> Tensor:
        """Return the uint8 images (B, H, W, C) of a normalised batch."""
        images = batch.permute(0, 2, 3, 1)
        rows = (images.flatten(2) - self.shift) / self.scale
        return rows.round().clamp(0, 255).byte().view(images.shape)


class Split:
    """The training or the test part of a dataset."""

    labels: Tensor
    normalise: Normaliser
    """What `stream` does to the pixels, so that it can be undone for the eye."""

    _moving: tuple[str, ...] = ("labels", "normalise")

    def __len__(self) -> int:
        return len(self.labels)

    def stream(self, batches: Sequence[Tensor], augment: View) -> Iterator[Tensor]:
        """Yield normalised images (B, C, H, W) for each batch of CPU indices.

        `augment` is None for the plain view, or (seed, epoch).
        """
        raise NotImplementedError

    def to(self, device: torch.device | str) -> Self:
        """Return the same split on another device."""
        moved = copy.copy(self)
        for name in self._moving:
            setattr(moved, name, getattr(self, name).to(device))
        return moved
