"""CRAIG: of each class the medoids of its gradients, weighted by how many samples they stand for.

Mirzasoleiman et al. 2020, https://arxiv.org/abs/1906.01827
"""

from dataclasses import dataclass
from typing import Literal

import torch
from dataeff_plugins._coresets import WeightedCoreset, budgets, gradients, last_layer
from dataeff_plugins._facility import cluster_sizes, greedy

from dataeff import hookimpl

# Rows of the distances that are computed together, as float64.
_BLOCK = 64


@hookimpl
def register_strategies(register):
    register("craig", CRAIG)


@dataclass(eq=False)
class CRAIG(WeightedCoreset):
    """Choose, in each class, the samples whose gradients are nearest to all others', greedily.

    Facility location over the gradients p - y of the last layer's bias, or with `features` of its
    weights as well: maximise sum_i max_{j in S} (c - |g_i - g_j|). A sample counts in the loss for
    those it is nearest to, and a batch's loss is divided by its weights. A class of n_c gets
    ceil(k n_c / N) of k = keep * N, and n_c^2 numbers of memory while it is looked at. The paper's
    `distance` is plain, that of the CORDS library squared. For `keep`, `every` and `warm` see
    Coreset.
    """

    distance: Literal["plain", "squared"] = "plain"
    features: bool = False

    def choose(self, run, samples, k):
        """Return the medoids of each class, and the sizes of their clusters."""
        logits, labels, inputs = last_layer(run, "train", self.features)
        everyone = gradients(logits, labels, inputs)
        chosen, weights = [], []
        for places, budget in budgets(labels, k):
            similarity = closeness(everyone[places], squared=self.distance == "squared")
            picks = greedy(similarity, budget)
            chosen.append(places[picks])
            weights.append(cluster_sizes(similarity, picks))
        return torch.cat(chosen), torch.cat(weights).double()


def closeness(some, squared=False):
    """Return c - |g_i - g_j| for all pairs of gradients, c the largest distance, as float32."""
    # By |a|^2 + |b|^2 - 2 a.b, which needs the digits of float64 where two are close.
    some = some.double()
    size = some.squares()
    distance = torch.empty(len(some), len(some))
    for rows in torch.arange(len(some)).split(_BLOCK):
        gap = (size[rows, None] + size - 2 * some[rows].products(some)).clamp_(min=0)
        distance[rows] = (gap if squared else gap.sqrt_()).float()
    distance.fill_diagonal_(0)
    return distance.max() - distance
