"""Checkpoints: a run between two epochs as plain data, so that it goes on to the same numbers.

Only tensors, numbers, texts and containers are written, and read back with `weights_only`.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dataeff.damage import Damaged, put_aside
from dataeff.errors import DataeffError, StrategyError
from dataeff.files import CHECKPOINTS
from dataeff.training.batch import Batch
from dataeff.training.rng import global_state, set_global_state
from dataeff.training.stored import read_state, write_state

if TYPE_CHECKING:
    from dataeff.training.job import Job

PLAIN = (bool, int, float, str, type(None))
"""The types of values that are written as they are."""
_CONTAINERS = {"tuple": tuple, "set": set, "frozenset": frozenset, "deque": collections.deque}
_STATES = ("model", "optimizer", "ledger", "meter", "streams")
_OF_RUN: dict[str, Any] = {"epoch": int, "epochs": (int, float)}
_OF_JOB: dict[str, Any] = {
    **dict.fromkeys(("prepared", "stopped"), bool),
    "version": str,
    "train_loss": float,
    **dict.fromkeys(("artefacts", "history"), list),
    "final": dict,
}
_FORM = {
    "strategies": list,
    **dict.fromkeys((*_STATES, "global", "run", "job", "guard"), dict),
}


def _holders(job: Job) -> Iterator[tuple[str, Any]]:
    """Return what keeps a state of its own, by its name in a checkpoint."""
    run = job.run
    return zip(_STATES, (run.model, run.optimizer, run.ledger, job.meter, run.rng), strict=True)


def save(job: Job, path: Path) -> None:
    """Write the state of a run, and keep the one before it."""
    run = job.run
    # Their code is on the clock, also here; what the harness does with it is not.
    with job.meter.clock("train" if run.epoch else "prepare"):
        strategies = [strategy_state(strategy.plugin) for strategy in run.strategies]
    state = {
        "strategies": strategies,
        **{name: holder.state_dict() for name, holder in _holders(job)},
        "global": global_state(run.device),
        "run": {name: getattr(run, name) for name in _OF_RUN},
        "job": {name: getattr(job, name) for name in _OF_JOB},
        "guard": job.guard.state_dict() if job.guard else {},
    }
    write_state(path, state)


def resume(job: Job, folder: Path) -> bool:
    """Bring a run that was just set up to the state of its newest checkpoint that is whole.

    A damaged one is set aside before the run has taken anything from it. Says whether there is one.
    """
    for path in (folder / name for name in CHECKPOINTS):
        try:
            if (state := read_state(path, job.run.device)) is None:
                continue
            _check(job, state)
        except Damaged as damage:
            put_aside(path, damage, _next_best)
            continue
        try:
            _load(job, state)
        except Damaged as damage:
            put_aside(path, damage, _next_best)
            raise DataeffError(
                f"{path} was of another run, and is set aside: type the same command again."
            ) from None
        return True
    return False


def _next_best(path: Path) -> str:
    older = path.with_name(CHECKPOINTS[1])
    serves = path != older and older.exists()
    return "the one before it serves" if serves else "its run begins anew"


def _check(job: Job, state: Any) -> None:
    """Hold a checkpoint to its form: its keys, their types, a state for each strategy."""
    if not isinstance(state, dict):
        raise Damaged(f"it is a {type(state).__name__}")
    _check_types(state, _FORM)
    _check_types(state["run"], _OF_RUN)
    # Those of earlier versions may lack some of what a job keeps.
    _check_types(state["job"], {key: _OF_JOB.get(key, ()) for key in state["job"]})
    plugins = [strategy.plugin for strategy in job.run.strategies]
    own = [hasattr(plugin, "load_state_dict") for plugin in plugins]
    saved = state["strategies"]
    if len(saved) != len(own) or not all(
        is_own or isinstance(one, dict) for one, is_own in zip(saved, own, strict=True)
    ):
        raise Damaged("it is of other strategies")


def _check_types(part: dict[str, Any], form: Mapping[str, Any]) -> None:
    for name, kind in form.items():
        if name not in part or not isinstance(part[name], kind):
            raise Damaged(f"{name} is missing or of another type")


def _load(job: Job, state: dict[str, Any]) -> None:
    """Give a run the state of a checkpoint; what a strategy makes of its own is its affair."""
    run = job.run
    for strategy, saved in zip(run.strategies, state["strategies"], strict=True):
        load_strategy_state(strategy.plugin, saved)
    job.calls.on_resume(run)
    try:
        for name, holder in _holders(job):
            holder.load_state_dict(state[name])
        set_global_state(state["global"], run.device)
    except torch.OutOfMemoryError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise Damaged(f"{type(error).__name__}: it does not fit") from error
    for holder, part in ((run, "run"), (job, "job")):
        for name, value in state[part].items():
            setattr(holder, name, value)
    if job.guard:
        job.guard.load_state_dict(state["guard"])


def strategy_state(plugin: Any) -> Any:
    """Return a strategy's state: its own `state_dict`, or `vars(self)` as plain data.

    Attributes that begin with an underscore are not state.
    """
    if hasattr(plugin, "state_dict"):
        return plugin.state_dict()
    kept = {key: value for key, value in vars(plugin).items() if not key.startswith("_")}
    return {key: _plain(value, f"{type(plugin).__name__}.{key}") for key, value in kept.items()}


def load_strategy_state(plugin: Any, state: Any) -> None:
    """Give a strategy that was just set up its state back."""
    if hasattr(plugin, "load_state_dict"):
        plugin.load_state_dict(state)
        return
    for key, value in state.items():
        now = vars(plugin).get(key)
        setattr(plugin, key, _revive(value, now, f"{type(plugin).__name__}.{key}"))


def _plain(value: Any, where: str) -> Any:
    """Turn a value into data; containers that JSON does not know carry their kind."""
    if type(value) in PLAIN or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:
        return {key: _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if type(value) is list:
        return [_plain(item, where) for item in value]
    if type(value) is Batch:
        return ("batch", _plain(vars(value), where))
    if type(value) in _CONTAINERS.values():
        items = [_plain(item, where) for item in value]
        return (type(value).__name__, items, getattr(value, "maxlen", None))
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return ("state_dict", value.state_dict())
    raise StrategyError(
        f"{where} is a {type(value).__name__}, which a checkpoint cannot hold: keep tensors, "
        "numbers, containers and objects with state_dict, or write the strategy's own state_dict "
        "and load_state_dict."
    )


def _revive(data: Any, now: Any, where: str) -> Any:
    """Turn data back into the value it was; `now` is what `setup` put in its place."""
    if isinstance(data, dict):
        known = now if isinstance(now, dict) else {}
        return {key: _revive(item, known.get(key), where) for key, item in data.items()}
    if isinstance(data, list):
        old = now if isinstance(now, list) and len(now) == len(data) else [None] * len(data)
        return [_revive(item, before, where) for item, before in zip(data, old, strict=True)]
    if not isinstance(data, tuple):
        return data
    kind, content, *rest = data
    if kind == "batch":
        batch = Batch.__new__(Batch)
        vars(batch).update(_revive(content, None, where))
        return batch
    if kind == "state_dict":
        if now is None:
            raise StrategyError(
                f"{where} is missing after setup: create it in setup, so that resume can fill it."
            )
        now.load_state_dict(content)
        return now
    items = [_revive(item, None, where) for item in content]
    return collections.deque(items, *rest) if kind == "deque" else _CONTAINERS[kind](items)


def passing_state(plugin: Any, made: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a strategy keeps under names with an underscore, in the middle of an epoch.

    Between epochs that is made anew; what it has been since `setup` made it, setup makes again.
    """
    own = {key: value for key, value in vars(plugin).items() if key.startswith("_")}
    return {
        key: _plain(value, f"{type(plugin).__name__}.{key}, in the middle of an epoch,")
        for key, value in own.items()
        if key not in made or value is not made[key]
    }


def load_passing_state(plugin: Any, state: Mapping[str, Any]) -> None:
    """Give a strategy back what `passing_state` has returned."""
    for key, value in state.items():
        now = vars(plugin).get(key)
        setattr(plugin, key, _revive(value, now, f"{type(plugin).__name__}.{key}"))
