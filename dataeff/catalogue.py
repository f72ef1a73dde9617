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
from typing import TYPE_CHECKING, Any, TypedDict

from dataeff.cached import Finding, kept, key_of, package_files, stamps
from dataeff.errors import DataeffError

if TYPE_CHECKING:
    from dataeff.plugins import Installed, Plugin
    from dataeff.registry import Entry

_LIBRARIES = ("dataeff", "torch", "torchvision", "timm")


class Offer(TypedDict):
    """A registered dataset, model or analysis, as a listing prints it."""

    name: str
    summary: str
    parameters: list[str]
    source: str


class StrategyOffer(Offer):
    """A registered strategy: also all its documentation, paper and hooks."""

    about: list[str]
    paper: str
    hooks: list[str]
    reads_back: bool
    alias: str


class PluginOffer(TypedDict):
    """A plugin: what it offers, what its author should know, or why it did not load."""

    name: str
    version: str
    source: str
    strategies: list[str]
    hooks: list[str]
    error: str
    notes: list[str]


class SuiteOffer(TypedDict):
    """A suite: its title and how much it holds, or why it cannot be run."""

    name: str
    title: str
    tasks: int
    strategies: int
    seeds: int
    error: str
    source: str


class TaskKey(TypedDict):
    """A key of a task."""

    name: str
    type: str
    required: bool
    default: Any
    meaning: str


class Offers(TypedDict):
    """What plugins have registered, and the plugins themselves."""

    strategies: list[StrategyOffer]
    datasets: list[Offer]
    models: list[Offer]
    analyses: list[Offer]
    plugins: list[PluginOffer]


def offers(folders: Sequence[Path] = ()) -> Offers:
    """Return what built-in, installed and loose plugins offer."""
    found: Offers = kept("offers", _key(folders), lambda: _find_offers(folders))
    return found


def suites(folders: Sequence[Path] = ()) -> list[SuiteOffer]:
    """Return every suite that has a name."""
    found: list[SuiteOffer] = kept("suites", _key(folders), lambda: _find_suites(folders))
    return found


def models(folders: Sequence[Path] = ()) -> list[str]:
    """Return the name of every model: registered ones, torchvision's, then timm's."""
    found: list[str] = kept("models", _key(folders), lambda: _find_models(folders))
    return found


def task_keys() -> list[TaskKey]:
    """Return every key of a task."""
    found: list[TaskKey] = kept("tasks", _key(()), lambda: Finding(_find_task_keys()))
    return found


def _key(folders: Sequence[Path]) -> str:
    """Return a hash of all that the catalogue hangs on and that is known without importing it."""
    points = importlib.metadata.entry_points(group="dataeff")
    packages = {"dataeff", *(point.value.partition(":")[0].split(".")[0] for point in points)}
    sources = [path for name in sorted(packages) for path in package_files(name)]
    names = {*_LIBRARIES, *(point.dist.name for point in points if point.dist)}
    loose = [(str(folder), folder.is_dir(), stamps(_loose_files(folder))) for folder in folders]
    return key_of(
        {name: _version(name) for name in sorted(names)},
        [sys.version, sys.prefix, os.environ.get("PYTHONPATH")],
        sorted((point.name, point.value, point.dist and point.dist.name) for point in points),
        stamps(sources),
        loose,
        os.environ.get("DATAEFF_LOAD_PLUGINS"),
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _loose_files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.py"), *folder.glob("*.toml")])


def _load(folders: Sequence[Path]) -> tuple[Installed, list[Path]]:
    """Load all plugins; also return the places where what a broken one lacks may appear."""
    from dataeff.plugins import load_plugins

    installed = load_plugins(folders)
    broken = any(plugin.error for plugin in installed.plugins)
    return installed, [Path(path) for path in sys.path if path and broken]


def _find_offers(folders: Sequence[Path]) -> Finding:
    installed, places = _load(folders)
    content: Offers = {
        "strategies": [_strategy(entry) for entry in installed.strategies.entries()],
        "datasets": [_offer(entry) for entry in installed.datasets.entries()],
        "models": [_offer(entry) for entry in installed.models.entries()],
        "analyses": [_offer(entry) for entry in installed.analyses.entries()],
        "plugins": [_plugin(plugin, installed) for plugin in installed.plugins],
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


def _strategy(entry: Entry) -> StrategyOffer:
    from dataeff.strategy import hooks_of

    return {
        **_offer(entry),
        "about": entry.about,
        "paper": entry.paper,
        "hooks": hooks_of(entry.factory),
        "reads_back": getattr(entry.factory, "reads_back", False) is True,
        "alias": entry.alias_of,
    }


def _plugin(plugin: Plugin, installed: Installed) -> PluginOffer:
    from dataeff.strategy import hooks_of

    entries = installed.offered_by(plugin)
    return {
        "name": plugin.name,
        "version": plugin.version,
        "source": plugin.source,
        "strategies": [entry.name for entry in entries],
        "hooks": sorted({hook for entry in entries for hook in hooks_of(entry.factory)}),
        "error": plugin.error,
        "notes": plugin.notes,
    }


def _find_suites(folders: Sequence[Path]) -> Finding:
    from dataeff.bench.suite import load_suite
    from dataeff.lab import Lab

    installed, places = _load(folders)
    lab, found = Lab(installed), []
    for entry in installed.suites.entries():
        line = SuiteOffer(
            name=entry.name,
            source=entry.source,
            title="",
            tasks=0,
            strategies=0,
            seeds=0,
            error="",
        )
        try:
            suite = load_suite(entry.name, lab)
        except DataeffError as error:
            line["error"] = str(error)
        else:
            line["title"], line["seeds"] = suite.title, suite.seeds
            line["tasks"], line["strategies"] = len(suite.tasks), len(suite.strategies)
        found.append(line)
    files = [Path(str(entry.factory)) for entry in installed.suites.entries()]
    return Finding(found, [*places, *files])


def _find_models(folders: Sequence[Path]) -> Finding:
    from dataeff.models import model_names

    # Plugins come first: one may add to timm's own list.
    installed, places = _load(folders)
    return Finding(model_names(installed.models), places)


def _find_task_keys() -> list[TaskKey]:
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
