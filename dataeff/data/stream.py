"""A large set streamed from image files through a DataLoader that follows the plan."""

import copy
import os
import sys
from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Any, Self

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from dataeff.data.augment import hash_integers
from dataeff.data.decode import check_shape, read_rgb
from dataeff.data.images import Normaliser, Split, View
from dataeff.data.packed import Packed
from dataeff.data.seeded import transformed
from dataeff.errors import DataeffError

IMAGENET_MEAN = torch.tensor([0.485, 0.456, 0.406], dtype=torch.float64) * 255
IMAGENET_STD = torch.tensor([0.229, 0.224, 0.225], dtype=torch.float64) * 255

Order = tuple[list[int], View]
_FORKS = sys.platform == "linux"


class StreamSplit(Split):
    """Image files decoded as the plan asks for them; labels on the device.

    The augmented view is a random resized crop (if `crop`) and a horizontal mirror (if `flip`);
    the plain view resizes the shorter side to 8/7 of `size` and cuts out the centre.
    """

    def __init__(
        self,
        files: Sequence[str],
        labels: Tensor,
        *,
        size: int = 224,
        crop: bool = True,
        flip: bool = True,
        workers: int = 0,
        transform: Packed | None = None,
    ) -> None:
        self._files = _Files(files, size, crop, flip)
        self._files.transform = transform
        self._follow(self._files, labels, workers)
        self.normalise = Normaliser.of(IMAGENET_MEAN, IMAGENET_STD, size)

    def _follow(self, views: Dataset[Tensor | str], labels: Tensor, workers: int) -> None:
        """Take batches from what makes the views that an order asks for."""
        self._views = views
        self.labels = labels
        self._workers = workers
        self._pin = False
        self._idle: list[DataLoader] = []

    def pinned(self) -> Self:
        """Return the same split with page-locked batches, which are copied while others compute."""
        if self._pin:
            return self
        pinned = copy.copy(self)
        pinned._pin, pinned._idle = True, []
        return pinned

    def paths(self) -> list[str]:
        """Return the file of each sample."""
        return [os.fsdecode(file) for file in self._files.files]

    def stream(self, batches: Sequence[Tensor], augment: View) -> Iterator[Tensor]:
        """Yield the images of each batch of indices: plain, or augmented for (seed, epoch)."""
        # A loader serves one stream at a time: scoring may begin while training is half-way.
        loader = self._idle.pop() if self._idle else self._new_loader()
        orders: Any = loader.sampler
        orders[:] = [(batch.tolist(), augment) for batch in batches]
        try:
            for images in loader:
                if isinstance(images, str):
                    raise DataeffError(images)
                yield self._ready(images.to(self.labels.device, non_blocking=self._pin))
        finally:
            self._idle.append(loader)

    def tried(self) -> Self:
        """Return it, once a transform of others has worked on some samples, twice alike."""
        order = list(range(min(4, len(self)))), (0, 0)
        seen = []
        for _ in range(2):
            images = self._views[order]
            if isinstance(images, str):
                raise DataeffError(images)
            seen.append(images)
        if not torch.equal(*seen):
            raise DataeffError(
                "The transform changes an image otherwise each time; let it draw from the global "
                "generators of torch, numpy or random, which are seeded for each sample."
            )
        return self

    def _ready(self, images: Tensor) -> Tensor:
        return self.normalise(images)

    def _new_loader(self) -> DataLoader:
        return DataLoader(
            self._views,
            batch_size=None,
            # What it is asked for, batch by batch: `stream` fills it in.
            sampler=list[Order](),
            num_workers=self._workers,
            persistent_workers=self._workers > 0,
            # The process of a cell would else ask a server, which imports all for each of them.
            multiprocessing_context="fork" if self._workers and _FORKS else None,
            pin_memory=self._pin,
            # Starting an iterator draws a seed; without this, from the global random state.
            generator=torch.Generator(),
        )


class _Files(Dataset[Tensor | str]):
    """The workers' side: takes an order for a whole batch, gives uint8 (B, size, size, 3)."""

    def __init__(self, files: Sequence[str], size: int, crop: bool, flip: bool) -> None:
        # One array: a list of a million strings would be copied into each worker bit by bit.
        self.files = np.array([os.fsencode(file) for file in files])
        self.size = size
        self.crop = crop
        self.flip = flip
        self.transform: Packed | None = None

    def __getitem__(self, order: Order) -> Tensor | str:
        indices, augment = order
        batch = torch.empty(len(indices), self.size, self.size, 3, dtype=torch.uint8)
        for row, index in zip(batch, indices, strict=True):
            path = os.fsdecode(self.files[index])
            try:
                image = read_rgb(path)
                check_shape(path, *image.size)
            except DataeffError as error:
                # Returned, not raised: a worker's exception arrives with its traceback as text.
                return str(error)
            row.copy_(torch.from_numpy(np.array(self._view(image, index, augment))))
        if augment is None or self.transform is None:
            return batch
        try:
            return transformed(self.transform.get(), batch, indices, augment)
        except DataeffError as error:
            return str(error)

    def _view(self, image: Image.Image, index: int, augment: View) -> Image.Image:
        if augment is None:
            return centre_crop(image, self.size)
        generator = torch.Generator().manual_seed(hash_integers(*augment, index))
        mirror = torch.rand((), generator=generator) < 0.5
        if self.crop:
            box = random_box(*image.size, generator)
            image = image.crop(box).resize((self.size, self.size), Image.Resampling.BILINEAR)
        else:
            image = centre_crop(image, self.size)
        return ImageOps.mirror(image) if self.flip and mirror else image


def centre_crop(image: Image.Image, size: int) -> Image.Image:
    """Resize the shorter side to 8/7 of `size` (256 for 224) and cut out the centre."""
    short = round(size * 8 / 7)
    width, height = (int(short * side / min(image.size)) for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + size, top + size))


def random_box(width: int, height: int, generator: torch.Generator) -> tuple[int, int, int, int]:
    """Draw the box of a random resized crop: 8-100% of the area, aspect 3:4 to 4:3."""
    for area, aspect, across, down in torch.rand(10, 4, generator=generator).tolist():
        pixels = width * height * (0.08 + 0.92 * area)
        ratio = (4 / 3) ** (2 * aspect - 1)
        w, h = round(sqrt(pixels * ratio)), round(sqrt(pixels / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(across * (width - w + 1)), int(down * (height - h + 1))
            return left, top, left + w, top + h
    # Very long or very high images: the largest centred box of an allowed aspect.
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h
