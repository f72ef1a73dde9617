"""A share of work that a strategy states, held against the FLOPs of a batch that ran."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from dataeff.errors import StrategyError
from dataeff.strategy import hooks_of
from dataeff.training.network import cross_entropy, ghost

if TYPE_CHECKING:
    from dataeff.training.batch import Batch
    from dataeff.training.job import Job

# What is counted and what is stated may differ by this factor: heads that see a row twice, layers
# without a way back. Where little is left of a network, such a layer is much of it: there the
# difference may be this share of the whole.
_ALIKE, _LITTLE = 1.2, 0.05
_NOTHING = nullcontext()


class Stated:
    """Counts the FLOPs of one batch per epoch, for runs with a strategy that states its share.

    Counting takes a few milliseconds of the batch, on the clock: nobody else pays for it.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._whole: dict[tuple[str, torch.Size], float] = {}
        strategies = job.run.strategies
        self._stating = [s.label for s in strategies if "compute_factor" in hooks_of(s.plugin)]

    def held(self, batch: Batch) -> AbstractContextManager[None]:
        """Return what the forward and the backward of a batch are to be done in."""
        wanted = self._stating and self._job.calls.checking and not self._job.task.compile
        return self._counting(batch) if wanted else _NOTHING

    @contextmanager
    def _counting(self, batch: Batch) -> Iterator[None]:
        job, x = self._job, batch.x
        with FlopCounterMode(display=False) as counter:
            yield
        stated = math.prod(job.calls.compute_factor(job.run))
        with job.meter.paused():
            key = job.version, x.shape[1:]
            if key not in self._whole:
                self._whole[key] = _whole(job.run.model, x.shape[1:])
        counted = counter.get_total_flops() / (len(x) * self._whole[key])
        low, high = sorted((counted, stated))
        if stated <= 0 or (high > _ALIKE * low and high - low > _LITTLE):
            raise StrategyError(
                f"{' and '.join(self._stating)}, in compute_factor: it states {stated:.2f} of the "
                f"network's work, and a batch that ran took {counted:.2f}; return what is skipped."
            )


def _whole(model: nn.Module, shape: torch.Size) -> float:
    """Count forward and backward of one row through the whole network, on a copy without data."""
    copy = ghost(model).train().requires_grad_(True)
    # Two rows: BatchNorm has no variance of one.
    x, y = torch.empty(2, *shape, device="meta"), torch.zeros(2, dtype=torch.long, device="meta")
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        cross_entropy(copy(x), y).sum().backward()
    return counter.get_total_flops() / 2
