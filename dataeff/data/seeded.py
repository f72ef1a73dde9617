"""Augmentation that others wrote, as a pure function of (seed, epoch, sample index).

Such code draws from the global generators of torch, numpy and Python. These are seeded for each
sample, and put back afterwards.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dataeff.data.augment import hash_integers
from dataeff.data.images import View
from dataeff.errors import DataeffError, one_line

Transform = Callable[[Tensor], Tensor]
"""Changes images (N, C, H, W), as those of torchvision.transforms.v2 do."""

# Tells the draws of a transform from those of the data set whose items it changes.
_TRANSFORM = 1


@contextmanager
def borrowed() -> Iterator[Callable[[int], None]]:
    """Yield what seeds the global generators; put them back where they stood."""
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield _seed
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])  # noqa: NPY002


def seed_of(view: View, index: int, *more: int) -> int:
    """Return the seed of a sample as it is seen; plain, it is the same in every epoch."""
    return hash_integers(*(view or ()), index, *more)


def transformed(transform: Transform, batch: Tensor, indices: list[int], view: View) -> Tensor:
    """Return images (N, H, W, C) as a transform makes them, each from draws of its own.

    It is given one image at a time: what it draws for several would hang on which these are.
    Fractions that it makes of uint8 are 0..1, as torchvision has it, and are returned as 0..255.
    """
    made = []
    with borrowed() as seed:
        for image, index in zip(batch.permute(0, 3, 1, 2).contiguous(), indices, strict=True):
            seed(seed_of(view, index, _TRANSFORM))
            try:
                made.append(_checked(image[None], transform(image[None])))
            # It is others' code, and may raise anything at all.
            except Exception as error:
                raise DataeffError(f"The transform cannot be used: {told_of(error)}") from error
    return torch.cat(made).permute(0, 2, 3, 1).contiguous()


def _seed(number: int) -> None:
    torch.default_generator.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002


def _checked(before: Tensor, after: Any) -> Tensor:
    if not isinstance(after, Tensor):
        wrong = f"{type(after).__name__}, no tensor"
    elif after.shape != before.shape:
        shapes = [" x ".join(map(str, images.shape[1:])) for images in (after, before)]
        wrong = f"an image of {shapes[0]} of one of {shapes[1]}, which other views keep"
    elif before.dtype == torch.uint8 and after.is_floating_point():
        if after.min() < -0.01 or after.max() > 1.01:
            ends = f"{after.min():.3g} to {after.max():.3g}"
            wrong = f"values from {ends}; leave Normalize out, since normalising is done here"
        else:
            return after.float() * 255
    elif after.dtype != before.dtype:
        wrong = f"{after.dtype} of {before.dtype}"
    else:
        return after
    raise DataeffError(f"it returns {wrong}; let it return images like those it takes.")


def told_of(error: Exception) -> str:
    """Return an error of others' code in one line."""
    return (
        str(error)
        if isinstance(error, DataeffError)
        else (f"{type(error).__name__}: {one_line(str(error))}")
    )
