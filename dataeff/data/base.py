"""What a dataset is: the base class for plugin authors, and what a run gets from it."""

# Annotations stay objects here (no __future__ import): the registry reads the parameter types of
# subclasses, whose modules need not know these names.
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from dataeff.data.images import Normaliser, Split, resize, statistics
from dataeff.data.itemwise import Finish, Held, ItemSplit
from dataeff.data.labels import balanced, corrupt
from dataeff.data.memory import HostSplit, MemorySplit
from dataeff.data.packed import Packed, described
from dataeff.data.pixels import pixels
from dataeff.errors import DataeffError
from dataeff.imported import imported, is_place

Side = Annotated[int, Field(ge=4, le=4096)]
"""Height and width in pixels, as a parameter's type."""

Padding = Annotated[int, Field(ge=0, le=1024)]
"""Pixels around an image, as a parameter's type."""


@dataclass(eq=False)
class Dataset:
    """A loaded dataset; `shape` is (C, H, W) as the network sees it.

    `class_names` are those of the classes, in their order, where they are known.
    """

    name: str
    train: Split
    test: Split
    classes: int
    shape: tuple[int, int, int]
    fingerprint: str
    class_names: tuple[str, ...] = ()

    def to(self, device: torch.device) -> "Dataset":
        """Return the same dataset on another device."""
        return replace(self, train=self.train.to(device), test=self.test.to(device))


class Raw(NamedTuple):
    """What `ImageSet.read` returns: uint8 images (N, H, W, C), integer labels, the classes."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: int | Sequence[str]

    def readable(self, name: str) -> "Raw":
        """Return the same as tensors; images of another type as uint8."""
        images: list[Any] = [self.train_images, self.test_images]
        if not all(isinstance(part, Tensor) and part.dtype == torch.uint8 for part in images):
            images = pixels(name, images, "NHWC", None)
        labels = [torch.as_tensor(part) for part in (self.train_labels, self.test_labels)]
        return Raw(images[0], labels[0], images[1], labels[1], self.classes)

    def check(self, name: str) -> int:
        """Return the number of classes; say what is wrong with the tensors, if anything is."""
        classes = self.classes if isinstance(self.classes, int) else len(self.classes)
        shape = self.train_images.shape[1:]
        for part, images, labels in (("training", *self[:2]), ("test", *self[2:4])):
            if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1:] != shape:
                wrong = (
                    "images must be (N, H, W, C) and alike in both parts; the "
                    f"{part} images are {tuple(images.shape)}"
                )
            elif len(images) != len(labels) or len(labels) == 0:
                wrong = f"{len(images)} {part} images have {len(labels)} labels"
            elif classes < 2 or not 0 <= labels.min() <= labels.max() < classes:
                wrong = (
                    f"{part} labels must be 0..classes-1 of at least two classes; "
                    f"they run from {labels.min()} to {labels.max()} of {classes}"
                )
            else:
                continue
            raise DataeffError(f"dataset {name}: {wrong}.")
        return classes


@dataclass(eq=False, kw_only=True)
class ImageSet:
    """Base of the datasets: a subclass reads images, this makes training and test sets of them.

    A dataset of your own, `dots[dots=5]` once registered:

        @dataclass(eq=False, kw_only=True)
        class Dots(ImageSet):
            "Count the dots."

            dots: int = 3

            def read(self, root):
                labels = torch.arange(600) % self.dots
                images = torch.zeros(600, 16, 16, 1, dtype=torch.uint8)
                images[:, 8, ::3, 0] = 255 * (torch.arange(6) <= labels[:, None])
                return images[:500], labels[:500], images[500:], labels[500:], self.dots

    `size` resizes once, at load; `subset` keeps a class-balanced count or share of the training
    set; `label_noise` replaces that share of the training labels; `crop` (padding) and `flip`
    (horizontal) are the augmentation. `memory` is where the images stay: whole on the device, or on
    the host, from where each batch is copied. Redeclare one to change its default.
    """

    size: Side | None = None
    subset: int | float | None = None
    label_noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    crop: Padding = 0
    flip: bool = False
    memory: Literal["device", "host"] = "device"
    transform: Any = None

    _unmarked: ClassVar[tuple[str, ...]] = ("memory", "transform")
    """Parameters that change nothing about what is read, or tell of themselves otherwise."""

    def read(self, root: Path | None) -> Raw:
        """Return the fields of `Raw`, in its order; `root` is the user's data folder."""
        raise NotImplementedError(f"{type(self).__name__} must implement read(root).")

    def load(self, name: str, *, root: Path | None, workers: int = 0) -> Dataset:
        """Read and select; `name` is the canonical spec."""
        return self.made(name, Raw(*self.read(root)).readable(name), workers)

    def made(self, name: str, raw: Raw, workers: int = 0) -> Dataset:
        """Select of what was read, and make both parts of it."""
        classes = raw.check(name)
        kept, labels = self.training_part(name, raw.train_labels.long(), classes)
        images = raw.train_images if self.subset is None else raw.train_images[kept]
        self._check_memory(name, (len(kept) + len(raw.test_images), *images.shape[1:]))
        fingerprint = self.fingerprint(images.contiguous().numpy(), labels.numpy())
        images, test_images = resize(images, self.size), resize(raw.test_images, self.size)
        _, height, width, channels = images.shape
        normalise = Normaliser.of(*statistics(images), width)
        kind = HostSplit if self.memory == "host" else MemorySplit
        parts = (images, labels), (test_images, raw.test_labels.long())
        train: Split
        train, test = (
            kind(part, targets, normalise, crop=self.crop, flip=self.flip)
            for part, targets in parts
        )
        if transform := self.packed_transform():
            finish = Finish(None, self.crop, self.flip, transform)
            train = ItemSplit(Held(images), labels, normalise, finish, workers).tried()
        names = () if isinstance(raw.classes, int) else tuple(map(str, raw.classes))
        shape = channels, height, width
        return Dataset(name, train, test, classes, shape, fingerprint, names)

    def packed_transform(self) -> Packed | None:
        """Return the transform, read from its place where it is a text."""
        if self.transform is None:
            return None
        found = self.transform
        if isinstance(found, str):
            if not is_place(found):
                raise DataeffError(
                    f"transform={found}: write the place of a function, my_module:augment."
                )
            found = imported(found)
        if not callable(found):
            raise DataeffError(
                f"transform={self.transform}: {type(found).__name__} cannot be called; give a "
                "function of images (N, C, H, W), as torchvision.transforms.v2 makes them."
            )
        return Packed(found, "The transform")

    def _check_memory(self, name: str, shape: Sequence[int]) -> None:
        """Refuse a set that is larger than this machine, before it fills it."""
        count, height, width, channels = shape
        sides = (self.size, self.size) if self.size else (height, width)
        check_memory(name, count * channels * math.prod(side + 2 * self.crop for side in sides))

    def training_part(self, name: str, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
        """Return the indices of the training samples that stay and their labels, with noise."""
        generator = torch.Generator().manual_seed(0)
        kept = torch.arange(len(labels))
        if self.subset is not None:
            count = _count(name, self.subset, len(labels), classes)
            kept = balanced(labels, count, generator)
        return kept, corrupt(labels[kept], classes, self.label_noise, generator)

    def fingerprint(self, *content: Any, without: str = "") -> str:
        """Return a short digest of what is read: the parameters but one, and the training data."""
        left_out = *self._unmarked, without
        names = sorted(field.name for field in fields(self) if field.name not in left_out)
        digest = hashlib.sha256(repr([(name, getattr(self, name)) for name in names]).encode())
        if transform := self.packed_transform():
            digest.update(described(transform.get()).encode())
        for part in content:
            digest.update(part)
        return digest.hexdigest()[:12]


def check_memory(name: str, needed: int) -> None:
    """Refuse what takes more bytes than this machine has."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise DataeffError(
            f"dataset {name}: it would take {needed / 2**30:.3g} GiB of memory, and this machine "
            f"has {there / 2**30:.3g}; write a smaller size, crop or number of samples."
        )


def _count(name: str, subset: int | float, samples: int, classes: int) -> int:
    if isinstance(subset, float) and not 0 < subset < 1:
        raise DataeffError(
            f"dataset {name}: subset is a count, or a share above 0 and below 1, not {subset:g}."
        )
    count = round(subset * samples) if isinstance(subset, float) else subset
    if count > samples:
        wrong = f"subset={count} is more than the {samples} training samples"
    elif count < classes:
        kept = f"subset={subset} keeps {count} samples"
        wrong = f"{kept}, fewer than one per class; keep at least {classes}"
    else:
        return count
    raise DataeffError(f"dataset {name}: {wrong}.")
