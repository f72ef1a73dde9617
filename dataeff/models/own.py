"""A network of anybody's, with the two halves that strategies may ask for."""

from __future__ import annotations

import copy
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from dataeff.errors import DataeffError, one_line
from dataeff.models.halves import Halves, divide
from dataeff.models.pooling import kind_of_head
from dataeff.models.tracing import Undivided
from dataeff.models.trial import Images, is_empty, still

# What has been found out about networks of this process, by who makes them: again and again.
_KNOWN: WeakKeyDictionary[Any, dict[tuple[object, ...], Found]] = WeakKeyDictionary()


class Found:
    """What was found out about a network: its halves by mode, what its head reads, or why not."""

    def __init__(self, halves: dict[bool, Halves], pool_kind: str, why_not: str = "") -> None:
        self.halves, self.pool_kind, self.why_not = halves, pool_kind, why_not

    def __deepcopy__(self, memo: dict[int, Any]) -> Found:
        return self


_EMPTY = Found({}, "other", "it holds no data")


class OwnNet(nn.Module):
    """Hold a network as `net`; its halves were found by tracing what its last linear layer reads.

    Where there are none, it trains all the same: who asks for them is told why.
    """

    def __init__(self, net: nn.Module, name: str, images: Images, found: Found) -> None:
        super().__init__()
        self.net = net
        self.name, self.found, self.layout = name, found, images.layout
        self.pool_kind = found.pool_kind

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a batch of images."""
        logits: Tensor = self.net(self._laid_out(x))
        return logits

    def forward_features(self, x: Tensor) -> Tensor:
        """Return the last feature map, or the tokens."""
        return self._halves().features(self.net, self._laid_out(x))

    def forward_head(self, z: Tensor) -> Tensor:
        """Return the logits of a feature map, or of tokens."""
        return self._halves().head(self.net, z)

    def _laid_out(self, x: Tensor) -> Tensor:
        if self.layout != torch.contiguous_format:
            return x
        # Of one channel, images are in both layouts at once, and convolutions may take either.
        return x.contiguous().reshape(-1).view(x.shape)

    def _halves(self) -> Halves:
        if self.found.why_not:
            raise DataeffError(
                f"{self.name} cannot be split into features and head, which this strategy needs: "
                f"{self.found.why_not}; give it forward_features and forward_head, or take a "
                "strategy that reads nothing but logits."
            )
        return self.found.halves[self.training]


def with_halves(net: nn.Module, name: str, images: Images, maker: Any) -> nn.Module:
    """Return a network with both halves: itself, where it has them and they give its logits.

    What is found out is known again of the next network of the same maker.
    """
    if is_empty():
        return net if is_halved(net) else OwnNet(net, name, images, _EMPTY)
    if has_halves(net, images):
        return net
    sizes = tuple((key, tuple(value.shape)) for key, value in net.state_dict().items())
    key = (name, type(net), images, sizes)
    try:
        known = _KNOWN.setdefault(maker, {})
    # Not everything that can be called can be remembered.
    except TypeError:
        known = {}
    if key not in known:
        known[key] = _found(net, images)
    return OwnNet(net, name, images, known[key])


def is_halved(net: Any) -> bool:
    """Say whether a network has what timm's are divided by."""
    return hasattr(net, "forward_features") and hasattr(net, "forward_head")


def as_given(net: nn.Module) -> nn.Module:
    """Return a network as its owner knows it: without what we have put around it."""
    return net.net if isinstance(net, OwnNet) else net


def has_halves(net: Any, images: Images) -> bool:
    """Say whether a network has halves of its own, of a map or of tokens, that give its logits."""
    if not is_halved(net):
        return False
    try:
        trial: Any = images.fit(_trial(net))
        x = images.some()
        with still(trial):
            z = trial.forward_features(x)
            return z.dim() > 2 and _close(trial.forward_head(z), trial(x))
    # Whatever it is that they do, they are not these halves.
    except Exception:
        return False


def _found(net: nn.Module, images: Images) -> Found:
    try:
        trial = images.fit(_trial(net))
        halves = {}
        for mode in (True, False):
            halves[mode] = divide(trial, images.shape, mode)
            _check(trial, halves[mode], images.some(), mode)
    except Undivided as why:
        return Found({}, "other", str(why))
    half = halves[False]
    with still(trial):
        kind = kind_of_head(lambda z: half.head(trial, z), trial, half.size)
    return Found(halves, kind)


def _check(trial: nn.Module, half: Halves, x: Tensor, training: bool) -> None:
    """Refuse halves that do not give the logits of the whole."""
    with still(trial, training):
        begin = torch.get_rng_state()
        whole = trial(x)
        torch.set_rng_state(begin)
        try:
            found = half.head(trial, half.features(trial, x))
        except Exception as error:
            told = one_line(str(error)).rstrip(".")
            raise Undivided(f"the head that was traced fails ({told})") from error
    if not _close(found, whole):
        when = "in training" if training else "in evaluation"
        raise Undivided(f"{when}, the halves that were traced do not give its logits")


def _trial(net: nn.Module) -> nn.Module:
    """Return a copy to try: weights that begin at zero would make any halves look right."""
    trial = copy.deepcopy(net)
    drawing = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in trial.parameters():
            if not weight.any():
                weight.copy_(0.1 * torch.randn(weight.shape, generator=drawing))
    return trial


def _close(found: Tensor, whole: Tensor) -> bool:
    return found.shape == whole.shape and torch.allclose(found, whole, 1e-4, 1e-5, equal_nan=True)
