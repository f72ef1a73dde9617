"""Discovery of installed plugins, and a fresh manager for the strategies of each run."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy

from dataeff import hookspecs
from dataeff.cost import EARLY_TERMINATION
from dataeff.errors import (
    DataeffError,
    Refused,
    StrategyConflict,
    StrategyError,
    UnknownName,
    did_you_mean,
)
from dataeff.registry import Entry, Part, Registry, parse

_PLUGGY = str(Path(pluggy.__file__).parent)
_BUILT_IN = ("dataeff.data.datasets", "dataeff.models.small")
_LOOP_HOOKS = [
    name
    for name, spec in vars(hookspecs).items()
    if hasattr(spec, "dataeff_spec") and not name.startswith("register_")
]


def hook_kind(name: str) -> str:
    """Return 'watch', 'combine', 'chain' or 'own', as the hook's docstring says."""
    doc = inspect.getdoc(getattr(hookspecs, name))
    kinds = {"watch": hookspecs.WATCH, "combine": hookspecs.COMBINE, "chain": hookspecs.CHAIN}
    return next((kind for kind, sentence in kinds.items() if sentence in doc), "own")


OWN_HOOKS = [name for name in _LOOP_HOOKS if hook_kind(name) == "own"]


# Installed: global, only registers things --------------------------------------------------------


@dataclass
class Plugin:
    """One plugin module: where it comes from, what it offers, or why it did not load."""

    name: str
    version: str
    source: str
    error: str = ""


@dataclass(eq=False)
class Installed:
    """Everything that installed plugins have registered."""

    strategies: Registry = field(default_factory=lambda: Registry("strategy"))
    datasets: Registry = field(default_factory=lambda: Registry("dataset"))
    models: Registry = field(default_factory=lambda: Registry("model"))
    suites: Registry = field(default_factory=lambda: Registry("suite"))
    analyses: Registry = field(default_factory=lambda: Registry("analysis"))
    plugins: list[Plugin] = field(default_factory=list)

    def add(self, plugin: Plugin, module: ModuleType) -> None:
        """Let one plugin module register what it offers."""
        manager = _manager()
        manager.register(module, name=plugin.name)
        manager.check_pending()
        for kind in ("strategies", "datasets", "models", "suites", "analyses"):
            registry: Registry = getattr(self, kind)

            def register(name: str, factory: Any, registry: Registry = registry) -> None:
                registry.register(name, factory, source=plugin.name)

            getattr(manager.hook, f"register_{kind}")(register=register)

    def try_to_add(self, plugin: Plugin, load: Any) -> None:
        """Load and add a plugin; a broken one is kept with its error and harms nobody else."""
        self.plugins.append(plugin)
        try:
            self.add(plugin, load())
        except Exception as error:
            plugin.error = f"{type(error).__name__}: {error}"

    def offered_by(self, plugin: Plugin) -> list[Entry]:
        """List the strategies that a plugin registered."""
        return [entry for entry in self.strategies.entries() if entry.source == plugin.name]


def load_plugins(folders: Iterable[Path | str] = ()) -> Installed:
    """Load built-in, installed and loose plugins, one by one.

    `DATAEFF_LOAD_PLUGINS` limits the third-party ones to a comma list; empty means none.
    """
    installed = Installed()
    own = importlib.metadata.version("dataeff")
    for name in _BUILT_IN:
        plugin = Plugin(name, own, "built in")
        installed.plugins.append(plugin)
        installed.add(plugin, importlib.import_module(name))
    wanted = os.environ.get("DATAEFF_LOAD_PLUGINS")
    names = None if wanted is None else {name.strip() for name in wanted.split(",")}
    for point in sorted(importlib.metadata.entry_points(group="dataeff"), key=lambda p: p.name):
        bundled = point.dist.name == "dataeff"
        if bundled or names is None or names & {point.name, point.dist.name}:
            source = "bundled" if bundled else point.dist.name
            installed.try_to_add(Plugin(point.name, point.dist.version, source), point.load)
    for folder in folders:
        if not Path(folder).is_dir():
            raise DataeffError(
                f"There is no plugins folder {folder}; --plugins-dir takes a folder."
            )
        for path in sorted(Path(folder).glob("*.py")):
            installed.try_to_add(
                Plugin(path.stem, "", str(path)), lambda path=path: _load_file(path)
            )
    return installed


def _load_file(path: Path) -> ModuleType:
    name = f"dataeff_loose_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    # Type hints of a strategy's parameters are looked up through sys.modules.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


# Active: the strategies that one run names -------------------------------------------------------


@dataclass(eq=False)
class Strategy:
    """A strategy of a run: its entry, its validated parameters and the plugin object."""

    entry: Entry
    values: dict[str, Any]
    plugin: Any

    @property
    def label(self) -> str:
        """Return the canonical `name[key=value]`."""
        return self.entry.canonical(self.values)

    def hooks(self) -> list[str]:
        """List the loop hooks it implements."""
        return hooks_of(self.entry.factory)

    def again(self) -> Strategy:
        """Return a fresh one with the same parameters."""
        return Strategy(self.entry, self.values, self.entry.factory(**self.values))


def hooks_of(strategy: Any) -> list[str]:
    """List the loop hooks that a strategy, its class or an object of it, implements."""
    return [name for name in _LOOP_HOOKS if hasattr(getattr(strategy, name, None), "dataeff_impl")]


def compose(text: str, installed: Installed) -> list[Strategy]:
    """Build the strategies of `a[x=1]+b`, validated and free of conflicts."""
    strategies = []
    for part in parse(text):
        try:
            entry = installed.strategies[part.name]
        except UnknownName as error:
            _refuse_what_is_read_off(part)
            broken = [
                f" Plugin {p.name} failed to load: {p.error}." for p in installed.plugins if p.error
            ]
            raise UnknownName(str(error) + "".join(broken)) from None
        values = entry.read(part.params)
        try:
            strategies.append(Strategy(entry, values, entry.factory(**values)))
        except (ValueError, TypeError) as error:
            raise DataeffError(f"strategy {entry.canonical(values)}: {error}") from error
    check_conflicts(strategies)
    return strategies


def _refuse_what_is_read_off(part: Part) -> None:
    """Say of a name that stands in tables, but is not to be run, what to run instead."""
    if part.name == EARLY_TERMINATION:
        share = part.params.get("share", 0.5)
        raise UnknownName(
            f"{part.name} is read off the curve of the reference, and nobody runs it; "
            f"write short_schedule[share={share}] to train that long."
        )


def canonical(strategies: Sequence[Strategy]) -> str:
    """Print a composition in its one canonical form."""
    return "+".join(strategy.label for strategy in strategies)


def check_conflicts(strategies: Sequence[Strategy]) -> None:
    """Raise where two strategies want the same thing, before anything is trained."""
    taken: dict[str, Strategy] = {}

    def take(what: str, strategy: Strategy) -> None:
        if what in taken:
            first = taken[what].label
            raise StrategyConflict(
                f"{first} and {strategy.label} cannot run together: both {what}. Drop one of them."
            )
        taken[what] = strategy

    for strategy in strategies:
        take(f"are the strategy {strategy.entry.name}", strategy)
        for hook in owned_hooks(strategy.plugin):
            if hook == "plan_epoch":
                raise StrategyConflict(
                    f"{strategy.label} owns plan_epoch, which belongs to the default: "
                    "wrap it with @hookimpl(wrapper=True)."
                )
            take(f"own the hook {hook}", strategy)
        claims = getattr(strategy.plugin, "claims", ())
        for claim in (claims,) if isinstance(claims, str) else claims:
            take(f"claim {claim!r}", strategy)


def owned_hooks(plugin: Any) -> list[str]:
    """List the own-hooks that a plugin implements other than by wrapping."""
    options = {
        name: getattr(getattr(plugin, name, None), "dataeff_impl", None) for name in OWN_HOOKS
    }
    return [name for name, opts in options.items() if opts and not opts["wrapper"]]


def activate(strategies: Sequence[Strategy], default: Any) -> pluggy.PluginManager:
    """Return a fresh manager with these strategies, and the default where nobody owns a hook."""
    manager = _manager()
    owned = {hook for strategy in strategies for hook in owned_hooks(strategy.plugin)}
    rest = {hook: getattr(default, hook) for hook in OWN_HOOKS if hook not in owned}
    manager.register(SimpleNamespace(**rest), name="default")
    # pluggy calls the last registered first.
    for strategy in reversed(strategies):
        _register(manager, strategy)
    return manager


def _register(manager: pluggy.PluginManager, strategy: Strategy) -> None:
    name = strategy.entry.name
    if type(strategy.plugin).__hash__ is None:
        raise StrategyError(f"{name}: equal strategies must stay two; write @dataclass(eq=False).")
    for attribute in dir(strategy.plugin):
        method = getattr(strategy.plugin, attribute, None)
        if hasattr(method, "dataeff_impl"):
            _check_hook(name, attribute, method)
    try:
        manager.register(strategy.plugin, name=name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise StrategyError(f"{name}: {error}") from None


def _check_hook(name: str, hook: str, method: Any) -> None:
    if not hasattr(hookspecs, hook):
        hint = did_you_mean(hook, _LOOP_HOOKS)
        raise StrategyError(f"{name}: there is no hook {hook!r}.{hint} See: dataeff hooks")
    if method.dataeff_impl["hookwrapper"]:
        raise StrategyError(f"{name}, in {hook}: write wrapper=True instead of hookwrapper=True.")
    for parameter in inspect.signature(method).parameters.values():
        if parameter.default is not inspect.Parameter.empty:
            raise StrategyError(f"{name}, in {hook}: {parameter.name} must not have a default.")


@contextmanager
def blaming(strategies: Sequence[Strategy]) -> Iterator[None]:
    """Re-raise an error that a strategy's hook raised, naming the strategy and the hook.

    Where `setup` refuses the task, what it says is for the user: no hook is named.
    """
    try:
        yield
    except StrategyError:
        raise
    except Exception as error:
        culprit = _culprit(strategies, error)
        if culprit is None:
            raise
        strategy, hook = culprit
        if hook == "setup" and isinstance(error, DataeffError):
            named = str(error).startswith(strategy.entry.name)
            raise Refused(str(error) if named else f"{strategy.label}: {error}") from error
        raise StrategyError(
            f"{strategy.label}, in {hook}: {type(error).__name__}: {error}"
        ) from error


def _culprit(strategies: Sequence[Strategy], error: Exception) -> tuple[Strategy, str] | None:
    """Return the innermost hook of a strategy that the error came from."""
    code = {
        inspect.unwrap(getattr(strategy.plugin, hook)).__code__: (strategy, hook)
        for strategy in strategies
        for hook in hooks_of(strategy.plugin)
    }
    found, trace = None, error.__traceback__
    while trace:
        inner = trace.tb_next
        # pluggy throws what an inner hook raised through the wrappers around it: not their fault.
        passed_on = inner and inner.tb_frame.f_code.co_filename.startswith(_PLUGGY)
        if not passed_on:
            found = code.get(trace.tb_frame.f_code, found)
        trace = inner
    return found
