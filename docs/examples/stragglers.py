"""Stragglers: leave out the samples of lowest loss, for an epoch."""

from dataclasses import dataclass

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("stragglers", Stragglers)


@dataclass(eq=False)
class Stragglers(Strategy):
    """Leave out the share `drop` of the samples whose loss was lowest when last trained."""

    drop: Share = 0.2
    saves = "rows"

    # Once per epoch a tensor may be read back.
    @hookimpl
    def prune_dataset(self, run):
        losses = run.ledger.last_loss.cpu()
        # Who was never trained has no loss, which is not below any.
        return ~(losses < losses.nanquantile(self.drop))
