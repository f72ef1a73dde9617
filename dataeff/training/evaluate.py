"""Evaluation: off the clock, without a line of strategy code."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dataeff.data import Split
from dataeff.training.network import cross_entropy, eval_mode


def evaluate(model: nn.Module, split: Split, indices: Tensor, batch_size: int) -> dict[str, Any]:
    """Return top-1, top-5, macro F1, mean loss, the accuracy of each class and which are hits."""
    if not len(indices):
        return {}
    logits = _logits(model, split, indices, batch_size)
    return metrics(logits, split.labels[indices.to(split.labels.device)])


def take_test(
    model: nn.Module, split: Split, part: Tensor, whole: bool, batch_size: int
) -> dict[str, Any]:
    """Test a network on a part of the test set, or on the whole: then one pass tells of both."""
    images = torch.arange(len(split)) if whole else part
    return graded(_logits(model, split, images, batch_size), split.labels, part, whole)


def graded(logits: Tensor, labels: Tensor, part: Tensor, whole: bool) -> dict[str, Any]:
    """Return what a test came to: the figures of the `part`, and of how many `images` it is.

    Where the logits are those of the `whole` test set, its figures as well.
    """
    here = part.to(labels.device)
    figures = merits(metrics(logits[here] if whole else logits, labels[here]))
    told = {"part": figures, "images": len(part)}
    return told | ({"whole": metrics(logits, labels)} if whole else {})


@torch.no_grad()
def _logits(model: nn.Module, split: Split, indices: Tensor, batch_size: int) -> Tensor:
    with eval_mode(model):
        return torch.cat([model(x).float() for x in split.stream(indices.split(batch_size), None)])


def merits(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return what is one number for all samples."""
    return {name: value for name, value in figures.items() if name not in ("classes", "hits")}


def metrics(logits: Tensor, y: Tensor) -> dict[str, Any]:
    """Return the figures of merit of these logits, accuracies in percent.

    `classes` has the number of samples and of hits of every class; `hits` says of each sample, on
    the CPU, whether it is one.
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
    return {**named, "classes": counts, "hits": hits[:, 0].contiguous().cpu()}


def macro_f1(predicted: Tensor, y: Tensor, classes: int) -> Tensor:
    """Return the mean F1 over the classes that occur in the labels or the predictions."""
    pairs = torch.bincount(y * classes + predicted, minlength=classes**2).view(classes, classes)
    right = pairs.diagonal().float()
    either = (pairs.sum(0) + pairs.sum(1)).float()
    return (2 * right / either)[either > 0].mean()
