"""What the loop does where no strategy owns a hook: plain training."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dataeff.hookspecs import hookimpl
from dataeff.training.batch import Batch
from dataeff.training.plan import Plan
from dataeff.training.run import Run


class DefaultLoop:
    """The owner of every own-hook that no strategy owns."""

    @hookimpl
    def plan_epoch(self, run, kept):
        # Permute all, then drop: pruning leaves the order of the rest as it was.
        order = torch.randperm(len(kept), generator=run.rng("order"))
        return Plan.cut(order[kept[order]], run.task.batch_size)

    @hookimpl
    def load(self, run, rows):
        y = run.labels.index_select(0, rows.idx)
        return Batch(run.fetch(rows), rows.idx, y, rows.row, rows.R, rows.width)

    @hookimpl
    def forward(self, run, batch):
        return batch.per_sample(run.network(batch.x))

    @hookimpl
    def network(self, run, x, between):
        return run._job.module(x, between)

    @hookimpl
    def sample_losses(self, batch, logits):
        return F.cross_entropy(logits, batch.y, reduction="none")

    @hookimpl
    def reduce_loss(self, run, batch, logits, losses):
        smoothing = run.task.label_smoothing
        if smoothing:
            uniform = logits.logsumexp(1) - logits.mean(1)
            losses = (1 - smoothing) * losses + smoothing * uniform
        return (batch.weight * losses).sum(), batch.R

    @hookimpl
    def backward(self, run, loss):
        numerator, denominator = loss
        if run.pending:
            run.denominator = run.denominator + denominator
        else:
            # Gradients in units of the first batch's denominator: where a step is one batch there
            # is nothing left to divide, and half precision sees a mean instead of a sum.
            run.denominator = run.unit = denominator
        (numerator / run.unit).backward()

    def descend(self, run: Run, batch: Batch, losses: Tensor) -> None:
        """Do what `reduce_loss` and `backward` do, without nodes in the graph for it."""
        if run.pending:
            run.denominator = run.denominator + batch.R
        else:
            run.denominator = run.unit = batch.R
        losses.backward(gradient=shares(batch, losses, run.unit))

    @hookimpl
    def finish_gradients(self, run):
        divides = run.denominator is not run.unit
        if not (divides or run.task.clip):
            return
        # The optimizer's lists are flat; walking the module tree takes longer than dividing.
        parameters = [p for group in run.optimizer.param_groups for p in group["params"]]
        if divides:
            gradients = [p.grad for p in parameters if p.grad is not None]
            torch._foreach_div_(gradients, run.denominator / run.unit)
        if run.task.clip:
            by_norm = run.task.clip_by == "norm"
            clip = nn.utils.clip_grad_norm_ if by_norm else nn.utils.clip_grad_value_
            clip(parameters, run.task.clip)

    @hookimpl
    def optimizer_step(self, run):
        run.optimizer.step()


def shares(batch: Batch, losses: Tensor, unit: float | Tensor | None = None) -> Tensor:
    """Return what each loss counts: its weight, divided by the unit or the number of rows."""
    share = 1 / float(batch.R if unit is None else unit)
    return batch.weight * share if batch.weighted else torch.full_like(losses, share)
