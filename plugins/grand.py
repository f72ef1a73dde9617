"""GraNd: drop, before training, the samples whose gradient is small early in training.

Paul, Ganguli and Dziugaite 2021, Deep Learning on a Data Diet, https://arxiv.org/abs/2107.07075
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from dataeff_plugins._pruning import ScorePruning
from dataeff_plugins.el2n import error_norm
from torch.func import functional_call, grad, vmap

from dataeff import hookimpl

# Samples whose gradients are held at a time: each is as large as the network.
_CHUNK = 32


@hookimpl
def register_strategies(register):
    register("grand", GraNd)


@dataclass(eq=False)
class GraNd(ScorePruning):
    """Keep the share of the samples with the longest gradient of the loss, a mean over networks.

    layers: `all` parameters, as in the paper, or the `last` linear layer only, in one forward pass.
    Networks score in eval mode, without augmentation. With epochs=0 they are untrained: a negative
    control, because the paper's claim for that case does not reproduce (Kirsch 2023,
    https://arxiv.org/abs/2303.14753).
    """

    layers: Literal["all", "last"] = "all"

    @property
    def settings(self):
        """Return what the scores hang on."""
        return super().settings | {"layers": self.layers}

    def score(self, run, k, samples):
        """Return the gradient's length of each sample."""
        model = self.network_of(run, k).model
        if self.layers == "last":
            return run.score_dataset(last_layer_norm, samples, model=model, features=True)
        parts, norms = samples.split(_CHUNK), []
        model.eval()
        for part, x in zip(parts, run.images(parts), strict=True):
            run.count("gradient", x)
            norms.append(gradient_norm(model, x, run.labels[part.to(x.device)]))
        return torch.cat(norms)


def gradient_norm(model, x, y):
    """Return the length of each sample's gradient with respect to all parameters of the network."""
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(parameters, image, label):
        logits = functional_call(model, parameters, (image[None],))
        return F.cross_entropy(logits, label[None])

    gradients = vmap(grad(loss), in_dims=(None, 0, 0), randomness="error")(parameters, x, y)
    squares = [gradient.flatten(1).square().sum(1) for gradient in gradients.values()]
    return torch.stack(squares).sum(0).sqrt()


def last_layer_norm(logits, y, h):
    """Return the length of the gradient of the last linear layer: ||p - y|| sqrt(||h||^2 + 1)."""
    return error_norm(logits, y) * (h.square().sum(1) + 1).sqrt()
