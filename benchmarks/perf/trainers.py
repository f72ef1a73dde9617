"""Two trainers side by side: what a strategy saves, measured against what its counts promise."""

import os
import statistics
from pathlib import Path

from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.training.job import Job
from dataeff.training.loop import batches, epoch, prepare
from dataeff.training.task import Task

ROOT = os.environ.get("DATAEFF_DATA")
# What the images show does not matter here; the real ones are taken where they are.
DATASET = "cifar10[subset=1138]" if ROOT else "synthetic[samples=1138,size=32,channels=3]"
# A tenth is held out: 1,024 samples are 8 batches. So long a schedule hardly moves.
TASK = Task(dataset=DATASET, model="resnet8", epochs=1000, batch_size=128)


def lab():
    """Return a lab on the CPU, with the real data where they are."""
    return Lab(load_plugins(), "cpu", ROOT and Path(ROOT))


def new_job(task, text, where=None):
    """Set a run up, as a cell does it; nothing is prepared."""
    where = where or lab()
    with where.started(task, where.composition(text).fresh() if text else [], 0) as job:
        return job


def train_epoch(job: Job):
    """Train one epoch on its clock, without an evaluation."""
    for plan in epoch(job, lambda job: {}):
        with job.meter.clock("train"):
            for _ in batches(job, plan):
                pass


class Trainer:
    """A run, prepared and `before` epochs old, whose epochs are trained a few at a time."""

    def __init__(self, text, period=1, epochs=None, task=TASK, before=1):
        self.job = new_job(task, text)
        self.run, self.meter = self.job.run, self.job.meter
        self.period, self.restarts = period, epochs is not None
        self.run.epochs = epochs or self.run.epochs
        prepare(self.job)
        # Histories begin: of what is measured, no epoch is the first.
        self.train(before)
        self.works = []

    def __call__(self):
        before = self.meter.flops
        self.run.epoch = 0 if self.restarts else self.run.epoch
        self.train(self.period)
        self.works.append(self.meter.flops - before)

    def train(self, epochs):
        for _ in range(epochs):
            train_epoch(self.job)


def measured(ratio, text, period=1, rounds=5, against="baseline", epochs=None, task=TASK, before=1):
    """Return the speed-up against another strategy, the ideal one, realised / ideal, and the job.

    The last is the median over rounds, too: where coins decide how much is trained, so they do in
    each of them. With `epochs` the schedule is that short, and begins anew in every round.
    """
    ours, theirs = (Trainer(name, period, epochs, task, before) for name in (text, against))
    seconds = []
    speedup = 1 / ratio(ours, theirs, rounds, seconds)
    # The first call of each was not measured.
    works = list(zip(theirs.works[1:], ours.works[1:], strict=True))
    ideal = sum(work for work, _ in works) / sum(work for _, work in works)
    realised = statistics.median(
        time / mine / (work / own) for (time, mine), (work, own) in zip(seconds, works, strict=True)
    )
    print(f"{text}: {speedup:.2f}x, ideal {ideal:.2f}x, realised / ideal {realised:.3f}")
    return speedup, ideal, realised, ours.job
