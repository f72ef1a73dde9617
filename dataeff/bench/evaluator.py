"""The evaluator: a process that has the test set, and in which no strategy ever runs.

It reads the data, hands the training set on, and measures networks by their weights. A network that
a strategy has changed comes as a program: that runs in a process of its own, the viewer, which has
the test images without their labels, so that it can only say what it sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dataeff.bench.boundary import Opened, test_folders
from dataeff.bench.lanes import CPU, Lane
from dataeff.bench.service import Hear, Service
from dataeff.data import Dataset, StreamSplit, load_dataset
from dataeff.data.sharing import Room, Shared, images_alone, publish
from dataeff.lab import pick_device
from dataeff.models import build_model
from dataeff.plugins import load_plugins
from dataeff.training.evaluate import graded, take_test
from dataeff.training.numerics import numerics
from dataeff.training.task import Task
from dataeff.training.timetable import Timetable
from dataeff.training.weights import Form, unpacked

if TYPE_CHECKING:
    from dataeff.bench.cells import Settings

Sources = Sequence[str] | None
"""The plugins that a task needs; None for all."""
Figures = dict[str, Any]
"""What a test comes to, as `graded` returns it; hits are a list."""


class Evaluator:
    """The evaluator, as the runner asks it; `sources` says which plugins a task needs.

    What is slow to answer is the reading of data and a test: both have the time of an epoch.
    """

    def __init__(
        self, settings: Settings, sources: Callable[[Task], Sequence[str] | None], lane: Lane
    ) -> None:
        self._settings, self._sources, self._lane = settings, sources, lane
        self._service = self._new(_Evaluating)
        self._viewers: dict[Path, Service] = {}
        self._abouts: dict[str, tuple[dict[str, Any], Sources]] = {}
        self._rooms: dict[tuple[str, int], tuple[Room, Room]] = {}
        self._shared: dict[tuple[str, int], Shared] = {}
        self._parts: dict[str, list[int]] = {}

    def _new(self, make: Callable[..., Any]) -> Service:
        # Where one process at a time is let in, that is the cell's.
        settings, lane = self._settings, self._lane
        given = (settings.plugin_dirs, CPU if lane.exclusive else lane.device, settings.data_root)
        return Service(make, *given, limit=settings.timeout, lane=lane)

    def enter(self, lane: Lane) -> None:
        """Go on on another lane; what was shared stays."""
        self._end()
        self._lane = lane
        self._service = self._new(_Evaluating)

    def shared(self, task: Task) -> Shared:
        """Return the data of a task as others may have it, read when it is first asked for."""
        key = (task.dataset, task.workers)
        if key not in self._shared:
            self._rooms[key] = Room(), Room()
            self._shared[key] = Shared.of(self._open(task))
        return self._shared[key]

    def _open(self, task: Task) -> dict[str, Any]:
        rooms = [room.path for room in self._rooms[task.dataset, task.workers]]
        told: dict[str, Any] = self._service.call("open", *self._about(task), *rooms)
        return told

    def test(self, task: Task, form: Form, path: Path, whole: bool) -> Figures:
        """Test a network, on the part of the test set that is the task's or on the whole set."""
        self.shared(task)
        about = self._about(task)
        if form == "weights":
            figures: Figures = self._service.call("test", *about, str(path), whole)
            return figures
        images, room = self._rooms[task.dataset, task.workers][1].path, Room()
        seen = None if whole else self._part(task)
        try:
            viewer = self._viewers.setdefault(path.parent, self._new(_Viewing))
            viewer.call("look", *about, form, str(path), seen, images, room.path)
            return self._service.call("judge", *about, room.path, whole)
        finally:
            room.close()

    def _part(self, task: Task) -> list[int]:
        if task.id not in self._parts:
            self._parts[task.id] = self._service.call("part", *self._about(task))
        return self._parts[task.id]

    def forget(self, folder: Path) -> None:
        """End what has run the code of the cell of this folder: it is not to meet other cells."""
        if viewer := self._viewers.pop(folder, None):
            viewer.end()

    def _end(self) -> None:
        self._service.end()
        for folder in list(self._viewers):
            self.forget(folder)

    def _about(self, task: Task) -> tuple[dict[str, Any], Sources]:
        key = task.id
        if key not in self._abouts:
            self._abouts[key] = task.model_dump(mode="json"), self._sources(task)
        return self._abouts[key]

    def end(self) -> None:
        """End its processes, and give up what was shared."""
        self._end()
        for rooms in self._rooms.values():
            for room in rooms:
                room.close()


class _Plugins:
    """What needs the plugins of a task, and no others."""

    def __init__(
        self, tell: Hear, folders: Sequence[Path], device: str, data_root: Path | None
    ) -> None:
        self._folders, self._data_root = folders, data_root
        self.device = pick_device(device)
        self._named: set[str] | None = set()
        self.installed = load_plugins(folders, only=())

    def need(self, sources: Sources) -> None:
        if self._named is None or (sources is not None and self._named.issuperset(sources)):
            return
        self._named = None if sources is None else self._named | set(sources)
        self.installed = load_plugins(self._folders, only=self._named)


class _Evaluating(_Plugins):
    """The evaluator's own side."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._data: dict[tuple[str, int], Dataset] = {}
        self._opened = Opened()

    def _dataset(self, task: Task) -> Dataset:
        key = (task.dataset, task.workers)
        if key not in self._data:
            self._data[key] = load_dataset(
                task.dataset, self.installed.datasets, root=self._data_root, workers=task.workers
            )
        return self._data[key]

    def open(
        self, about: dict[str, Any], sources: Sources, training: str, images: str
    ) -> dict[str, Any]:
        """Read the data of a task, and hand on what others may have of it."""
        task, begin = Task(**about), perf_counter()
        self.need(sources)
        with self._opened as opened:
            data = self._dataset(task)
        seconds, train, test = perf_counter() - begin, data.train, data.test
        hidden = opened.data()
        if isinstance(train, StreamSplit) and isinstance(test, StreamSplit):
            hidden = test_folders(test.paths(), train.paths())
        publish(train, training)
        publish(images_alone(test), images)
        facts = (data.name, data.classes, data.shape, data.fingerprint, len(test), seconds)
        return asdict(Shared(training, *facts, hidden, data.class_names))

    def part(self, about: dict[str, Any], sources: Sources) -> list[int]:
        """Return which test images are tested before the end."""
        self.need(sources)
        return self._part(Task(**about)).tolist()

    def _part(self, task: Task) -> Tensor:
        data = self._dataset(task)
        timetable = Timetable.of(task, len(data.train), len(data.test))
        return timetable.part(data.test.labels)

    def test(self, about: dict[str, Any], sources: Sources, path: str, whole: bool) -> Figures:
        """Test the task's own network with these weights."""
        task = Task(**about)
        self.need(sources)
        data = self._dataset(task)
        build = partial(build_model, task.model, self.installed.models, layout=_layout(task))
        model = _laid_out(build(classes=data.classes, shape=data.shape), task)
        model = unpacked("weights", Path(path), model).to(self.device)
        split = data.test.to(self.device)
        with numerics(task):
            return _told(take_test(model, split, self._part(task), whole, task.batch_size))

    def judge(self, about: dict[str, Any], sources: Sources, path: str, whole: bool) -> Figures:
        """Hold what a viewer has seen against the labels."""
        self.need(sources)
        logits, task = torch.load(path, weights_only=True), Task(**about)
        labels, part = self._dataset(task).test.labels, self._part(task)
        count = len(labels if whole else part)
        if logits.ndim != 2 or len(logits) != count or not logits.is_floating_point():
            raise ValueError(f"logits of shape {tuple(logits.shape)} for {count} images")
        return _told(graded(logits.float(), labels, part, whole))


class _Viewing(_Plugins):
    """The viewer's own side: it has images, and code that may be anybody's."""

    def look(self, about: dict[str, Any], sources: Sources, form: Form, *where: Any) -> None:
        """Write the logits of some test images, or of all.

        `where` says where the network lies, which images those are, where they lie, and where the
        logits go.
        """
        task, (path, seen, images, room) = Task(**about), where
        if form == "pickle":
            self.installed = load_plugins(self._folders)
        split = torch.load(images, mmap=True, weights_only=False).to(self.device)
        model = unpacked(form, Path(path), None)
        which = torch.arange(len(split)) if seen is None else torch.tensor(seen)
        batches = which.split(task.batch_size)
        with torch.no_grad(), numerics(task):
            logits = torch.cat([model(x).float() for x in split.stream(batches, None)])
        publish(logits.cpu(), room)


def _layout(task: Task) -> torch.memory_format:
    return torch.channels_last if task.channels_last else torch.contiguous_format


def _laid_out(model: nn.Module, task: Task) -> nn.Module:
    return model.to(memory_format=_layout(task))  # type: ignore[call-overload]


def _told(figures: Figures) -> Figures:
    """Return figures as plain data."""
    if whole := figures.get("whole"):
        whole["hits"] = whole["hits"].tolist()
    return figures
