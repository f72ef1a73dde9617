"""Discovery of installed plugins: loaded one by one, so that a broken one harms nobody else."""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from dataeff import hookspecs
from dataeff.errors import DataeffError, UnknownName
from dataeff.registry import Entry, Registry
from dataeff.strategy import Strategy, adopted
from dataeff.whereabouts import HERE, PLUGIN

_BUILT_IN = ("dataeff.data.datasets", "dataeff.models.small")
_KINDS = ("strategies", "datasets", "models", "suites", "analyses", "observers")


@dataclass
class Plugin:
    """One plugin module: where it comes from, what it offers, or why it did not load."""

    name: str
    version: str
    source: str
    error: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Installed:
    """Everything that installed plugins have registered."""

    strategies: Registry = field(default_factory=lambda: Registry("strategy"))
    datasets: Registry = field(default_factory=lambda: Registry("dataset"))
    models: Registry = field(default_factory=lambda: Registry("model"))
    suites: Registry = field(default_factory=lambda: Registry("suite"))
    analyses: Registry = field(default_factory=lambda: Registry("analysis"))
    observers: Registry = field(default_factory=lambda: Registry("observer"))
    plugins: list[Plugin] = field(default_factory=list)
    _adopted: dict[type, type[Strategy]] = field(default_factory=dict)

    def add(self, plugin: Plugin, module: ModuleType) -> None:
        """Let one plugin module register what it offers."""
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        manager.register(module, name=plugin.name)
        manager.check_pending()
        for kind in _KINDS:
            registry: Registry = getattr(self, kind)

            def register(name: str, factory: Any, registry: Registry = registry) -> None:
                if registry is self.strategies:
                    plugin.notes += self.add_strategy(name, factory, plugin.name)
                else:
                    registry.register(name, factory, source=plugin.name)

            getattr(manager.hook, f"register_{kind}")(register=register)

    def add_strategy(self, name: str, cls: type, source: str) -> list[str]:
        """Register a strategy's class; return what its author should know."""
        notes: list[str] = []
        if cls not in self._adopted:
            self._adopted[cls], notes = adopted(cls)
        self.strategies.register(name, self._adopted[cls], source=source)
        return notes

    def strategy(self, name: str) -> Entry:
        """Return a strategy by name; where there is none, plugins that are broken are told of."""
        try:
            return self.strategies[name]
        except UnknownName as error:
            broken = [f"Plugin {p.name} failed to load: {p.error}" for p in self.plugins if p.error]
            raise UnknownName(". ".join([str(error), *broken])) from None

    def try_to_add(self, plugin: Plugin, load: Callable[[], ModuleType]) -> None:
        """Load and add a plugin; a broken one is kept with its error and harms nobody else."""
        self.plugins.append(plugin)
        if plugin.error:
            return
        try:
            with HERE.at(f"{PLUGIN}{plugin.name}"):
                self.add(plugin, load())
        except KeyboardInterrupt:
            raise
        # One that tries to leave the process is broken, too.
        except BaseException as error:
            plugin.error = f"{type(error).__name__}: {error}"
            self._forget(plugin.name)

    def _forget(self, source: str) -> None:
        """Take back what a plugin has registered before it broke."""
        for kind in _KINDS:
            registry: Registry = getattr(self, kind)
            for name in [name for name, entry in registry.items() if entry.source == source]:
                del registry[name]


def load_plugins(
    folders: Iterable[Path | str] = (),
    broken: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> Installed:
    """Load built-in, installed and loose plugins, one by one.

    `DATAEFF_LOAD_PLUGINS` limits the third-party ones to a comma list; empty means none. Those that
    are known to be `broken`, and why, are listed and not imported; `only` limits all but the built
    in ones to some names.
    """
    known = broken or {}
    installed = Installed()
    own = importlib.metadata.version("dataeff")
    for name in _BUILT_IN:
        plugin = Plugin(name, own, "built in")
        installed.plugins.append(plugin)
        installed.add(plugin, importlib.import_module(name))
    wanted = os.environ.get("DATAEFF_LOAD_PLUGINS")
    names = None if wanted is None else {name.strip() for name in wanted.split(",")}
    for point in sorted(importlib.metadata.entry_points(group="dataeff"), key=lambda p: p.name):
        dist = point.dist
        if dist is None:
            continue
        bundled = dist.name == "dataeff"
        if only is not None and point.name not in only:
            continue
        if bundled or names is None or names & {point.name, dist.name}:
            source = "bundled" if bundled else dist.name
            plugin = Plugin(point.name, dist.version, source, known.get(point.name, ""))
            installed.try_to_add(plugin, point.load)
    for folder in folders:
        if not Path(folder).is_dir():
            raise DataeffError(
                f"There is no plugins folder {folder}; --plugins-dir takes a folder."
            )
        files = Path(folder).glob("*.py")
        # A package fresh from `dataeff plugins new` has its test beside it.
        files = (path for path in files if path.is_file() and not path.stem.startswith("test_"))
        for path in sorted(files):
            if only is None or path.stem in only:
                plugin = Plugin(path.stem, "", str(path), known.get(path.stem, ""))
                installed.try_to_add(plugin, partial(_load_file, path))
    return installed


def _load_file(path: Path) -> ModuleType:
    name = f"dataeff_loose_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    # Type hints of a strategy's parameters are looked up through sys.modules.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
