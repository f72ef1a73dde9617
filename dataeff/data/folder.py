"""Any tree of image files, one folder per class: the way to ImageNet."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field

import dataeff._torchvision_ops  # noqa: F401 -- torchvision is imported late, it takes seconds
from dataeff.data.base import Dataset, ImageSet, Side
from dataeff.data.decode import check_file
from dataeff.data.stream import StreamSplit
from dataeff.errors import DataeffError
from dataeff.printable import printable

# Changes when other pixels are made of the same files.
_DECODED = b"8 bits, upright"


@dataclass(eq=False, kw_only=True)
class ImageFolder(ImageSet):
    """Image files under `path`/train and `path`/val (or test), one folder per class: ImageNet.

    Files are decoded on the host as they are needed, so there is no `memory` to choose. `crop`
    switches the random resized crop.
    """

    path: Annotated[str, Field(min_length=1)]
    size: Side = 224
    crop: bool = True
    flip: bool = True
    # As a ClassVar it is no longer a parameter.
    memory: ClassVar[str] = "host"  # type: ignore[misc, assignment]

    def load(self, name: str, *, root: Path | None, workers: int = 0) -> Dataset:
        """List the files and read none; `name` is the canonical spec.

        Of each file it is checked that it is one, and not empty. That costs what the listing does;
        an image that cannot be decoded fails the first cell that meets it, by its name.
        """
        folder = self._folder(root)
        train_part, held_out = folder / "train", folder / "val"
        if not held_out.is_dir():
            held_out = folder / "test"
        if not (train_part.is_dir() and held_out.is_dir()):
            raise DataeffError(
                f"image_folder needs {train_part} and {folder / 'val'} (or test), "
                "each with one folder of images per class."
            )
        return self.of_parts(name, (folder, train_part, held_out), workers)

    def of_parts(self, name: str, places: tuple[Path, Path, Path], workers: int) -> Dataset:
        """List the files of two folders, training and test, below a third."""
        folder, train_part, held_out = places
        files, labels, classes = _list(train_part)
        if len(classes) < 2:
            raise DataeffError(
                f"{train_part} has one class, {printable(classes[0])}, and there is nothing to "
                "tell apart; put at least two folders of images there."
            )
        test_files, test_labels, test_classes = _list(held_out)
        if classes != test_classes:
            odd = printable(", ".join(sorted(set(classes) ^ set(test_classes))[:3]))
            raise DataeffError(
                f"{train_part} and {held_out} must hold the same classes; "
                f"only one of them has: {odd}."
            )
        kept, labels = self.training_part(name, labels, len(classes))
        files = [files[index] for index in kept.tolist()]
        sizes = [_size(file) for file in files]
        for file in test_files:
            _size(file)
        listing = "".join(
            f"{Path(file).relative_to(folder).as_posix()} {size}\n"
            for file, size in zip(files, sizes, strict=True)
        )
        # Where the files lie does not change what they hold; how they are decoded would.
        content = _DECODED, os.fsencode(listing), labels.numpy()
        fingerprint = self.fingerprint(*content, without="path")
        view: Any = {"size": self.size, "crop": self.crop, "flip": self.flip, "workers": workers}
        transform = self.packed_transform()
        train = StreamSplit(files, labels, transform=transform, **view)
        train = train.tried() if transform else train
        test = StreamSplit(test_files, test_labels, **view)
        about = len(classes), (3, self.size, self.size), fingerprint, tuple(classes)
        return Dataset(name, train, test, *about)

    def _folder(self, root: Path | None) -> Path:
        try:
            path = Path(self.path).expanduser()
        except RuntimeError:
            raise DataeffError(
                f"image_folder[path={self.path}]: there is no such home; write an absolute path."
            ) from None
        if root is None and not path.is_absolute():
            raise DataeffError(
                f"image_folder[path={self.path}] is relative to the data folder: "
                "give an absolute path, pass --data-root DIR or set DATAEFF_DATA."
            )
        return path if root is None else root / path


def _size(file: str) -> int:
    """Return the bytes of a file that may be an image."""
    found = os.stat(file)
    check_file(file, found)
    return found.st_size


def _list(folder: Path) -> tuple[list[str], torch.Tensor, list[str]]:
    """Return the image files below a folder, their labels and the names of the classes."""
    from torchvision.datasets import ImageFolder as Reader

    try:
        reader = Reader(folder)
    except FileNotFoundError as error:
        raise DataeffError(
            f"{folder} is not a folder of classes: {printable(str(error))}; put at least one image "
            "into each."
        ) from None
    return [file for file, _ in reader.samples], torch.tensor(reader.targets), reader.classes
