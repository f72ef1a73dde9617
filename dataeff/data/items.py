"""Items of a Dataset that others made: where image and label are, and what they become."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset

from dataeff.data.decode import is_grey
from dataeff.data.pixels import Layout, as_array, channels_last, picture
from dataeff.data.seeded import borrowed, seed_of, told_of
from dataeff.errors import DataeffError

IMAGES = ("image", "img", "images", "pixel_values", "picture", "x")
LABELS = ("label", "labels", "target", "targets", "class", "y")
"""What columns are called, the likeliest first."""

# Items that are looked at before all: to know what they are, and for a fingerprint.
_PROBED = 16


class Items:
    """A Dataset of (image, label), or of columns, read as uint8 or float32 (H, W, C) and labels.

    What are fractions already stay as they are: such items have been made ready by their owner.
    """

    def __init__(self, name: str, dataset: Any, columns: Sequence[Any], layout: Any) -> None:
        self.name, self.dataset = name, dataset
        self.layout: Layout | None = layout
        self.columns = (None, None) if len(dataset) == 0 else self._columns(*columns)
        self.grey = False

    def __len__(self) -> int:
        return len(self.dataset)

    def item(self, index: int) -> tuple[Any, Any]:
        """Return image and label of an item, as its owner made them."""
        item = self._read(index)
        if isinstance(item, Mapping):
            image, label = self.columns
            return item[image], item[label]
        if isinstance(item, Sequence) and not isinstance(item, str) and len(item) >= 2:
            return item[0], item[1]
        raise DataeffError(
            f"dataset {self.name}: an item is {type(item).__name__}; let it be (image, label), or "
            "a dict with both."
        )

    def image(self, index: int) -> Tensor:
        """Return the image of an item."""
        image = self.item(index)[0]
        if isinstance(image, Image.Image):
            if self.grey and not is_grey(image):
                raise DataeffError(
                    f"dataset {self.name}: item {index} has colours and others are grey; convert "
                    "all of them alike, as by image.convert('RGB')."
                )
            try:
                return torch.from_numpy(picture(image, self.grey))
            except (OSError, ValueError) as error:
                raise self._unreadable(index, error) from error
        array = as_array(image)
        if array.ndim not in (2, 3) or array.dtype.kind not in "buif":
            raise DataeffError(
                f"dataset {self.name}: the image of item {index} is {type(image).__name__} of "
                f"shape {array.shape}; let it be a PIL image, or a tensor (C, H, W)."
            )
        array = channels_last(self.name, array[None], self.layout)[0]
        if array.dtype.kind == "f":
            return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
        if array.dtype.kind == "b":
            return torch.from_numpy(array.astype(np.uint8) * 255)
        if array.size and not (array.min() >= 0 and array.max() <= 255):
            raise DataeffError(
                f"dataset {self.name}: item {index} has pixels from {array.min()} to {array.max()} "
                f"of {array.dtype}; let it be uint8, or fractions."
            )
        return torch.from_numpy(np.array(array, dtype=np.uint8, order="C"))

    def _read(self, index: int) -> Any:
        try:
            return self.dataset[index]
        # It is its owner's code, and may raise anything at all.
        except Exception as error:
            raise self._unreadable(index, error) from error

    def _unreadable(self, index: int, error: Exception) -> DataeffError:
        told = f"item {index} cannot be read: {told_of(error)}"
        return DataeffError(f"dataset {self.name}: {told}.")

    def probed(self) -> list[int]:
        """Return some samples, spread over all."""
        return np.linspace(0, len(self) - 1, min(_PROBED, len(self))).astype(int).tolist()

    def settle(self) -> None:
        """Find out whether all is grey."""
        with borrowed() as seed:
            seen = []
            for index in self.probed():
                seed(seed_of(None, index))
                seen.append(self.item(index)[0])
        pictures = all(isinstance(image, Image.Image) for image in seen)
        self.grey = pictures and all(map(is_grey, seen))

    def labels(self) -> Any:
        """Return the label of each item; without reading their images, where that can be."""
        known = known_labels(self.dataset, self.columns[1])
        with borrowed() as seed:
            seed(0)
            if known is not None and all(
                _same(self.item(index)[1], known[index]) for index in self.probed()
            ):
                return known
            return [_plain(self.item(index)[1]) for index in range(len(self))]

    def names(self, labels: Any = ()) -> tuple[str, ...] | None:
        """Return the names of the classes where the label's column, or the Dataset, has them."""
        features = getattr(self.dataset, "features", None)
        if isinstance(features, Mapping):
            names = getattr(features.get(self.columns[1]), "names", None)
            return tuple(names) if names else None
        # As torchvision's data sets have them: labels are their places.
        told = getattr(self.dataset, "classes", None)
        if not isinstance(told, list | tuple):
            return None
        try:
            numbers = as_array(labels)
        # Several labels each, which are refused elsewhere.
        except ValueError:
            return None
        if numbers.ndim != 1 or not len(numbers):
            return None
        names = tuple(map(str, told))
        if numbers.dtype.kind not in "ui" or not len(set(names)) == len(names) > 1:
            return None
        return names if 0 <= numbers.min() <= numbers.max() < len(names) else None

    def _columns(self, image: str | None, label: str | None) -> tuple[str | None, str | None]:
        features = getattr(self.dataset, "features", None)
        if not isinstance(features, Mapping):
            with borrowed() as seed:
                seed(0)
                item = self._read(0)
            if not isinstance(item, Mapping):
                return None, None
            features = item
        return (
            _column(self.name, "image", features, (image, "Image", IMAGES)),
            _column(self.name, "label", features, (label, "ClassLabel", LABELS)),
        )


def known_labels(dataset: Any, column: str | None = None) -> Any:
    """Return the labels that a Dataset tells of by itself; a table has them in a column."""
    if column and column in getattr(dataset, "column_names", ()):
        return dataset.with_format(None).select_columns([column])[:][column]
    if isinstance(dataset, Subset):
        known = known_labels(dataset.dataset)
        return None if known is None else [known[index] for index in dataset.indices]
    if isinstance(dataset, ConcatDataset):
        parts = [known_labels(part) for part in dataset.datasets]
        return None if None in parts else [label for part in parts for label in part or ()]
    for name in ("targets", "labels", "_labels"):
        found = getattr(dataset, name, None)
        if isinstance(found, Sequence | np.ndarray | Tensor) and len(found) == len(dataset):
            return found
    return None


def _column(
    name: str, what: str, features: Mapping[str, Any], asked: tuple[str | None, str, Sequence[str]]
) -> str:
    """Return the column that is named, has the type of one, or is called like one."""
    given, kind, usual = asked
    typed = [column for column, about in features.items() if type(about).__name__ == kind]
    called = [column for column in usual if column in features]
    found = [given] if given else typed or called[:1]
    if len(found) == 1 and found[0] in features:
        return str(found[0])
    if given:
        why = f"there is no column {given!r}"
    else:
        why = f"several columns may be the {what}" if found else f"no column is the {what} for sure"
    example = (typed or list(features))[0]
    raise DataeffError(
        f"dataset {name}: {why}; write {what}_column={example}, or another of: "
        f"{', '.join(map(str, features))}."
    )


def _plain(label: Any) -> Any:
    return label.tolist() if isinstance(label, Tensor | np.ndarray | np.generic) else label


def _same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(_plain(one), _plain(other)))
