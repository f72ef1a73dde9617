"""Noisy images: add noise to all that is loaded."""

from dataclasses import dataclass

import torch

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("noisy_images", NoisyImages)


@dataclass(eq=False)
class NoisyImages(Strategy):
    """Add Gaussian noise of a standard deviation to each image."""

    scale: Share = 0.1

    @hookimpl(wrapper=True)
    def load(self, run):
        batch = yield
        noise = torch.randn(batch.x.shape, generator=run.rng("noisy_images"))
        batch.x = batch.x + self.scale * noise.to(run.device, non_blocking=True)
        return batch
