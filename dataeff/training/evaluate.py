"""Evaluation: off the clock, without a line of strategy code."""

from typing import Any

import torch
from torch import Tensor, nn

from dataeff.data import Split
from dataeff.training.network import cross_entropy, eval_mode


@torch.no_grad()
def evaluate(model: nn.Module, split: Split, indices: Tensor, batch_size: int) -> dict[str, Any]:
    """Return top-1, top-5, macro F1, mean loss, the accuracy of each class and which are hits."""
    if not len(indices):
        return {}
    with eval_mode(model):
        logits = [model(x).float() for x in split.stream(indices.split(batch_size), None)]
    return metrics(torch.cat(logits), split.labels[indices.to(split.labels.device)])


def metrics(logits: Tensor, y: Tensor) -> dict[str, Any]:
    """Return the figures of merit of these logits, accuracies in percent.

    `classes` has the number of samples and of hits of every class; `hits` says of each sample, on
    its device, whether it is one.
    """
    classes = logits.shape[1]
    ranked = logits.topk(min(5, classes), dim=1).indices
    hits = ranked == y[:, None]
    figures = {
        "top1": 100 * hits[:, 0].float().mean(),
        "top5": 100 * hits.any(1).float().mean(),
        "macro_f1": 100 * macro_f1(ranked[:, 0], y, classes),
        "loss": cross_entropy(logits, y).mean(),
    }
    named = dict(zip(figures, torch.stack([*figures.values()]).tolist(), strict=True))
    right = torch.bincount(y[hits[:, 0]], minlength=classes)
    counts = [torch.bincount(y, minlength=classes).tolist(), right.tolist()]
    return {**named, "classes": counts, "hits": hits[:, 0].contiguous()}


def macro_f1(predicted: Tensor, y: Tensor, classes: int) -> Tensor:
    """Return the mean F1 over the classes that occur in the labels or the predictions."""
    pairs = torch.bincount(y * classes + predicted, minlength=classes**2).view(classes, classes)
    right = pairs.diagonal().float()
    either = (pairs.sum(0) + pairs.sum(1)).float()
    return (2 * right / either)[either > 0].mean()
