"""A set whose images are made one by one, by a Dataset or a transform that others wrote."""

import copy
import os
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import Dataset

from dataeff.data.augment import crop_flip, draws
from dataeff.data.images import Normaliser, View, resize, statistics
from dataeff.data.items import Items
from dataeff.data.packed import Packed
from dataeff.data.pixels import several_sizes
from dataeff.data.seeded import borrowed, seed_of, told_of, transformed
from dataeff.data.stream import Order, StreamSplit
from dataeff.errors import DataeffError

# Samples that means and deviations are taken from, where looking at all would be reading the set.
_SAMPLED = 128


class Finish(NamedTuple):
    """What is done to images: brought to a size; where they are augmented, cropped and so on."""

    size: int | None = None
    crop: int = 0
    flip: bool = False
    transform: Packed | None = None


class Held:
    """Images in memory (N, H, W, C), augmented by a transform."""

    def __init__(self, images: Tensor) -> None:
        self.data = images

    def images(self, indices: list[int], view: View) -> Tensor:
        """Return some images."""
        return self.data.index_select(0, torch.tensor(indices))


class Drawn:
    """Items of a Dataset, each read with the global generators seeded for it.

    `plain` is the same Dataset as it is seen without augmentation, `which` are the samples of it.
    """

    def __init__(self, items: Items, plain: Items, which: Tensor, size: int | None) -> None:
        self._items = Packed((items, plain), f"dataset {items.name}: the Dataset")
        self._which, self._size = which, size
        self.shape: torch.Size | None = None
        self.dtype = torch.uint8

    def images(self, indices: list[int], view: View) -> Tensor:
        """Return some images, all of one size and type."""
        items: Items = self._items.get()[view is None]
        made = []
        with borrowed() as seed:
            for index in indices:
                seed(seed_of(view, index))
                at = int(self._which[index])
                image = items.image(at)
                made.append(self._fitting(items.name, image, at))
        return torch.stack(made)

    def settle(self) -> None:
        """Find out which size and type images have, and that they hang on their seeds alone."""
        first = self.images([0], None)
        self.shape, self.dtype = first.shape[1:], first.dtype
        items: Items = self._items.get()[0]
        some = list(range(min(4, len(self._which))))
        if not torch.equal(self.images(some, (0, 0)), self.images(some, (0, 0))):
            raise DataeffError(
                f"dataset {items.name}: its items differ from one reading to the next; draw from "
                "the global generators of torch, numpy or random, which are seeded for each item."
            )

    def like(self, other: "Drawn") -> None:
        """Have images of the size and type of another part."""
        self.shape, self.dtype = other.shape, other.dtype

    def sample(self, view: View, count: int = _SAMPLED) -> Tensor:
        """Return some images, spread over all."""
        last = len(self._which) - 1
        places = torch.linspace(0, last, min(count, last + 1)).long().unique()
        return self.images(places.tolist(), view)

    def paths(self) -> list[str]:
        """Return the files of the items, where the Dataset tells of them as torchvision's do."""
        known = getattr(self._items.get()[0].dataset, "samples", None)
        if not isinstance(known, list) or not known or not isinstance(known[0], tuple | list):
            return []
        files = [known[at][0] for at in self._which.tolist()]
        return [os.fsdecode(file) for file in files if isinstance(file, str | bytes | os.PathLike)]

    def _fitting(self, name: str, image: Tensor, at: int) -> Tensor:
        image = _resized(image, self._size)
        if self.shape is not None and image.shape != self.shape:
            if image.shape[2] == self.shape[2]:
                raise several_sizes(name, {tuple(image.shape), tuple(self.shape)})
            raise DataeffError(
                f"dataset {name}: item {at} has {image.shape[2]} channels and others have "
                f"{self.shape[2]}; let all have the same."
            )
        if self.shape is not None and image.dtype != self.dtype:
            raise DataeffError(
                f"dataset {name}: item {at} is {image.dtype} and others are {self.dtype}; let all "
                "be of one type, in training and test set."
            )
        return image


class _Views(Dataset[Tensor | str]):
    """The workers' side: takes an order for a whole batch, gives (B, H, W, C)."""

    def __init__(self, source: Held | Drawn, finish: Finish) -> None:
        self.source, self.finish = source, finish

    def __getitem__(self, order: Order) -> Tensor | str:
        indices, view = order
        try:
            images = self.source.images(indices, view)
            return images if view is None else self._augmented(images, indices, view)
        # Returned, not raised: a worker's exception arrives with its traceback as text.
        except Exception as error:
            return told_of(error)

    def _augmented(self, images: Tensor, indices: list[int], view: tuple[int, int]) -> Tensor:
        crop, flip, transform = self.finish[1:]
        if crop or flip:
            numbers = torch.tensor(indices)
            dy, dx = (draws(*view, numbers, draw, 2 * crop + 1) for draw in (0, 1))
            mirror = draws(*view, numbers, 2, 1 + flip)
            padded = pad(images, (0, 0, crop, crop, crop, crop)).contiguous()
            here, size = torch.arange(len(indices)), (images.shape[1], images.shape[2])
            images = crop_flip(padded, here, dy, dx, mirror, size)
        if transform is None:
            return images
        return transformed(transform.get(), images, indices, view)


class ItemSplit(StreamSplit):
    """Images that code of others makes, as the plan asks for them; labels on the device.

    What is uint8 is normalised here; fractions are taken to be what the network is to see.
    """

    def __init__(
        self,
        source: Held | Drawn,
        labels: Tensor,
        normalise: Normaliser,
        finish: Finish,
        workers: int,
    ) -> None:
        self._follow(_Views(source, finish), labels, workers)
        self.normalise = normalise
        self._is_ready = isinstance(source, Drawn) and source.dtype != torch.uint8

    def paths(self) -> list[str]:
        """Return the file of each sample, where that is known."""
        source = self._views.source  # type: ignore[attr-defined]
        return source.paths() if isinstance(source, Drawn) else []

    def _ready(self, images: Tensor) -> Tensor:
        return images.permute(0, 3, 1, 2) if self._is_ready else self.normalise(images)


def normaliser_of(source: Drawn) -> Normaliser:
    """Return what normalises images of these; of fractions, what shows them."""
    some = source.sample(None)
    if some.dtype == torch.uint8:
        return Normaliser.of(*statistics(some), some.shape[2])
    flat = some.flatten(0, 2).double()
    low, high = flat.amin(0), flat.amax(0)
    std = 255 / (high - low).clamp(min=1e-9)
    return Normaliser.of(-low * std, std, some.shape[2])


def plainly(train: Any, test: Any) -> Any:
    """Return a training set as it is seen without augmentation, or as it is where that is unknown.

    Where both are of one kind, as torchvision's are, the transforms of the test set are those.
    """
    if type(train) is not type(test):
        return train
    of_train, of_test = (getattr(part, "__dict__", {}) for part in (train, test))
    same = {name: of_test[name] for name in ("transform", "transforms") if name in of_test}
    if not same or not same.keys() <= of_train.keys():
        return train
    plain = copy.copy(train)
    for name, value in same.items():
        setattr(plain, name, value)
    return plain


def _resized(image: Tensor, size: int | None) -> Tensor:
    return resize(image[None], size)[0]
