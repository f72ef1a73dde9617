"""The lab: what a process works with, loaded once; a cell is `lab.run(task, composition, seed)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter

import torch
from torch import nn

from dataeff.calls import blaming
from dataeff.composition import Active, Composition
from dataeff.data import Dataset, load_dataset
from dataeff.data.sharing import Shared
from dataeff.errors import DataeffError
from dataeff.models import build_model
from dataeff.models.trial import Images, check_on_empty
from dataeff.plugins import Installed
from dataeff.training.cell import OnEpoch, Result, train_cell
from dataeff.training.devices import torchs_reason
from dataeff.training.job import NOWHERE, Ground, Job, Place
from dataeff.training.numerics import numerics
from dataeff.training.possible import check_possible
from dataeff.training.rng import forked
from dataeff.training.task import Task


class Lab:
    """Installed plugins, a device, and the data of every task that was asked for so far."""

    def __init__(
        self, installed: Installed, device: str = "auto", data_root: Path | None = None
    ) -> None:
        self.installed, self.data_root = installed, data_root
        self._device = device
        self._compositions: dict[str, Composition] = {}
        self._data: dict[tuple[str, int, torch.device], Dataset] = {}
        self._loading: dict[tuple[str, int], float] = {}

    @cached_property
    def device(self) -> torch.device:
        """Return the device that runs are on."""
        return pick_device(self._device)

    def on_cpu(self) -> Lab:
        """Return this lab without its accelerator, for what need not wake it."""
        if self._device == "cpu":
            return self
        other = Lab(self.installed, "cpu", self.data_root)
        other._compositions, other._data = self._compositions, self._data
        other._loading = self._loading
        return other

    def composition(self, text: str) -> Composition:
        """Return a composition as typed; a text is read once, its canonical form never again."""
        if text not in self._compositions:
            self._compositions[text] = self.know(Composition.read(text, self.installed))
        return self._compositions[text]

    def know(self, composition: Composition) -> Composition:
        """Keep a composition that was made otherwise than by reading a text."""
        return self._compositions.setdefault(composition.text, composition)

    def data(self, task: Task) -> Dataset:
        """Return the data of a task on the device, loaded when it is first asked for."""
        key = (task.dataset, task.workers, self.device)
        if key not in self._data:
            begin, cpu = perf_counter(), torch.device("cpu")
            here = self._data.get((*key[:2], cpu)) or load_dataset(
                task.dataset, self.installed.datasets, root=self.data_root, workers=task.workers
            )
            self._data[key] = here if self.device == cpu else here.to(self.device)
            self._loading.setdefault(key[:2], perf_counter() - begin)
        check_possible(task, self._data[key])
        return self._data[key]

    def take(self, task: Task, shared: Shared) -> None:
        """Have the training set of a task from a process that has read it; the test set stays."""
        key = (task.dataset, task.workers)
        self._data[*key, torch.device("cpu")] = shared.open()
        self._loading[key] = shared.seconds

    def loading_seconds(self, task: Task) -> float:
        """Return what loading the data of a task took: a process of its own pays it again."""
        self.data(task)
        return self._loading[task.dataset, task.workers]

    def ground(self, task: Task) -> Ground:
        """Return what the runs of a task train on."""
        data = self.data(task)
        build = self._build(task, data.classes, data.shape)
        return Ground(data.train, data.shape, build, self.device)

    def try_network(self, task: Task, classes: int, shape: tuple[int, int, int]) -> list[str]:
        """Build the network of a task as a run does; return what there is to say of it.

        One that fails on such images is refused.
        """
        with forked(torch.device("cpu")):
            model = self._build(task, classes, shape)()
            check_on_empty(model, task.model, classes, Images(shape, _layout(task)))
        return list(getattr(model, "said", ()))

    def _build(
        self, task: Task, classes: int, shape: tuple[int, int, int]
    ) -> Callable[[], nn.Module]:
        build = partial(build_model, task.model, self.installed.models, layout=_layout(task))
        return partial(build, classes=classes, shape=shape)

    @contextmanager
    def started(
        self, task: Task, strategies: Sequence[Active], seed: int, place: Place = NOWHERE
    ) -> Iterator[Job]:
        """Set a run up, for as long as it is worked with: what fails inside names who failed."""
        with self.working(task, strategies):
            job = Job(task, strategies, seed, self.ground(task), place)
            job.set_up()
            yield job

    @contextmanager
    def working(self, task: Task, strategies: Sequence[Active]) -> Iterator[None]:
        """Leave no trace in the process: device, global random state, how torch computes."""
        with current(self.device), forked(self.device), numerics(task), blaming(strategies):
            yield

    def run(
        self,
        task: Task,
        composition: Composition | Sequence[Active],
        seed: int,
        place: Place = NOWHERE,
        on_epoch: OnEpoch | None = None,
    ) -> Result:
        """Train one cell, from its start or from the checkpoint in its folder."""
        strategies = composition.fresh() if isinstance(composition, Composition) else composition
        with self.started(task, strategies, seed, place) as job:
            return train_cell(job, self.data(task).test, on_epoch)


def _layout(task: Task) -> torch.memory_format:
    return torch.channels_last if task.channels_last else torch.contiguous_format


@contextmanager
def current(device: torch.device) -> Iterator[None]:
    """Make a device the one that is meant where none, or none by its index, is named."""
    if device.type == "cpu" or device.index is None:
        yield
        return
    before = torch.accelerator.current_device_index()
    torch.accelerator.set_device_index(device.index)
    try:
        yield
    finally:
        torch.accelerator.set_device_index(before)


def pick_device(name: str = "auto") -> torch.device:
    """Return the named device; 'auto' takes the accelerator where there is one."""
    if name == "auto":
        found = (
            torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        )
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        # The zero is written and read: a device without data is none to train on.
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise DataeffError(
            f"Device {name!r} cannot be used here ({torchs_reason(error)}); try --device cpu or "
            "auto."
        ) from None
    # Tensors of "cpu:0" say that they are on "cpu".
    return torch.device("cpu") if device.type == "cpu" else device
