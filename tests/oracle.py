"""Selective mixing in plain Python, sample by sample, and the strategy without a network."""

import math
from types import SimpleNamespace

import torch
from dataeff_plugins.mixtrain import selection as policy

from dataeff import Batch, Plan
from dataeff.composition import Composition
from dataeff.plugins import load_plugins
from dataeff.training.ledger import Ledger
from dataeff.training.rng import Streams

INSTALLED = load_plugins()
WORDS = {policy.NOMIX: "single", policy.MIX_R1: "region1", policy.MIX_R3: "region3"}


class Oracle:
    """The policy as the paper tells it: one sample at a time, dicts and floats."""

    def __init__(self, samples, *, selection="full", k=1, rise="unmixed", memory=1.0, bootstrap=0):
        self.selection, self.k, self.rise = selection, k, rise
        self.memory, self.bootstrap = memory, bootstrap
        self.epoch = 0
        self.status = dict.fromkeys(samples, "single")
        self.left = dict.fromkeys(samples, 0)
        self.streak = dict.fromkeys(samples, 0)
        self.last = dict.fromkeys(samples)  # the last loss that may be compared with
        self.right, self.wrong = [0.0, 0.0], [0.0, 0.0]
        self.limits = {}

    def mixed(self):
        return {i for i, status in self.status.items() if status != "single"}

    def end_epoch(self, seen):
        """Take {sample: (loss, correct)} of the samples that were trained in this epoch."""
        before = [list(self.right), list(self.wrong)]
        for part in (self.right, self.wrong):
            part[:] = [self.memory * value for value in part]
        for i, (loss, correct) in seen.items():
            if self.status[i] == "single":
                part = self.right if correct else self.wrong
                part[0] += loss
                part[1] += 1
        first = self.epoch == 0
        sums = [self.right, self.wrong] if first and self.bootstrap else before
        known = not first or self.bootstrap
        self.limits = self.thresholds(*sums)
        for i in self.status:
            if i in seen:
                self.decide(i, *seen[i], known)
            elif self.status[i] == "region3":
                self.omit(i)
        self.epoch += 1

    @staticmethod
    def thresholds(right, wrong):
        corr = right[0] / right[1] if right[1] else 0.0
        incorr = wrong[0] / wrong[1] if wrong[1] else math.inf
        mid = 0.5 * (corr + incorr) if wrong[1] else corr
        count = right[1] + wrong[1]
        mean = (right[0] + wrong[0]) / count if count else 0.0
        return {"corr": corr, "incorr": incorr, "mid": mid, "mean": mean}

    def decide(self, i, loss, correct, known):
        status = self.status[i]
        if status == "single":
            rose = self.last[i] is not None and loss > self.last[i]
            self.streak[i] = self.streak[i] + 1 if rose else 0
            self.last[i] = loss
        else:
            self.streak[i] = 0
            self.last[i] = loss if self.rise == "any" else None
        if status == "single":
            self.status[i] = self.leave_singles(i, loss, correct, known)
            self.left[i] = self.k
        elif status == "region1":
            self.status[i] = "region1" if self.is_easy(loss, correct, known) else "single"
        elif self.selection == "incorr":
            self.status[i] = "region3" if loss > self.limits["incorr"] else "single"
        else:
            self.count_down(i)

    def leave_singles(self, i, loss, correct, known):
        if self.is_easy(loss, correct, known):
            return "region1"
        if not known or loss <= self.limits["incorr"]:
            return "single"
        if self.selection == "incorr":
            return "region3"
        if self.selection in ("full", "region3") and self.streak[i] >= self.k:
            return "region3"
        return "single"

    def is_easy(self, loss, correct, known):
        if self.selection == "accuracy":
            return correct
        if self.selection == "region3" or not known:
            return False
        return loss < self.limits["mean" if self.selection == "average_loss" else "mid"]

    def omit(self, i):
        """Count an epoch in which a sample of region 3 was not trained."""
        self.streak[i] = 0
        if self.rise == "unmixed":
            self.last[i] = None
        if self.selection != "incorr":
            self.count_down(i)

    def count_down(self, i):
        self.left[i] -= 1
        if not self.left[i]:
            self.status[i] = "single"


class Rehearsal:
    """The strategy without a network: its own hooks, around losses that a test makes up."""

    def __init__(self, n, name="mixtrain_mixup", **options):
        composition = Composition.read(labelled(name, options), INSTALLED)
        (self.strategy,) = (part.plugin for part in composition.fresh())
        self.run = SimpleNamespace(
            labels=torch.zeros(n, dtype=torch.long),
            ledger=Ledger(n, torch.device("cpu")),
            rng=Streams(0),
            task=SimpleNamespace(batch_size=4),
        )
        self.strategy.setup(self.run)

    def plan(self, samples):
        """Return the rows of an epoch over these samples, as lists of one or two."""
        kept = torch.zeros(len(self.run.labels), dtype=torch.bool)
        kept[list(samples)] = True
        mask = self.strategy.prune_dataset()
        kept = kept if mask is None else kept & mask
        wrapper = self.strategy.plan_epoch(self.run)
        next(wrapper)
        try:
            wrapper.send(Plan.cut(kept.nonzero()[:, 0], 4))
        except StopIteration as done:
            return [[i for i in row if i >= 0] for row in done.value.rows.tolist()]

    def train(self, seen):
        if seen:
            idx = torch.tensor(list(seen))
            losses = torch.tensor([loss for loss, _ in seen.values()])
            right = torch.tensor([correct for _, correct in seen.values()])
            batch = Batch(idx[:, None], idx, self.run.labels[idx])
            self.run.ledger.record(batch, torch.stack([right * 2.0, 0 * losses + 1], 1), losses)
        self.strategy.end_epoch(self.run)

    def status(self):
        return {i: WORDS[value] for i, value in enumerate(self.strategy.status.tolist())}

    def limits(self):
        return {key: self.strategy.history[-1][key] for key in ("corr", "incorr", "mid", "mean")}


def labelled(name, options):
    inside = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{name}[{inside}]" if inside else name
