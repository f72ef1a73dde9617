"""FixRes: train on small images, then fit the end of the network to the size of the test.

Touvron et al. 2019, https://arxiv.org/abs/1906.06423
"""

import math
from dataclasses import dataclass
from itertools import dropwhile
from typing import Annotated

import torch
from dataeff_plugins._residual import residual_blocks
from dataeff_plugins._resizing import readable_size, resized
from pydantic import Field, PositiveFloat, PositiveInt
from torch import nn

from dataeff import DataeffError, Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("fixres", FixRes)


@dataclass(eq=False)
class FixRes(Strategy):
    """Train at `scale` of the size; the last `finetune` of the epochs are for full images.

    These see the images as tests do, without augmentation, and train the classifier and the last
    BatchNorm alone (affine weights and statistics; the authors' code leaves the former as they
    are), at a constant learning rate of `lr` for a batch of 512. All other layers are as in tests.
    At the least one epoch is for that, on the clock like all others, but never the first.
    """

    scale: Share = 0.57
    finetune: Annotated[float, Field(gt=0, lt=1)] = 0.05
    lr: PositiveFloat = 8e-3
    multiple: PositiveInt = 2
    reserves = ("resolution",)
    saves = "flops"

    @hookimpl
    def setup(self, run):
        residual_blocks(run, "fixres")
        self._small = readable_size(run, self.scale, self.multiple)
        self._tuning = False
        check_epochs(run)

    @hookimpl
    def prepare(self, run):
        # Others may have shortened the run since.
        check_epochs(run)

    # Before others look at the network.
    @hookimpl(tryfirst=True)
    def on_epoch_start(self, run, epoch):
        last = max(1, round(self.finetune * run.epochs))
        self._tuning = epoch >= max(1, math.floor(run.epochs - last + 1e-6))
        if self._tuning:
            run.augment = False
            freeze(run)

    @hookimpl
    def resize_batch(self, batch):
        if not self._tuning:
            batch.x = resized(batch.x, self._small)

    @hookimpl(wrapper=True)
    def optimizer_step(self, run):
        if self._tuning:
            for group in run.optimizer.param_groups:
                group["lr"] = self.lr * run.task.batch_size / 512
        return (yield)

    @hookimpl
    def compute_factor(self, run):
        # Where hardly anything is left to go back through, a trained row costs its forward pass.
        return 1 / 3 if self._tuning and torch.is_grad_enabled() else 1.0


def check_epochs(run):
    """Refuse a run without an epoch to fine-tune in."""
    if run.epochs <= 1:
        raise DataeffError(
            f"fixres fine-tunes after the first epoch, and this run has {run.epochs:g} in all: set "
            "epochs = 2 or more."
        )


def freeze(run):
    """Leave nothing to train but the classifier and the last BatchNorm."""
    norm = last_norm(run)
    head = [module for module in run.model.modules() if isinstance(module, nn.Linear)][-1]
    run.model.requires_grad_(False).eval()
    for module in (norm, head):
        module.requires_grad_(True).train()


def last_norm(run):
    """Return the last BatchNorm before the classifier: the last block's, or one that follows it."""
    block = residual_blocks(run, "fixres")[-1]
    ending = dropwhile(lambda named: named[1] is not block.module, run.model.named_modules())
    own = tuple(block.module.modules())
    after = [m for _, m in ending if isinstance(m, nn.BatchNorm2d) and m not in own]
    return after[-1] if after else block.norm
