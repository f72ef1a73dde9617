"""The catalogue: all that listings print of what is installed, kept so that none waits for torch.

It is made anew as soon as anything changes that it hangs on: a version, an entry point, a file of a
plugin or of ours.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataeff.cached import Finding, kept, key_of, package_files, stamps
from dataeff.errors import DataeffError

if TYPE_CHECKING:
    from dataeff.plugins import Plugin
    from dataeff.registry import Entry, Registry

_LIBRARIES = ("dataeff", "torch", "torchvision", "timm")
_SUITE = ("name", "source", "title", "tasks", "strategies", "seeds", "error")

Offer = dict[str, Any]
"""One thing that a listing prints, by the keys that `--json` shows."""


def offers(folders: Sequence[Path] = ()) -> dict[str, list[Offer]]:
    """Return what built-in, installed and loose plugins offer, by kind, and the plugins."""
    return kept("offers", _key(folders), lambda: _found("offers", folders))


def suites(folders: Sequence[Path] = ()) -> list[Offer]:
    """Return every suite that has a name: how much it holds, or why it cannot be run."""
    return kept("suites", _key(folders), lambda: _found("suites", folders))


def models(folders: Sequence[Path] = ()) -> list[str]:
    """Return the name of every model: registered ones, torchvision's, then timm's."""
    return kept("models", _key(folders), lambda: _found("models", folders))


def task_keys() -> list[Offer]:
    """Return every key of a task."""
    return kept("tasks", _key(()), lambda: Finding(_find_task_keys()))


def _key(folders: Sequence[Path]) -> str:
    """Return a hash of all that the catalogue hangs on and that is known without importing it."""
    points = importlib.metadata.entry_points(group="dataeff")
    packages = {"dataeff", *(point.value.partition(":")[0].split(".")[0] for point in points)}
    sources = [path for name in sorted(packages) for path in package_files(name)]
    for folder in folders:
        sources += sorted([*folder.glob("*.py"), *folder.glob("*.toml")])
    names = {*_LIBRARIES, *(point.dist.name for point in points if point.dist)}
    return key_of(
        {name: _version(name) for name in sorted(names)},
        [sys.version, sys.prefix, os.environ.get("PYTHONPATH")],
        sorted((point.name, point.value, point.dist and point.dist.name) for point in points),
        stamps(sources),
        [(str(folder), folder.is_dir()) for folder in folders],
        os.environ.get("DATAEFF_LOAD_PLUGINS"),
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _found(what: str, folders: Sequence[Path]) -> Finding[Any]:
    """Find it out in a process of its own: importing a plugin runs anybody's code."""
    from dataeff.bench.service import IMPORTING, PluginService

    with PluginService(Survey, folders, limit=IMPORTING) as service:
        content, files = service.call(what)
    return Finding(content, [Path(file) for file in files])


Surveyed = tuple[Any, list[str]]
"""What was found, and the files that it hangs on."""


class Survey:
    """What plugins offer, looked at where their code may run."""

    def __init__(
        self, tell: Callable[[Any], None], folders: Sequence[Path], broken: dict[str, str]
    ) -> None:
        from dataeff.plugins import load_plugins

        self._installed = load_plugins(folders, broken)
        # The places where what a broken one lacks may appear.
        lacks = any(plugin.error for plugin in self._installed.plugins)
        self._places = [path for path in sys.path if path and lacks]

    def offers(self) -> Surveyed:
        """Return what there is to list of all but suites."""
        installed = self._installed
        strategies = self._listed(installed.strategies, _strategy)
        content = {
            "strategies": strategies,
            "datasets": self._listed(installed.datasets, _offer),
            "models": self._listed(installed.models, _offer),
            "analyses": self._listed(installed.analyses, _offer),
            "plugins": [_plugin(plugin, strategies) for plugin in installed.plugins],
        }
        return content, self._places

    def _listed(self, registry: Registry, offer: Callable[[Entry], Offer]) -> list[Offer]:
        """Return what can be told of each entry; a plugin of which it cannot is broken."""
        found = []
        for entry in registry.entries():
            try:
                found.append(offer(entry))
            # Reading a text may run any code: one that cannot be read must not hide the others.
            except Exception as error:
                for plugin in self._installed.plugins:
                    if plugin.name == entry.source:
                        plugin.error = f"{entry.name}: {type(error).__name__}: {error}"
        return found

    def suites(self) -> Surveyed:
        """Return every suite that has a name: how much it holds, or why it cannot be run."""
        from dataeff.bench.desk import Desk
        from dataeff.bench.suite import load_suite
        from dataeff.lab import Lab

        desk, found = Desk.beside(Lab(self._installed)), []
        for entry in self._installed.suites.entries():
            self._places.append(str(entry.factory))
            try:
                suite = load_suite(entry.name, desk)
                about = (suite.title, len(suite.tasks), len(suite.strategies), suite.seeds, "")
            except DataeffError as error:
                about = ("", 0, 0, 0, str(error))
            found.append(dict(zip(_SUITE, (entry.name, entry.source, *about), strict=True)))
        return found, self._places

    def models(self) -> Surveyed:
        """Return the name of every model: registered ones, torchvision's, then timm's."""
        from dataeff.models import model_names

        # Plugins come first: one may add to timm's own list.
        return model_names(self._installed.models), self._places


def _offer(entry: Entry) -> Offer:
    return {
        "name": entry.name,
        "summary": entry.summary,
        "parameters": _parameters(entry),
        "source": entry.source,
    }


def _parameters(entry: Entry) -> list[str]:
    try:
        return [str(parameter) for parameter in entry.parameters.values()]
    # Reading a type may run any code: one that cannot be read must not hide all the others.
    except Exception as error:
        return [f"cannot be read ({type(error).__name__}: {error})"]


def _strategy(entry: Entry) -> Offer:
    from dataeff.strategy import hooks_of

    return {
        **_offer(entry),
        "about": entry.about,
        "paper": entry.paper,
        "hooks": hooks_of(entry.factory),
        "reads_back": getattr(entry.factory, "reads_back", False) is True,
        "alias": entry.alias_of,
    }


def _plugin(plugin: Plugin, strategies: list[Offer]) -> Offer:
    own = [offer for offer in strategies if offer["source"] == plugin.name]
    return {
        "name": plugin.name,
        "version": plugin.version,
        "source": plugin.source,
        "strategies": [offer["name"] for offer in own],
        "hooks": sorted({hook for offer in own for hook in offer["hooks"]}),
        "error": plugin.error,
        "notes": plugin.notes,
    }


def _find_task_keys() -> list[Offer]:
    from dataeff.training.task import Task

    return [
        {
            "name": name,
            "type": _type_text(field.annotation),
            "required": field.is_required(),
            "default": None if field.is_required() else field.default,
            "meaning": field.description or "",
        }
        for name, field in Task.model_fields.items()
    ]


def _type_text(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")
