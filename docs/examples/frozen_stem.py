"""Frozen stem: train the first layers for the first half only."""

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("frozen_stem", FrozenStem)


class FrozenStem(Strategy):
    """Leave the first module of the network as it is, once half of training is done."""

    # Said anew in each epoch, so there is nothing for a resumed run to remember.
    @hookimpl
    def on_epoch_start(self, run):
        stem = next(run.model.children())
        stem.requires_grad_(run.progress < 0.5)
