"""The trainer, hooks and ledger included, against a hand-written loop of the same work."""

import statistics

import pytest
import torch
import torch.nn.functional as F
from trainers import lab, new_job, train_epoch

from dataeff.training.optimizing import schedule
from dataeff.training.task import Task


def by_hand(run, task, samples):
    """Train one epoch the way one writes it for a single purpose."""
    model, optimizer = run.model, run.optimizer
    order = samples[torch.randperm(len(samples))]
    batches = order.split(task.batch_size)
    images = run.train.stream(batches, (0, 0))
    for number, (idx, x) in enumerate(zip(batches, images, strict=True)):
        loss = F.cross_entropy(model(x), run.labels[idx])
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = task.lr * schedule(task, number / len(batches) / task.epochs)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        pytest.param(
            {"dataset": "digits[size=32,subset=512]", "model": "resnet8", "batch_size": 128},
            1.05,
            id="resnet8 at 32x32, batch 128",
        ),
        pytest.param(
            {"dataset": "digits[size=16]", "model": "resnet8[width=4]", "batch_size": 64},
            1.03,
            id="resnet8[width=4] at 16x16, batch 64",
        ),
        pytest.param(
            {"dataset": "digits[size=16]", "model": "resnet8[width=4]", "batch_size": 16},
            1.05,
            id="resnet8[width=4] at 16x16, batch 16",
        ),
    ],
)
def test_overhead_of_the_trainer(ratio, options, limit):
    task, where = Task(epochs=1000, validation=0, **options), lab()
    ours, theirs = new_job(task, "baseline", where), new_job(task, "", where).run
    samples, pairs = theirs.split("train"), []
    value = ratio(
        lambda: train_epoch(ours), lambda: by_hand(theirs, task, samples), rounds=25, pairs=pairs
    )
    steps = -(-len(samples) // task.batch_size)
    seconds = statistics.median(reference for reference, _ in pairs)
    print(f"a step by hand takes {1000 * seconds / steps:.1f} ms")
    assert value <= limit
