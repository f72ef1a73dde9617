"""Draws that belong to the data, not to the run: class-balanced parts and label noise."""

import torch
from torch import Tensor


def balanced(labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return `count` indices, ascending, spread over the classes as evenly as these allow."""
    order = torch.randperm(len(labels), generator=generator)
    order = order[labels[order].argsort(stable=True)]
    sizes = labels.bincount()
    first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    place_in_class = torch.arange(len(labels)) - first
    return order[place_in_class.argsort(stable=True)[:count]].sort().values


def corrupt(labels: Tensor, classes: int, share: float, generator: torch.Generator) -> Tensor:
    """Replace a share of the labels by one of the other classes, drawn uniformly."""
    hit = torch.randperm(len(labels), generator=generator)[: round(share * len(labels))]
    step = torch.randint(1, classes, (len(hit),), generator=generator)
    noisy = labels.clone()
    noisy[hit] = (labels[hit] + step) % classes
    return noisy
