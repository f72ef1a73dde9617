"""Selective-Backprop: train a sample the more likely, the higher its loss is among recent ones.

Jiang et al. 2019, https://arxiv.org/abs/1910.00762
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from dataeff_plugins._holding import Holding
from dataeff_plugins._lookahead import ScoreMode, losses_of
from pydantic import Field

from dataeff import hookimpl


@hookimpl
def register_strategies(register):
    register("selective_backprop", SelectiveBackprop)


@dataclass(eq=False)
class SelectiveBackprop(Holding):
    """Keep each row with probability P ** beta, P being its loss's percentile of recent losses.

    What is kept fills whole batches, which are forwarded again and trained without weights. `beta`
    keeps 1 / (beta + 1) of the rows (the authors' script has 3); `history` is how many losses
    count as recent; the first `primed` epochs train everything. `stale` refreshes a loss only every
    so many epochs: in between the last one counts, be it from scoring or from training. The
    learning rate follows epochs, where the authors' follows what was trained. `score_mode=train`
    scores with the statistics of the batch, and BatchNorm counts them.
    """

    beta: Annotated[float, Field(ge=0)] = 1.0
    history: Annotated[int, Field(ge=1)] = 1024
    stale: Annotated[int, Field(ge=1)] = 1
    primed: Annotated[int, Field(ge=0)] = 1
    score_mode: ScoreMode = "eval"
    saves = "rows"
    reads_back = True

    def __post_init__(self):
        if self.stale > 1 and self.score_mode == "train":
            raise ValueError("score_mode=train needs whole batches to score; leave stale at 1")

    @hookimpl
    def setup(self, run):
        super().setup()
        n = len(run.labels)
        self.recent = torch.empty(0, device=run.device)
        self.losses = torch.full((n,), torch.nan, device=run.device)
        self.times = torch.zeros(n, dtype=torch.int32, device=run.device)
        # On the CPU, as the plan is: what is due of a batch is known without reading it back.
        self.refreshed = torch.full((n,), -self.stale)

    @hookimpl(wrapper=True)
    def load(self, run, rows):
        batch = yield
        if self.stale > 1 and run.epoch >= self.primed:
            samples = rows.samples
            due = (run.epoch - self.refreshed[samples] >= self.stale).nonzero()[:, 0]
            if len(due):
                self.refreshed[samples[due]] = run.epoch
                some = due.to(run.device, non_blocking=True)
                scores = losses_of(run, batch.x[some], batch.y[some], self.score_mode)
                self.losses[batch.idx[some]] = scores
        return batch

    @hookimpl
    def select_batch(self, run, batch):
        if run.epoch < self.primed or not batch.R:
            return
        if self.stale > 1:
            losses = self.losses[batch.idx]
        else:
            losses = losses_of(run, batch.x, batch.y, self.score_mode)
        losses = batch.per_row(losses)
        self.recent = torch.cat([self.recent, losses])[-self.history :]
        luck = torch.rand(batch.R, generator=run.rng("selective_backprop"))
        odds = percentiles(losses, self.recent) ** self.beta
        kept = luck.to(run.device, non_blocking=True) < odds
        self.hold(run, batch, kept.nonzero()[:, 0])

    @hookimpl
    def end_epoch(self, run):
        """Take over the losses of what was trained: a sample is asked for once per epoch."""
        if self.stale > 1:
            ledger = run.ledger
            fresh = (ledger.times_trained > self.times) & ~ledger.last_mixed
            self.losses = torch.where(fresh, ledger.last_loss, self.losses)
            self.refreshed[fresh.cpu()] = run.epoch
            self.times = ledger.times_trained.clone()


def percentiles(losses, recent):
    """Return for each loss the share of recent ones that are strictly smaller."""
    return torch.searchsorted(recent.sort().values, losses) / len(recent)
