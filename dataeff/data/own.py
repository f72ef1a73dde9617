"""A data set of anything: arrays, tensors, Datasets of torch or Hugging Face, folders, names."""

# Annotations stay objects here (no __future__ import): they are the types of parameters.
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from dataeff.data.base import Dataset, ImageSet, Raw
from dataeff.data.images import resize
from dataeff.data.items import Items
from dataeff.data.itemwise import Drawn, Finish, ItemSplit, normaliser_of, plainly
from dataeff.data.packed import described
from dataeff.data.pixels import Layout, pixels, several_sizes
from dataeff.data.targets import targets
from dataeff.errors import DataeffError, did_you_mean
from dataeff.notation import format_part, parse_one
from dataeff.registry import Entry, Registry

_HELD_AT_MOST = 2**30
"""Bytes that a Hugging Face data set may take to be read as a whole."""

_PAIRS = "((x_train, y_train), (x_test, y_test)), two Datasets, or a dict of train and test"


class Around(NamedTuple):
    """What a data set is read with: the user's data folder, loader processes, and known names."""

    root: Path | None = None
    workers: int = 0
    registry: Registry | None = None


def dataset_of(
    name: str,
    train: Any,
    test: Any = None,
    options: Mapping[str, Any] | None = None,
    around: Around = Around(),  # noqa: B008 -- it cannot be changed
) -> Dataset:
    """Make a data set of what others have: a training and a test part, or one thing that is both.

    A part is a pair of arrays or tensors (x, y), a Dataset of torch or Hugging Face, or a folder.
    Both at once are a pair of parts, a dict of them, a folder with train and val, an `ImageSet`, or
    a name that can be typed. `options` are the parameters of `OwnSet`, by name.
    """
    given = train if test is None else (train, test)
    if isinstance(given, Dataset):
        return given
    if isinstance(given, ImageSet):
        return given.load(name, root=around.root, workers=around.workers)
    first, second, found = _parts(name, given)
    asked = {**found, **(options or {})}
    if isinstance(first, str) and second is None and not Path(first).expanduser().is_dir():
        return _of_name(first, asked, around)
    if isinstance(first, str | os.PathLike):
        return _of_folders(name, (first, second), asked, around)
    own = OwnSet(**Entry("dataset", name, OwnSet, "").read(asked))
    return own.of(name, first, second, around.workers)


@dataclass(eq=False, kw_only=True)
class OwnSet(ImageSet):
    """What may be said of own data, beside what is said of all.

    `image_column` and `label_column` say where these are, where items have names; `classes` are the
    names of the classes, where labels are their numbers; `layout` says where arrays have channels.
    """

    image_column: str | None = None
    label_column: str | None = None
    classes: Any = None
    layout: Layout | None = None

    _unmarked: ClassVar[tuple[str, ...]] = (
        *ImageSet._unmarked,
        *("image_column", "label_column", "classes", "layout"),
    )

    def of(self, name: str, train: Any, test: Any, workers: int) -> Dataset:
        """Make a data set of two parts that are alike."""
        parts = [_unpacked(part) for part in (train, test)]
        if all(isinstance(part, tuple) for part in parts):
            return self._of_arrays(name, parts, workers)
        for part in parts:
            _check_items(name, part)
        items = [Items(name, part, self._columns(), self.layout) for part in parts]
        for part in items:
            part.settle()
        items[0].grey = items[1].grey = all(part.grey for part in items)
        if all(map(_is_table, parts)) and (self.size or _alike(items)) and self._is_small(items):
            arrays = [
                ([part.image(at) for at in range(len(part))], part.labels()) for part in items
            ]
            own = replace(self, classes=self._names() or items[0].names(), layout="NHWC")
            return own._of_arrays(name, arrays, workers)
        return self._of_items(name, items, workers)

    def _of_arrays(self, name: str, parts: Sequence[Any], workers: int) -> Dataset:
        (x, y), (test_x, test_y) = parts
        images, test_images = pixels(name, (x, test_x), self.layout, self.size)
        labels = targets(name, y, test_y, self._names())
        if images.shape[1:] != test_images.shape[1:]:
            if images.shape[3] != test_images.shape[3]:
                raise DataeffError(
                    f"dataset {name}: training images have {images.shape[3]} channels and test "
                    f"images {test_images.shape[3]}; give both the same."
                )
            if self.size is None:
                raise several_sizes(name, {tuple(part.shape[1:]) for part in (images, test_images)})
            images, test_images = resize(images, self.size), resize(test_images, self.size)
        raw = Raw(images, labels.train, test_images, labels.test, labels.names)
        data = self.made(name, raw, workers)
        # Nobody else says what the test set is.
        content = test_images.numpy(), labels.test.numpy(), data.fingerprint.encode()
        return replace(data, fingerprint=self.fingerprint(*content))

    def _of_items(self, name: str, items: Sequence[Items], workers: int) -> Dataset:
        told, held_out = (part.labels() for part in items)
        labels = targets(name, told, held_out, self._names() or items[0].names(told))
        kept, noisy = self.training_part(name, labels.train, len(labels.names))
        plain = Items(
            name, plainly(*(part.dataset for part in items)), self._columns(), self.layout
        )
        plain.grey = items[0].grey
        train = Drawn(items[0], plain, kept, self.size)
        test = Drawn(items[1], items[1], torch.arange(len(items[1])), self.size)
        train.settle()
        test.like(train)
        assert train.shape is not None, "it is settled"
        normalise = normaliser_of(train)
        seen = [train.sample(None, 16), train.sample((0, 0), 16), test.sample(None, 16)]
        content = [part.contiguous().numpy() for part in (*seen, noisy, labels.test)]
        code = [described(type(part.dataset)).encode() for part in items]
        fingerprint = self.fingerprint(*content, *code)
        transform = self.packed_transform()
        finish = Finish(self.size, self.crop, self.flip, transform)
        height, width, channels = train.shape
        parts = (train, noisy, finish), (test, labels.test, Finish(self.size))
        splits = [ItemSplit(part, y, normalise, how, workers) for part, y, how in parts]
        about = len(labels.names), (channels, height, width), fingerprint, labels.names
        return Dataset(name, splits[0].tried() if transform else splits[0], splits[1], *about)

    def _columns(self) -> tuple[str | None, str | None]:
        return self.image_column, self.label_column

    def _names(self) -> Sequence[str] | None:
        return self.classes.split() if isinstance(self.classes, str) else self.classes

    def _is_small(self, items: Sequence[Items]) -> bool:
        height, width, channels = items[0].image(0).shape
        pixels_each = self.size**2 if self.size else height * width
        needed = sum(map(len, items)) * pixels_each * channels
        return needed <= _HELD_AT_MOST


OPTIONS = tuple(field.name for field in fields(OwnSet))
"""What may be said of own data."""


def _parts(name: str, given: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return training and test part, and the options that came with them."""
    if isinstance(given, str | os.PathLike):
        return given, None, {}
    if isinstance(given, Mapping):
        return _of_dict(name, given)
    if isinstance(given, tuple | list):
        if len(given) == 2 and not _is_pair_of_arrays(given):
            return given[0], given[1], {}
        if len(given) in (4, 5):
            found = {"classes": given[4]} if len(given) == 5 else {}
            if isinstance(found.get("classes"), int):
                found = {}
            return given[:2], given[2:4], found
    kind = type(given).__name__
    raise DataeffError(f"dataset {name}: {kind} is not a training and a test part; give {_PAIRS}.")


def _of_dict(name: str, given: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    held_out = next((key for key in ("test", "validation", "val") if key in given), None)
    if "train" not in given or held_out is None:
        known = ", ".join(map(str, given))
        raise DataeffError(
            f"dataset {name}: a dict has the keys train and test, and may have options; this one "
            f"has: {known}."
        )
    # What Hugging Face has beside, such as unlabelled images, is no mistake.
    others = () if hasattr(given, "column_names") else given.keys() - {"train", held_out}
    for key in sorted(others - set(OPTIONS) if others else ()):
        hint = did_you_mean(str(key), OPTIONS)
        raise DataeffError(
            f"dataset {name}: a dict has train, test and options, but no {key!r}.{hint} Options "
            f"are: {', '.join(OPTIONS)}."
        )
    return given["train"], given[held_out], {key: given[key] for key in others}


def _is_pair_of_arrays(given: Sequence[Any]) -> bool:
    """Say whether a pair is images and labels, and so one part alone."""
    return all(hasattr(part, "__array__") for part in given)


def _unpacked(part: Any) -> Any:
    """Return a part as a pair of arrays, where it is one."""
    if isinstance(part, TensorDataset):
        return tuple(part.tensors) if len(part.tensors) == 2 else part
    if isinstance(part, tuple | list) and len(part) == 2:
        return tuple(part)
    return part


def _check_items(name: str, part: Any) -> None:
    """Refuse what has no items that can be asked for by their number."""
    if isinstance(part, tuple):
        why = "one part is a pair of arrays and the other a Dataset; give both alike"
    elif isinstance(part, DataLoader):
        why = "a DataLoader has batches of its own; give its Dataset, loader.dataset"
    elif isinstance(part, IterableDataset) or not hasattr(part, "__getitem__"):
        why = f"{type(part).__name__} has no items by number; give {_PAIRS}"
    elif hasattr(part, "__array__") or not hasattr(part, "__len__"):
        why = f"{type(part).__name__} has no labels; give {_PAIRS}"
    elif len(part) == 0:
        why = "a part is empty; give at least one image of each class"
    else:
        return
    raise DataeffError(f"dataset {name}: {why}.")


def _is_table(part: Any) -> bool:
    """Say whether a part is of Hugging Face, as it came: no function of its owner's makes items."""
    told = getattr(part, "format", None)
    return hasattr(part, "features") and isinstance(told, dict) and told.get("type") is None


def _alike(items: Sequence[Items]) -> bool:
    sizes = {part.image(at).shape for part in items for at in part.probed()}
    return len(sizes) == 1


def _of_name(text: str, asked: Mapping[str, Any], around: Around) -> Dataset:
    """Load a data set by its name."""
    from dataeff.data.offered import load_dataset

    if around.registry is None:
        raise DataeffError(f"There is no folder {text}; give one with train and val (or test).")
    part = parse_one(text)
    both = format_part(part.name, {**part.params, **asked})
    return load_dataset(both, around.registry, root=around.root, workers=around.workers)


def _of_folders(
    name: str, places: tuple[Any, Any], asked: Mapping[str, Any], around: Around
) -> Dataset:
    """Make a data set of folders with one folder per class."""
    from dataeff.data.folder import ImageFolder

    first = Path(places[0]).expanduser()
    values = Entry("dataset", name, ImageFolder, "").read({**asked, "path": str(first)})
    folders = ImageFolder(**values)
    if places[1] is None:
        return folders.load(name, root=around.root or Path.cwd(), workers=around.workers)
    parts = [(around.root or Path.cwd()) / Path(place).expanduser() for place in places]
    for part in parts:
        if not part.is_dir():
            raise DataeffError(
                f"dataset {name}: there is no folder {part}; give one with a folder of images per "
                "class."
            )
    return folders.of_parts(name, (parts[0], parts[0], parts[1]), around.workers)
