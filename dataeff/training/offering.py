"""The batches of a plan for a loop of somebody else's, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataeff.training.defaults import shares
from dataeff.training.loop import observe, selected, transform

if TYPE_CHECKING:
    from torch import Tensor

    from dataeff.training.batch import Batch
    from dataeff.training.job import Job
    from dataeff.training.plan import Plan


def offered(job: Job, plan: Plan, start: int = 0) -> Iterator[Batch]:
    """Yield the batches of a plan, from one on, for somebody else to train and have `settled`."""
    for batch in selected(job, plan, start):
        if batch.R:
            transform(job, batch)
            yield batch


def settled(job: Job, batch: Batch, logits: Tensor, losses: Tensor) -> Tensor:
    """Note what came of a batch that was offered, and return the loss to go backward with.

    A batch is a step of its own, so its gradients are those that `batches` steps with, to the bit.
    """
    observe(job, batch, logits, losses)
    if job.plain_loss:
        # Multiplied first: backward then gives each loss just this factor.
        loss = (losses * shares(batch, losses)).sum()
    else:
        numerator, denominator = job.calls.reduce_loss(job.run, batch, logits, losses)
        loss = numerator / denominator
    job.calls.checking = False
    return loss
