"""Mini-batch skipping: leave out whole batches at random, before they are loaded.

Krithivasan et al. 2024, MixTrain, https://doi.org/10.3389/frai.2024.1387936 (a baseline of equal
runtime)
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from dataeff import Plan, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("minibatch_skipping", MinibatchSkipping)


@dataclass(eq=False)
class MinibatchSkipping(Strategy):
    """Skip each batch of an epoch with probability `skip`, on its own coin; one always stays.

    Epochs and learning rate are those of the baseline: the schedule follows the progress of
    training, not the steps that were taken.
    """

    skip: Annotated[float, Field(ge=0, lt=1)] = 0.25
    saves = "rows"
    control = True

    @hookimpl(wrapper=True)
    def plan_epoch(self, run):
        plan = yield
        luck = torch.rand(len(plan), generator=run.rng("minibatch_skipping"))
        return kept_batches(plan, luck, self.skip)


def kept_batches(plan, luck, skip):
    """Return the plan without the batches whose luck is below `skip`; the luckiest one stays."""
    if not len(plan):
        return plan
    keep = luck >= skip
    keep[luck.argmax()] = True
    sizes = torch.tensor(plan.sizes)
    return Plan(plan.rows[keep.repeat_interleave(sizes)], sizes[keep].tolist())
