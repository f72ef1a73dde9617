"""Labels that others made, as 0..classes-1: any whole numbers or texts, one for each image."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dataeff.data.pixels import Array, as_array
from dataeff.errors import DataeffError

_SUPPORTED = "one class per image is supported: give one whole number or text for each"


class Targets(NamedTuple):
    """The labels of both parts, and the name of each class."""

    train: Tensor
    test: Tensor
    names: tuple[str, ...]


def targets(name: str, train: Any, test: Any, given: Sequence[str] | None = None) -> Targets:
    """Number the classes in sorted order; with names `given`, labels are their numbers already."""
    parts = [_flat(name, labels) for labels in (train, test)]
    if given is not None:
        return _named(name, parts, given)
    texts = [part.dtype.kind == "U" for part in parts]
    if texts[0] != texts[1]:
        raise DataeffError(
            f"dataset {name}: the labels of one part are texts and those of the other are numbers; "
            "write both alike."
        )
    known, places = np.unique(parts[0], return_inverse=True)
    if len(known) < 2:
        raise DataeffError(
            f"dataset {name}: all training labels are {known.tolist()[0]!r}, and there is nothing "
            "to tell apart; give images of at least two classes."
        )
    if len(known) == len(parts[0]) > 2:
        raise DataeffError(
            f"dataset {name}: no two training images have the same label, so these are no classes; "
            f"{_SUPPORTED}."
        )
    at = np.searchsorted(known, parts[1]).clip(max=len(known) - 1)
    if (odd := known[at] != parts[1]).any():
        raise DataeffError(
            f"dataset {name}: the test label {parts[1][odd].tolist()[0]!r} is none of the training "
            "labels; give training images of it, or leave it out."
        )
    names = tuple(str(label) for label in known.tolist())
    return Targets(torch.from_numpy(places.reshape(-1)).long(), torch.from_numpy(at).long(), names)


def _named(name: str, parts: list[Array], given: Sequence[str]) -> Targets:
    names = tuple(map(str, given))
    if len(names) < 2 or len(set(names)) < len(names):
        raise DataeffError(
            f"dataset {name}: classes are at least two names, each once, not {', '.join(names)}."
        )
    if any(part.dtype.kind == "U" for part in parts):
        numbers = {label: number for number, label in enumerate(names)}
        if odd := {str(label) for part in parts for label in np.unique(part)} - set(names):
            raise DataeffError(
                f"dataset {name}: the label {min(odd)!r} is none of its classes; name it in them, "
                "or leave it out."
            )
        found = [np.array([numbers[label] for label in map(str, part)]) for part in parts]
        return Targets(torch.from_numpy(found[0]), torch.from_numpy(found[1]), names)
    low = int(min(part.min() for part in parts))
    high = int(max(part.max() for part in parts))
    if low < 0 or high >= len(names):
        raise DataeffError(
            f"dataset {name}: labels run from {low} to {high}, and {len(names)} classes are named; "
            f"give labels 0..{len(names) - 1} (-1 is often an image without a label)."
        )
    first, second = (torch.from_numpy(part.astype(np.int64)) for part in parts)
    return Targets(first, second, names)


def _flat(name: str, labels: Any) -> Array:
    """Return labels as an array of whole numbers or texts, one for each image."""
    if isinstance(labels, Sequence) and not isinstance(labels, str | bytes):
        labels = [label.item() if isinstance(label, Tensor) else label for label in labels]
    try:
        array = as_array(labels)
    except ValueError:
        # A list of lists of several lengths.
        raise DataeffError(
            f"dataset {name}: images have several labels each; {_SUPPORTED}."
        ) from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2 and array.dtype.kind in "buif" and _is_one_hot(array):
        array = array.argmax(1)
    if array.ndim != 1 or not len(array):
        told = f"labels have the shape {array.shape}"
        raise DataeffError(f"dataset {name}: {told}; {_SUPPORTED}.")
    if array.dtype.kind == "O" and all(isinstance(label, str) for label in array):
        array = array.astype(str)
    if array.dtype.kind == "f":
        raise DataeffError(
            f"dataset {name}: labels are fractions ({array[0]:g} is the first), and regression is "
            f"not supported, only {_SUPPORTED}, as by labels.astype(int)."
        )
    if array.dtype.kind not in "buiU":
        raise DataeffError(
            f"dataset {name}: labels are of type {array.dtype} ({str(array[0])[:40]!r} is the "
            f"first); {_SUPPORTED}."
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise DataeffError(f"dataset {name}: labels go up to {array.max()}; give smaller ones.")
    return array if array.dtype.kind == "U" else array.astype(np.int64)


def _is_one_hot(array: Array) -> bool:
    return bool(((array == 0) | (array == 1)).all() and (array.sum(1) == 1).all())
