"""The head of a network: its last layers, which make logits of what all others have found."""

from typing import Any

from torch import nn


def heads_of(model: nn.Module) -> list[str]:
    """Return the names of the layers that give the logits, nothing where none is known.

    Most have one: what timm calls the classifier, or else the last linear layer by its place, or
    else the last convolution.
    """
    names = {id(module): name for name, module in model.named_modules()}
    for module in model.modules():
        found = _classifiers(module)
        if found and all(id(one) in names for one in found):
            return [names[id(one)] for one in found]
    for kind in (nn.Linear, nn.Conv2d):
        layers = [name for name, module in model.named_modules() if isinstance(module, kind)]
        if layers:
            return layers[-1:]
    return []


def _classifiers(model: Any) -> list[nn.Module]:
    """Return what timm's networks name themselves."""
    if not callable(told := getattr(model, "get_classifier", None)):
        return []
    found = told()
    layers = found if isinstance(found, list | tuple) else [found]
    whole = all(
        isinstance(one, nn.Module) and any(True for _ in one.parameters()) for one in layers
    )
    return list(layers) if whole else []
