"""The model as one call, and how to score with it without leaving a trace."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dataeff.errors import DataeffError

T = TypeVar("T")


class Network(nn.Module):
    """The model as one module call, so that compilers and wrappers see all of it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, between: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Call the model, with `between` applied to its last feature map where given.

        A `between` with a method `features(model, x)` also says how that map is made.
        """
        if between is None:
            return self.model(x)
        model: Any = self.model
        if hasattr(between, "features"):
            return model.forward_head(between(between.features(model, x)))
        return model.forward_head(between(model.forward_features(x)))


def ghost(model: nn.Module) -> nn.Module:
    """Return a copy that holds no data: it knows shapes and counts work, and costs nothing."""
    return copy.deepcopy(model).to("meta").eval()


def on_empty(model: nn.Module, shape: Sequence[int], call: Callable[[Any, Tensor], T]) -> T:
    """Return what a call gives for a copy without data and an image of this shape.

    A network that cannot do without data is called with its own, and a copy of that.
    """
    try:
        with torch.no_grad():
            return call(ghost(model), torch.empty((1, *shape), device="meta"))
    except (RuntimeError, NotImplementedError, AttributeError, TypeError, ValueError):
        weight = next(model.parameters())
        copied = copy.deepcopy(model).eval()
        with torch.no_grad():
            return call(copied, torch.zeros((1, *shape), device=weight.device, dtype=weight.dtype))


def feature_shape(model: nn.Module, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the last feature map of one image of this shape, off all data."""
    if not hasattr(model, "forward_features"):
        raise DataeffError(
            f"{type(model).__name__} has no forward_features, as timm's networks have, so nothing "
            "is known of its last feature map: write that method, or take another strategy."
        )
    features = on_empty(model, shape, lambda net, x: net.forward_features(x))
    return tuple(features.shape[1:])


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Switch to eval mode and back to each module's own: a frozen BatchNorm stays frozen."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def head_inputs(model: nn.Module, wanted: bool = True) -> Iterator[list[Tensor]]:
    """Yield a list that holds what the last linear layer read in the last call, as float32.

    It is found by its place: the last one that the network defines. Nothing wanted, nothing held.
    """
    seen: list[Tensor] = []
    if not wanted:
        yield seen
        return
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise DataeffError(
            f"{type(model).__name__} has no linear layer, so nothing is known of what its head "
            "reads: take a network that ends in one."
        )

    def hold(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen[:] = [inputs[0].detach().float()]

    with linear[-1].register_forward_pre_hook(hold):
        yield seen


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return one loss per sample: the default score."""
    return F.cross_entropy(logits, y, reduction="none")


@dataclass(frozen=True, eq=False)
class Scoring:
    """What to score: `fn(logits, y)` of these samples, by this network or the run's own."""

    fn: Callable[..., Tensor]
    samples: Tensor
    model: nn.Module | None
    augment: bool
    features: bool
