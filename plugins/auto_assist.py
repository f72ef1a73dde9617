"""AutoAssist: a small assistant learns which samples are hard, and passes these to the network.

Zhang, Yu and Dhillon 2019, https://arxiv.org/abs/1905.03381
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from dataeff_plugins._holding import Holding
from dataeff_plugins._overhead import told
from pydantic import Field

from dataeff import Plan, hookimpl


@hookimpl
def register_strategies(register):
    register("auto_assist", AutoAssist)


@dataclass(eq=False)
class AutoAssist(Holding):
    """Pass a row with probability gamma + (1 - gamma) g, g being how hard the assistant thinks it.

    The assistant, a logistic regression on pixels and class, costs next to nothing beside a
    forward. It learns from each batch that is trained, at once, with learning rate `lr` and weight
    decay `decay`: a sample is hard if its loss is above the running mean (of `momentum`), with
    `target=pred` if it was misclassified. For `bootstrap` epochs it only learns. What passes fills
    whole batches, trained without weights. An epoch is one pass over the data; with `epoch=batches`
    it goes round until about as many batches are full as without the assistant, as the authors'
    does (by the share that passed in the epoch before): that saves epochs, if anything, not time.
    Later rounds of an epoch show images as its first one did, where the authors' augment anew.
    """

    gamma: Annotated[float, Field(ge=0, le=1)] = 0.3
    lr: Annotated[float, Field(gt=0)] = 0.01
    decay: Annotated[float, Field(ge=0)] = 1e-3
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.75
    target: Literal["mean", "pred"] = "mean"
    bootstrap: Annotated[int, Field(ge=0)] = 1
    epoch: Literal["pass", "batches"] = "pass"
    reads_back = True

    @property
    def saves(self):
        """Rows, unless as many are trained as without the assistant."""
        return "rows" if self.epoch == "pass" else ""

    @hookimpl
    def setup(self, run):
        super().setup()
        sizes = [math.prod(run.shape), int(run.labels.max()) + 1]
        start = 0.001 * torch.randn(sum(sizes), generator=run.rng("auto_assist"))
        self.pixels, self.classes = start.to(run.device).split(sizes)
        self.loss_sum, self.loss_count = torch.zeros((), device=run.device), 0.0
        self.agreed, self.judged = torch.zeros((), device=run.device), 0
        self.offered = self.passed = 0
        # One that knows nothing calls a half hard.
        self.pass_rate = (1 + self.gamma) / 2

    @hookimpl(wrapper=True)
    def plan_epoch(self, run):
        plan = yield
        self._before = self.offered, self.passed
        if self.epoch == "pass" or run.epoch < self.bootstrap:
            return plan
        return repeated(plan, 1 / self.pass_rate)

    @hookimpl
    def select_batch(self, run, batch):
        if run.epoch < self.bootstrap or not batch.R:
            return
        with run.timed("assistant"):
            guess = hardness(self.pixels, self.classes, batch.x.flatten(1), batch.y)
            odds = batch.per_row(self.gamma + (1 - self.gamma) * guess)
            luck = torch.rand(batch.R, generator=run.rng("auto_assist"))
            passes = luck.to(run.device, non_blocking=True) < odds
        # Reading back waits for all that the device was asked before: that is not its time.
        passing = passes.nonzero()[:, 0]
        self.offered += batch.R
        self.passed += len(passing)
        self.hold(run, batch, passing)

    # Before all others: the assistant learns from images as it will be asked about them, neither
    # resized nor mixed.
    @hookimpl(tryfirst=True)
    def resize_batch(self, batch):
        self._x = batch.x.flatten(1)

    @hookimpl
    def observe_batch(self, run, batch, logits, losses):
        with run.timed("assistant"):
            a = self.momentum
            self.loss_sum = a * self.loss_sum + (1 - a) * losses.sum()
            self.loss_count = a * self.loss_count + (1 - a) * batch.S
            if self.target == "mean":
                hard = losses > self.loss_sum / self.loss_count
            else:
                hard = logits.argmax(1) != batch.y
            guess = learn(self.pixels, self.classes, self._x, batch.y, hard, self.lr, self.decay)
            self.agreed += ((guess > 0.5) == hard).sum()
            self.judged += batch.S

    @hookimpl
    def end_epoch(self):
        offered, passed = self.offered - self._before[0], self.passed - self._before[1]
        # Nobody goes round for ever.
        self.pass_rate = max(passed / offered, 0.05) if offered else self.pass_rate

    @hookimpl
    def report(self, run):
        return {
            "assistant_note": told("the assistant", run.timed_share("assistant")),
            "assistant_pass_rate": self.passed / max(1, self.offered),
            "assistant_accuracy": float(self.agreed) / max(1, self.judged),
        }


def repeated(plan, times):
    """Return the plan, gone through so many times; a part of it counts by its rows."""
    whole = int(times)
    parts = [plan] * whole + [plan.head(times - whole)] * (times > whole)
    sizes = [size for part in parts for size in part.sizes]
    return Plan(torch.cat([part.rows for part in parts]), sizes)


def hardness(pixels, classes, x, y):
    """Return how likely the assistant thinks each sample hard."""
    return torch.sigmoid(x @ pixels + classes[y])


def learn(pixels, classes, x, y, hard, lr, decay):
    """Take one step of logistic regression, in place; return the guesses before it.

    Weights decay once per step, the bias of a class once per sample of it, as in the authors' code.
    """
    guess = hardness(pixels, classes, x, y)
    error = guess - hard.float()
    rate = lr / len(y)
    classes.index_add_(0, y, error + decay * classes[y], alpha=-rate)
    pixels -= rate * (error @ x + decay * pixels)
    return guess
