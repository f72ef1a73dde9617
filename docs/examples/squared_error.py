"""Squared error: train probabilities instead of log-probabilities."""

import torch.nn.functional as F

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("squared_error", SquaredError)


class SquaredError(Strategy):
    """Take the squared distance of the probabilities from the label as the loss."""

    @hookimpl
    def sample_losses(self, batch, logits):
        labels = F.one_hot(batch.y, logits.shape[1])
        return (logits.softmax(1) - labels).square().sum(1)
