"""Slow down: lower the learning rate as the validation loss falls."""

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("slow_down", SlowDown)


class SlowDown(Strategy):
    """Multiply the learning rate by the validation loss, as a share of that of the first epoch."""

    @hookimpl
    def setup(self):
        self.first = None
        self.factor = 1.0

    # top1, top5 and macro_f1 in percent, and loss: of the validation samples.
    @hookimpl
    def on_epoch_end(self, metrics):
        self.first = self.first or metrics["loss"]
        self.factor = min(1.0, metrics["loss"] / self.first)

    @hookimpl
    def lr_factor(self):
        return self.factor
