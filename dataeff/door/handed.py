"""What a program hands over, so that processes of their own can train on it: data and a network.

It becomes a plugin in a folder of its own, as if a user had written one. Each part lies in a file
of its own, which is opened by who needs it: the data by the evaluator alone.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from torch import nn

from dataeff.errors import DataeffError
from dataeff.files import write_bytes, write_text
from dataeff.models.places import network_at
from dataeff.models.small import Shape
from dataeff.registry import Entry
from dataeff.sources import digest

PLUGIN = "handed"
"""What the plugin is called."""
_SOURCE = '''"""What a program has handed over."""

from dataeff import hookimpl
from dataeff.door.handed import made, opened

DATA, MODEL = {data!r}, {model!r}
# What the network is known by.
CONTENT = {content!r}


def data():
    """Data that a program has handed over."""
    return opened(__file__, "data")


def model(classes, shape):
    """Network that a program has handed over."""
    return made(opened(__file__, "model"), MODEL, classes, shape)


@hookimpl
def register_datasets(register):
    if DATA:
        register(DATA, data)


@hookimpl
def register_models(register):
    if MODEL:
        register(MODEL, model)
'''

# Their versions are conditions.
_LIBRARIES = ("torch", "torchvision", "timm")
# What is used in this process as it is, by the folder of its plugin.
_HERE: dict[Path, dict[str, Any]] = {}


@dataclass(frozen=True, eq=False)
class Handed:
    """What a program hands over, under the name that tables have for it; nothing where None.

    `data` are the fields of a dataset as plugins may return them, `model` is a network, or what
    makes one; what is `pretrained` keeps its weights.
    """

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    model: Any = None
    pretrained: bool = False

    @property
    def dataset(self) -> str:
        """Return what the dataset is called."""
        return _own(self.name) if self.data else ""

    @property
    def lacks_test(self) -> bool:
        """Say whether there is own data without a test set; a folder holds both."""
        if not self.data or self.data["test"] is not None:
            return False
        return not isinstance(self.data["train"], str | os.PathLike)

    @property
    def network(self) -> str:
        """Return what the network is called: as its class, or as the function that makes it."""
        if self.model is None:
            return ""
        kind = type(self.model) if isinstance(self.model, nn.Module) else self.model
        return _own(getattr(kind, "__name__", "network"))

    def _content(self) -> str:
        """Return what the network is known by; with its weights, where it keeps them."""
        if self.model is None:
            return ""
        digest = hashlib.sha256(_code_of(self.model).encode())
        if self.pretrained:
            for name, value in self.model.state_dict().items():
                digest.update(name.encode())
                digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()[:12]

    @contextmanager
    def laid_out(self) -> Iterator[tuple[Path, str]]:
        """Yield the folder of a plugin with all of it, for as long as it is needed.

        Beside it stands why others cannot have it; then it can be used in this process alone.
        """
        with tempfile.TemporaryDirectory(prefix="dataeff-") as place:
            given = None if self.model is None else (self.model, self.pretrained)
            folder, parts = Path(place), {"data": self.data or None, "model": given}
            names = {"data": self.dataset, "model": self.network, "content": self._content()}
            write_text(folder / f"{PLUGIN}.py", _SOURCE.format(**names))
            _HERE[folder.resolve()] = parts
            trouble = ""
            try:
                for name, part in parts.items():
                    trouble = trouble or _write(folder / f"{name}.pkl", part)
                yield folder, trouble
            finally:
                del _HERE[folder.resolve()]


def handed_over(train: Any, test: Any, model: Any, options: Mapping[str, Any], name: str) -> Handed:
    """Return what is handed over of what was given: `train` and `model` may be names of ours."""
    own, data = None if isinstance(model, str) else model, dict(options)
    pretrained = bool(data.pop("pretrained", False))
    if pretrained and not isinstance(own, nn.Module):
        raise DataeffError(
            "pretrained=True keeps the weights of a module that is given; of a name, write it into "
            "that: model='resnet18[pretrained=true]'."
        )
    if isinstance(train, str) and test is None and not Path(train).expanduser().is_dir():
        if data:
            key = next(iter(data))
            raise DataeffError(f"{key} is for own data; write train='{train}[{key}=...]' instead.")
        return Handed(name, {}, own, pretrained)
    if train is None:
        raise DataeffError("There is nothing to train on: give train=(x, y), or train='digits'.")
    return Handed(name, {"train": train, "test": test, **data}, own, pretrained)


def opened(plugin: str, part: str) -> Any:
    """Return what was handed over: in the process that did so the same, in others a copy."""
    folder = Path(plugin).resolve().parent
    if folder in _HERE:
        return _HERE[folder][part]
    with (folder / f"{part}.pkl").open("rb") as file:
        return cloudpickle.load(file)


def made(given: tuple[Any, bool], name: str, classes: int, shape: Shape) -> nn.Module:
    """Return a network of what was handed over, and whether it keeps its weights."""
    model, pretrained = given
    if pretrained:
        return copy.deepcopy(model)
    return network_at(Entry("model", name, model, PLUGIN), {}, classes, shape)


def _write(path: Path, part: Any) -> str:
    """Write something for others; say why they cannot have it, if they cannot."""
    if part is None:
        return ""
    try:
        write_bytes(path, cloudpickle.dumps(part))
    # Anything at all may refuse to be copied: locks, files, generators, classes of C.
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _own(name: str) -> str:
    # What is registered otherwise keeps its name.
    return "own-" + (re.sub(r"[^\w.-]+", "-", name).strip("-.") or "1")[:80]


# What a network is known by ----------------------------------------------------------------------


def _code_of(model: Any) -> str:
    """Return what stands for a network: the code behind it, and what its weights are called.

    Not the weights themselves, which each run draws anew.
    """
    known = [repr(model) if isinstance(model, nn.Module) else ""]
    if isinstance(model, nn.Module):
        known += [f"{name} {tuple(value.shape)}" for name, value in model.state_dict().items()]
        kinds: set[Any] = {type(module) for module in model.modules()}
    else:
        kinds = {inspect.unwrap(getattr(model, "func", model))}
        known.append(repr(getattr(model, "keywords", "")))
    return "\n".join([*known, *sorted(_code(kind) for kind in kinds)])


def _code(kind: Any) -> str:
    """Return what stands for the code of a class or a function."""
    module = getattr(kind, "__module__", None) or "__main__"
    if module.partition(".")[0] in _LIBRARIES:
        return f"{module}.{kind.__qualname__}"
    if module != "__main__" and (found := digest(module)):
        return f"{module} {found}"
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return hashlib.sha256(cloudpickle.dumps(kind)).hexdigest()
