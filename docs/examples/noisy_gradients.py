"""Noisy gradients: add noise that fades as training goes on."""

from dataclasses import dataclass

import torch

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("noisy_gradients", NoisyGradients)


@dataclass(eq=False)
class NoisyGradients(Strategy):
    """Add Gaussian noise to the gradients of each batch; its scale falls to zero at the end."""

    scale: Share = 0.01

    @hookimpl(wrapper=True)
    def backward(self, run):
        yield
        scale = self.scale * (1 - run.progress)
        for parameter in run.model.parameters():
            if parameter.grad is not None:
                noise = torch.randn(parameter.shape, generator=run.rng("noisy_gradients"))
                parameter.grad.add_(noise.to(run.device, non_blocking=True), alpha=scale)
