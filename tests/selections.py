"""What tests of row selection share: what a batch held before a strategy, and what it left."""

import torch
import torch.nn.functional as F
from probes import Stateless

from dataeff import hookimpl
from dataeff.testing import TASK, train_tiny


class Before(Stateless):
    """Score every batch by a forward of its own, before the strategy sees it.

    A batch is (epoch, progress, number, rows), a row a list of (sample, loss).
    """

    def __init__(self):
        self.batches = []
        self.images = {}

    @hookimpl
    def select_batch(self, run, batch):
        run.model.eval()
        with torch.no_grad():
            losses = F.cross_entropy(run.model(batch.x), batch.y, reduction="none")
        run.model.train()
        rows = [[] for _ in range(batch.R)]
        for row, i, loss in zip(*(c.tolist() for c in (batch.row, batch.idx, losses)), strict=True):
            rows[row].append((i, loss))
        self.batches.append((run.epoch, run.progress, run.batch, rows))
        for i, x in zip(batch.idx.tolist(), batch.x, strict=True):
            self.images[run.epoch, i] = x


class After(Stateless):
    """Write down what is left of every batch: (epoch, rows), a row a list of samples."""

    def __init__(self):
        self.batches = []
        self.images = {}

    @hookimpl
    def select_batch(self, run, batch):
        rows = [[] for _ in range(batch.R)]
        for row, i in zip(batch.row.tolist(), batch.idx.tolist(), strict=True):
            rows[row].append(i)
        self.batches.append((run.epoch, rows))
        for i, x in zip(batch.idx.tolist(), batch.x, strict=True):
            self.images[run.epoch, i] = x


def watched(text, installed, *others, **changes):
    """Train the kit's little task; return what came before, what was left, and the result."""
    before, after = Before(), After()
    task = TASK.model_copy(update=changes)
    result = train_tiny(before, text, after, *others, installed=installed, task=task)
    return before, after, result


def stream_of(result, name):
    """Return a generator that stands where this stream of the run began."""
    return torch.Generator().manual_seed(result.run.rng(name).initial_seed())
