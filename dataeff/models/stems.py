"""The first layers of ImageNet networks, changed for small images and other channel counts."""

import math

from torch import nn

# The first convolution, and the layers that then shrink the map further and are taken out. A stem
# is known only where all its layers are there and the convolution has stride 2.
STEMS = (
    ("conv1", "maxpool"),  # timm: resnet, resnext, res2net, sknet
    ("conv1.0", "maxpool"),  # timm: deep stems, such as resnet50d and resnest
    ("features.conv0", "features.pool0"),  # timm: densenet
    ("conv_stem",),  # timm: efficientnet, mobilenet, ghostnet
    ("stem.conv", "stem.pad", "stem.pool"),  # timm: resnetv2 of BiT
    ("stem.conv", "stem.pool"),  # timm: resnetv2
    ("stem.conv",),  # timm: regnet, rexnet
    ("net.conv1", "net.maxpool"),  # torchvision: resnet, resnext, wide_resnet
    ("net.conv1.0", "net.maxpool"),  # torchvision: shufflenet
    ("net.conv1.conv", "net.maxpool1"),  # torchvision: googlenet
    ("net.features.conv0", "net.features.pool0"),  # torchvision: densenet
    ("net.features.0.0",),  # torchvision: mobilenet, efficientnet
    ("net.features.0", "net.features.2"),  # torchvision: squeezenet
    ("net.layers.0",),  # torchvision: mnasnet
    ("net.stem.0",),  # torchvision: regnet
)


def shrink_stem(model: nn.Module) -> bool:
    """Let the stem keep the resolution; return False where no known stem is found."""
    layers = dict(model.named_modules(remove_duplicate=False))
    for conv_path, *pool_paths in STEMS:
        conv = layers.get(conv_path)
        if not isinstance(conv, nn.Conv2d) or conv.stride != (2, 2) or {*pool_paths} - {*layers}:
            continue
        conv.stride = (1, 1)
        if conv.kernel_size[0] > 5:
            _renew(conv, conv.in_channels, 3)
        for path in pool_paths:
            model.set_submodule(path, nn.Identity())
        return True
    return False


def set_input_channels(model: nn.Module, channels: int) -> None:
    """Let the first convolution read this many channels."""
    conv = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
    if conv.in_channels != channels:
        _renew(conv, channels, conv.kernel_size[0])


def _renew(conv: nn.Conv2d, channels: int, kernel: int) -> None:
    """Draw new weights, in place: the old ones' scale, corrected to keep the output's variance."""
    old = conv.weight.detach()
    new = old.new_empty(len(old), channels, kernel, kernel).normal_()
    gain = math.sqrt(old[0].numel() / new[0].numel())
    conv.weight = nn.Parameter(new * old.std() * gain)
    conv.in_channels = channels
    if conv.kernel_size != (kernel, kernel):
        conv.kernel_size = (kernel, kernel)
        # A padding of 0 stays: such a stem pads elsewhere, or not at all.
        conv.padding = tuple(kernel // 2 if padding else 0 for padding in conv.padding)
