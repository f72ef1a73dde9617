"""Late norm: from half of training on, normalise what the head reads."""

from torch import nn

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("late_norm", LateNorm)


class LateNorm(Strategy):
    """Put a norm before the head, once half of training is done."""

    @hookimpl
    def setup(self):
        self.is_there = False

    @hookimpl
    def on_epoch_start(self, run):
        if run.progress >= 0.5 and not self.is_there:
            self.is_there = True
            put_norm(run)

    # Weights of a checkpoint have the names that they have with it.
    @hookimpl
    def on_resume(self, run):
        if self.is_there:
            put_norm(run)


def put_norm(run):
    """Put a norm before the head, which keeps its weights, and so the optimizer its parameters."""
    run.model_changed()
    head = run.model.head
    norm = nn.LayerNorm(head.in_features, elementwise_affine=False)
    run.model.head = nn.Sequential(norm, head)
    # Set anew, so that a compiled network is compiled anew.
    run.model = run.model
