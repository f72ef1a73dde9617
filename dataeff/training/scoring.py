"""Scoring: forwards without gradients over many samples, on the clock and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dataeff.training.network import Network, head_inputs

if TYPE_CHECKING:
    from dataeff.training.job import Job


@dataclass(frozen=True, eq=False)
class Scoring:
    """What to score: `fn(logits, y)` of these samples, by this network or the run's own."""

    fn: Callable[..., Tensor]
    samples: Tensor
    model: nn.Module | None = None
    augment: bool = False
    features: bool = False


def score(job: Job, what: Scoring) -> Tensor:
    """Return one line per sample, in their order."""
    run, size = job.run, job.task.batch_size
    labels = run.labels[what.samples.to(run.device)].split(size)
    view = (run.seed, run.epoch) if what.augment else None
    images = job.images(what.samples.split(size), view)
    scores = []
    model = what.model or run.model
    with _using(job, what.model), run.scoring(), head_inputs(model, what.features) as seen:
        for x, y in zip(images, labels, strict=True):
            scores.append(what.fn(run.network(x).float(), y, *seen))
    return torch.cat(scores)


@contextmanager
def _using(job: Job, model: nn.Module | None) -> Iterator[None]:
    """Score with another network, at that network's cost."""
    if model is None:
        yield
        return
    own = job.module, job.version
    job.module, job.version = Network(model), "other"
    try:
        yield
        with job.meter.paused():
            job.meter.close_work(model, job.version)
    finally:
        job.module, job.version = own
