"""KAKURENBO: hide the samples that are learnt, by loss, correctness and confidence, for an epoch.

Nguyen et al. 2023, https://arxiv.org/abs/2310.10102
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field

from dataeff import Strategy, hookimpl, portion

Part = Annotated[float, Field(ge=0, le=1)]


@hookimpl
def register_strategies(register):
    register("kakurenbo", Kakurenbo)


@dataclass(eq=False)
class Kakurenbo(Strategy):
    """Hide of the share `hide` with the lowest losses those that are right and sure by `tau`.

    Sure means a largest probability of `tau` or more. At the end of an epoch the hidden samples
    are forwarded once, to know how they stand. The share falls by `decay` of itself with each
    phase of training: at the task's milestones where it has some, else at 0.3, 0.6 and 0.8, which
    are those of the paper's CIFAR-100. The learning rate is divided by the share that is trained:
    `hidden` counts those really hidden, `target` the share that could have been, as the reference
    code does. A batch at least stays; samples never trained are neither hidden nor counted.
    """

    hide: Annotated[float, Field(gt=0, lt=1)] = 0.3
    tau: Part = 0.7
    decay: Part = 0.2
    lr_by: Literal["hidden", "target"] = "hidden"
    saves = "flops"

    @hookimpl
    def setup(self, run):
        # Per sample: loss, right, confidence.
        self.seen = torch.full((len(run.labels), 3), torch.nan, device=run.device)

    @hookimpl
    def prune_dataset(self, run, epoch):
        seen = self.seen.cpu()
        share = self.hide * remaining(epoch / run.epochs, self.decay, run.task)
        known = int((~seen[:, 0].isnan()).sum())
        most = max(0, min(portion(share, known), known - run.task.batch_size))
        self._hidden = hidden(*seen.unbind(1), most, self.tau)
        if self.lr_by == "hidden":
            share = int(self._hidden.sum()) / max(1, known)
        self._lr_factor = 1 / (1 - share)
        return ~self._hidden

    @hookimpl
    def lr_factor(self):
        return self._lr_factor

    @hookimpl
    def observe_batch(self, batch, logits, losses):
        self.seen[batch.idx] = facts(logits, batch.y, losses)

    @hookimpl
    def end_epoch(self, run):
        # Nobody would ask after the last epoch.
        if self._hidden.any() and run.epoch + 1 < run.epoch_count:
            indices = self._hidden.nonzero()[:, 0]
            self.seen[indices.to(run.device)] = run.score_dataset(facts, indices)


def facts(logits, y, losses=None):
    """Return (loss, right, confidence) of each sample."""
    losses = F.cross_entropy(logits, y, reduction="none") if losses is None else losses
    top, guess = logits.softmax(1).max(1)
    return torch.stack([losses, (guess == y).to(losses), top], dim=1)


def remaining(progress, decay, task):
    """Return the part of the share that this phase of training leaves."""
    borders = [epoch / task.epochs for epoch in task.milestones] or [0.3, 0.6, 0.8]
    return max(0.0, 1 - decay * sum(progress >= border for border in borders))


def hidden(loss, right, confidence, most, tau):
    """Return who is hidden: of the `most` lowest losses, those that are right and sure."""
    lowest = loss.nan_to_num(torch.inf).argsort(stable=True)[:most]
    mask = torch.zeros(len(loss), dtype=torch.bool)
    mask[lowest] = (right[lowest] == 1) & (confidence[lowest] >= tau)
    return mask
