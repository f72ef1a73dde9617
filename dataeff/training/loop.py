"""The loop, on one page; the pseudocode in `hookspecs` is its table of contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from dataeff.training.plan import Plan, checked_mask, checked_plan

if TYPE_CHECKING:
    from dataeff.training.batch import Batch
    from dataeff.training.run import Run


def train(run: Run, evaluate: Callable[[Run], Mapping[str, float]]) -> None:
    """Train to the end, from the start or from where a checkpoint left the run."""
    hook, meter = run.hook, run.meter
    if not run.prepared:
        with meter.clock("prepare"):
            hook.prepare(run=run)
        run.prepared = True
        run.save()
    while run.epoch < run.epoch_count and not run.stopped:
        with meter.clock("train"):
            train_epoch(run)
        run.close_epoch()
        metrics = evaluate(run)
        with meter.clock("train"):
            hook.on_epoch_end(run=run, epoch=run.epoch, metrics=metrics)
            run.stopped = any(hook.should_stop(run=run, metrics=metrics))
        run.next_epoch()


def train_epoch(run: Run) -> None:
    """Plan an epoch, train its batches, let strategies finish it."""
    plan = plan_epoch(run)
    train_plan(run, plan)
    run.batch = run.batches
    run.meter.phase("other")
    run.hook.end_epoch(run=run)


def plan_epoch(run: Run) -> Plan:
    """Ask strategies which samples stay, and in which rows; a last epoch may be cut short."""
    hook, epoch = run.hook, run.epoch
    run.meter.phase("plan")
    hook.on_epoch_start(run=run, epoch=epoch)
    kept = run.trainable.clone()
    for mask in hook.prune_dataset(run=run, epoch=epoch):
        kept &= checked_mask(mask, run.trainable)
    plan = hook.plan_epoch(run=run, epoch=epoch, kept=kept)
    return checked_plan(plan, run.trainable, epoch).head(run.span)


def train_plan(run: Run, plan: Plan) -> None:
    """Train the batches of a plan: no tensor is read back from here on."""
    for _ in trained_batches(run, plan):
        pass


def trained_batches(run: Run, plan: Plan) -> Iterator[Batch]:
    """Train the batches of a plan one by one, as they are asked for."""
    for batch in batches(run, plan):
        if batch.R:
            train_batch(run, batch)
        yield batch
    if run.pending:
        take_step(run)


def batches(run: Run, plan: Plan) -> Iterator[Batch]:
    """Load and select what the plan says, then what strategies still hold back."""
    hook, meter = run.hook, run.meter
    for number, rows in enumerate(run.open(plan)):
        run.batch = number
        meter.phase("load")
        batch = hook.load(run=run, rows=rows)
        meter.rows["loaded"] += batch.S
        meter.phase("select")
        hook.select_batch(run=run, batch=batch)
        yield batch
    for drain, select_batch in run.drains():
        while held := drain(run=run):
            meter.phase("select")
            select_batch(run=run, batch=held[0])
            yield held[0]


def train_batch(run: Run, batch: Batch) -> None:
    """Take one batch through the network, there and back, and step if all agree."""
    hook, meter = run.hook, run.meter
    meter.phase("transform")
    hook.resize_batch(run=run, batch=batch)
    hook.transform_batch(run=run, batch=batch)
    meter.phase("forward")
    logits = hook.forward(run=run, batch=batch).float()
    losses = hook.sample_losses(run=run, batch=batch, logits=logits)
    seen = {"batch": batch, "logits": logits.detach(), "losses": losses.detach()}
    run.ledger.record(**seen)
    hook.observe_batch(run=run, **seen)
    meter.phase("backward")
    run.count("trained", batch.x)
    loss = hook.reduce_loss(run=run, batch=batch, logits=logits, losses=losses)
    hook.backward(run=run, loss=loss)
    run.pending = True
    if all(hook.should_step(run=run)):
        take_step(run)


def take_step(run: Run) -> None:
    """Finish the gathered gradients and step the optimizer."""
    run.meter.phase("step")
    run.hook.finish_gradients(run=run)
    run.set_learning_rate()
    run.hook.optimizer_step(run=run)
    run.optimizer.zero_grad(set_to_none=True)
    run.denominator, run.unit, run.pending = 0, 1, False
    run.meter.steps += 1
