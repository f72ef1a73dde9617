"""The contract of a strategy: what its class may declare, checked when the class is made."""

import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any, ClassVar, Literal, get_args

from dataeff.errors import StrategyError, did_you_mean
from dataeff.hookspecs import HOOKS

Saving = Literal["", "rows", "forward", "loading", "flops"]
"""What a strategy may say that it saves; nothing where it saves none of these."""
LOOP_HOOKS = [name for name in HOOKS if not name.startswith("register_")]
"""The hooks of a run, in the order of the loop."""


class Strategy:
    """The base of every strategy: a class whose methods carry `@hookimpl`.

    Its parameters are the fields of a dataclass (`@dataclass(eq=False)`), its declarations are the
    names below, written without a type: `saves = "rows"`. What is not known here is refused when
    the class is made.
    """

    reserves: ClassVar[tuple[str, ...]] = ()
    """What no second strategy of the run may reserve as well, such as "rows" or "normaliser"."""
    saves: ClassVar[Saving] = ""
    """What must fall below the baseline's: "rows", "forward", "loading" or "flops"."""
    precision: ClassVar[bool] = False
    """It only changes number formats, so that nested runs, which score samples, keep it."""
    reads_back: ClassVar[bool] = False
    """It reads one number per batch from the device."""
    control: ClassVar[bool] = False
    """It is a yardstick: methods are compared with it where it costs the same."""

    _no_effect = ""

    @property
    def no_effect(self) -> str:
        """Why it can do nothing here, set in `setup`: what does nothing gets no verdict."""
        return self._no_effect

    @no_effect.setter
    def no_effect(self, why: str) -> None:
        self._no_effect = why

    @staticmethod
    def at_cost(share: float) -> dict[str, Any] | None:
        """Return the parameters at which a yardstick costs this share of the reference.

        None, as here, says that it cannot be had at any cost.
        """
        return None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # All that it is made of: a mixin of somebody else's is checked as well.
        for part in cls.__mro__[: cls.__mro__.index(Strategy)]:
            _check(part)


_TYPES: dict[str, tuple[str, Any]] = {
    "reserves": (
        'texts, such as reserves = ("rows",)',
        lambda v: isinstance(v, tuple) and all(isinstance(item, str) for item in v),
    ),
    "saves": (
        f"one of {', '.join(filter(None, get_args(Saving)))}",
        lambda v: v in get_args(Saving),
    ),
    **{
        name: ("True or False", lambda v: isinstance(v, bool))
        for name in ("precision", "reads_back", "control")
    },
}
DECLARATIONS = (*_TYPES, "no_effect", "at_cost")
"""What a strategy may declare of itself."""


def _check(cls: type) -> None:
    """Refuse what nobody would read: unknown declarations, and methods that no hook calls."""
    for name, value in _declared(cls):
        if name == "claims" and not issubclass(cls, Strategy):
            continue
        if name not in _TYPES:
            known = {"claims": " Did you mean reserves?"}
            hint = known.get(name) or did_you_mean(name, DECLARATIONS)
            raise StrategyError(
                f"{cls.__name__} declares {name!r}, which nobody reads.{hint} A parameter needs a "
                f"type ({name}: float = ...), a name of its own an underscore (_{name})."
            )
        form, fits = _TYPES[name]
        if not (fits(value) or isinstance(value, property)):
            raise StrategyError(f"{cls.__name__}: {name} must be {form}, not {value!r}.")
    for name in _annotated(cls):
        if name in DECLARATIONS:
            raise StrategyError(
                f"{cls.__name__}: {name} has a type, which makes it a parameter; write it without: "
                f"{name} = ..."
            )
    for name, method in vars(cls).items():
        if isinstance(method, FunctionType):
            _check_method(cls.__name__, name, method)


def _declared(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield what a class declares: public names in small letters that are no functions."""
    others = {*_annotated(cls), "no_effect"}
    for name, value in vars(cls).items():
        if name.startswith("_") or name != name.lower() or name in others:
            continue
        if name in _TYPES or not (callable(value) or hasattr(value, "__get__")):
            yield name, value


def _annotated(cls: type) -> list[str]:
    """List the names with a type that dataclasses would make parameters of."""
    kinds = inspect.get_annotations(cls)
    return [name for name, kind in kinds.items() if "ClassVar" not in str(kind)]


def _check_method(where: str, name: str, method: FunctionType) -> None:
    options = getattr(method, "dataeff_impl", None)
    if options is None:
        if name in LOOP_HOOKS:
            raise StrategyError(f"{where}.{name} has the name of a hook; write @hookimpl above it.")
        return
    if name not in LOOP_HOOKS:
        hint = did_you_mean(name, LOOP_HOOKS)
        raise StrategyError(f"{where}: there is no hook {name!r}.{hint} See: dataeff hooks")
    if options["hookwrapper"]:
        raise StrategyError(f"{where}, in {name}: write wrapper=True instead of hookwrapper=True.")
    for parameter in inspect.signature(method).parameters.values():
        if parameter.default is not inspect.Parameter.empty:
            raise StrategyError(f"{where}, in {name}: {parameter.name} must not have a default.")


def adopted(cls: type) -> tuple[type[Strategy], list[str]]:
    """Return a class as a strategy, and what its author should know of it.

    A plain class, as strategies were in version 0.1, is held to the same rules; `claims` is read as
    `reserves`.
    """
    if not inspect.isclass(cls):
        raise StrategyError(f"{cls!r} is no class: register(name, Class) takes a strategy's class.")
    notes = []
    if not issubclass(cls, Strategy):
        more: dict[str, Any] = {"__doc__": cls.__doc__, "__module__": cls.__module__}
        if claims := getattr(cls, "claims", ()):
            more["reserves"] = (claims,) if isinstance(claims, str) else tuple(claims)
            notes = [f"{cls.__name__}: claims is called reserves now; rename it."]
        cls = type(cls.__name__, (cls, Strategy), more)
    if cls.__hash__ is None:
        raise StrategyError(
            f"{cls.__name__}: equal strategies must stay two; write @dataclass(eq=False)."
        )
    return cls, notes


def hooks_of(strategy: Any) -> list[str]:
    """List the loop hooks that a strategy, its class or an object of it, implements."""
    return [name for name in LOOP_HOOKS if hasattr(getattr(strategy, name, None), "dataeff_impl")]


def owned_hooks(strategy: Any) -> list[str]:
    """List the own-hooks that a strategy implements other than by wrapping."""
    own = [name for name in hooks_of(strategy) if HOOKS[name] == "own"]
    return [name for name in own if not getattr(strategy, name).dataeff_impl["wrapper"]]
