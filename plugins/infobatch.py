"""InfoBatch: prune half of the easy samples at random each epoch, and weigh the rest of them up.

Qin et al. 2024, https://arxiv.org/abs/2303.04947
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from dataeff import Strategy, hookimpl, portion


@hookimpl
def register_strategies(register):
    register("infobatch", InfoBatch)


@dataclass(eq=False)
class InfoBatch(Strategy):
    """Prune the share `prune` of the samples whose last loss is below the mean of all, at random.

    Those of them that stay weigh 1 / (1 - prune), so that the expected gradient is that of all
    samples. A pruned sample keeps its old loss; one that was never trained is not pruned. From the
    share `anneal` of the epochs on, all are trained with weight 1, and so they are where less than
    a batch would be left.
    """

    prune: Annotated[float, Field(gt=0, lt=1)] = 0.5
    anneal: Annotated[float, Field(gt=0, le=1)] = 0.875
    saves = "rows"

    @hookimpl
    def prune_dataset(self, run, epoch):
        self._weight = None
        if epoch / run.epochs >= self.anneal:
            return None
        loss = run.ledger.last_loss.cpu()
        kept, weight = draw(loss, self.prune, run.task.batch_size, run.rng("infobatch"))
        if not kept.all():
            self._weight = weight.to(run.device, non_blocking=True)
        return kept

    @hookimpl
    def transform_batch(self, batch):
        if self._weight is not None:
            batch.weight *= self._weight[batch.idx]


def draw(loss, prune, least, generator):
    """Return who is kept, as a mask, and the weights; NaN stands for a loss that is not known."""
    # Rounded back to the losses' own precision: where all are equal, none is below their mean.
    mean = loss.double().nanmean().to(loss.dtype)
    easy = (loss < mean).nonzero()[:, 0]
    stay = portion(1 - prune, len(easy))
    kept, weight = torch.ones_like(loss, dtype=torch.bool), torch.ones_like(loss)
    if len(loss) - int(loss.isnan().sum()) - len(easy) + stay < least:
        return kept, weight
    kept[easy[torch.randperm(len(easy), generator=generator)[stay:]]] = False
    weight[easy] = 1 / (1 - prune)
    return kept, weight
