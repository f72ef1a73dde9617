"""Networks for small images: the CIFAR ResNets and a tiny net for tests.

He et al. 2015, https://arxiv.org/abs/1512.03385
"""

from collections.abc import Callable
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from dataeff.hookspecs import hookimpl

Shape = tuple[int, int, int]
"""Channels, height and width of an image."""

Width = Annotated[int, Field(ge=1, le=1024)]
"""Channels of the first layer, as a parameter's type."""


@hookimpl
def register_models(register: Callable[..., None]) -> None:
    """Register the small-image networks."""
    for factory in (resnet8, resnet20, resnet32, resnet56, tiny):
        register(factory.__name__, factory)


def resnet8(classes: int, shape: Shape, *, width: Width = 16) -> nn.Module:
    """Build the CIFAR ResNet of 8 layers."""
    return ResNet(1, classes, shape, width)


def resnet20(classes: int, shape: Shape, *, width: Width = 16) -> nn.Module:
    """Build the CIFAR ResNet of 20 layers."""
    return ResNet(3, classes, shape, width)


def resnet32(classes: int, shape: Shape, *, width: Width = 16) -> nn.Module:
    """Build the CIFAR ResNet of 32 layers."""
    return ResNet(5, classes, shape, width)


def resnet56(classes: int, shape: Shape, *, width: Width = 16) -> nn.Module:
    """Build the CIFAR ResNet of 56 layers."""
    return ResNet(9, classes, shape, width)


def tiny(classes: int, shape: Shape, *, width: Width = 8) -> nn.Module:
    """Build two strided convolutions and a linear head, for tests."""
    return TinyNet(classes, shape, width)


class PooledNet(nn.Module):
    """Average the last feature map over its cells, then classify with `self.head`."""

    pool_kind = "avg"
    head: nn.Linear

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last feature map."""
        raise NotImplementedError

    def forward_head(self, z: torch.Tensor) -> torch.Tensor:
        """Return the logits of a feature map."""
        return self.head(z.mean((2, 3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits of a batch of images."""
        return self.forward_head(self.forward_features(x))


class ResNet(PooledNet):
    """Run a 3x3 stem and three stages of `blocks` residual blocks each."""

    def __init__(self, blocks: int, classes: int, shape: Shape, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(shape[0], width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.stages = nn.Sequential(
            _stage(blocks, width, width, 1),
            _stage(blocks, width, 2 * width, 2),
            _stage(blocks, 2 * width, 4 * width, 2),
        )
        self.head = nn.Linear(4 * width, classes)
        _init_convolutions(self)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last feature map."""
        return self.stages(F.relu(self.bn(self.conv(x)), inplace=True))


class BasicBlock(nn.Module):
    """Add two 3x3 convolutions to the shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else PadShortcut(outputs - inputs, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's feature map."""
        z = F.relu(self.bn1(self.conv1(x)), inplace=True)
        z = self.bn2(self.conv2(z))
        z += self.shortcut(x)
        return F.relu(z, inplace=True)


class PadShortcut(nn.Module):
    """Subsample the map and append channels of zeros (the paper's option A, no parameters)."""

    route: torch.Tensor | None
    """Per channel of the result the one that it is copied from; the number behind the last: none.

    It is there only where `keep` has cut channels out.
    """

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.channels = channels
        self.stride = stride
        self.register_buffer("route", None)

    def sources(self, inputs: int) -> torch.Tensor:
        """Return the route, also where nothing was cut yet, for an input of so many channels."""
        if self.route is not None:
            return self.route
        return torch.arange(inputs + self.channels).clamp(max=inputs)

    def keep(self, outputs: torch.Tensor, inputs: torch.Tensor, before: int) -> None:
        """Cut all other channels out of the result and out of the input, which has `before`."""
        if len(inputs) == before and len(outputs) == len(self.sources(before)):
            return
        place = torch.full((before + 1,), len(inputs), device=inputs.device)
        place[inputs] = torch.arange(len(inputs), device=inputs.device)
        self.route = place[self.sources(before).to(inputs.device)[outputs]]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the smaller, deeper map."""
        # Slicing and F.pad both keep channels_last; concatenating zeros would have to ask for it.
        x = x[:, :, :: self.stride, :: self.stride]
        if self.route is None:
            return F.pad(x, (0, 0, 0, 0, 0, self.channels))
        return F.pad(x, (0, 0, 0, 0, 0, 1)).index_select(1, self.route)


class TinyNet(PooledNet):
    """Run two 3x3 convolutions of stride 2: 8x8 images end as 2x2 maps."""

    def __init__(self, classes: int, shape: Shape, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_halve(shape[0], width), *_halve(width, 2 * width))
        self.head = nn.Linear(2 * width, classes)
        _init_convolutions(self)

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last feature map."""
        return self.layers(x)


def _halve(inputs: int, outputs: int) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def _stage(blocks: int, inputs: int, outputs: int, stride: int) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride)
    return nn.Sequential(first, *(BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1)))


def _init_convolutions(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
