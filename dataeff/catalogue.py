"""The catalogue: all that listings print of what is installed, kept so that none waits for torch.

It is made anew as soon as anything changes that it hangs on: a version, an entry point, a file of a
plugin or of ours.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataeff.cached import Finding, kept, key_of, package_files, stamps
from dataeff.errors import DataeffError

if TYPE_CHECKING:
    from dataeff.plugins import Installed, Plugin
    from dataeff.registry import Entry

_LIBRARIES = ("dataeff", "torch", "torchvision", "timm")
_SUITE = ("name", "source", "title", "tasks", "strategies", "seeds", "error")

Offer = dict[str, Any]
"""One thing that a listing prints, by the keys that `--json` shows."""


def offers(folders: Sequence[Path] = ()) -> dict[str, list[Offer]]:
    """Return what built-in, installed and loose plugins offer, by kind, and the plugins."""
    return kept("offers", _key(folders), lambda: _find_offers(folders))


def suites(folders: Sequence[Path] = ()) -> list[Offer]:
    """Return every suite that has a name: how much it holds, or why it cannot be run."""
    return kept("suites", _key(folders), lambda: _find_suites(folders))


def models(folders: Sequence[Path] = ()) -> list[str]:
    """Return the name of every model: registered ones, torchvision's, then timm's."""
    return kept("models", _key(folders), lambda: _find_models(folders))


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


def _load(folders: Sequence[Path]) -> tuple[Installed, list[Path]]:
    """Load all plugins; also return the places where what a broken one lacks may appear."""
    from dataeff.plugins import load_plugins

    installed = load_plugins(folders)
    broken = any(plugin.error for plugin in installed.plugins)
    return installed, [Path(path) for path in sys.path if path and broken]


def _find_offers(folders: Sequence[Path]) -> Finding[dict[str, list[Offer]]]:
    installed, places = _load(folders)
    strategies = [_strategy(entry) for entry in installed.strategies.entries()]
    content = {
        "strategies": strategies,
        "datasets": [_offer(entry) for entry in installed.datasets.entries()],
        "models": [_offer(entry) for entry in installed.models.entries()],
        "analyses": [_offer(entry) for entry in installed.analyses.entries()],
        "plugins": [_plugin(plugin, strategies) for plugin in installed.plugins],
    }
    return Finding(content, places)


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


def _find_suites(folders: Sequence[Path]) -> Finding[list[Offer]]:
    from dataeff.bench.suite import load_suite
    from dataeff.lab import Lab

    installed, places = _load(folders)
    lab, found = Lab(installed), []
    for entry in installed.suites.entries():
        places.append(Path(str(entry.factory)))
        try:
            suite = load_suite(entry.name, lab)
            about = (suite.title, len(suite.tasks), len(suite.strategies), suite.seeds, "")
        except DataeffError as error:
            about = ("", 0, 0, 0, str(error))
        found.append(dict(zip(_SUITE, (entry.name, entry.source, *about), strict=True)))
    return Finding(found, places)


def _find_models(folders: Sequence[Path]) -> Finding[list[str]]:
    from dataeff.models import model_names

    # Plugins come first: one may add to timm's own list.
    installed, places = _load(folders)
    return Finding(model_names(installed.models), places)


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
