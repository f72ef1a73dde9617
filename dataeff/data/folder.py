"""Any tree of image files, one folder per class: the way to ImageNet."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

import dataeff._torchvision_ops  # noqa: F401 -- torchvision is imported late, it takes seconds
from dataeff.data.base import Dataset, ImageSet, Side
from dataeff.data.stream import StreamSplit
from dataeff.errors import DataeffError


@dataclass(eq=False, kw_only=True)
class ImageFolder(ImageSet):
    """Image files under `path`/train and `path`/val (or test), one folder per class: ImageNet.

    Files are decoded on the host as they are needed, so there is no `memory` to choose. `crop`
    switches the random resized crop.
    """

    path: str
    size: Side = 224
    crop: bool = True
    flip: bool = True
    # As a ClassVar it is no longer a parameter.
    memory: ClassVar[str] = "host"  # type: ignore[misc, assignment]

    def load(self, name: str, *, root: Path | None, workers: int = 0) -> Dataset:
        """List the files and read none; `name` is the canonical spec."""
        folder = self._folder(root)
        train_part, held_out = folder / "train", folder / "val"
        if not held_out.is_dir():
            held_out = folder / "test"
        if not (train_part.is_dir() and held_out.is_dir()):
            raise DataeffError(
                f"image_folder needs {train_part} and {folder / 'val'} (or test), "
                "each with one folder of images per class."
            )
        files, labels, classes = _list(train_part)
        test_files, test_labels, test_classes = _list(held_out)
        if classes != test_classes:
            odd = ", ".join(sorted(set(classes) ^ set(test_classes))[:3])
            raise DataeffError(
                f"{train_part} and {held_out} must hold the same classes; "
                f"only one of them has: {odd}."
            )
        kept, labels = self.training_part(name, labels, len(classes))
        files = [files[index] for index in kept.tolist()]
        listing = "".join(
            f"{Path(file).relative_to(folder).as_posix()} {os.path.getsize(file)}\n"
            for file in files
        )
        # Where the files lie does not change what they hold.
        fingerprint = self.fingerprint(listing.encode(), labels.numpy(), without="path")
        view: Any = {"size": self.size, "crop": self.crop, "flip": self.flip, "workers": workers}
        train, test = (
            StreamSplit(part, targets, **view)
            for part, targets in ((files, labels), (test_files, test_labels))
        )
        return Dataset(name, train, test, len(classes), (3, self.size, self.size), fingerprint)

    def _folder(self, root: Path | None) -> Path:
        path = Path(self.path).expanduser()
        if root is None and not path.is_absolute():
            raise DataeffError(
                f"image_folder[path={self.path}] is relative to the data folder: "
                "give an absolute path, pass --data-root DIR or set DATAEFF_DATA."
            )
        return path if root is None else root / path


def _list(folder: Path) -> tuple[list[str], torch.Tensor, list[str]]:
    """Return the image files below a folder, their labels and the names of the classes."""
    from torchvision.datasets import ImageFolder as Reader

    try:
        reader = Reader(folder)
    except FileNotFoundError as error:
        raise DataeffError(f"{folder} is not a folder of classes: {error}") from None
    return [file for file, _ in reader.samples], torch.tensor(reader.targets), reader.classes
