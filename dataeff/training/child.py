"""Nested runs: scoring models and proxies, trained by the same trainer on the prepare clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dataeff.hookspecs import hookimpl
from dataeff.plugins import Strategy
from dataeff.registry import Entry
from dataeff.training.loop import train
from dataeff.training.rng import derive, forked

if TYPE_CHECKING:
    from dataeff.training.run import Run


def train_child(
    run: Run,
    name: str,
    k: int,
    epochs: float,
    indices: Tensor | None,
    *,
    until: int | None,
    probe: Any,
    shared: bool,
) -> Run:
    """Train a nested run, as `Run.train_child` says."""
    trainable = run.trainable
    if indices is not None:
        trainable = torch.zeros_like(trainable).index_fill_(0, indices.cpu(), True)
    seed = derive("shared" if shared else run.seed, "child", name, k)
    what = derive(seed, epochs, until, trainable.nonzero()[:, 0].tolist())
    strategies = [part.again() for part in run.strategies if is_precision(part)]
    if probe is not None:
        strategies.append(looking_on(probe))
    if until is not None:
        strategies.append(looking_on(Until(until)))
    # The child measures itself, also across an interruption; our own clock must not add to it.
    with run.meter.paused(), forked(run.device, seed):
        child = type(run)(
            run.task,
            strategies,
            train=run.train,
            shape=run.shape,
            build=run.build,
            seed=seed,
            device=run.device,
            trainable=trainable,
            epochs=epochs,
            folder=run.folder / "children" / f"{name}-{k}-{what:x}" if run.folder else None,
        )
        child.resume()
        train(child, evaluate=lambda run: {})
    run.meter.absorb(child.meter)
    return child


class Until:
    """Ends a run early, with its schedule where it stands."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    @hookimpl
    def prepare(self, run):
        run.stopped = self.epochs == 0

    @hookimpl
    def should_stop(self, run):
        return run.epoch + 1 >= self.epochs


def looking_on(probe: Any) -> Strategy:
    """Return an object with hooks as a strategy of a run, though it is none."""
    kind = type(probe)
    return Strategy(Entry("probe", kind.__name__, kind, kind.__module__), {}, probe)


def is_precision(strategy: Strategy) -> bool:
    """Say whether a strategy only changes number formats."""
    return getattr(strategy.plugin, "precision", False)
