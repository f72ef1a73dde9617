"""Networks of a user's own, as tests write them."""

import itertools
import sys

import torch

from dataeff.models import build_model

NUMBERS = itertools.count()
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
CONV = """
class Net(nn.Module):
    def __init__(self, classes, shape=(3, 8, 8), width: int = 4):
        super().__init__()
        self.conv = nn.Conv2d(shape[0], width, 3, padding=1)
        self.bn = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        n = x.size(0)
        x = F.relu(self.bn(self.conv(x)))
        x = F.avg_pool2d(x, x.shape[-1]).view(n, -1)
        x = F.dropout(x, 0.5, self.training)
        return self.fc(x)
"""


def writer(tmp_path, monkeypatch):
    """Return what writes a module of the user's own into this folder, and says its name."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text, name=None):
        name = name or f"own_nets_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(HEAD + text)
        return name

    return write


def builder(installed):
    """Return what builds a network, of four classes where nothing else is said."""

    def build(text, classes=4, shape=(3, 8, 8), seed=0, **options):
        torch.manual_seed(seed)
        return build_model(text, installed.models, classes=classes, shape=shape, **options)

    return build


def held(module):
    """Return a network's weights, by the names that its author gave."""
    return {key.removeprefix("net."): value for key, value in module.state_dict().items()}


def gives_its_logits(model, shape=(3, 8, 8), count=5):
    """Hold both halves against the whole, in both modes and for another number of images."""
    for training in (True, False):
        model.train(training)
        x = torch.randn(count, *shape, generator=torch.Generator().manual_seed(1))
        torch.manual_seed(3)
        whole = model(x)
        torch.manual_seed(3)
        found = model.forward_head(model.forward_features(x))
        torch.testing.assert_close(found, whole)
