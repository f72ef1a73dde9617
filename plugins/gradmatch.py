"""GradMatch: a weighted subset whose gradient comes near that of all samples.

Killamsetty et al. 2021, https://arxiv.org/abs/2103.00123
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from dataeff_plugins._coresets import WeightedCoreset, budgets, gradients, last_layer
from dataeff_plugins._pursuit import pursue
from pydantic import Field

from dataeff import hookimpl


@hookimpl
def register_strategies(register):
    register("gradmatch", GradMatch)


@dataclass(eq=False)
class GradMatch(WeightedCoreset):
    """Choose samples and weights w > 0 with sum(w_i g_i) near the sum of all g_i, by pursuit.

    g_i is the gradient p - y of the last layer's bias, or with `features` of its weights as well.
    `by=batch` chooses among means of random batches and takes all samples of a batch, ceil(k / B)
    times, each with the batch's weight; they are shuffled before they are trained. `class` chooses
    samples within each class, ceil(k n_c / N) of it, by the class's own row of the weights where
    there are `features`. `all` chooses among all samples at once; with `features` it holds every
    gradient, which is for small sets. What pursuit leaves open of k is filled with random samples
    of weight 1. For `keep`, `every` and `warm` see Coreset.

    `lam` is the ridge on the weights of samples, 0.5 in the paper. For a batch of B it weighs
    lam / B against means of gradients: near the paper's 0 for batches, with which p - y alone
    would allow no more picks than there are classes.
    """

    by: Literal["batch", "class", "all"] = "batch"
    features: bool = False
    lam: Annotated[float, Field(ge=0)] = 0.5

    @hookimpl
    def setup(self, run):
        super().setup(run)
        self.residuals = []

    def choose(self, run, samples, k):
        """Return what pursuit finds among all candidates, filled up to k."""
        logits, labels, inputs = last_layer(run, "train", self.features)
        everyone, luck = gradients(logits, labels, inputs).double(), run.rng(self.name)
        chosen, weights = [samples[:0]], [everyone.errors.new_ones(0)]
        problems = self.problems(everyone, labels, k, run.task.batch_size, luck)
        for candidates, members, count, lam in problems:
            picks, found, residual = pursue(candidates, candidates.sum(0), count, lam)
            self.residuals.append(residual)
            for pick, weight in zip(picks.tolist(), found, strict=True):
                chosen.append(members[pick])
                weights.append(weight.expand(len(members[pick])))
        return filled(torch.cat(chosen), torch.cat(weights), len(samples), k, luck)

    def problems(self, everyone, labels, k, batch_size, luck):
        """Yield candidates, the samples that each of them is, how many to pick, and the ridge."""
        if self.by == "batch":
            batches = shuffled_batches(len(everyone), batch_size, luck)
            means = [everyone[batch].sum().flatten() / len(batch) for batch in batches]
            yield torch.stack(means), batches, math.ceil(k / batch_size), self.lam / batch_size
        elif self.by == "class":
            for places, budget in budgets(labels, k):
                some = everyone[places]
                some = some.of_class(labels[places[0]]) if self.features else some
                yield some.flat(), places.split(1), budget, self.lam
        else:
            yield everyone.flat(), torch.arange(len(everyone)).split(1), k, self.lam

    @hookimpl
    def report(self, run):
        residual = sum(self.residuals) / max(1, len(self.residuals))
        return super().report(run) | {f"{self.name}_residual": residual}


def shuffled_batches(n, batch_size, generator):
    """Return random batches of n samples, as even as can be: the mean of a few is a loud one."""
    order = torch.randperm(n, generator=generator)
    return order.tensor_split(math.ceil(n / batch_size))


def filled(chosen, weights, n, k, generator):
    """Add random samples of weight 1 until there are k."""
    order = torch.randperm(n, generator=generator)
    more = order[~torch.isin(order, chosen)][: max(0, k - len(chosen))]
    return torch.cat([chosen, more]), torch.cat([weights, weights.new_ones(len(more))])
