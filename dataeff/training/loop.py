"""The loop, on one page; the pseudocode in `hookspecs` is its table of contents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataeff.training.plan import Plan, checked

if TYPE_CHECKING:
    from torch import Tensor

    from dataeff.training.batch import Batch
    from dataeff.training.job import Evaluate, Job


def train(job: Job, evaluate: Evaluate) -> None:
    """Train to the end, from the start or from where a checkpoint left the run."""
    prepare(job)
    for plan in epochs(job, evaluate):
        with job.meter.clock("train"):
            for _ in batches(job, plan):
                pass


def prepare(job: Job) -> None:
    """Let strategies prepare, once."""
    if not job.prepared:
        with job.meter.clock("prepare"):
            job.calls.prepare(job.run)
        job.prepared = True
        job.save()


def epochs(job: Job, evaluate: Evaluate) -> Iterator[Plan]:
    """Yield the plan of each epoch that is left, to be trained before the next is asked for."""
    while job.run.epoch < job.run.epoch_count and not job.stopped:
        yield from epoch(job, evaluate)


def epoch(job: Job, evaluate: Evaluate) -> Iterator[Plan]:
    """Plan the current epoch, yield it to be trained, and finish it."""
    yield begin_epoch(job)
    finish_epoch(job, evaluate)


def begin_epoch(job: Job) -> Plan:
    """Plan the current epoch."""
    job.calls.checking = True
    with job.meter.clock("train"):
        return plan_epoch(job)


def finish_epoch(job: Job, evaluate: Evaluate) -> None:
    """Finish an epoch whose plan is through, and move on to the next."""
    run, calls, clock = job.run, job.calls, job.meter.clock
    calls.checking = True
    with clock("train"):
        run.batch = run.batches
        calls.end_epoch(run)
    job.close_epoch()
    metrics = evaluate(job)
    with clock("train"):
        calls.on_epoch_end(run, run.epoch, metrics)
        job.stopped |= any(calls.should_stop(run, metrics))
    job.next_epoch()


def plan_epoch(job: Job) -> Plan:
    """Ask strategies which samples stay, and in which rows; a last epoch may be cut short."""
    run, calls = job.run, job.calls
    job.meter.phase("plan")
    calls.on_epoch_start(run, run.epoch)
    kept = run.trainable.clone()
    for mask in calls.prune_dataset(run, run.epoch):
        kept &= mask.to(kept.device)
    return checked(calls.plan_epoch(run, run.epoch, kept), run.epoch).head(run.span)


def batches(job: Job, plan: Plan) -> Iterator[Batch]:
    """Train the batches of a plan, one for each that is asked for: no tensor is read back here."""
    for batch in selected(job, plan):
        if batch.R:
            _train_batch(job, batch)
        yield batch
    if job.run.pending:
        _take_step(job)


def selected(job: Job, plan: Plan, start: int = 0) -> Iterator[Batch]:
    """Load and select what the plan says, then what strategies still hold back."""
    run, calls, meter = job.run, job.calls, job.meter
    for number, rows in enumerate(job.in_turns(job.open(plan, start)), start):
        run.batch = number
        meter.phase("load")
        batch = calls.load(run, rows)
        meter.rows["loaded"] += batch.S
        meter.phase("select")
        calls.select_batch(run, batch)
        yield batch
    # What is held back has not been looked at in this epoch.
    calls.checking = not calls.silent
    for held, select_batch in calls.drains(run):
        for batch, *_ in job.in_turns(held):
            meter.phase("select")
            select_batch(run, batch)
            yield batch


def _train_batch(job: Job, batch: Batch) -> None:
    """Take one batch through the network, there and back, and step if all agree."""
    run, calls, meter = job.run, job.calls, job.meter
    transform(job, batch)
    with job.checks.held(batch):
        meter.phase("forward")
        logits = calls.forward(run, batch).float()
        losses = calls.sample_losses(run, batch, logits)
        observe(job, batch, logits, losses)
        meter.phase("backward")
        job.count("trained", batch.x)
        if job.plain_loss:
            job.default.descend(run, batch, losses)
        else:
            calls.backward(run, calls.reduce_loss(run, batch, logits, losses))
    run.pending = True
    if all(calls.should_step(run)):
        _take_step(job)
    calls.checking = False


def transform(job: Job, batch: Batch) -> None:
    """Make of a batch what the network is to see."""
    job.meter.phase("transform")
    job.calls.resize_batch(job.run, batch)
    job.calls.transform_batch(job.run, batch)


def observe(job: Job, batch: Batch, logits: Tensor, losses: Tensor) -> None:
    """Let the ledger and strategies see what came of a batch, before the weights change."""
    seen = batch, logits.detach(), losses.detach()
    job.run.ledger.record(*seen)
    job.calls.observe_batch(job.run, *seen)


def _take_step(job: Job) -> None:
    """Finish the gathered gradients and step the optimizer."""
    job.meter.phase("step")
    job.calls.finish_gradients(job.run)
    job.set_learning_rate()
    job.calls.optimizer_step(job.run)
    job.stepped()
