"""Data sets by name: registered, bundled, or own code at a place, which may return anything."""

import inspect
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any, get_type_hints

from dataeff.data.base import Dataset, ImageSet
from dataeff.data.own import Around, OwnSet, dataset_of
from dataeff.data.seeded import borrowed, told_of
from dataeff.errors import DataeffError
from dataeff.notation import parse_one
from dataeff.registry import Entry, Parameter, Registry

_REQUIRED = inspect.Parameter.empty
_FREE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class OwnEntry(Entry):
    """A registered name, or a place, whose data are anything that `dataset_of` takes.

    It has the parameters of the function that makes them, and the options of all own data.
    """

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Return the keyword parameters that a user may set."""
        ours = Entry(self.kind, self.name, OwnSet, self.source).parameters
        return self._theirs() | {key: ours[key] for key in ours if key not in self._theirs()}

    def load(self, values: Mapping[str, Any], around: Around) -> Dataset:
        """Make the data: `values` are those of all parameters."""
        theirs, ours = self._theirs(), Entry(self.kind, self.name, OwnSet, self.source).parameters
        options = {
            key: value
            for key, value in values.items()
            # What is not said is left to what the function returns.
            if key not in theirs and value != ours[key].default
        }
        made = self.factory
        if callable(made) and not _is_data(made):
            made = self._call({key: values[key] for key in theirs}, around.root)
        return dataset_of(self.canonical(dict(values)), made, None, options, around)

    def _call(self, given: dict[str, Any], root: Path | None) -> Any:
        if "root" in inspect.signature(self.factory).parameters:
            given["root"] = root
        try:
            # What is split at random is to be split alike next time.
            with borrowed() as seed:
                seed(0)
                return self.factory(**given)
        except DataeffError:
            raise
        # It is the user's, and may raise anything at all.
        except Exception as error:
            last = extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}, line {last.lineno}"
            raise DataeffError(f"dataset {self.name}: {told_of(error)} ({where}).") from error

    def _theirs(self) -> dict[str, Parameter]:
        if not callable(self.factory) or _is_data(self.factory):
            return {}
        target = self.factory.func if isinstance(self.factory, partial) else self.factory
        try:
            hints = get_type_hints(target, include_extras=True)
        # Hints that cannot be read, or that are none.
        except Exception:
            hints = {}
        known = {
            name: Parameter(name, hints.get(name, _kind(parameter.default)), parameter.default)
            for name, parameter in inspect.signature(self.factory).parameters.items()
            if parameter.kind in _FREE and name != "root"
        }
        bound = self.factory.keywords if isinstance(self.factory, partial) else {}
        return {name: parameter for name, parameter in known.items() if name not in bound}


def _is_data(value: Any) -> bool:
    """Say whether something is data already, even if it can be called."""
    return hasattr(value, "__getitem__") and hasattr(value, "__len__")


def _kind(default: Any) -> Any:
    """Return the type of a parameter that says none."""
    return type(default) if isinstance(default, bool | int | float | str) else Any


def adapted(entry: Entry) -> Entry:
    """Return an entry that makes a data set, whatever its factory is."""
    if inspect.isclass(entry.factory) and issubclass(entry.factory, ImageSet):
        return entry
    return OwnEntry(entry.kind, entry.name, entry.factory, entry.source, entry.alias_of)


def check_dataset(text: str, registry: Registry) -> None:
    """Refuse a dataset that is nowhere, or parameters that it does not take."""
    part = parse_one(text)
    adapted(registry[part.name]).read(part.params)


def load_dataset(
    text: str, registry: Registry, *, root: Path | None = None, workers: int = 0
) -> Dataset:
    """Load what `name[key=value]` describes, on the CPU."""
    part = parse_one(text)
    entry = adapted(registry[part.name])
    values = entry.read(part.params)
    if isinstance(entry, OwnEntry):
        return entry.load(values, Around(root, workers, registry))
    return entry.factory(**values).load(entry.canonical(values), root=root, workers=workers)
