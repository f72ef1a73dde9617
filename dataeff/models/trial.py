"""Trying a network out: what it gives for images, on a copy that costs next to nothing."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dataeff.errors import DataeffError, one_line
from dataeff.models.small import Shape

TRIED = 2
"""Images of a trial: BatchNorm has no variance of one."""


def is_empty() -> bool:
    """Say whether networks are built without data now: there is nothing to try."""
    return torch.get_default_device().type == "meta"


def empty_copy(model: nn.Module) -> nn.Module:
    """Return a copy that holds no data; that of the network is not copied even for a moment."""
    held = [*model.parameters(), *model.buffers()]
    memo: dict[int, object] = {id(value): _emptied(value) for value in held}
    return copy.deepcopy(model, memo)


def _emptied(value: Tensor) -> Tensor:
    empty = value.detach().to("meta")
    return nn.Parameter(empty, value.requires_grad) if isinstance(value, nn.Parameter) else empty


@contextmanager
def still(model: nn.Module, training: bool = False) -> Iterator[None]:
    """Try a network in one mode, and leave modes and torch's global generator as they were."""
    state = torch.get_rng_state()
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_rng_state(state)
        for module, mode in modes:
            module.training = mode


def some(size: tuple[int, ...], seed: int = 0) -> Tensor:
    """Return random numbers that hang on nothing but the seed."""
    return torch.rand(size, generator=torch.Generator().manual_seed(seed))


class Images(NamedTuple):
    """What a network is to be given: images of this shape, laid out in memory in this way."""

    shape: Shape
    layout: torch.memory_format = torch.contiguous_format

    def some(self) -> Tensor:
        """Return a few that hang on nothing."""
        return some((TRIED, *self.shape)).contiguous(memory_format=self.layout)

    def fit(self, model: nn.Module) -> nn.Module:
        """Lay the weights of a network out in the same way."""
        fitted: nn.Module = model.to(memory_format=self.layout)  # type: ignore[call-overload]
        return fitted


def check_logits(model: nn.Module, what: str, classes: int, images: Images) -> None:
    """Refuse a network that does not give logits for such images."""
    trouble = _trouble(model, classes, images)
    if not trouble:
        return
    advice, plain = ".", Images(images.shape)
    if images != plain and not _trouble(model, classes, plain):
        advice = "; it does with channels first: write channels_last = false."
    raise DataeffError(f"model {what} {trouble}{advice}")


def check_on_empty(model: nn.Module, what: str, classes: int, images: Images) -> None:
    """Refuse it where a copy without data, which costs next to nothing, already shows it.

    That one knows nothing of how a library lays out in memory what it returns.
    """
    if _said(empty_copy(model), images.some().to("meta"), classes):
        check_logits(model, what, classes, images)


def _trouble(model: nn.Module, classes: int, images: Images) -> str:
    return _said(images.fit(copy.deepcopy(model)), images.some(), classes)


def _said(model: nn.Module, x: Tensor, classes: int) -> str:
    """Return what is wrong with what a network gives for images; nothing where it is right."""
    for training in (True, False):
        try:
            with still(model, training):
                logits = model(x)
        # A network of anybody's may raise anything at all.
        except Exception as error:
            size = "x".join(map(str, x.shape[1:]))
            told = one_line(str(error)) or "nothing more is said"
            return f"fails on {size} images ({type(error).__name__}: {told.rstrip('.')})"
        when = "in training" if training else "in evaluation"
        if not isinstance(logits, Tensor):
            return f"gives a {type(logits).__name__} {when}, where logits, one tensor, are needed"
        if tuple(logits.shape) != (len(x), classes) or not logits.is_floating_point():
            return (
                f"gives {tuple(logits.shape)} {logits.dtype} for {len(x)} images {when}, where "
                f"({len(x)}, {classes}) logits are needed, one for each class"
            )
    return ""
