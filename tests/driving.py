"""Loops written by hand around a drive, and our own trainer beside them."""

import torch
from torch.nn.functional import cross_entropy

import dataeff
from dataeff import Strategy, hookimpl
from dataeff.composition import Composition, watching
from dataeff.errors import DataeffError
from dataeff.plugins import load_plugins
from dataeff.testing import TASK, lab_of
from dataeff.training.demands import demands, whose
from dataeff.training.optimizing import build_optimizer, schedule

INSTALLED = load_plugins()
THREE = TASK.model_copy(update={"epochs": 3.0, "validation": 0.0})
# The scoring networks need not be as many as the papers say, nor the epochs.
CHEAP = {
    "el2n": "el2n[models=2,epochs=1]",
    "grand": "grand[models=1,epochs=1]",
    "forgetting": "forgetting[models=1,epochs=2]",
    "rho_loss": "rho_loss[epochs=1,keep=0.25]",
    "glister": "glister[every=1]",
    "craig": "craig[every=1]",
    "gradmatch": "gradmatch[every=1]",
    "selective_backprop_batch": "selective_backprop_batch[start=0.2]",
}
# They choose by validation samples, or learn from them.
HELD_OUT = ("glister", "rho_loss")
KINDS = {entry.name: entry.factory for entry in INSTALLED.strategies.entries()}
ALIASES = {entry.name for entry in INSTALLED.strategies.entries() if entry.alias_of}
REFUSED = {name: hook for name, kind in KINDS.items() if (hook := whose(kind))}
DRIVABLE = [CHEAP.get(name, name) for name in KINDS if name not in REFUSED]


class Diary(Strategy):
    """Write down the samples of each batch that is trained, with their weights."""

    def __init__(self):
        self._batches = []

    @hookimpl
    def observe_batch(self, batch):
        self._batches.append(batch.idx.tolist())


def task_for(*texts):
    """Return the task to try strategies on, with validation samples where one asks for them."""
    held_out = any(text.partition("[")[0] in HELD_OUT for text in texts)
    return THREE.model_copy(update={"validation": 0.2}) if held_out else THREE


def trained(text, task, seed=0):
    """Train in our own trainer; return the batches and the network."""
    diary = Diary()
    strategies = [*Composition.read(text, INSTALLED).fresh(), watching(diary)]
    result = lab_of(INSTALLED).run(task, strategies, seed)
    return diary._batches, result.run.model


def drive_of(text, task, seed=0, **changes):
    """Return a drive of the same task and seed."""
    keys = {name: getattr(task, name) for name in ("epochs", "batch_size", "validation", "lr")}
    data = changes.pop("dataset", task.dataset)
    return dataeff.drive(text, data, **({"seed": seed, "model": task.model} | keys | changes))


def wants_logits(drive):
    """Say whether a strategy of the drive wants to know what the network said."""
    return any(demands(part.kind).logits for part in drive._job.run.strategies)


class Loop:
    """A plain loop, with the optimizer and the schedule of our own trainer."""

    def __init__(self, drive, task, looks=False):
        self.drive, self.task = drive, task
        self.model, self.looks = drive.model, looks or wants_logits(drive)
        self.optimizer = build_optimizer(task, self.model)
        self._seen = []

    @property
    def batches(self):
        """Return the samples of each batch that was trained."""
        return [indices.tolist() for indices in self._seen]

    def train(self, batches, count=None):
        """Train all batches, or so many; return whether there were as many."""
        if count == 0:
            return True
        for batch in batches:
            self.take(batch)
            count = None if count is None else count - 1
            if count == 0:
                return True
        return False

    def take(self, batch):
        # Not read back: a device may be waited for.
        self._seen.append(batch.indices)
        logits = self.drive.per_sample(self.model(batch.x))
        losses = cross_entropy(logits, batch.y, reduction="none")
        self.drive.step(losses, logits if self.looks else None).backward()
        rate = self.task.lr * schedule(self.task, self.drive.progress) * self.drive.lr_factor
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()


def same_weights(one, other):
    """Say whether two networks hold the same, bit by bit."""
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine)


def told(call, *given, **options):
    """Return what an error says."""
    try:
        call(*given, **options)
    except DataeffError as error:
        return str(error)
    return ""
