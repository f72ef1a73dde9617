"""GLISTER: the samples whose gradients lower the validation loss the most.

Killamsetty et al. 2021, https://arxiv.org/abs/2012.10630
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from dataeff_plugins._coresets import Coreset, gradients, last_layer
from pydantic import Field

from dataeff import DataeffError, hookimpl


@hookimpl
def register_strategies(register):
    register("glister", GLISTER)


@dataclass(eq=False)
class GLISTER(Coreset):
    """Choose, greedily, samples along whose gradients the validation loss falls most steeply.

    After each round the last layer takes one step, at the task's learning rate as in the reference
    code (with that of a warm-up, choices miss whole classes), along the summed gradients of all
    that are chosen so far, and the gradient of the validation loss is computed anew there. A
    gradient is p - y of the layer's bias, or with `features` of its weights as well.
    `mode=rounds` chooses equal parts in a few `rounds`; `naive` one sample at a time; `stochastic`,
    the reference code's default, one at a time, the best of N / k * ln(100) random ones. The
    validation samples steer training, so a score on them is no longer an honest one. For `keep`,
    `every` and `warm` see Coreset.
    """

    mode: Literal["rounds", "stochastic", "naive"] = "rounds"
    rounds: Annotated[int, Field(ge=1)] = 15
    features: bool = False

    def __post_init__(self):
        if self.mode != "rounds" and self.rounds != 15:
            raise ValueError(f"rounds has no effect with mode={self.mode}; leave one of them out")

    @hookimpl
    def setup(self, run):
        super().setup(run)
        if run.trainable.all():
            raise DataeffError(
                "glister chooses by the validation loss, and this task has no validation samples: "
                "set validation = 0.1 in the task."
            )

    def choose(self, run, samples, k):
        """Return those that help the validation samples, all of weight 1."""
        everyone = gradients(*last_layer(run, "train", self.features))
        validation = last_layer(run, "validation", self.features)
        luck = run.rng(self.name) if self.mode == "stochastic" else None
        rounds = min(self.rounds, k) if self.mode == "rounds" else k
        chosen = helpful(everyone, validation, k, rounds, run.task.lr, luck)
        return chosen, torch.ones(len(chosen))


def helpful(candidates, validation, k, rounds, step, generator=None):
    """Return k candidates, chosen in so many rounds; with a generator, from random ones in each."""
    logits, labels, inputs = validation
    moved = torch.zeros(logits.shape[1], inputs.shape[1])
    free, chosen = torch.ones(len(candidates), dtype=torch.bool), []
    for part in torch.arange(k).tensor_split(rounds):
        there = gradients(logits - step * inputs @ moved.T, labels, inputs)
        pool = free.nonzero()[:, 0]
        if generator:
            order = torch.randperm(len(pool), generator=generator)
            pool = pool[order[: max(1, int(len(candidates) / k * math.log(100)))]]
        gains = candidates[pool].dot(there.sum() / len(labels))
        best = pool[gains.topk(len(part)).indices]
        free[best] = False
        chosen.append(best)
        moved += candidates[best].sum()
    return torch.cat(chosen)
