"""Stochastic depth: train a shorter network in every batch, test the whole one.

Huang et al. 2016, https://arxiv.org/abs/1603.09382
"""

from dataclasses import dataclass
from functools import partial

import torch
from dataeff_plugins._residual import (
    branch_works,
    make_skippable,
    refuse_compiling,
    residual_blocks,
)

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("stochastic_depth", StochasticDepth)


@dataclass(eq=False)
class StochasticDepth(Strategy):
    """Skip the branch of a residual block for a whole batch: of the last one at 1 - `survival`.

    The chance to be skipped grows linearly from the first block to the last. What is skipped costs
    nothing, and takes no part in the step: neither momentum nor weight decay move it. In tests, and
    where samples are scored, every branch counts by its chance to survive.
    """

    survival: Share = 0.5
    reserves = ("blocks",)
    saves = "flops"

    @hookimpl
    def setup(self, run):
        refuse_compiling(run, "stochastic_depth")
        blocks = residual_blocks(run, "stochastic_depth")
        self._survival = survivals(len(blocks), self.survival)
        self._branches, self._shape = blocks, tuple(run.shape)
        self._work = branch_works(run, blocks, self._shape)
        self._blocks = [block.module for block in blocks]
        for block, chance in zip(blocks, self._survival, strict=True):
            make_skippable(block.module)
            block.end.register_forward_hook(partial(expected, block.module, chance))
        self._share = 1.0
        self.blocks_run, self.batches = 0, 0

    # Images may be small by now, and branches have other shares of the work in these.
    @hookimpl
    def transform_batch(self, run, batch):
        if self._shape != (shape := tuple(batch.x.shape[1:])):
            self._shape, self._work = shape, branch_works(run, self._branches, shape)

    @hookimpl(wrapper=True)
    def forward(self, run):
        # On the CPU: a coin that is tossed on the device would have to be read back.
        luck = torch.rand(len(self._blocks), generator=run.rng("stochastic_depth")).tolist()
        run_now = [coin < chance for coin, chance in zip(luck, self._survival, strict=True)]
        if not run.model.training:
            run_now = [True] * len(self._blocks)
        self.blocks_run, self.batches = self.blocks_run + sum(run_now), self.batches + 1
        self._share = 1 - sum(work for work, on in zip(self._work, run_now, strict=True) if not on)
        for block, on in zip(self._blocks, run_now, strict=True):
            block.skip = not on
        logits = yield
        for block in self._blocks:
            block.skip = False
        return logits

    @hookimpl
    def compute_factor(self, run):
        # Scores come from the whole network.
        return self._share if run.model.training else 1.0

    @hookimpl
    def report(self):
        return {"blocks_run": self.blocks_run / max(1, self.batches * len(self._blocks))}


def survivals(blocks, last):
    """Return the chance of each block to survive: linear in its number, `last` for the last one."""
    return [1 - number / blocks * (1 - last) for number in range(1, blocks + 1)]


def expected(block, chance, end, inputs, output):
    """Scale what a branch gives by its chance to survive, but in training."""
    return output if block.training else chance * output
