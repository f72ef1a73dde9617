"""Nested runs: scoring models and proxies, trained by the same trainer on the prepare clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from dataeff.composition import watching
from dataeff.files import slug
from dataeff.hookspecs import hookimpl
from dataeff.strategy import Strategy
from dataeff.training.host import ClockOnly
from dataeff.training.rng import derive

if TYPE_CHECKING:
    from dataeff.training.job import Job
    from dataeff.training.run import Run

AnyJob = TypeVar("AnyJob", bound="Job")


@dataclass(frozen=True, eq=False)
class Child:
    """What to train, as `Run.train_child` says."""

    name: str
    k: int
    epochs: float
    indices: Tensor | None = None
    until: int | None = None
    probe: Strategy | None = None
    shared: bool = False


def child_seed(run: Run, what: Child) -> int:
    """Return the seed of a nested run."""
    return derive("shared" if what.shared else run.seed, "child", what.name, what.k)


def make_child(job: AnyJob, what: Child) -> AnyJob:
    """Set a nested run up: its own seed, samples and folder; of the strategies only precision."""
    run = job.run
    trainable = run.trainable
    if what.indices is not None:
        trainable = torch.zeros_like(trainable).index_fill_(0, what.indices.cpu(), True)
    seed = child_seed(run, what)
    known = derive(seed, what.epochs, what.until, trainable.nonzero()[:, 0].tolist())
    strategies = [part.fresh() for part in run.strategies if part.kind.precision]
    if what.probe is not None:
        strategies.append(watching(what.probe))
    if what.until is not None:
        strategies.append(watching(Until(what.until)))
    folder = job.place.folder
    below = folder / "children" / f"{slug(what.name)}-{what.k}-{known:x}" if folder else None
    host = job.place.host and ClockOnly(job.place.host, job)
    place = replace(job.place, folder=below, shelf=None, saves=True, host=host)
    child = type(job)(job.task, strategies, seed, replace(job.ground, train=job.train), place)
    child.run.trainable, child.run.epochs = trainable, what.epochs
    child.set_up()
    return child


class Until(Strategy):
    """Ends a run early, with its schedule where it stands."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    @hookimpl
    def prepare(self, run):
        if self.epochs == 0:
            run.stop()

    @hookimpl
    def should_stop(self, run):
        return run.epoch + 1 >= self.epochs
