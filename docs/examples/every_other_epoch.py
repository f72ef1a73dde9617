"""Every other epoch: a tenth of the learning rate in odd epochs."""

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("every_other_epoch", EveryOtherEpoch)


class EveryOtherEpoch(Strategy):
    """Take a tenth of the task's learning rate in every other epoch."""

    @hookimpl
    def lr_factor(self, run):
        return 0.1 if run.epoch % 2 else 1.0
