"""The timetable: after which epochs a run is tested before its end, and on how many test images.

A test is not training, and the whole test set after every epoch would be most of the waiting: what
is tested on the way is a part of it, fixed and class-balanced, and counts at most a tenth of what
the reference trains. The whole set is tested at the end.
"""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from dataeff.data.labels import balanced
from dataeff.registry import portion
from dataeff.training.rng import derive
from dataeff.training.task import Task

# Rows that the reference trains for each that a test on the way forwards, at least.
_ROWS = 10
# Tests of a run, the last included: more points make no better curve.
_MOST = 20
# Images of the part, at least: fewer tests come before a smaller part.
_FEWEST = 200


@dataclass(frozen=True)
class Timetable:
    """So many `tests` to so many `epochs`, evenly, each on so many `images`."""

    tests: int
    epochs: int
    images: int

    @classmethod
    def of(cls, task: Task, samples: int, images: int) -> Self:
        """Return the timetable of a task, by the sizes of its training set and its test set."""
        if task.test_every:
            return cls(1, task.test_every, images)
        epochs = math.ceil(task.epochs)
        rows = int(task.epochs * (samples - portion(task.validation, samples)) / _ROWS)
        tests = min(_MOST - 1, epochs - 1, rows // min(_FEWEST, images))
        if not tests:
            return cls(0, epochs, images)
        return cls(tests + 1, epochs, min(images, rows // tests))

    def due(self, epoch: int) -> bool:
        """Say whether a test is due after so many epochs; one at the end always is."""
        return epoch * self.tests // self.epochs > (epoch - 1) * self.tests // self.epochs

    def part(self, labels: Tensor) -> Tensor:
        """Return which images of a test set with these labels are tested: for all runs the same."""
        luck = torch.Generator().manual_seed(derive("part of the test set"))
        return balanced(labels.cpu(), self.images, luck)
