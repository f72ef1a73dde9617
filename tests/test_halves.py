"""Features and head of networks that do not name them, found by tracing and held by numbers."""

import copy
import pickle
import sys

import pytest
import torch
import torch.nn.functional as F
from own_nets import CONV, builder, gives_its_logits, held, writer
from torch import nn

from dataeff.errors import Refused
from dataeff.models import build_model
from dataeff.models.own import OwnNet
from dataeff.testing import TASK, train_tiny


@pytest.fixture
def written(tmp_path, monkeypatch):
    return writer(tmp_path, monkeypatch)


@pytest.fixture
def build(installed):
    return builder(installed)


class Blocks(nn.Module):
    """Looks at values within a block, which no trace can follow."""

    def __init__(self):
        super().__init__()
        self.block = Doubtful()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(self.block(x).mean([2, 3]))


class Doubtful(nn.Module):
    def forward(self, x):
        return x.relu() if x.sum() > 0 else x.tanh()


def tokens(read):
    """Return a network of tokens, which reads them in this way."""

    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 6, 4, 4)
            self.mix = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
            self.fc = nn.Linear(6, 4)

        def forward(self, x):
            z = self.patch(x).flatten(2).transpose(1, 2)
            return self.fc(read(self.mix(z)))

    return Tokens()


def sequence(*pool):
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), *pool)


SPLIT = {
    "pool": (sequence(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4)), "avg", (5, 6, 6)),
    "dropout": (
        sequence(nn.AvgPool2d(6), nn.Dropout(), nn.Flatten(), nn.Linear(5, 4)), "avg", (5, 6, 6),
    ),
    "two layers": (
        sequence(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 7), nn.ReLU(),
                 nn.Linear(7, 4)), "avg", (5, 6, 6),
    ),
    "maximum": (
        sequence(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(5, 4)), "other", (5, 6, 6),
    ),
    "each cell": (sequence(nn.Flatten(), nn.Linear(180, 4)), "other", (5, 6, 6)),
    "four cells": (
        sequence(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(20, 4)), "other", (5, 2, 2),
    ),
    "zeros": (
        sequence(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4)), "avg", (5, 6, 6),
    ),
    "opaque": (Blocks(), "avg", (3, 8, 8)),
    "tokens": (tokens(lambda z: z.mean(1)), "avg", (4, 6)),
    "first token": (tokens(lambda z: z[:, 0]), "token", (4, 6)),
    "last token": (tokens(lambda z: z[:, -1]), "other", (4, 6)),
}  # fmt: skip
nn.init.zeros_(SPLIT["zeros"][0][-1].weight)


@pytest.mark.parametrize("kind", SPLIT)
def test_halves_give_its_logits_and_pooling_is_known_by_numbers(installed, kind):
    net, pool_kind, size = SPLIT[kind]
    installed.models.register("mine", lambda classes, shape: copy.deepcopy(net))
    model = build_model("mine", installed.models, classes=4, shape=(3, 8, 8))
    assert model.pool_kind == pool_kind
    assert model.eval().forward_features(torch.zeros(1, 3, 8, 8)).shape[1:] == size
    gives_its_logits(model)
    weights = list(model.parameters())
    model.forward_head(model.forward_features(torch.rand(2, 3, 8, 8))).square().sum().backward()
    assert all(weight.grad is not None for weight in weights)
    assert torch.equal(model(torch.ones(2, 3, 8, 8)), model.net(torch.ones(2, 3, 8, 8)))


def test_halves_of_its_own_are_left_as_they_are(build, written):
    halves = "    def forward_features(self, x): return self.conv(x)\n"
    halves += "    def forward_head(self, z): return self.fc({}(z.mean((2, 3))))\n"
    whole = "    def forward(self, x): return self.forward_head(self.forward_features(x))\n"
    own = build(f"{written(CONV + 'class Own(Net):' + chr(10) + halves.format('') + whole)}:Own")
    assert not isinstance(own, OwnNet)
    assert own.pool_kind == "avg"
    # These are something else than halves of what it gives.
    other = build(f"{written(CONV + 'class Own(Net):' + chr(10) + halves.format('3*'))}:Own")
    assert isinstance(other, OwnNet)
    gives_its_logits(other)


class Skips(nn.Module):
    """Its head reads the images once more."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(self.conv(x).mean((2, 3))) + x.mean()


class Sees(nn.Module):
    """Looks at values at its top."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(x.mean((2, 3))) if x.sum() > 0 else -self.fc(x.amax((2, 3)))


class Joined(nn.Module):
    """Puts two maps together, which it has pooled before."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1))


WHOLE = {
    "images twice": (Skips(), "reads the images themselves"),
    "values": (Sees(), "cannot be traced .*control flow"),
    "two maps": (Joined(), "puts together more than one tensor"),
    "no linear layer": (
        sequence(nn.Conv2d(5, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), "no linear layer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WHOLE)
def test_what_cannot_be_split_trains_but_for_who_needs_the_halves(installed, kind):
    net, why = WHOLE[kind]
    installed.models.register("mine", lambda classes, shape: copy.deepcopy(net))
    task = TASK.model_copy(update={"model": "mine", "epochs": 1})
    for strategy in ("baseline", "infobatch", "selective_backprop", "mixtrain_mixup"):
        assert train_tiny(strategy, installed=installed, task=task).record["status"] == "finished"
    with pytest.raises(Refused, match=f"^mixtrain_cutmix: mine cannot be split .*{why}"):
        train_tiny("mixtrain_cutmix", installed=installed, task=task)
    off = "mixtrain_cutmix[interference=off]"
    assert train_tiny(off, installed=installed, task=task).record["status"] == "finished"


def test_split_propagation_reads_each_sample_off_its_own_cells(build, written, installed):
    """The same network with halves of its own and with those that were found: the same numbers."""
    plain = """
class Plain(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3, 2, 1), nn.Linear(4, classes)
    def forward(self, x): return self.fc(self.conv(x).relu().mean((2, 3)))
class Halved(Plain):
    def forward_features(self, x): return self.conv(x).relu()
    def forward_head(self, z): return self.fc(z.mean((2, 3)))
"""
    name = written(plain)
    found = []
    for which in ("Plain", "Halved"):
        task = TASK.model_copy(update={"model": f"{name}:{which}", "epochs": 2})
        result = train_tiny("mixtrain_cutmix[selection=none]", installed=installed, task=task)
        found.append(held(result.run.model) | {"rows": result.record["rows"]})
    assert isinstance(build(f"{name}:Plain"), OwnNet)
    assert not isinstance(build(f"{name}:Halved"), OwnNet)
    assert found[0].pop("rows") == found[1].pop("rows")
    for key, value in found[0].items():
        torch.testing.assert_close(value, found[1][key])


def test_a_network_of_its_own_trains_as_the_same_one_that_is_registered(installed, written):
    task = TASK.model_copy(update={"model": f"{written(CONV)}:Net", "epochs": 2})
    own = train_tiny("baseline", installed=installed, task=task)
    net = getattr(sys.modules[task.model.partition(":")[0]], "Net")  # noqa: B009
    net.forward_features = lambda self, x: F.relu(self.bn(self.conv(x)))
    net.forward_head = lambda self, z: self.fc(F.dropout(z.mean((2, 3)), 0.5, self.training))
    net.forward = lambda self, x: self.forward_head(self.forward_features(x))
    installed.models.register("mine", lambda classes, shape: net(classes, shape))
    named = TASK.model_copy(update={"model": "mine", "epochs": 2})
    other = train_tiny("baseline", installed=installed, task=named)
    assert not isinstance(other.run.model, OwnNet)
    for key, value in held(own.run.model).items():
        torch.testing.assert_close(value, other.run.model.state_dict()[key])


def test_halves_travel_compiled_and_pickled(build, written, installed):
    """What a network becomes on its way: compiled, copied, pickled with all its code."""
    place = f"{written(CONV)}:Net"
    task = TASK.model_copy(update={"model": place, "epochs": 1, "compile": "eager"})
    plain = task.model_copy(update={"compile": False})
    results = [train_tiny("mixtrain_cutmix", installed=installed, task=t) for t in (task, plain)]
    first, second = (held(result.run.model) for result in results)
    for key, value in first.items():
        torch.testing.assert_close(value, second[key])
    model = build(place).eval()
    x = torch.rand(3, 3, 8, 8)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other.forward_head(other.forward_features(x)), model(x))
