"""The hooks of one run, resolved once: what is called in every batch must cost nothing."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from itertools import pairwise
from pathlib import Path
from traceback import walk_tb
from types import SimpleNamespace
from typing import Any

import pluggy

from dataeff import hookspecs
from dataeff.composition import Active
from dataeff.errors import DataeffError, DiskFull, Refused, StrategyError
from dataeff.hookspecs import HOOKS
from dataeff.strategy import LOOP_HOOKS, hooks_of, owned_hooks
from dataeff.whereabouts import HERE, place_of

_PLUGGY = str(Path(pluggy.__file__).parent)
_ARGUMENTS = {name: tuple(inspect.signature(getattr(hookspecs, name)).parameters) for name in HOOKS}

Check = Callable[[str, dict[str, Any], Any], str]
"""Takes a hook, its arguments and what it returned; says what is wrong with that, if anything."""


class Calls:
    """Every loop hook as a function of the hook's arguments, in the order of its specification.

    Without wrappers an implementation is called directly, and pluggy is spared; `checking` says
    that what strategies return is held against `check`, in the name of strategy and hook; `silent`,
    that it is not to be from now on.
    """

    def __init__(self, strategies: Sequence[Active], default: Any, check: Check) -> None:
        self.strategies = strategies
        self.checking = True
        self.silent = False
        self._check = check
        self._arguments: dict[str, Any] = {}
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        owned = {hook for strategy in strategies for hook in owned_hooks(strategy.plugin)}
        rest = {name: getattr(default, name) for name in hooks_of(default) if name not in owned}
        manager.register(SimpleNamespace(**rest), name="default")
        # pluggy calls the last registered first.
        for strategy in reversed(strategies):
            try:
                manager.register(strategy.plugin, name=strategy.entry.name)
                manager.check_pending()
            except pluggy.PluginValidationError as error:
                raise StrategyError(f"{strategy.entry.name}: {error}") from None
        self._manager = manager
        by_plugin = {id(strategy.plugin): strategy for strategy in strategies}
        for name in LOOP_HOOKS:
            caller = getattr(manager.hook, name)
            for impl in caller.get_hookimpls():
                if member := by_plugin.get(id(impl.plugin)):
                    impl.function = self._checked(member, name, impl)
            setattr(self, name, self._resolved(name, caller, caller.get_hookimpls()))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"there is no hook {name!r}")

    def has(self, *names: str) -> bool:
        """Say whether a strategy takes part in one of these hooks."""
        return any(name in hooks_of(s.plugin) for s in self.strategies for name in names)

    def drains(self, run: Any) -> Iterator[tuple[Iterator[Any], Callable[..., Any]]]:
        """Yield, per strategy, what it drains, and `select_batch` of those after it."""
        plugins = [strategy.plugin for strategy in self.strategies]
        for place, plugin in enumerate(plugins):
            if not hasattr(plugin, "drain"):
                continue
            others = [other for other in plugins if other is not plugin]
            drain = self._manager.subset_hook_caller("drain", others)
            select = self._manager.subset_hook_caller("select_batch", plugins[: place + 1])
            held = iter(partial(self._call, "drain", drain, run), [])
            yield held, partial(self._call, "select_batch", select)

    def _call(self, name: str, caller: Any, *arguments: Any) -> Any:
        given = dict(zip(_ARGUMENTS[name], arguments, strict=True))
        if self.checking:
            self._arguments = given
        return caller(**given)

    def _resolved(self, name: str, caller: Any, impls: list[Any]) -> Callable[..., Any]:
        if any(impl.wrapper for impl in impls):
            return partial(self._call, name, caller)
        functions = [_positional(impl, _ARGUMENTS[name]) for impl in reversed(impls)]
        if not functions:
            return _nothing
        call = functions[0] if HOOKS[name] == "own" else _each(functions)
        if all(impl.plugin_name == "default" for impl in impls):
            return call

        def remembering(*arguments: Any) -> Any:
            if self.checking:
                self._arguments = dict(zip(_ARGUMENTS[name], arguments, strict=True))
            return call(*arguments)

        return remembering

    def _checked(self, strategy: Active, name: str, impl: Any) -> Callable[..., Any]:
        """Tell when an implementation runs; while checking, hold what it returns to the check."""
        function, here = impl.function, place_of(f"{strategy.label}, in {name}")

        def hold(result: Any, arguments: dict[str, Any]) -> Any:
            if trouble := self._check(name, arguments, result):
                raise StrategyError(f"{strategy.label}, in {name}: {trouble}")
            return result

        def call(*arguments: Any) -> Any:
            given, outer = self._arguments, HERE.now
            HERE.tell(here)
            result = function(*arguments)
            HERE.tell(outer)
            return hold(result, given) if self.checking else result

        def wrap(*arguments: Any) -> Any:
            given, outer = self._arguments, HERE.now
            HERE.tell(here)
            result = yield from function(*arguments)
            HERE.tell(outer)
            return hold(result, given) if self.checking else result

        return wraps(function)(wrap if impl.wrapper else call)


def _nothing(*arguments: Any) -> tuple[()]:
    return ()


def _each(functions: list[Callable[..., Any]]) -> Callable[..., list[Any]]:
    """Return what calls them in order, and gathers what is not None, as pluggy does."""

    def call(*arguments: Any) -> list[Any]:
        results = [function(*arguments) for function in functions]
        return [result for result in results if result is not None]

    return call


def _positional(impl: Any, names: tuple[str, ...]) -> Callable[..., Any]:
    """Return an implementation that takes all arguments of its hook, by place."""
    function = impl.function
    if tuple(impl.argnames) == names:
        return function
    places = [names.index(name) for name in impl.argnames]
    return lambda *arguments: function(*[arguments[place] for place in places])


@contextmanager
def blaming(strategies: Sequence[Active]) -> Iterator[None]:
    """Re-raise an error that a strategy's hook raised, naming the strategy and the hook.

    Where `setup` refuses the task, what it says is for the user: no hook is named. A full disk is
    nobody's fault.
    """
    try:
        yield
    except (StrategyError, DiskFull, KeyboardInterrupt, GeneratorExit):
        raise
    # A hook may try to leave the process.
    except BaseException as error:
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


def _culprit(strategies: Sequence[Active], error: BaseException) -> tuple[Active, str] | None:
    """Return the innermost hook of a strategy that the error came from."""
    hooks = {
        inspect.unwrap(getattr(strategy.plugin, hook)).__code__: (strategy, hook)
        for strategy in strategies
        for hook in hooks_of(strategy.plugin)
    }
    found = None
    codes = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
    for code, inner in pairwise([*codes, None]):
        # pluggy throws what an inner hook raised through the wrappers around it: not their fault.
        passed_on = inner and inner.co_filename.startswith(_PLUGGY)
        if not passed_on:
            found = hooks.get(code, found)
    return found
