"""From `name[key=value]` to a network: a registered one, torchvision's or timm's."""

import ast
import warnings
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from typing import Any

from torch import nn

from dataeff.errors import DataeffError, UnknownName, did_you_mean, one_line
from dataeff.models.small import Shape
from dataeff.models.stems import shrink_stem
from dataeff.models.vision import PREFIX, torchvision_builder, torchvision_names
from dataeff.notation import Part, format_part, parse_one
from dataeff.registry import Registry

SMALL_SIDE = 64
"""Images up to this side get the small-image stem, unless `stem` says otherwise."""

_STEM_CHOICES = ("auto", "small", "imagenet")
_WORDS = {"true": "True", "false": "False", "none": "None"}


def build_model(text: str, registry: Registry, *, classes: int, shape: Shape) -> nn.Module:
    """Build the network that `text` names for images of `shape` (channels, height, width).

    The weights are drawn from torch's global generator: seed it first.
    """
    part = parse_one(text)
    if part.name in registry:
        entry = registry[part.name]
        model = entry.factory(classes, shape, **entry.read(part.params))
    else:
        model = _build_foreign(part, registry, classes, shape)
    if not (hasattr(model, "forward_features") and hasattr(model, "forward_head")):
        raise DataeffError(f"model {text} needs forward_features and forward_head, as timm's have.")
    if not hasattr(model, "pool_kind"):
        model.pool_kind = _pool_kind(model)
    return model


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
    params = {key: _read(value) for key, value in part.params.items()}
    stem = params.pop("stem", "auto")
    if stem not in _STEM_CHOICES:
        choices = ", ".join(_STEM_CHOICES)
        raise DataeffError(f"model {part.name}: stem={stem} is not valid, it is one of: {choices}.")
    try:
        # What constructors warn of is for who wrote them.
        with warnings.catch_warnings(action="ignore"):
            model = build(params, classes, shape)
    # A foreign constructor may raise anything at all for a parameter it cannot use.
    except Exception as error:
        what, size = format_part(part.name, params), "x".join(map(str, shape))
        told = one_line(str(error)) or type(error).__name__
        raise DataeffError(f"model {what} cannot be built for {size} images: {told}") from error
    small = stem == "small" or (stem == "auto" and max(shape[1:]) <= SMALL_SIDE)
    if small and not shrink_stem(model) and stem == "small":
        raise DataeffError(
            f"model {part.name} has no small-image stem; leave stem out, or write stem=imagenet."
        )
    return model


def _builder(name: str) -> Callable[..., nn.Module] | None:
    if name.startswith(PREFIX):
        return torchvision_builder(name)
    import timm

    return partial(_build_timm, name) if timm.is_model(name) else None


def _build_timm(name: str, params: dict[str, Any], classes: int, shape: Shape) -> nn.Module:
    import timm

    for key in [key for key, value in params.items() if value is None]:
        # timm would pass over it, whether there is such a parameter or not.
        raise ValueError(f"{key}=none changes nothing; leave it out")
    # timm's own rule: the networks marked so, and only they, take an img_size.
    if (config := timm.get_pretrained_cfg(name)) and config.fixed_input_size:
        height, width = shape[1:]
        params = {"img_size": height if height == width else (height, width)} | params
    return timm.create_model(
        name, pretrained=False, num_classes=classes, in_chans=shape[0], **params
    )


def _read(text: str) -> Any:
    try:
        return ast.literal_eval(_WORDS.get(text.lower(), text))
    # The last two, where it is nested deeply.
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _pool_kind(model: nn.Module) -> str:
    """Say what a timm head reads, by its `global_pool`."""
    head = getattr(model, "head", None)
    # These average, but not the map that they are given: a convolution comes first, or the map is
    # laid out as (B, h, w, C).
    convolved = hasattr(head, "in_conv") or hasattr(model, "pre_logits")
    if convolved or getattr(model, "output_fmt", "NCHW") == "NHWC":
        return "other"
    pool = getattr(model, "global_pool", None) or getattr(head, "global_pool", None)
    kind = pool if isinstance(pool, str) else getattr(pool, "pool_type", "")
    return {"avg": "avg", "fast": "avg", "fastavg": "avg", "token": "token"}.get(kind, "other")
