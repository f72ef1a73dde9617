"""Three quarters: train for three quarters of the epochs."""

from dataclasses import dataclass

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("three_quarters", ThreeQuarters)


@dataclass(eq=False)
class ThreeQuarters(Strategy):
    """Train for a share of the epochs; the learning rate still decays in full."""

    share: Share = 0.75
    saves = "rows"

    @hookimpl
    def setup(self, run):
        run.epochs = self.share * run.task.epochs
