"""Data that somebody gives us for a loop of their own: names, tensors, data sets of theirs."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from dataeff.data import Dataset, ImageSet, Split, load_dataset
from dataeff.data.images import View
from dataeff.errors import DataeffError
from dataeff.plugins import Installed
from dataeff.training.rng import derive, forked

FORMS = (
    "a name such as 'digits', a data set of dataeff, a pair (x, y) of tensors or arrays, or a "
    "torch Dataset of pairs (x, y)"
)
"""What may be given."""


class TensorSplit(Split):
    """Inputs and labels as they were given, the inputs float tensors of any shape."""

    _moving = ("x", "labels")

    def __init__(self, x: Tensor, labels: Tensor) -> None:
        self.x, self.labels = x, labels

    def stream(self, batches: Sequence[Tensor], augment: View) -> Iterator[Tensor]:
        """Yield the inputs of each batch of indices; there is nothing to augment."""
        for batch in batches:
            yield self.x[batch.to(self.x.device)]


class ItemsSplit(Split):
    """Items of somebody's data set, collated; their transforms are theirs, in both views."""

    _moving = ("labels",)

    def __init__(self, items: Any, labels: Tensor, workers: int) -> None:
        self.items, self.labels, self._known, self._workers = items, labels, labels, workers

    def stream(self, batches: Sequence[Tensor], augment: View) -> Iterator[Tensor]:
        """Yield the inputs of each batch of indices; loaders draw their seeds from the view."""
        loader = DataLoader(
            self.items,
            batch_sampler=[batch.tolist() for batch in batches],
            num_workers=self._workers,
            generator=torch.Generator().manual_seed(derive("items", augment)),
        )
        for batch, (x, y) in zip(batches, loader, strict=True):
            if not isinstance(x, Tensor) or not x.is_floating_point():
                raise DataeffError(_NOT_FLOATS.format(_kind(x)))
            if not torch.equal(torch.as_tensor(y).cpu().long(), self._known[batch]):
                raise DataeffError(
                    "The labels of some items are not those of the data set's targets: give it "
                    "targets that say what its items say."
                )
            yield x.to(self.labels.device, non_blocking=True)


_NOT_FLOATS = "The inputs are {}: give floats, as your network reads them, such as x.float() / 255."


def read_given(given: Any, installed: Installed, workers: int) -> Dataset:
    """Return what was given as a data set, on the CPU."""
    root = os.environ.get("DATAEFF_DATA")
    folder = Path(root) if root else None
    if isinstance(given, str):
        return load_dataset(given, installed.datasets, root=folder, workers=workers)
    if isinstance(given, Dataset):
        return given
    if isinstance(given, ImageSet):
        return given.load(type(given).__name__, root=folder, workers=workers)
    if isinstance(given, TensorDataset) and len(given.tensors) == 2:
        given = given.tensors
    if _is_pair(given):
        return _of_tensors(*map(_tensor, given))
    if isinstance(given, TorchDataset) or (
        hasattr(given, "__getitem__") and not isinstance(given, dict)
    ):
        return _of_items(given, workers)
    raise DataeffError(f"dataset is {_kind(given)}: give {FORMS}.")


def _is_pair(given: Any) -> bool:
    pair = isinstance(given, tuple | list) and len(given) == 2
    return pair and all(hasattr(one, "__array__") or isinstance(one, Tensor) for one in given)


def _tensor(value: Any) -> Tensor:
    return value.detach() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))


def _of_tensors(x: Tensor, y: Tensor) -> Dataset:
    if not x.is_floating_point():
        raise DataeffError(_NOT_FLOATS.format(_kind(x)))
    labels = _labels(y, len(x))
    return _dataset(TensorSplit(x.cpu(), labels), tuple(x.shape[1:]))


def _of_items(items: Any, workers: int) -> Dataset:
    try:
        count = len(items)
    except TypeError:
        raise DataeffError(
            f"dataset is {_kind(items)} without a length: give {FORMS}, which can be read in any "
            "order."
        ) from None
    # Transforms may draw: what we look at must not move anybody's luck.
    with forked(torch.device("cpu")):
        first = items[0] if count else None
        if not (isinstance(first, tuple | list) and len(first) == 2):
            raise DataeffError(
                f"The first item of the data set is {_kind(first)}: each has to be a pair (x, y)."
            )
        labels = _labels(_targets(items, workers), count)
    return _dataset(ItemsSplit(items, labels, workers), tuple(np.shape(first[0])))


def _targets(items: Any, workers: int) -> Tensor:
    """Return the labels of all items: from its `targets` or `labels`, else by reading all."""
    if isinstance(items, Subset):
        known = _named_targets(items.dataset)
        if known is not None:
            return known[torch.as_tensor(items.indices)]
    if (known := _named_targets(items)) is not None:
        return known
    loader = DataLoader(items, batch_size=256, num_workers=workers)
    return torch.cat([torch.as_tensor(y) for _, y in loader])


def _named_targets(items: Any) -> Tensor | None:
    for name in ("targets", "labels"):
        found = getattr(items, name, None)
        if found is not None and hasattr(found, "__len__") and len(found) == len(items):
            return torch.as_tensor(found)
    return None


def _labels(y: Tensor, count: int) -> Tensor:
    if y.ndim != 1 or len(y) != count or y.is_floating_point() or y.is_complex():
        raise DataeffError(
            f"The labels are {_kind(y)}: give one whole number for each of the {count} samples, "
            "its class."
        )
    labels = y.cpu().long()
    if count and int(labels.min()) < 0:
        raise DataeffError(f"A label is {int(labels.min())}: classes are numbered from 0.")
    return labels


def _dataset(train: Split, shape: tuple[int, ...]) -> Dataset:
    classes = int(train.labels.max()) + 1 if len(train) else 0
    # A vector is an image of one pixel, for strategies that ask how large images are.
    channels, height, width = (*shape, 1, 1, 1)[:3] if len(shape) < 3 else shape[:3]
    # Whatever is tested is tested by whoever has the loop.
    return Dataset("given", train, train, classes, (channels, height, width), "")


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype} and shape {tuple(value.shape)}"
    return f"of type {type(value).__name__}"
