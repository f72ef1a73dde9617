"""What tests of strategies for residual networks share."""

import torch

from dataeff.testing import TASK, train_tiny

RESNET = TASK.model_copy(update={"model": "resnet8[width=8]"})
DEEPER = TASK.model_copy(update={"model": "resnet20[width=8]"})
FOREIGN = ("resnet10t", "torchvision:resnet18", "resnet26")
# The last: one block per stage of a kind that reads channels by groups, and one without blocks.
STRANGE = (
    "tiny",
    "vit_tiny_patch16_224[patch_size=4,depth=2,embed_dim=48]",
    "mobilenetv3_small_050",
)


def train_resnet(*strategies, installed, task=RESNET, **options):
    """Train the kit's little task on a small residual network."""
    return train_tiny(*strategies, installed=installed, task=task, **options)


def logits_of(model, images):
    """Return the logits in eval mode."""
    model.eval()
    with torch.no_grad():
        return model(images)
