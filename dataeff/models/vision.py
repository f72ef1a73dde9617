"""torchvision's classification networks, given timm's protocol."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

import dataeff._torchvision_ops  # noqa: F401  (must come before any import of torchvision or timm)
from dataeff.errors import DataeffError
from dataeff.models.loading import load_weights, torchvision_weights
from dataeff.models.stems import set_input_channels

PREFIX = "torchvision:"


class Family(NamedTuple):
    """How the networks of one paper divide into features and head.

    The head is a list of steps: children of the network, or else functions of `_STEPS`. The
    features are all other children, in the order they were defined, unless a function says else.
    """

    head: tuple[str, ...]
    pool_kind: str = "avg"
    features: Callable[[nn.Module, torch.Tensor], torch.Tensor] | None = None
    options: Mapping[str, Any] = {}


class TorchvisionNet(nn.Module):
    """Hold a torchvision network as `net`, with its forward pass cut in two."""

    def __init__(self, net: nn.Module, family: Family) -> None:
        super().__init__()
        self.net = net
        self.family = family
        self.pool_kind = family.pool_kind
        self.said: list[str] = []

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last feature map, or the tokens."""
        if self.family.features:
            return self.family.features(self.net, x)
        for name, child in self.net.named_children():
            if name not in self.family.head:
                x = child(x)
        return x

    def forward_head(self, z: torch.Tensor) -> torch.Tensor:
        """Return the logits of a feature map, or of tokens."""
        for step in self.family.head:
            z = (getattr(self.net, step, None) or _STEPS[step])(z)
        return z

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits of a batch of images."""
        return self.forward_head(self.forward_features(x))


def torchvision_names() -> list[str]:
    """List the networks that have a family here, as `torchvision:NAME`."""
    return [PREFIX + name for name in _all_names() if _family(name)]


def torchvision_builder(name: str) -> Callable[..., nn.Module] | None:
    """Return what builds `torchvision:NAME`, untrained; None where there is no such network.

    It raises where its family has no adapter here.
    """
    name = name.removeprefix(PREFIX)
    if name not in _all_names():
        return None
    family = _family(name)
    if family is None:
        families = ", ".join(_FAMILIES)
        raise DataeffError(
            f"torchvision's {name} is not supported; these families are: {families}."
        )
    return partial(_build, name, family)


def _build(
    name: str, family: Family, params: dict[str, Any], classes: int, shape: tuple[int, int, int]
) -> nn.Module:
    import torchvision

    builder = torchvision.models.get_model_builder(name)
    params = dict(params)
    pretrained = params.pop("pretrained", False)
    if family is _FAMILIES["vit"]:
        net = _build_vit(builder, {"image_size": shape[1]} | params, classes)
    else:
        net = builder(weights=None, num_classes=classes, **family.options, **params)
    set_input_channels(net, shape[0])
    model = TorchvisionNet(net, family)
    if pretrained:
        state = torchvision_weights(name)
        model.said = load_weights(model, state, PREFIX + name, "torchvision's weights")
    return model


def _all_names() -> list[str]:
    import torchvision

    return torchvision.models.list_models(module=torchvision.models)


def _family(name: str) -> Family | None:
    return next((family for key, family in _FAMILIES.items() if name.startswith(key)), None)


def _build_vit(builder: Callable[..., Any], params: dict[str, Any], classes: int) -> nn.Module:
    # The builders fix patch size, depth and width: read them off an empty network, then override.
    with torch.device("meta"):
        plain = builder()
    layers = plain.encoder.layers
    config = {"num_layers": len(layers), "num_heads": layers[0].num_heads}
    config |= {key: getattr(plain, key) for key in ("patch_size", "hidden_dim", "mlp_dim")}
    return type(plain)(num_classes=classes, **(config | params))


def _vit_tokens(net: Any, x: torch.Tensor) -> torch.Tensor:
    patches = net._process_input(x)
    class_token = net.class_token.expand(len(patches), -1, -1)
    return net.encoder(torch.cat([class_token, patches], 1))


def _densenet_map(net: Any, x: torch.Tensor) -> torch.Tensor:
    return F.relu(net.features(x), inplace=True)


_STEPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "avgpool": partial(F.adaptive_avg_pool2d, output_size=1),
    "flatten": partial(torch.flatten, start_dim=1),
    "first_token": partial(torch.select, dim=1, index=0),
}

_FC = Family(("avgpool", "flatten", "fc"))
_CLASSIFIER = Family(("avgpool", "flatten", "classifier"))
_INCEPTION = Family(
    ("avgpool", "flatten", "dropout", "fc"),
    # Auxiliary heads would need losses of their own; transform_input is for ported weights.
    options={"aux_logits": False, "transform_input": False, "init_weights": True},
)

_FAMILIES = {
    **dict.fromkeys(("resnet", "resnext", "wide_resnet", "regnet", "shufflenet"), _FC),
    **dict.fromkeys(("googlenet", "inception"), _INCEPTION),
    **dict.fromkeys(("mobilenet", "efficientnet", "mnasnet"), _CLASSIFIER),
    "densenet": Family(_CLASSIFIER.head, features=_densenet_map),
    "convnext": Family(("avgpool", "classifier")),
    "swin": Family(("avgpool", "flatten", "head")),
    # Their heads read a 7x7 (6x6) map cell by cell, or apply a non-linearity before they pool.
    "vgg": Family(_CLASSIFIER.head, "other"),
    "alexnet": Family(_CLASSIFIER.head, "other"),
    "squeezenet": Family(("classifier", "flatten"), "other"),
    "vit": Family(("first_token", "heads"), "token", _vit_tokens),
}
