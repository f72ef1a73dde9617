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
from torch import nn

from dataeff.bench.boundary import Opened, test_folders
from dataeff.bench.lanes import CPU, Lane
from dataeff.bench.service import Hear, Service
from dataeff.data import Dataset, StreamSplit, load_dataset
from dataeff.data.sharing import Room, Shared, images_alone, publish
from dataeff.lab import pick_device
from dataeff.models import build_model
from dataeff.plugins import load_plugins
from dataeff.training.cell import deterministic
from dataeff.training.evaluate import evaluate, metrics
from dataeff.training.task import Task
from dataeff.training.weights import Form, unpacked

if TYPE_CHECKING:
    from dataeff.bench.cells import Settings

Sources = Sequence[str] | None
"""The plugins that a task needs; None for all."""
Figures = dict[str, Any]
"""What a test comes to: figures of merit, counts by class, and which images were hits."""


class Evaluator:
    """The evaluator, as the runner asks it; `sources` says which plugins a task needs.

    What is slow to answer is the reading of data and a test: both have the time of an epoch.
    """

    def __init__(
        self, settings: Settings, sources: Callable[[Task], Sequence[str] | None], lane: Lane
    ) -> None:
        self._settings, self._sources = settings, sources
        self._service, self._viewer = self._services(lane)
        self._abouts: dict[str, tuple[dict[str, Any], Sources]] = {}
        self._rooms: dict[tuple[str, int], tuple[Room, Room]] = {}
        self._shared: dict[tuple[str, int], Shared] = {}

    def _services(self, lane: Lane) -> tuple[Service, Service]:
        # Where one process at a time is let in, that is the cell's.
        device, settings = CPU if lane.exclusive else lane.device, self._settings
        given = (settings.plugin_dirs, device, settings.data_root)
        makes, limit = (_Evaluating, _Viewing), settings.timeout
        evaluating, viewing = (Service(make, *given, limit=limit, lane=lane) for make in makes)
        return evaluating, viewing

    def enter(self, lane: Lane) -> None:
        """Go on on another lane; what was shared stays."""
        self._service.end()
        self._viewer.end()
        self._service, self._viewer = self._services(lane)

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

    def test(self, task: Task, form: Form, path: Path) -> Figures:
        """Measure a network on the test set."""
        self.shared(task)
        if form == "weights":
            figures: Figures = self._service.call("test", *self._about(task), str(path))
            return figures
        images, room = self._rooms[task.dataset, task.workers][1].path, Room()
        try:
            self._viewer.call("look", *self._about(task), form, str(path), images, room.path)
            return self._service.call("judge", *self._about(task), room.path)
        finally:
            room.close()

    def forget(self) -> None:
        """End what has run a cell's code: what that has done is not to meet the next cell."""
        self._viewer.end()

    def _about(self, task: Task) -> tuple[dict[str, Any], Sources]:
        key = task.id
        if key not in self._abouts:
            self._abouts[key] = task.model_dump(mode="json"), self._sources(task)
        return self._abouts[key]

    def end(self) -> None:
        """End its processes, and give up what was shared."""
        self._service.end()
        self._viewer.end()
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
        return asdict(Shared(training, *facts, hidden))

    def test(self, about: dict[str, Any], sources: Sources, path: str) -> Figures:
        """Measure the task's own network with these weights."""
        task = Task(**about)
        self.need(sources)
        data = self._dataset(task)
        build = partial(build_model, task.model, self.installed.models)
        model = _laid_out(build(classes=data.classes, shape=data.shape), task)
        model = unpacked("weights", Path(path), model).to(self.device)
        split = data.test.to(self.device)
        with deterministic(task.deterministic):
            return _told(evaluate(model, split, torch.arange(len(split)), task.batch_size))

    def judge(self, about: dict[str, Any], sources: Sources, path: str) -> Figures:
        """Hold what a viewer has seen against the labels."""
        self.need(sources)
        logits = torch.load(path, weights_only=True)
        labels = self._dataset(Task(**about)).test.labels
        if logits.ndim != 2 or len(logits) != len(labels) or not logits.is_floating_point():
            raise ValueError(f"logits of shape {tuple(logits.shape)} for {len(labels)} images")
        return _told(metrics(logits.float(), labels))


class _Viewing(_Plugins):
    """The viewer's own side: it has images, and code that may be anybody's."""

    def look(
        self, about: dict[str, Any], sources: Sources, form: Form, path: str, *rooms: str
    ) -> None:
        """Write the logits of all test images; `rooms` are where these lie, and where those go."""
        task, (images, room) = Task(**about), rooms
        if form == "pickle":
            self.installed = load_plugins(self._folders)
        split = torch.load(images, mmap=True, weights_only=False).to(self.device)
        model = unpacked(form, Path(path), None)
        batches = torch.arange(len(split)).split(task.batch_size)
        with torch.no_grad(), deterministic(task.deterministic):
            logits = torch.cat([model(x).float() for x in split.stream(batches, None)])
        publish(logits.cpu(), room)


def _laid_out(model: nn.Module, task: Task) -> nn.Module:
    layout = torch.channels_last if task.channels_last else torch.contiguous_format
    return model.to(memory_format=layout)  # type: ignore[call-overload]


def _told(figures: Figures) -> Figures:
    return figures | {"hits": figures["hits"].tolist()}
