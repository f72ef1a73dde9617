"""Two trainers side by side: what a strategy saves, measured against what its counts promise."""

import os
import statistics

import torch

from dataeff.data import load_dataset
from dataeff.plugins import compose, load_plugins
from dataeff.training.cell import make_run
from dataeff.training.loop import train_epoch
from dataeff.training.task import Task

CPU = torch.device("cpu")
ROOT = os.environ.get("DATAEFF_DATA")
# What the images show does not matter here; the real ones are taken where they are.
DATASET = "cifar10[subset=1138]" if ROOT else "synthetic[samples=1138,size=32,channels=3]"
# A tenth is held out: 1,024 samples are 8 batches. So long a schedule hardly moves.
TASK = Task(dataset=DATASET, model="resnet8", epochs=1000, batch_size=128)


class Trainer:
    """A run, prepared and `before` epochs old, whose epochs are trained a few at a time."""

    def __init__(self, text, period=1, epochs=None, task=TASK, before=1):
        installed = load_plugins()
        data = load_dataset(task.dataset, installed.datasets, root=ROOT, device=CPU)
        self.run = make_run(data, task, compose(text, installed), 0, installed, CPU)
        self.period, self.restarts = period, epochs is not None
        self.run.epochs = epochs or self.run.epochs
        self.run.hook.prepare(run=self.run)
        # Histories begin: of what is measured, no epoch is the first.
        self.train(before)
        self.works = []

    def __call__(self):
        before = self.run.meter.flops
        self.run.epoch = 0 if self.restarts else self.run.epoch
        self.train(self.period)
        self.works.append(self.run.meter.flops - before)

    def train(self, epochs):
        for _ in range(epochs):
            with self.run.meter.clock("train"):
                train_epoch(self.run)
            self.run.close_epoch()
            self.run.epoch += 1


def measured(ratio, text, period=1, rounds=5, against="baseline", epochs=None, task=TASK, before=1):
    """Return the speed-up against another strategy, the ideal one, realised / ideal, and the run.

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
    return speedup, ideal, realised, ours.run
