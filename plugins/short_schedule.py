"""Short schedule: the baseline, with its whole schedule compressed into less time.

Kaddour et al. 2023, No Train No Gain, https://arxiv.org/abs/2307.06440
"""

from dataclasses import dataclass

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("short_schedule", ShortSchedule)


@dataclass(eq=False)
class ShortSchedule(Strategy):
    """Train for a share of the epochs; the learning rate still decays in full."""

    share: Share = 0.5
    saves = "rows"
    control = True

    @staticmethod
    def at_cost(share):
        """Shorten the schedule to this share of the time."""
        return {"share": share}

    @hookimpl
    def setup(self, run):
        run.epochs *= self.share
