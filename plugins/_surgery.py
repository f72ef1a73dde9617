"""The channels of a residual network: which tensors share them, and how to cut them for real.

A space is a set of channels that some layers write and others read: the stream that the blocks of
a stage add to, or what lies between two convolutions of a branch. Its channels are cut in all of
its tensors at once, so what is left is a smaller dense network.
"""

from dataclasses import dataclass, field
from itertools import chain

import torch
from dataeff_plugins._residual import residual_blocks
from torch import nn

from dataeff import DataeffError


@dataclass(eq=False)
class Space:
    """Channels, with the names of the modules that hold a number per channel."""

    name: str
    size: int
    makers: list[str] = field(default_factory=list)
    """Convolutions that write them."""
    norms: list[str] = field(default_factory=list)
    """What is as long: norms, and blocks that may have a constant."""
    readers: list[str] = field(default_factory=list)
    """Convolutions, or the head, that read them."""


@dataclass(eq=False)
class Layout:
    """All spaces of a network, from the images to the head."""

    blocks: list
    spaces: list[Space]
    routes: list[tuple[str, Space, Space]]
    """Shortcuts that copy channels from one space to another: name, from, to."""
    head: str
    """The linear layer that reads the last space."""

    def then(self, source, conv, norm, modules):
        """Add the space that a convolution and its norm make, reading another one."""
        if source:
            source.readers.append(conv)
        self.spaces.append(Space(conv, modules[conv].out_channels, [conv], [norm]))
        return self.spaces[-1]

    def inner(self, block):
        """Return the spaces within the branch of a block."""
        return [space for space in self.spaces if space.name in block.names("conv")]

    def sides(self, kept):
        """Return per module the channels kept of its output and of its input; None is all."""
        sides = {}
        for space in self.spaces:
            for name in chain(space.makers, space.norms):
                sides.setdefault(name, [None, None])[0] = kept[space.name]
            for name in space.readers:
                sides.setdefault(name, [None, None])[1] = kept[space.name]
        return sides

    def all(self, device):
        """Return every channel of every space."""
        return {space.name: torch.arange(space.size, device=device) for space in self.spaces}


def channel_layout(run, strategy):
    """Return the layout of a ResNet of timm, torchvision or ours."""
    blocks = residual_blocks(run, strategy)
    modules = dict(run.model.named_modules())
    loose = {
        name: module
        for name, module in modules.items()
        if not any(name.startswith(f"{block.name}.") for block in blocks)
    }
    convs, norms, heads = (
        [name for name, module in loose.items() if isinstance(module, kind)]
        for kind in (nn.Conv2d, nn.BatchNorm2d, nn.Linear)
    )
    layout = Layout(blocks, [], [], head=heads[-1] if heads else "")
    stream = None
    for conv, norm in zip(convs, norms, strict=False):
        stream = layout.then(stream, conv, norm, modules)
    for block in blocks:
        source = inner = stream
        *middle, (conv, norm) = zip(block.names("conv"), block.names("bn"), strict=True)
        for pair in middle:
            inner = layout.then(inner, *pair, modules)
        inner.readers.append(conv)
        shortcut = getattr(block.module, "shortcut", None)
        project = getattr(block.module, "downsample", None)
        if hasattr(shortcut, "keep"):
            stream = Space(block.name, modules[conv].out_channels)
            layout.spaces.append(stream)
            layout.routes.append((f"{block.name}.shortcut", source, stream))
        elif project is not None:
            found = {type(part): name for name, part in project.named_modules()}
            pair = [found[nn.Conv2d], found[nn.BatchNorm2d]]
            stream = layout.then(source, *(f"{block.name}.downsample.{n}" for n in pair), modules)
        stream.makers.append(conv)
        stream.norms += [norm, block.name]
    stream.readers.extend(heads)
    _check(run, strategy, layout, modules, heads)
    return layout


def _check(run, strategy, layout, modules, heads):
    """Refuse a network with tensors that are in no space: nothing could cut these."""
    known = {name for space in layout.spaces for name in (*space.makers, *space.norms, *heads)}
    for name, module in modules.items():
        tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        grouped = isinstance(module, nn.Conv2d) and module.groups > 1
        if grouped or (tensors and name not in known):
            raise DataeffError(
                f"{strategy} cannot cut channels out of {run.task.model}, because of its {name} "
                f"({type(module).__name__}); take a plain ResNet, such as resnet20 or resnet50."
            )
    if len(heads) != 1 or run.model.pool_kind != "avg":
        raise DataeffError(
            f"{strategy} needs a network that averages its last map and ends in one linear layer, "
            f"and {run.task.model} does not; take a plain ResNet, such as resnet20 or resnet50."
        )


def narrow(run, layout, kept):
    """Cut all other channels out of the network, and out of what the optimizer remembers."""
    sides = layout.sides(kept)
    recut(run, sides, lambda key, tensor, name: cut(tensor, *sides[name]))
    for name, source, target in layout.routes:
        shortcut = run.model.get_submodule(name)
        shortcut.keep(kept[target.name], kept[source.name], source.size)
    for space in layout.spaces:
        space.size = len(kept[space.name])


def recut(run, sides, change):
    """Give the named modules other tensors, `change(key, tensor, name)`, and the optimizer theirs.

    A key is unique: of a weight, a statistic, or (with a slash) what the optimizer remembers.
    """
    run.model_changed()
    modules = dict(run.model.named_modules())
    for name in [name for name in sides if name in modules]:
        layer = modules[name]
        for key, old in list(layer.named_parameters(recurse=False)):
            new = nn.Parameter(change(f"{name}.{key}", old.detach(), name), old.requires_grad)
            setattr(layer, key, new)
            _follow(run.optimizer, old, new)
            for kind, value in run.optimizer.state[new].items():
                if isinstance(value, torch.Tensor) and value.shape == old.shape:
                    changed = change(f"{name}.{key}/{kind}", value, name)
                    run.optimizer.state[new][kind] = changed
        for key, buffer in list(layer.named_buffers(recurse=False)):
            setattr(layer, key, change(f"{name}.{key}", buffer, name))
        _tell_size(layer)
    # Set again, so that it is compiled again.
    run.model = run.model


def _follow(optimizer, old, new):
    """Put another parameter in the place of one."""
    for group in optimizer.param_groups:
        group["params"] = [new if p is old else p for p in group["params"]]
    optimizer.state[new] = optimizer.state.pop(old, {})


def cut(tensor, outputs, inputs):
    """Return a copy of these outputs and, where there is a second dimension, of these inputs."""
    if tensor.ndim == 0:
        return tensor.clone()
    part = tensor.clone() if outputs is None else tensor.index_select(0, outputs)
    if inputs is not None and tensor.ndim > 1:
        part = part.index_select(1, inputs)
    last = tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return part.contiguous(memory_format=torch.channels_last) if last else part.contiguous()


def put(full, part, outputs, inputs):
    """Write the lines that `cut` has cut out back to their places."""
    if full.ndim == 0:
        full.copy_(part)
        return
    rows = torch.arange(len(full), device=full.device) if outputs is None else outputs
    if inputs is None or full.ndim == 1:
        full[rows] = part
    else:
        full[rows[:, None], inputs] = part


def _tell_size(layer):
    if isinstance(layer, nn.Conv2d):
        layer.out_channels, layer.in_channels = layer.weight.shape[:2]
    elif isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = layer.weight.shape
    elif isinstance(layer, nn.BatchNorm2d):
        layer.num_features = len(layer.weight)
