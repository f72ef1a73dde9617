"""Networks that nobody here wrote, as a user has them: raw, at a place, one step of each strategy.

By timm's or torchvision's name they are the same networks, and must come to the same numbers.
"""

import sys

import pytest
import torch

from dataeff.errors import Refused
from dataeff.models import build_model
from dataeff.models.own import OwnNet
from dataeff.testing import TASK, train_tiny

SIDE, CLASSES = 64, 4
# Under a batch and a half: what is left over joins the first, and an epoch is one step.
TINY = f"synthetic[samples=10,test_samples=2,classes={CLASSES},size={SIDE}]"
TASK = TASK.model_copy(update={"dataset": TINY, "batch_size": 9, "epochs": 1, "lr": 0.01})

NETS = """
import timm
import torchvision.models as theirs
from torch import nn


def convnext_atto(classes): return timm.create_model("convnext_atto", num_classes=classes)
def efficientnet_b0(classes): return timm.create_model("efficientnet_b0", num_classes=classes)
def mobilenetv3_small_050(n): return timm.create_model("mobilenetv3_small_050", num_classes=n)
def regnetx_002(classes): return timm.create_model("regnetx_002", num_classes=classes)
def vit_tiny_patch16_224(classes, shape):
    return timm.create_model("vit_tiny_patch16_224", num_classes=classes, img_size=shape[1])
def swin_tiny_patch4_window7_224(classes, shape):
    name = "swin_tiny_patch4_window7_224"
    return timm.create_model(name, num_classes=classes, img_size=shape[1])


def densenet121(classes): return theirs.densenet121(num_classes=classes)
def shufflenet_v2_x0_5(classes): return theirs.shufflenet_v2_x0_5(num_classes=classes)
def vgg11_bn(classes): return theirs.vgg11_bn(num_classes=classes)
def squeezenet1_0(classes): return theirs.squeezenet1_0(num_classes=classes)
def googlenet(classes):
    return theirs.googlenet(num_classes=classes, aux_logits=False, init_weights=True)


def sequential(classes, shape):
    layers = [nn.Conv2d(shape[0], 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))
"""

# What the head reads, and why two samples cannot share a row where they cannot.
NOT_AVERAGED = "does not average its last feature map"
KINDS = {
    "convnext_atto": ("avg", ""),
    "efficientnet_b0": ("avg", ""),
    "vit_tiny_patch16_224": ("token", ""),
    # Its map is laid out as (B, h, w, C).
    "swin_tiny_patch4_window7_224": ("other", NOT_AVERAGED),
    # It pools before its last convolution.
    "mobilenetv3_small_050": ("avg", ""),
    "regnetx_002": ("avg", ""),
    "densenet121": ("avg", ""),
    "shufflenet_v2_x0_5": ("avg", ""),
    "vgg11_bn": ("other", NOT_AVERAGED),
    "googlenet": ("avg", ""),
    # It classifies each cell, by a convolution, before it averages.
    "squeezenet1_0": ("other", "it has no linear layer"),
    "sequential": ("avg", ""),
}
THEIRS = ["densenet121", "shufflenet_v2_x0_5", "vgg11_bn", "googlenet", "squeezenet1_0"]
STRATEGIES = ["baseline", "infobatch", "gradmatch[warm=0]"]
CUTMIX = "mixtrain_cutmix[selection=none]"

pytestmark = pytest.mark.long


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "real_nets.py").write_text(NETS)
    yield "real_nets"
    sys.modules.pop("real_nets", None)


def trained(strategy, model, installed):
    return train_tiny(strategy, installed=installed, task=TASK.model_copy(update={"model": model}))


@pytest.mark.parametrize("name", KINDS)
def test_halves_and_pooling_of_real_networks(name, place, installed):
    torch.manual_seed(0)
    text, shape = f"{place}:{name}", (3, SIDE, SIDE)
    model = build_model(text, installed.models, classes=CLASSES, shape=shape)
    kind, why = KINDS[name]
    assert model.pool_kind == kind
    assert isinstance(model, OwnNet) == (name in THEIRS or name == "sequential")
    if "linear" in why:
        return
    x = torch.rand(3, *shape)
    for training in (True, False):
        model.train(training)
        with torch.no_grad():
            torch.manual_seed(1)
            whole = model(x)
            torch.manual_seed(1)
            z = model.forward_features(x)
            torch.testing.assert_close(model.forward_head(z), whole, rtol=1e-4, atol=1e-5)
    if kind == "avg":
        assert z.dim() == 4
        assert min(z.shape[2:]) >= 2


@pytest.mark.parametrize("name", KINDS)
def test_real_networks_go_through_strategies(name, place, installed):
    text = f"{place}:{name}"
    for strategy in STRATEGIES:
        result = trained(strategy, text, installed)
        assert result.record["status"] == "finished"
        assert result.record["steps"] == 1
        assert result.record["flops"] > 0
    _, why = KINDS[name]
    if why:
        with pytest.raises(Refused, match=why):
            trained(CUTMIX, text, installed)
        return
    record = trained(CUTMIX, text, installed).record
    assert (record["status"], record["steps"]) == ("finished", 1)
    assert 0 < record["rows"]["trained"] < 9, "two samples share a row"


@pytest.mark.parametrize("name", THEIRS)
def test_by_name_and_raw_they_come_to_the_same_numbers(name, place, installed):
    named = f"torchvision:{name}[stem=imagenet]"
    strategies = ["baseline"] if KINDS[name][1] else ["baseline", CUTMIX]
    for strategy in strategies:
        raw, known = (trained(strategy, text, installed) for text in (f"{place}:{name}", named))
        assert isinstance(raw.run.model, OwnNet)
        assert not isinstance(known.run.model, OwnNet)
        weights, others = raw.run.model.state_dict(), known.run.model.state_dict()
        assert list(weights) == list(others)
        for key, value in weights.items():
            torch.testing.assert_close(value, others[key], rtol=1e-3, atol=1e-5, msg=key)
        assert raw.record["rows"] == known.record["rows"]
