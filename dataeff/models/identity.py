"""What a network is known by: the code that makes it, and the names and shapes of its weights."""

import hashlib
import io
import json
import sys
from contextlib import suppress
from typing import Any

import cloudpickle
import torch

from dataeff.models.build import build_model, is_own_place, weights_of
from dataeff.models.loading import digest_of
from dataeff.notation import parse_one
from dataeff.registry import Registry
from dataeff.sources import beside, digest

# Their versions are conditions.
_VERSIONED = {"torch", "torchvision", "timm"} | (sys.stdlib_module_names - {"__main__"})


def identity_of(text: str, registry: Registry, classes: int, shape: tuple[int, int, int]) -> str:
    """Return a short hash of a network: who edits it gets another one.

    Of a registered factory it is the source, or what cloudpickle makes of it where there is none,
    with all weights that it carries; at a place, the source of that module and of those beside it;
    of every network, names and shapes of parameters and buffers.
    """
    part = parse_one(text)
    known = [text, classes, list(shape)]
    if part.name in registry:
        factory = registry[part.name].factory
        known.append(digest(factory.__module__) or _pickled(factory))
    elif is_own_place(part.name):
        known += _sources_at(part.name, registry[part.name].factory)
    if weights := weights_of(text, registry):
        known.append(digest_of(weights))
    # One that cannot be built without data is known by its source alone.
    with suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        model = build_model(text, registry, classes=classes, shape=shape)
        known += [[name, list(value.shape)] for name, value in model.state_dict().items()]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:12]


def _sources_at(place: str, found: Any) -> list[str]:
    """Return hashes of the source at a place, and of where what stands there was made."""
    made_by = found if hasattr(found, "__module__") else type(found)
    modules = [place.partition(":")[0], str(made_by.__module__)]
    own = [name for name in modules if name.partition(".")[0] not in _VERSIONED]
    return [beside(name) or _pickled(found) for name in own]


def _pickled(factory: object) -> str:
    file = io.BytesIO()
    _ByValue(file).dump(factory)
    content = file.getvalue()
    # Classes that no module holds are numbered at random, in every process anew.
    for number in cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS.values():
        content = content.replace(number.encode(), b"")
    return hashlib.sha256(content).hexdigest()[:12]


class _ByValue(cloudpickle.Pickler):
    """Writes tensors as their numbers: in torch's own form there are addresses of memory."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return super().reducer_override(value)
        numbers = value.detach().cpu().contiguous().flatten().view(torch.uint8)
        return list, ([str(value.dtype), tuple(value.shape), numbers.numpy().tobytes()],)
