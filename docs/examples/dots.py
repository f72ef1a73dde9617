"""Dots: a data set, a network and a suite of one's own, and a figure."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from dataeff import ImageSet, hookimpl


@hookimpl
def register_datasets(register):
    register("dots", Dots)


@hookimpl
def register_models(register):
    register("two_layers", two_layers)


@hookimpl
def register_suites(register):
    register("dots-quick", Path(__file__).with_name("dots_quick.toml"))


@hookimpl
def register_analyses(register):
    register("progress", progress)


@dataclass(eq=False, kw_only=True)
class Dots(ImageSet):
    """Count the dots: as many classes as there may be `dots`."""

    dots: int = 3

    def read(self, root):
        labels = torch.arange(600) % self.dots
        images = torch.zeros(600, 16, 16, 1, dtype=torch.uint8)
        images[:, 8, ::3, 0] = 255 * (torch.arange(6) <= labels[:, None])
        return images[:500], labels[:500], images[500:], labels[500:], self.dots


class TwoLayers(nn.Module):
    """A convolution and a linear layer, with the two halves that every network here has."""

    def __init__(self, classes, channels, width):
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, stride=2, padding=1)
        self.head = nn.Linear(width, classes)

    def forward_features(self, x):
        return self.conv(x).relu()

    def forward_head(self, z):
        return self.head(z.mean((2, 3)))

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


def two_layers(classes: int, shape: tuple[int, int, int], *, width: int = 16) -> nn.Module:
    """Build a network of two layers."""
    return TwoLayers(classes, shape[0], width)


def progress(study, *, strategy: str = "baseline"):
    """Draw the test accuracy of a strategy by epoch."""
    lines = [line for line in study.train(strategy).epochs if "test_top1" in line]
    table = [{"epoch": line["epoch"], "accuracy": line["test_top1"]} for line in lines]
    says = f"{table[-1]['accuracy']:.1f}% in the end"
    with study.figure("epochs", f"accuracy of {strategy}", table, says) as axes:
        axes.plot(*zip(*(line.values() for line in table), strict=True))
        axes.set(xlabel="epoch", ylabel="test accuracy (%)")


progress.figures = ("epochs",)
