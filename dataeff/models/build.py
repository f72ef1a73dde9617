"""From `name[key=value]` to a network: a registered one, torchvision's or timm's."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dataeff.errors import DataeffError, UnknownName, did_you_mean, one_line
from dataeff.imported import is_place
from dataeff.models.loading import (
    check_offered,
    load_weights,
    not_downloaded,
    offline_where_it_must_be,
    read_weights,
)
from dataeff.models.own import is_halved, with_halves
from dataeff.models.places import network_at, read_literal, takes
from dataeff.models.pooling import pool_kind_of
from dataeff.models.small import Shape
from dataeff.models.stems import shrink_stem
from dataeff.models.trial import Images, check_logits, is_empty
from dataeff.models.vision import PREFIX, torchvision_builder, torchvision_names
from dataeff.notation import Part, format_part, parse_one
from dataeff.registry import Registry

SMALL_SIDE = 64
"""Images up to this side get the small-image stem, unless `stem` says otherwise."""

_STEM_CHOICES = ("auto", "small", "imagenet")


def build_model(
    text: str,
    registry: Registry,
    *,
    classes: int,
    shape: Shape,
    layout: torch.memory_format = torch.contiguous_format,
) -> nn.Module:
    """Build the network that `text` names for images of `shape` (channels, height, width).

    The weights are drawn from torch's global generator: seed it first. One of the user's own is
    tried on such images, in this layout, and refused where it does not give their logits.
    """
    part, weights = _without_weights(parse_one(text), registry)
    entry = registry.get(part.name)
    model: Any
    if entry:
        model = entry.factory(classes, shape, **entry.read(part.params))
    elif is_own_place(part.name):
        model = network_at(registry[part.name], part.params, classes, shape)
    else:
        model = _build_foreign(part, registry, classes, shape)
    # What a plugin registers with both halves is taken at its word.
    if is_own_place(part.name) or not is_halved(model):
        images, maker = Images(shape, layout), registry[part.name].factory
        if not is_empty():
            check_logits(model, text, classes, images)
        model = with_halves(model, text, images, maker)
    if not hasattr(model, "pool_kind"):
        model.pool_kind = pool_kind_of(model, shape)
    if weights and not is_empty():
        model.said = load_weights(model, read_weights(weights), text, weights)
    network: nn.Module = model
    return network


def weights_of(text: str, registry: Registry) -> str:
    """Return the file of the weights that a network begins with; nothing where it has none."""
    return _without_weights(parse_one(text), registry)[1]


def _without_weights(part: Part, registry: Registry) -> tuple[Part, str]:
    entry = None if part.name.startswith(PREFIX) else registry.find(part.name)
    params = dict(part.params)
    weights = str(params.pop("weights", ""))
    is_its_own = entry is not None and takes(entry.factory, "weights")
    if not weights or (is_its_own and not Path(weights).is_file()):
        return part, ""
    return Part(part.name, params), weights


def is_own_place(name: str) -> bool:
    """Say whether a name is a place of the user's own, and none of torchvision's networks."""
    return is_place(name) and not name.startswith(PREFIX)


def model_names(registry: Registry, pattern: str = "*") -> list[str]:
    """List the names that match a wildcard: registered, `torchvision:NAME`, then timm's."""
    import timm

    names = [entry.name for entry in registry.entries()]
    names += torchvision_names() + timm.list_models()
    return [name for name in names if fnmatch(name, pattern)]


def is_theirs(name: str) -> bool:
    """Say whether a network is torchvision's, or timm's own: there without any plugin."""
    if name.startswith(PREFIX):
        return True
    import timm

    return timm.is_model(name) and timm.model_entrypoint(name).__module__.startswith("timm.")


def _build_foreign(part: Part, registry: Registry, classes: int, shape: Shape) -> nn.Module:
    build = _builder(part.name)
    if build is None:
        hint = did_you_mean(part.name, model_names(registry))
        raise UnknownName(f"There is no model {part.name!r}.{hint} See: dataeff models")
    params = {key: read_literal(value) for key, value in part.params.items()}
    stem = params.pop("stem", "auto")
    if stem not in _STEM_CHOICES:
        choices = ", ".join(_STEM_CHOICES)
        raise DataeffError(f"model {part.name}: stem={stem} is not valid, it is one of: {choices}.")
    if pretrained := bool(params.get("pretrained")):
        check_offered(part.name, part.name.startswith(PREFIX))
        params["pretrained"] = not is_empty()
    model: Any
    try:
        # What constructors warn of is for who wrote them.
        with warnings.catch_warnings(action="ignore"):
            model = build(params, classes, shape)
    except DataeffError:
        raise
    # A foreign constructor may raise anything at all for a parameter it cannot use.
    except Exception as error:
        if pretrained and not is_empty():
            raise not_downloaded(format_part(part.name, params), error) from error
        what, size = format_part(part.name, params), "x".join(map(str, shape))
        told = one_line(str(error)) or type(error).__name__
        raise DataeffError(f"model {what} cannot be built for {size} images: {told}") from error
    if not is_halved(model):
        what = format_part(part.name, params)
        raise DataeffError(f"model {what} needs forward_features and forward_head, as timm's have.")
    small = stem == "small" or (stem == "auto" and max(shape[1:]) <= SMALL_SIDE)
    before = [weight.shape for weight in model.parameters()]
    if small and not shrink_stem(model) and stem == "small":
        raise DataeffError(
            f"model {part.name} has no small-image stem; leave stem out, or write stem=imagenet."
        )
    if pretrained and before != [weight.shape for weight in model.parameters()]:
        said = "its first convolution begins as drawn, for small images; stem=imagenet keeps it"
        model.said = [*getattr(model, "said", []), f"{part.name}: {said}."]
    return model


def _builder(name: str) -> Callable[..., nn.Module] | None:
    if name.startswith(PREFIX):
        return torchvision_builder(name)
    import timm

    return partial(_build_timm, name) if timm.is_model(name) else None


def _build_timm(name: str, params: dict[str, Any], classes: int, shape: Shape) -> Any:
    import timm

    for key in [key for key, value in params.items() if value is None]:
        # timm would pass over it, whether there is such a parameter or not.
        raise ValueError(f"{key}=none changes nothing; leave it out")
    # timm's own rule: the networks marked so, and only they, take an img_size.
    if (config := timm.get_pretrained_cfg(name)) and config.fixed_input_size:
        height, width = shape[1:]
        params = {"img_size": height if height == width else (height, width)} | params
    given = {"num_classes": classes, "in_chans": shape[0], "pretrained": False} | params
    with offline_where_it_must_be() if given["pretrained"] else nullcontext():
        model: Any = timm.create_model(name, **given)
    if given["pretrained"] and config and config.num_classes != classes:
        model.said = [
            f"{name}: its head is of other classes in timm's weights, and begins as drawn."
        ]
    return model
