"""EL2N: drop, before training, the samples whose error is small early in training.

Paul, Ganguli and Dziugaite 2021, Deep Learning on a Data Diet, https://arxiv.org/abs/2107.07075
"""

from dataclasses import dataclass

import torch.nn.functional as F
from dataeff_plugins._pruning import ScorePruning

from dataeff import hookimpl


@hookimpl
def register_strategies(register):
    register("el2n", EL2N)


@dataclass(eq=False)
class EL2N(ScorePruning):
    """Keep the share of the samples with the largest ||softmax - onehot||, a mean over networks.

    `models` networks are trained for the first `epochs` of the task's schedule and score in eval
    mode, without augmentation. The paper's 10 networks of 20 epochs cost as much as a whole
    training of 200: with its preparation, EL2N saves no time unless its scores are reused.
    """

    def score(self, run, k, samples):
        """Return the error's length of each sample."""
        return run.score_dataset(error_norm, samples, model=self.network_of(run, k).model)


def error_norm(logits, y):
    """Return ||softmax(logits) - onehot(y)||_2, one per sample, between 0 and the root of 2."""
    error = logits.softmax(1) - F.one_hot(y, logits.shape[1])
    return error.norm(dim=1)
