"""Names to factories: parameters read off their signatures, wildcards, did-you-mean."""

import inspect
import math
import os
from dataclasses import dataclass, is_dataclass, replace
from fnmatch import fnmatch
from functools import partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import Field, PydanticUserError, TypeAdapter, ValidationError

from dataeff.errors import DataeffError, UnknownName, did_you_mean
from dataeff.imported import imported, is_place
from dataeff.names import check_registered
from dataeff.notation import FREE, format_part, format_value
from dataeff.sources import digest
from dataeff.strategy import Strategy

Share = Annotated[float, Field(gt=0, le=1)]
"""A fraction in (0, 1], as a parameter's type."""

SMALL, LARGE = 1e-30, 1e12
"""The size of numbers that a parameter may have, beside zero."""


def portion(share: float, n: int) -> int:
    """Return floor(share * n), as for decimal numbers: 0.29 of 100 is 29."""
    # In binary 0.29 is a little less than 29/100.
    return int(share * n + 1e-9)


_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Range:
    """Where to look for a number, and two values, a way apart, to begin with."""

    low: float
    high: float
    whole: bool
    guesses: tuple[float, float]

    def nearest(self, value: float) -> float:
        """Return the nearest value that may be taken: a whole number, or one of three digits."""
        short = round(value) if self.whole else float(f"{value:.3g}")
        return min(max(short, self.low), self.high)


@dataclass(frozen=True)
class Parameter:
    """One tunable of a factory, read off its signature."""

    name: str
    type: Any
    default: Any

    def read(self, value: Any) -> Any:
        """Turn a typed text (or a Python value) into this parameter's type."""
        choices = get_args(self.type)
        if isinstance(value, str) and value.lower() == "none" and "none" not in choices:
            value = None
        found = TypeAdapter(self.type).validate_python(value)
        # Also where a type sets no limits: what is beyond these would hang, overflow or do nothing.
        if isinstance(found, int | float) and found and not SMALL <= abs(found) <= LARGE:
            raise ValueError(f"it should be 0, or between {SMALL:g} and {LARGE:g} in size")
        return found

    @property
    def range(self) -> Range | None:
        """Return where to look for its value; None where it is no number, or without any limit.

        An end that may not be taken itself is left by about a hundredth of the range. Where one is
        not given, it is a hundredth of the default, or a hundred times that.
        """
        try:
            schema = TypeAdapter(self.type).json_schema()
        except PydanticUserError:
            return None
        for form in schema.get("anyOf", [schema]):
            if form.get("type") in ("number", "integer") and not form.keys() & {"enum", "const"}:
                return _range(form, self.default)
        return None

    def __str__(self) -> str:
        shown = "" if self.default is _REQUIRED else f"={format_value(self.default)}"
        choices = [format_value(choice) for choice in get_args(self.type)]
        literal = "Literal" in str(get_origin(self.type) or "")
        return f"{self.name}{shown}" + (f" ({'|'.join(choices)})" if literal else "")


def _range(schema: dict[str, Any], default: Any) -> Range | None:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    first, last = above if low is None else low, below if high is None else high
    if first is None or last is None:
        if not isinstance(default, int | float) or default <= 0:
            return None
        first = default / 100 if first is None else first
        last = 100 * default if last is None else last
        guesses = (default, 2 * default)
    else:
        guesses = (first + (last - first) / 3, last - (last - first) / 3)
    whole = schema["type"] == "integer"
    step = 1 if whole else 0.03 * (guesses[1] - guesses[0])
    if first == above:
        first = float(f"{first + step:.3g}")
    if last == below:
        last = float(f"{last - step:.3g}")
    if whole:
        first, last = math.ceil(first), math.floor(last)
    found = Range(first, last, whole, guesses)
    near = found.nearest(guesses[0]), found.nearest(guesses[1])
    return replace(found, guesses=near) if first < last else None


@dataclass(frozen=True)
class Entry:
    """One registered name."""

    kind: str
    name: str
    factory: Any
    """A class or a function; of a suite, the path of its file."""
    source: str
    alias_of: str = ""

    @property
    def summary(self) -> str:
        """Return the first paragraph of the factory's docstring, or what it is another name of."""
        if self.alias_of:
            return f"Another name of {self.alias_of}."
        if not callable(self.factory):
            return ""
        return (inspect.getdoc(self.factory) or "").split("\n\n")[0].replace("\n", " ")

    @property
    def about(self) -> list[str]:
        """Return all paragraphs of the factory's docstring, then of the classes it builds on."""
        kinds = inspect.getmro(self.factory) if inspect.isclass(self.factory) else (self.factory,)
        # What every strategy is says nothing of this one.
        own = [kind for kind in kinds if kind not in (Strategy, object)]
        # A class that was adopted has the documentation of the one it was made of.
        texts = dict.fromkeys(inspect.cleandoc(kind.__doc__) for kind in own if kind.__doc__)
        return [part.replace("\n", " ") for text in texts for part in text.split("\n\n")]

    @property
    def paper(self) -> str:
        """Return the second paragraph of the defining module's docstring: by habit, the paper."""
        module = inspect.getmodule(self.factory)
        paragraphs = (inspect.getdoc(module) or "").split("\n\n")
        return paragraphs[1].replace("\n", " ") if len(paragraphs) > 1 else ""

    @property
    def digest(self) -> str:
        """Return a short hash of the source behind it, '' where there is none."""
        return digest(self.factory.__module__)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Return the keyword parameters that a user may set."""
        # Data that somebody has made already.
        if not callable(self.factory):
            return {}
        hints = get_type_hints(self.factory, include_extras=True)
        if inspect.isclass(self.factory):
            hints |= get_type_hints(self.factory.__init__, include_extras=True)
        signature = inspect.signature(self.factory)
        return {
            name: Parameter(name, hints.get(name, Any), parameter.default)
            for name, parameter in signature.parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
            or (
                parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
                and (parameter.default is not _REQUIRED or is_dataclass(self.factory))
            )
        }

    def read(self, params: dict[str, Any]) -> dict[str, Any]:
        """Validate typed parameters; the result holds every parameter, in the factory's order.

        Of a strategy, a value that is still to be found, `?`, stays as it is.
        """
        known = self.parameters
        for key in params:
            if key not in known:
                takes = ", ".join(known) or "no parameters"
                hint = did_you_mean(key, known)
                raise UnknownName(
                    f"{self.kind} {self.name} has no parameter {key!r}.{hint} It takes: {takes}."
                )
        values = {}
        for key, parameter in known.items():
            value = params.get(key, parameter.default)
            if value is _REQUIRED:
                raise DataeffError(
                    f"{self.kind} {self.name} needs {key}: write {self.name}[{key}=...]."
                )
            try:
                is_open = self.kind == "strategy" and value == FREE
                asked = key in params and not is_open
                values[key] = parameter.read(value) if asked else value
            except ValueError as error:
                raise DataeffError(
                    f"{self.kind} {self.name}: {key}={params[key]} is not valid, {_why(error)}."
                ) from None
        return values

    def canonical(self, values: dict[str, Any]) -> str:
        """Print the one canonical form: shares, always, and what differs from its default."""
        known = self.parameters
        shown = {
            key: value
            for key, value in values.items()
            # How much is kept is what a reader of the table asks first.
            if known[key].type == Share or value != known[key].default
        }
        return format_part(self.name, shown)


def _why(error: ValueError) -> str:
    """Say what a value should be."""
    if not isinstance(error, ValidationError):
        return str(error)
    return error.errors()[0]["msg"].replace("Input should be", "it should be")


class Registry(dict[str, Entry]):
    """The registered names of one kind: strategy, dataset, model, suite, analysis, observer."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def register(self, name: str, factory: Any, source: str = "") -> None:
        """Add a name; a clash raises, because a benchmark must not swap a method silently."""
        check_registered(self.kind, name)
        if self.kind == "suite" and not isinstance(factory, str | os.PathLike):
            raise DataeffError(f"suite {name}: register(name, path) takes the path of a file.")
        if name in self:
            first = self[name].source
            raise DataeffError(
                f"{self.kind} {name!r} is registered by both {first} and {source}; rename one."
            )
        same = [entry.name for entry in self.values() if entry.factory is factory]
        self[name] = Entry(self.kind, name, factory, source, *same[:1])

    def find(self, name: str) -> Entry | None:
        """Return what is registered by a name, or stands at a place; None where there is neither.

        Own code that stands at a place, `my_module:make_net`, need not be registered. What is
        registered with a colon at its end, `hf:`, is given the rest of each name that begins so.
        """
        family, colon, rest = name.partition(":")
        if rest and (whole := self.get(f"{family}{colon}")):
            return replace(whole, name=name, factory=partial(whole.factory, rest))
        if name in self or self.kind not in ("dataset", "model") or not is_place(name):
            return self.get(name)
        return Entry(self.kind, name, imported(name), name.partition(":")[0])

    def __missing__(self, name: str) -> Entry:
        if found := self.find(name):
            return found
        special = {"strategy": "strategies", "analysis": "analyze", "observer": "run --help"}
        listing = special.get(self.kind, f"{self.kind}s")
        hint = did_you_mean(name, self)
        raise UnknownName(f"There is no {self.kind} {name!r}.{hint} See: dataeff {listing}")

    def entries(self, pattern: str = "*") -> list[Entry]:
        """List entries whose name matches a wildcard pattern, sorted by name."""
        return [self[name] for name in sorted(self) if fnmatch(name, pattern)]
