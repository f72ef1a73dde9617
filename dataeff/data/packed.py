"""What others wrote, on its way to another process; and what can be said of it in a fingerprint."""

import importlib.util
import inspect
import re
import sys
from types import ModuleType
from typing import Any

import cloudpickle
import torch
from torch import Tensor

from dataeff.errors import DataeffError, one_line
from dataeff.sources import digest


class Packed:
    """An object of others: pickled where it goes to another process, unpacked where it is used.

    The other process imports its modules from the places that this one knows; those that cannot be
    imported, such as a notebook, travel along.
    """

    def __init__(self, value: Any, what: str) -> None:
        self._value, self._what = value, what
        self._content: Tensor | None = None
        self._places: list[str] = []

    def get(self) -> Any:
        """Return the object."""
        if self._value is None and self._content is not None:
            sys.path += [place for place in self._places if place not in sys.path]
            try:
                self._value = cloudpickle.loads(self._content.numpy().tobytes())
            # Anything at all may be raised by what others wrote.
            except Exception as error:
                raise DataeffError(f"{self._what} cannot be made again: {_told(error)}.") from error
        return self._value

    def __getstate__(self) -> dict[str, Any]:
        content = self._content
        if content is None:
            try:
                with _by_value(self._value):
                    packed = cloudpickle.dumps(self._value)
            except Exception as error:
                raise DataeffError(
                    f"{self._what} cannot be sent to the processes that train ({_told(error)}); "
                    "open files and connections where an item is read, not before."
                ) from error
            content = torch.frombuffer(bytearray(packed), dtype=torch.uint8)
        return {"_value": None, "_what": self._what, "_content": content, "_places": [*sys.path]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class _by_value:
    """While entered, what is of modules that no other process can import is pickled whole."""

    def __init__(self, value: Any) -> None:
        self._modules = _not_importable()

    def __enter__(self) -> None:
        for module in self._modules:
            cloudpickle.register_pickle_by_value(module)

    def __exit__(self, *error: object) -> None:
        for module in self._modules:
            cloudpickle.unregister_pickle_by_value(module)


def _not_importable() -> list[ModuleType]:
    """Return the modules of loose plugins: they have been loaded from files, not imported."""
    loose = [name for name in sys.modules if name.startswith("dataeff_loose_")]
    return [sys.modules[name] for name in loose if importlib.util.find_spec(name) is None]


def described(value: Any) -> str:
    """Return what is known of code of others without running it: name, source and parameters."""
    kind = value if inspect.isroutine(value) or inspect.isclass(value) else type(value)
    module = getattr(kind, "__module__", "") or ""
    name = f"{module}:{getattr(kind, '__qualname__', '')}"
    # Addresses differ from process to process.
    shown = "" if kind is value else re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return f"{name} {_source(kind, module)} {shown}"


def _source(kind: Any, module: str) -> str:
    """Return a hash of the source of one's own module, the version of a library."""
    found = sys.modules.get(module)
    file = str(getattr(found, "__file__", None) or "")
    if "site-packages" in file:
        return str(getattr(sys.modules.get(module.partition(".")[0]), "__version__", ""))
    if file:
        return digest(module)
    code = getattr(kind, "__code__", None)
    return f"{code.co_code.hex()} {code.co_names}" if code else ""


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(str(error))}"
