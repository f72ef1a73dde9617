"""Bounded weights: no weight grows beyond a limit."""

from dataclasses import dataclass

import torch
from pydantic import PositiveFloat

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("bounded_weights", BoundedWeights)


@dataclass(eq=False)
class BoundedWeights(Strategy):
    """Clamp all weights after each step."""

    limit: PositiveFloat = 0.5

    @hookimpl(wrapper=True)
    def optimizer_step(self, run):
        yield
        with torch.no_grad():
            for parameter in run.model.parameters():
                parameter.clamp_(-self.limit, self.limit)
