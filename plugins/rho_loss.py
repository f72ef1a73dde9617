"""RHO-Loss: train what is still to be learned, and can be: loss minus that of a holdout's model.

Mindermann et al. 2022, https://arxiv.org/abs/2206.07137
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from dataeff_plugins._lookahead import ScoreMode, losses_of
from pydantic import Field

from dataeff import DataeffError, Plan, Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("rho_loss", RhoLoss)


@dataclass(eq=False)
class RhoLoss(Strategy):
    """Of each batch of candidates, 1 / keep times as large, train the rows of highest excess loss.

    The excess is over the irreducible loss: what a network says that was trained beforehand, for
    `epochs`, on the validation samples, which no run trains on. With `holdout=halves` two networks
    are trained on halves of the training samples, and each tells the losses of the other half. The
    paper takes the epoch of lowest validation loss; there are no further samples to tell it by, so
    this takes the last one. `score_mode=train` scores candidates as the authors' code does, with
    the statistics of their batch, which BatchNorm counts. A batch keeps two rows at least; a last
    batch of candidates that would keep but a few joins the one before, as it would in any plan.
    """

    keep: Share = 0.1
    epochs: Annotated[float, Field(gt=0)] = 10.0
    holdout: Literal["validation", "halves"] = "validation"
    score_mode: ScoreMode = "eval"
    # Not rows: of the few that are left, all hard ones, another strategy need not save any.
    saves = "flops"

    @hookimpl
    def setup(self, run):
        if self.holdout == "validation" and len(run.split("validation")) < 2:
            raise DataeffError(
                "rho_loss needs validation samples to learn from: write rho_loss[holdout=halves], "
                "or set validation in the task."
            )
        self.irreducible = torch.zeros(len(run.labels), device=run.device)

    @hookimpl
    def prepare(self, run):
        for k, (learned, told) in enumerate(self.parts(run)):
            child = run.train_child("rho_loss", k, self.epochs, learned)
            scores = run.score_dataset(indices=told, model=child.model)
            self.irreducible[told.to(run.device)] = scores

    def parts(self, run):
        """Return who is learned from, and whose losses are then told, for each network."""
        samples = run.split("train")
        if self.holdout == "validation":
            return [(run.split("validation"), samples)]
        order = torch.randperm(len(samples), generator=run.rng("rho_loss"))
        one, other = samples[order].tensor_split(2)
        return [(one, other), (other, one)]

    @hookimpl(wrapper=True)
    def plan_epoch(self, run):
        plan = yield
        candidates = Plan.cut(plan.rows, round(run.task.batch_size / self.keep))
        return without_short_end(candidates, self.keep)

    @hookimpl
    def select_batch(self, run, batch):
        count = kept_of(batch.R, self.keep)
        if count == batch.R:
            return
        losses = losses_of(run, batch.x, batch.y, self.score_mode)
        excess = batch.per_row(losses - self.irreducible[batch.idx])
        batch.keep_rows(excess.topk(count).indices)


def kept_of(rows, keep):
    """Return how many of so many candidates are trained."""
    # Rounded, so that a whole batch of candidates leaves exactly a batch of the task's size.
    return min(rows, max(2, round(keep * rows)))


def without_short_end(plan, keep):
    """Return the plan; its last two batches are one if the last would leave too few to train."""
    last = [kept_of(rows, keep) for rows in plan.sizes[-2:]]
    if len(last) < 2 or not Plan.joins(last[1], last[0]):
        return plan
    return Plan(plan.rows, [*plan.sizes[:-2], sum(plan.sizes[-2:])])
