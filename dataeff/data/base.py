"""What a dataset is: the base class for plugin authors, and what a run gets from it."""

# Annotations stay objects here (no __future__ import): the registry reads the parameter types of
# subclasses, whose modules need not know these names.
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from dataeff.data.images import Normaliser, Split, resize, statistics
from dataeff.data.labels import balanced, corrupt
from dataeff.data.memory import HostSplit, MemorySplit
from dataeff.errors import DataeffError
from dataeff.notation import parse_one
from dataeff.registry import Registry

Side = Annotated[int, Field(ge=4, le=4096)]
"""Height and width in pixels, as a parameter's type."""

Padding = Annotated[int, Field(ge=0, le=1024)]
"""Pixels around an image, as a parameter's type."""


@dataclass(eq=False)
class Dataset:
    """A loaded dataset; `shape` is (C, H, W) as the network sees it."""

    name: str
    train: Split
    test: Split
    classes: int
    shape: tuple[int, int, int]
    fingerprint: str

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

    def check(self, name: str) -> int:
        """Return the number of classes; say what is wrong with the tensors, if anything is."""
        classes = self.classes if isinstance(self.classes, int) else len(self.classes)
        shape = self.train_images.shape[1:]
        for part, images, labels in (("training", *self[:2]), ("test", *self[2:4])):
            if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1:] != shape:
                wrong = (
                    "images must be uint8 (N, H, W, C) and alike in both parts; "
                    f"the {part} images are {images.dtype} {tuple(images.shape)}"
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

    def read(self, root: Path | None) -> Raw:
        """Return the fields of `Raw`, in its order; `root` is the user's data folder."""
        raise NotImplementedError(f"{type(self).__name__} must implement read(root).")

    def load(self, name: str, *, root: Path | None, workers: int = 0) -> Dataset:
        """Read and select; `name` is the canonical spec."""
        raw = Raw(*self.read(root))
        classes = raw.check(name)
        kept, labels = self.training_part(name, raw.train_labels.long(), classes)
        images = raw.train_images if self.subset is None else raw.train_images[kept]
        self._check_memory(name, (len(kept) + len(raw.test_images), *images.shape[1:]))
        fingerprint = self.fingerprint(images.contiguous().numpy(), labels.numpy())
        images, test_images = resize(images, self.size), resize(raw.test_images, self.size)
        _, height, width, channels = images.shape
        normalise = Normaliser.of(*statistics(images), width)
        kind = HostSplit if self.memory == "host" else MemorySplit
        train, test = (
            kind(part, targets, normalise, crop=self.crop, flip=self.flip)
            for part, targets in ((images, labels), (test_images, raw.test_labels.long()))
        )
        return Dataset(name, train, test, classes, (channels, height, width), fingerprint)

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
        # Where the images stay does not change what they show.
        left_out = "memory", without
        names = sorted(field.name for field in fields(self) if field.name not in left_out)
        digest = hashlib.sha256(repr([(name, getattr(self, name)) for name in names]).encode())
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


def load_dataset(
    text: str, registry: Registry, *, root: Path | None = None, workers: int = 0
) -> Dataset:
    """Load what `name[key=value]` describes, on the CPU."""
    part = parse_one(text)
    entry = registry[part.name]
    values = entry.read(part.params)
    return entry.factory(**values).load(entry.canonical(values), root=root, workers=workers)
