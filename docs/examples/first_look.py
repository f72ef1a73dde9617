"""First look: leave out for good what a network of one epoch finds easiest."""

from dataclasses import dataclass

import torch

from dataeff import Share, Strategy, hookimpl, portion


@hookimpl
def register_strategies(register):
    register("first_look", FirstLook)


@dataclass(eq=False)
class FirstLook(Strategy):
    """Keep the share of the samples with the highest loss after one epoch."""

    keep: Share = 0.8
    saves = "rows"

    @hookimpl
    def prepare(self, run):
        samples = run.split("train")
        child = run.train_child("first_look", 0, epochs=1)
        losses = run.score_dataset(indices=samples, model=child.model).cpu()
        hardest = losses.argsort(descending=True)[: portion(self.keep, len(samples))]
        # Without an underscore: a run that is resumed does not prepare again.
        self.kept = torch.zeros(len(run.labels), dtype=torch.bool)
        self.kept[samples[hardest]] = True

    @hookimpl
    def prune_dataset(self):
        return self.kept
