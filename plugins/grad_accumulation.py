"""Gradient accumulation: one step for the gradients of several batches.

Nokhwal et al. 2023, Accelerating Neural Network Training: A Brief Review,
https://arxiv.org/abs/2312.10024
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("grad_accumulation", GradAccumulation)


@dataclass(eq=False)
class GradAccumulation(Strategy):
    """Step once for every `steps` batches, and for what is left at the end of an epoch.

    The step is that of one batch as large as them all: each row weighs the same, however the
    batches are cut. BatchNorm still sees one batch at a time, and the learning rate is the task's.
    Nothing is saved but steps of the optimizer.
    """

    steps: Annotated[int, Field(ge=2)] = 2

    @hookimpl
    def on_epoch_start(self):
        self._gathered = 0

    @hookimpl
    def should_step(self):
        self._gathered += 1
        return self._gathered % self.steps == 0
