"""Sure ones: leave out, for an epoch, what the network was sure of."""

from dataclasses import dataclass

import torch

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("sure_ones", SureOnes)


@dataclass(eq=False)
class SureOnes(Strategy):
    """Leave a sample out of the next epoch if its label had the probability `limit` or more."""

    limit: Share = 0.7

    @hookimpl
    def setup(self, run):
        self.seen = torch.zeros(len(run.labels), device=run.device)

    @hookimpl
    def observe_batch(self, batch, logits):
        self.seen[batch.idx] = logits.softmax(1).gather(1, batch.y[:, None])[:, 0]

    @hookimpl
    def prune_dataset(self, run):
        kept = self.seen.cpu() < self.limit
        # Who was left out comes back in the epoch after.
        self.seen[~kept.to(run.device)] = 0
        # None has no opinion; an epoch without rows would fail.
        return kept if (kept & run.trainable).sum() >= run.task.batch_size else None
