"""What the head of a network reads of its features, found out by numbers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dataeff.models.small import Shape
from dataeff.models.trial import TRIED, empty_copy, is_empty, some, still

# Tokens, prefix ones among them, that do not tell much.
_FEW = 3

Read = Callable[[Tensor], list[Tensor]]


def pool_kind_of(model: Any, shape: Shape) -> str:
    """Return what the head of a network with two halves reads: "avg", "token" or "other"."""
    if is_empty():
        return "other"
    try:
        ghost: Any = empty_copy(model)
        with still(ghost):
            size = tuple(ghost.forward_features(torch.empty(1, *shape, device="meta")).shape)
        with still(model):
            return kind_of_head(model.forward_head, model, size[1:])
    # Features that are no tensor, or that cannot be had without data: nothing is known of them.
    except Exception:
        return "other"


def kind_of_head(head: Callable[[Tensor], Tensor], net: nn.Module, size: tuple[int, ...]) -> str:
    """Return what a head reads of features of this size; it is called in the mode it is in."""
    if len(size) not in (2, 3):
        return "other"
    # All heads average one cell, or one token; those that average are not troubled by more.
    if len(size) == 3 and size[1:] == (1, 1):
        size = (size[0], 2, 2)
    elif len(size) == 2 and size[0] < _FEW:
        size = (size[0] + _FEW, size[1])
    z = some((TRIED, *size))

    def read(features: Tensor) -> list[Tensor]:
        with _seen(net) as seen:
            logits = head(features.clone())
            return [*seen, logits]

    try:
        return _kind_of_map(read, z) if z.dim() == 4 else _kind_of_tokens(read, z, net)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return "other"


def _kind_of_map(read: Read, z: Tensor) -> str:
    before = read(z)
    averaged = z.mean((2, 3), keepdim=True).expand_as(z)
    shuffled = some(tuple(z.shape), 1)
    reads_mean = _same(read(averaged), before) and not _same(read(shuffled), before)
    return "avg" if reads_mean else "other"


def _kind_of_tokens(read: Read, z: Tensor, net: Any) -> str:
    told = getattr(net, "num_prefix_tokens", None)
    before, noise = read(z), some(tuple(z.shape), 1)
    prefixes = (0, 1) if told is None else (int(told),)
    for prefix in prefixes:
        if prefix > 0 and _same(read(torch.cat([z[:, :prefix], noise[:, prefix:]], 1)), before):
            reads_some = not _same(read(noise), before)
            return "token" if reads_some else "other"
    for prefix in prefixes:
        patches = z[:, prefix:]
        averaged = patches.mean(1, keepdim=True).expand_as(patches)
        if _same(read(torch.cat([z[:, :prefix], averaged], 1)), before):
            return "avg"
    return "other"


def _same(found: list[Tensor], before: list[Tensor]) -> bool:
    pairs = zip(found, before, strict=True)
    return all(a.shape == b.shape and torch.allclose(a, b, 1e-4, 1e-5) for a, b in pairs)


@contextmanager
def _seen(net: nn.Module) -> Iterator[list[Tensor]]:
    """Yield what linear layers read: logits say nothing where their weights begin at zero."""
    seen: list[Tensor] = []

    def hold(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0].detach().clone())

    with ExitStack() as stack:
        for module in net.modules():
            if isinstance(module, nn.Linear):
                stack.enter_context(module.register_forward_pre_hook(hold))
        yield seen
