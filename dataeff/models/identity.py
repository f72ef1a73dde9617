"""What a network is known by: the code that makes it, and the names and shapes of its weights."""

import hashlib
import io
import json
from contextlib import suppress
from typing import Any

import cloudpickle
import torch

from dataeff.models.build import build_model
from dataeff.notation import parse_one
from dataeff.registry import Registry
from dataeff.sources import digest


def identity_of(text: str, registry: Registry, classes: int, shape: tuple[int, int, int]) -> str:
    """Return a short hash of a network: who edits it gets another one.

    Of a registered factory it is the source, or what cloudpickle makes of it where there is none,
    with all weights that it carries; of every network, names and shapes of parameters and buffers.
    """
    part = parse_one(text)
    known = [text, classes, list(shape)]
    if part.name in registry:
        factory = registry[part.name].factory
        known.append(digest(factory.__module__) or _pickled(factory))
    # One that cannot be built without data is known by its source alone.
    with suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        model = build_model(text, registry, classes=classes, shape=shape)
        known += [[name, list(value.shape)] for name, value in model.state_dict().items()]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:12]


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
