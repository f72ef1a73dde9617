"""What tests of mixTrain's pairs and patches share."""

import torch

KINDS = ("grid", "half", "cutmix_beta")


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def box_of(mask):
    """Return (top, left, bottom, right) of a mask that is one full rectangle."""
    places = mask.nonzero()
    (top, left), (bottom, right) = places.min(0).values.tolist(), places.max(0).values.tolist()
    box = (top, left, bottom + 1, right + 1)
    assert mask[top : bottom + 1, left : right + 1].all(), "a rectangle has no holes"
    return box
