"""Residual networks: their blocks, and how to leave the branch of a block out."""

from dataclasses import dataclass
from itertools import chain
from types import MethodType

import torch.nn.functional as F
from torch import nn

from dataeff import DataeffError


@dataclass(frozen=True, eq=False)
class ResidualBlock:
    """A residual block: relu(branch(x) + shortcut(x)), the branch from `conv1` to its last norm."""

    name: str
    module: nn.Module
    depth: int
    """How many convolutions the branch has."""

    def names(self, kind):
        """Return the names of the branch's layers of a kind, "conv" or "bn", in order."""
        return [f"{self.name}.{kind}{number}" for number in range(1, self.depth + 1)]

    @property
    def layers(self):
        """Return the branch's convolutions, each with its norm, in order."""
        numbers = range(1, self.depth + 1)
        return [(getattr(self.module, f"conv{n}"), getattr(self.module, f"bn{n}")) for n in numbers]

    @property
    def norm(self):
        """Return the branch's last norm."""
        return getattr(self.module, f"bn{self.depth}")

    @property
    def end(self):
        """Return the layer whose output is the branch's."""
        return getattr(self.module, "se", None) or self.norm


def residual_blocks(run, strategy):
    """Return the blocks of a ResNet of timm, torchvision or ours, in order."""
    found = [(name, module) for name, module in run.model.named_modules() if _is_block(module)]
    if not found:
        raise DataeffError(
            f"{strategy} needs a residual network with BatchNorm and ReLU, and {run.task.model} is "
            "none; take one such as resnet20, resnet50 or torchvision:resnet18."
        )
    return [
        ResidualBlock(name, module, 3 if hasattr(module, "conv3") else 2) for name, module in found
    ]


def _is_block(module):
    pairs = [("conv1", "bn1"), ("conv2", "bn2")] + [("conv3", "bn3")] * hasattr(module, "conv3")
    acts = [getattr(module, name, None) for name in ("relu", "act1", "act2", "act3")]
    known = {"downsample", "shortcut", "se", *chain(*pairs)}
    others = [part for name, part in module.named_children() if name not in known]
    return (
        (hasattr(module, "downsample") or hasattr(module, "shortcut"))
        # What else may be trained there could come after the last norm, or before the first.
        and not any(True for part in others for _ in part.parameters())
        and all(isinstance(getattr(module, conv, None), nn.Conv2d) for conv, _ in pairs)
        and all(isinstance(getattr(module, norm, None), nn.BatchNorm2d) for _, norm in pairs)
        and all(act is None or isinstance(act, nn.ReLU) for act in acts)
    )


def refuse_compiling(run, strategy):
    """Refuse to change a compiled network all the time: the compiler would give up on it."""
    if run.task.compile:
        raise DataeffError(
            f"{strategy} changes the network too often to compile it: set compile = false or "
            f"leave {strategy} out."
        )


def branch_works(run, blocks, shape):
    """Return the share of the network's work, on images of a shape, in each block's branch."""
    names = [block.names("conv") for block in blocks]
    work = dict(zip(chain(*names), run.work(list(chain(*names)), shape), strict=True))
    return [sum(map(work.get, mine)) for mine in names]


def make_skippable(module):
    """Let a block leave its branch out, with all its work, while its attribute `skip` is true.

    A `constant`, if it has one, then stands for the branch.
    """
    module.skip = False
    if not hasattr(module, "constant"):
        module.register_buffer("constant", None)
    # On this one object: a wrapper around it would rename all its weights.
    module.forward = MethodType(_forward, module)


def _forward(module, x):
    if not module.skip:
        return type(module).forward(module, x)
    project = getattr(module, "downsample", None) or getattr(module, "shortcut", None)
    short = x if project is None else project(x)
    if module.constant is not None:
        short = short + module.constant[:, None, None]
    # What comes from the block before is not negative.
    return short if short is x else F.relu(short)
