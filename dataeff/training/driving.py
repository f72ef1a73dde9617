"""`dataeff.drive`: a strategy in a loop of your own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Required, Unpack

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from dataeff.composition import Active, Composition, check_conflicts, watching
from dataeff.data import Dataset
from dataeff.errors import DataeffError, did_you_mean
from dataeff.lab import pick_device
from dataeff.models import build_model
from dataeff.plugins import Installed, load_plugins
from dataeff.strategy import Strategy
from dataeff.training.demands import check_drivable, check_network
from dataeff.training.driven import Drive
from dataeff.training.given import ItemsSplit, TensorSplit, read_given
from dataeff.training.heard import DrivenJob
from dataeff.training.job import Ground, Place
from dataeff.training.keys import Keys
from dataeff.training.possible import check_possible
from dataeff.training.task import Task


class DriveKeys(Keys, total=False):
    """The keys of a drive: those that are up to whoever has the loop are refused."""

    epochs: Required[float]


_YOURS = ("tf32", "cudnn_benchmark", "deterministic", "test_every")


def drive(
    strategy: str | Strategy,
    dataset: Any,
    *,
    seed: int = 0,
    model: nn.Module | Callable[..., nn.Module] | str | None = None,
    device: str | torch.device | None = None,
    **task: Unpack[DriveKeys],
) -> Drive:
    """Return a strategy for a loop of your own: iterate over it, and call `step` for each batch.

    `strategy` is what you would type after `-s`, or an object of your own. `dataset` is a name, a
    data set of ours, a pair (x, y), or a torch Dataset of such pairs. `model` is for strategies
    that score samples: the network that you train, or, for those that train networks themselves,
    a name or a function that makes one, to be trained as `drive.model`. `device` is where batches
    are given: by default where the network is, else the CPU. `epochs`, `batch_size` and the other
    keys are those of a task; nothing is held out for validation unless you say so. With the same
    keys and seed, the choices are those of our own trainer.
    """
    installed = _installed()
    strategies = _strategies(strategy, installed)
    check_drivable(strategies)
    live = isinstance(model, nn.Module)
    check_network(strategies, model is not None, model is not None and not live)
    known = _task({"dataset": "given", "model": "given", **task})
    data = read_given(dataset, installed, known.workers)
    update: dict[str, Any] = {"dataset": data.name}
    if isinstance(model, str):
        update["model"] = model
    if isinstance(data.train, TensorSplit | ItemsSplit) and "channels_last" not in task:
        # What is given is not laid out anew.
        update["channels_last"] = False
    known = known.model_copy(update=update)
    check_possible(known, data)
    place = _device(device, model)
    build = _Absent if live or model is None else _builder(model, data, installed)
    ground = Ground(data.train.to(place), data.shape, build, place)
    job = DrivenJob(known, strategies, seed, ground, Place(energy=False))
    if isinstance(model, nn.Module):
        job.run.model = model
    return Drive(job, model is not None)


@cache
def _installed() -> Installed:
    return load_plugins()


def _strategies(strategy: str | Strategy, installed: Installed) -> list[Active]:
    if isinstance(strategy, Strategy):
        strategies = [watching(strategy)]
        check_conflicts(strategies)
        return strategies
    if not isinstance(strategy, str):
        raise DataeffError(
            f"strategy is of type {type(strategy).__name__}: give what you would type after -s, "
            "such as 'infobatch', or an object of a class that derives from dataeff.Strategy."
        )
    composition = Composition.read(strategy, installed)
    if composition.is_open:
        raise DataeffError(f"{strategy} has a value to be found; write one for it.")
    return composition.fresh()


def _task(keys: dict[str, Any]) -> Task:
    """Return the task of these keys, or say in one sentence what is wrong with one of them."""
    if idle := [key for key in keys if key in _YOURS]:
        raise DataeffError(f"dataeff.drive: {idle[0]} is up to whoever has the loop: set it there.")
    try:
        return Task.model_validate({"validation": 0.0, **keys})
    except ValidationError as error:
        # A misspelt key is also a missing one; its own error helps more.
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(key, Keys.__annotations__) or " See: dataeff tasks"
        raise DataeffError(f"dataeff.drive: there is no key {key!r}.{hint}")
    if first["type"] == "missing":
        raise DataeffError(f"dataeff.drive: {key} is missing; write {key}=... .")
    told = first["msg"].removeprefix("Value error, ")
    raise DataeffError(f"dataeff.drive: {key or 'keys'}: {told}.")


def _device(device: str | torch.device | None, model: Any) -> torch.device:
    if device is not None:
        return pick_device(str(device))
    held = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if held is None else held.device


def _builder(model: Any, data: Dataset, installed: Installed) -> Callable[[], nn.Module]:
    """Return what makes a new network: by a name, or by a function with or without arguments."""
    if isinstance(model, str):
        models = installed.models
        return partial(build_model, model, models, classes=data.classes, shape=data.shape)
    try:
        inspect.signature(model).bind()
    except (TypeError, ValueError):
        return partial(model, data.classes, data.shape)
    return model


class _Absent(nn.Module):
    """Stands for a network that nobody gave: whoever calls it is told to."""

    def __init__(self) -> None:
        super().__init__()
        # An optimizer wants something.
        self.nothing = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Refuse."""
        raise DataeffError("there is no network to ask: give model= to dataeff.drive.")

    def forward_features(self, x: Tensor) -> Tensor:
        """Refuse."""
        return self(x)
