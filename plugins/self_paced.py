"""Self-paced learning: begin with the easy samples, and let the harder ones in step by step.

Kumar et al. 2010,
https://proceedings.neurips.cc/paper/2010/hash/e57c6b956a6521b28495f2886ca0977a-Abstract.html
"""

from dataclasses import dataclass
from typing import Literal

import torch

from dataeff import Share, Strategy, hookimpl, portion


@hookimpl
def register_strategies(register):
    register("self_paced", SelfPaced)


@dataclass(eq=False)
class SelfPaced(Strategy):
    """Train the share of the samples whose last loss is lowest, from `start` up to all of them.

    The share grows linearly and is 1 from the progress `until` on; who is above its limit is not
    even loaded, and keeps its loss. In the first epoch no loss is known, and everyone is trained.
    The reference code (AutoAssist's baseline) grows over 5 epochs of any training: write
    until = 4 / epochs for that. It trains everyone and saves nothing, by weights that are `soft`
    here: relu(1 - loss / limit)^(1/3) + 0.01 of the last loss, with mean 1 over those trained,
    to the end of training.
    """

    start: Share = 0.25
    until: Share = 0.5
    weights: Literal["hard", "soft"] = "hard"
    saves = "loading"

    @hookimpl
    def prune_dataset(self, run, epoch):
        loss = run.ledger.last_loss.cpu()
        share = pace(epoch / run.epochs, self.start, self.until)
        limit = limit_of(loss, share, run.task.batch_size)
        if self.weights == "soft":
            self._weight = soft_weights(loss, limit).to(run.device, non_blocking=True)
        # Not "loss <= limit": an unknown loss, NaN, is not above any limit.
        return ~(loss > limit)

    @hookimpl
    def transform_batch(self, batch):
        if self.weights == "soft":
            batch.weight *= self._weight[batch.idx]


def pace(progress, start, until):
    """Return the share of the samples to train at this progress in [0, 1]."""
    return start + (1 - start) * min(1.0, progress / until)


def limit_of(loss, share, least):
    """Return the loss that this share of the known ones, and `least` of them, does not exceed."""
    known = loss[~loss.isnan()].sort().values
    if not len(known):
        return torch.inf
    return float(known[max(portion(share, len(known)), min(least, len(known))) - 1])


def soft_weights(loss, limit):
    """Return a weight per sample, larger for a lower loss; 1 where the loss is not known."""
    # In float64: near the limit, a third root makes much of a little rounding.
    loss = loss.double()
    raw = (1 - loss / (limit + 1e-6)).clamp(min=0) ** (1 / 3) + 0.01
    return (raw / raw[loss <= limit].mean()).nan_to_num(1.0).float()
