"""Oracle skipping: leave out samples that are easy now, by losses that somebody else pays for.

Krithivasan et al. 2021, InterTrain, Section 7.9 (the bound that input mixing is compared with)
"""

from dataclasses import dataclass

import torch
from dataeff_plugins.mixtrain.selection import added, limits_of, look, observed_sums

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("oracle_skipping", OracleSkipping)


@dataclass(eq=False)
class OracleSkipping(Strategy):
    """Skip a sample in the next epoch while its loss is below L_corr, the mean of those right.

    The loss of a skipped sample is measured anew after every epoch, by a forward pass that is not
    on the clock: a bound, not a method, so it is not ranked. The hardest batch is always trained.
    """

    saves = "rows"

    @hookimpl
    def setup(self, run):
        self.skipped = torch.zeros(len(run.labels), dtype=torch.bool)
        self.times = torch.zeros(len(run.labels), dtype=torch.int32)
        self.sums = [0.0, 0.0, 0.0, 0.0]
        self.shares = []

    @hookimpl
    def prune_dataset(self, run):
        self.shares.append(float(self.skipped.sum() / run.trainable.sum()))
        return ~self.skipped

    @hookimpl
    def end_epoch(self, run):
        seen, self.times = look(run.ledger, self.times)
        current = torch.where(seen.trained, seen.loss, torch.nan)
        if self.skipped.any():
            with run.off_clock("oracle"):
                indices = self.skipped.nonzero()[:, 0]
                current[indices] = run.score_dataset(indices=indices).cpu()
        limits = limits_of(self.sums)
        mixed = run.ledger.last_mixed.cpu().to(torch.int8)
        self.sums = added(self.sums, observed_sums(mixed, seen))
        self.skipped = easy(current, limits.corr, run.task.batch_size)

    @hookimpl
    def report(self):
        return {"skipped_share": sum(self.shares) / max(1, len(self.shares))}


def easy(loss, limit, spare):
    """Return who may be skipped: a known loss below the limit, but for the `spare` hardest."""
    below = loss < limit
    hardest = loss.nan_to_num(-1).argsort(descending=True)[:spare]
    below[hardest] = False
    return below
