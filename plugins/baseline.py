"""Baseline: train on every sample in every epoch."""

from dataclasses import dataclass

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("baseline", Baseline)


@dataclass(eq=False)
class Baseline(Strategy):
    """Change nothing: what every other strategy is compared with."""

    def __post_init__(self):
        self.no_effect = "it is plain training"
