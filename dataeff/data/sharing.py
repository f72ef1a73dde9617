"""Sharing data between processes: one reads a dataset, the others map the part that is for them."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from dataeff.data.base import Dataset
from dataeff.data.images import Split, View
from dataeff.errors import FULL, DataeffError, DiskFull
from dataeff.saving import save


class HiddenSplit(Split):
    """A test set that is not in this process: it has a length, and nothing else."""

    _moving = ()

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def stream(self, batches: Sequence[Tensor], augment: View) -> Iterator[Tensor]:
        """Refuse: there are no images here."""
        raise DataeffError("The test set is not in this process; only the evaluator has it.")


@dataclass(frozen=True)
class Shared:
    """A dataset whose training set lies in a file for others to map, and what else they may know.

    `hidden` are the files and folders that the test set was read from.
    """

    path: str
    name: str
    classes: int
    shape: tuple[int, int, int]
    fingerprint: str
    test_samples: int
    seconds: float
    hidden: list[str]
    class_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, content: dict[str, Any]) -> Self:
        """Return what another process has said of it."""
        told = {name: tuple(content[name]) for name in ("shape", "class_names")}
        return cls(**content | told)

    def open(self) -> Dataset:
        """Map the training set; what is written to it here stays here."""
        train = torch.load(self.path, mmap=True, weights_only=False)
        test = HiddenSplit(self.test_samples)
        about = (self.classes, self.shape, self.fingerprint, self.class_names)
        return Dataset(self.name, train, test, *about)


class Room:
    """A file for others to write to and map; where the system can do so, it has no name."""

    def __init__(self) -> None:
        self._file: Any = tempfile.TemporaryFile(prefix="dataeff-")  # noqa: SIM115
        self.path = f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        if not os.path.exists(self.path):
            self._file = tempfile.NamedTemporaryFile(prefix="dataeff-")  # noqa: SIM115
            self.path = self._file.name

    def close(self) -> None:
        """Give the file up."""
        self._file.close()


def images_alone(split: Split) -> Split:
    """Return a split whose labels say nothing."""
    alone = split.to("cpu")
    alone.labels = torch.zeros_like(alone.labels)
    return alone


def publish(value: Split | Tensor, path: str) -> None:
    """Write a split, or a tensor, where others can map it."""
    try:
        with open(path, "wb") as file:
            save(value, file)
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull.at(tempfile.gettempdir(), os.strerror(error.errno)) from None
        raise
