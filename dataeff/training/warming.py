"""Warm-up: a few batches off the clock, so that nobody pays for what happens only the first time.

Kernels are loaded when they are first asked for, libraries try out plans for each shape, compilers
make graphs. Strategies ask for other shapes than the reference, so each warms up by its own hooks.
"""

import gc
from contextlib import suppress
from dataclasses import replace

import torch

from dataeff.training.job import Job
from dataeff.training.loop import batches, plan_epoch
from dataeff.training.network import Scoring, cross_entropy
from dataeff.training.plan import Plan
from dataeff.training.rng import forked
from dataeff.training.run import Run
from dataeff.whereabouts import HERE

# Batches in all, and where it is hardly worth while. Most are no whole ones.
_BATCHES, _FEWER = 12, 3
# Rows of a small batch: kernels and graphs for those are others.
_SMALL = 8
# Batches that there are samples for: choosing among all of them would take long.
_SAMPLES = 16


def warm_up(job: Job) -> None:
    """Take a few batches of a second run of the same seed, and leave no trace but in caches.

    What goes wrong is left for training to report.
    """
    device, here = job.run.device, HERE.now
    with forked(device), suppress(Exception, SystemExit):
        _take_batches(_second(job))
    HERE.tell(here)
    if device.type != "cpu":
        # Runs, their hooks and their strategies hold one another, and so what they have there.
        gc.collect()


def _second(job: Job) -> Job:
    """Return a run like this one, set up, on some of its samples and without what it prepares."""
    # What was not made by name cannot be made anew.
    strategies = [part.fresh() for part in job.run.strategies if part.entry.kind == "strategy"]
    # The run may have pinned its data, and their loader is to be the same.
    ground = replace(job.ground, train=job.train)
    second = Job(job.task, strategies, job.run.seed, ground)
    second.run.trainable = _some(job.run, job.task.batch_size)
    second.set_up()
    return second


def _some(run: Run, size: int) -> torch.Tensor:
    """Return a mask of some samples that may be trained: whole batches, and what is left over."""
    samples = run.split("train")
    count = min(len(samples), _SAMPLES * size + len(samples) % size)
    some = samples[torch.arange(count) * len(samples) // count]
    return torch.zeros_like(run.trainable).index_fill_(0, some, True)


def _take_batches(job: Job) -> None:
    """Train a few batches where progress is 0, 0.5 and 1, and score some samples."""
    run, size, samples = job.run, job.task.batch_size, job.run.split("train")
    epochs, count, scored = [0], _FEWER, [size + len(samples) % size]
    if is_worthwhile(job):
        epochs = sorted({0, int(run.epochs / 2), run.epoch_count - 1})
        count = _BATCHES // len(epochs)
        scored += [3 * size // 4, _SMALL, 1]
    for epoch in epochs:
        run.epoch, run.batch = epoch, 0
        for _ in batches(job, excerpt(plan_epoch(job), count)):
            pass
        # Its loader is free again, and need not be started on the clock.
        job.stream = iter(())
        run.batch = run.batches
        _pretend_trained(run)
        job.calls.end_epoch(run)
    for few in scored:
        job.score(Scoring(cross_entropy, samples[:few], None, augment=False, features=False))


def is_worthwhile(job: Job) -> bool:
    """Say whether much happens only the first time: on a processor, only to a compiler."""
    return job.run.device.type != "cpu" or bool(job.task.compile)


def excerpt(plan: Plan, count: int) -> Plan:
    """Return some batches of a plan, spread over it, in turn whole, smaller and small ones.

    The first and the last are among them, and whole: selecting leaves any size between.
    """
    last = len(plan) - 1
    places = sorted({round(number * last / max(1, count - 1)) for number in range(count)})
    parts = plan.rows.split(plan.sizes)
    cuts = [parts[place] for place in places]
    for number in range(1, len(cuts) - 1):
        rows = cuts[number]
        cuts[number] = rows[: (len(rows), max(2, 3 * len(rows) // 4), _SMALL)[number % 3]]
    return Plan(torch.cat(cuts), [len(rows) for rows in cuts])


def _pretend_trained(run: Run) -> None:
    """Have all samples look as if this epoch had trained them: half of them right, at low losses.

    What an untrained network makes of a few batches need not move a strategy to do anything.
    """
    luck = torch.rand(len(run.labels), generator=run.rng("warm-up")).to(run.device)
    ledger = run.ledger
    ledger.previous_loss.copy_(ledger.last_loss)
    ledger.last_loss.copy_(2 * luck)
    ledger.last_correct.copy_(luck < 0.5)
    ledger.times_trained.add_(1)
