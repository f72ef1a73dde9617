"""Data as others bring them: Datasets of torch, transforms, and what is seen of their samples."""

import random

import numpy as np
import torch
from torch.utils.data import Dataset

from dataeff.data import dataset_of
from dataeff.data.own import Around

IMAGES = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
LABELS = np.arange(30) % 3


class Plain(Dataset):
    """Items as they are; `make` says of what kind."""

    def __init__(self, make=lambda image: torch.from_numpy(image).permute(2, 0, 1), count=30):
        self.make, self.count = make, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.make(IMAGES[index]), index % 3


class Drawing(Plain):
    """Draws from all three global generators."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        if torch.rand(()) < 0.5:
            image = image.flip(2)
        image = image.roll(int(np.random.randint(8)), 1)  # noqa: NPY002
        return image.roll(random.randrange(8), 2), label


def shake(images):
    """Roll images as a transform of one's own would."""
    across, down = torch.randint(0, 8, (2,)).tolist()
    return images.roll((down, across), (2, 3)) ^ int(np.random.randint(256))  # noqa: NPY002


def memory(workers=0, **options):
    """Return the data set of arrays."""
    parts = (IMAGES, LABELS), (IMAGES[:6], LABELS[:6])
    return dataset_of("mine", *parts, options, Around(workers=workers))


def streamed(train=None, test=None, workers=0, **options):
    """Return that of Datasets."""
    parts = Plain() if train is None else train, Plain(count=6) if test is None else test
    return dataset_of("mine", *parts, options, Around(workers=workers))


DRAWING = {
    "Dataset": lambda **more: streamed(Drawing(), **more),
    "transform of arrays": lambda **more: memory(transform=shake, crop=1, flip=True, **more),
    "transform of items": lambda **more: streamed(transform=shake, crop=1, flip=True, **more),
}


def images(split, batches, view):
    """Return what is seen of each sample, in the order of their numbers."""
    seen = torch.cat(list(split.stream([torch.tensor(batch) for batch in batches], view)))
    order = torch.tensor([index for batch in batches for index in batch]).argsort()
    return seen[order]
