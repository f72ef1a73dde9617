"""A composition, `a[x=1]+b`: read once, printed in one way, and made anew for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dataeff.cost import EARLY_TERMINATION
from dataeff.errors import DataeffError, StrategyConflict, UnknownName
from dataeff.notation import FREE, parse
from dataeff.registry import Entry, Range
from dataeff.strategy import Strategy, hooks_of, owned_hooks
from dataeff.whereabouts import HERE

if TYPE_CHECKING:
    from dataeff.plugins import Installed


@dataclass(frozen=True, eq=False)
class Part:
    """One strategy of a composition: what was registered, and every parameter, validated."""

    entry: Entry
    values: dict[str, Any]

    @cached_property
    def label(self) -> str:
        """Return the canonical `name[key=value]`."""
        return self.entry.canonical(self.values)

    @property
    def kind(self) -> type[Strategy]:
        """Return the class of the strategy."""
        return self.entry.factory

    def hooks(self) -> list[str]:
        """List the loop hooks it implements."""
        return hooks_of(self.kind)

    def fresh(self) -> Active:
        """Return an object of it for one run."""
        try:
            with HERE.at(f"{self.label}, when made"):
                return Active(self.entry, self.values, self.kind(**self.values))
        except (ValueError, TypeError) as error:
            raise DataeffError(f"strategy {self.label}: {error}") from error


@dataclass(frozen=True, eq=False)
class Active(Part):
    """A strategy of a run, with the object that has its hooks and holds its state."""

    plugin: Strategy


def watching(probe: Strategy) -> Active:
    """Return an object with hooks as a member of a run, though nobody has registered it."""
    kind = type(probe)
    return Active(Entry("probe", kind.__name__, kind, kind.__module__), {}, probe)


@dataclass(frozen=True, eq=False)
class Composition:
    """Strategies that run together, in the order written; at most one value may be open, `?`."""

    parts: tuple[Part, ...]

    @classmethod
    def read(cls, text: str, installed: Installed) -> Composition:
        """Read what a user has typed; refuse what is unknown, not valid or in conflict."""
        found = []
        for part in parse(text):
            if part.name == EARLY_TERMINATION:
                share = part.params.get("share", FREE)
                share = 0.5 if share == FREE else share
                raise UnknownName(
                    f"{part.name} is read off the curve of the reference, and nobody runs it; "
                    f"write short_schedule[share={share}] to train that long."
                )
            entry = installed.strategy(part.name)
            found.append(Part(entry, entry.read(part.params)))
        whole = cls(tuple(found))
        check_conflicts(whole.parts)
        # What cannot be built is told now, with some value for one that is still to be found.
        closed = whole.at(whole.range.guesses[0]) if whole.is_open else whole
        closed.fresh()
        return whole

    @classmethod
    def of(cls, parameters: Mapping[str, dict[str, Any]], installed: Installed) -> Composition:
        """Return the composition with these parameters, as `parameters` gives them."""
        entries = [(installed.strategies[name], values) for name, values in parameters.items()]
        return cls(tuple(Part(entry, values) for entry, values in entries))

    def __str__(self) -> str:
        return self.text

    @cached_property
    def text(self) -> str:
        """Return the one canonical form: the label on the leaderboard."""
        return "+".join(part.label for part in self.parts)

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        """Return every parameter of every part."""
        return {part.entry.name: part.values for part in self.parts}

    @cached_property
    def sources(self) -> dict[str, str]:
        """Return the hash of every part's source."""
        return {part.entry.name: part.entry.digest for part in self.parts}

    @property
    def is_control(self) -> bool:
        """Say whether it is made of yardsticks only."""
        return all(part.kind.control for part in self.parts)

    def has_hook(self, name: str) -> bool:
        """Say whether a part of it implements this hook."""
        return any(name in part.hooks() for part in self.parts)

    def fresh(self) -> list[Active]:
        """Return objects for one run."""
        return [part.fresh() for part in self.parts]

    # A value that is still to be found --------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Say whether a value is still to be found."""
        return any(FREE in part.values.values() for part in self.parts)

    @cached_property
    def free(self) -> tuple[int, str]:
        """Return which part has the value to be found, and under which name."""
        found = [
            (place, key)
            for place, part in enumerate(self.parts)
            for key, value in part.values.items()
            if value == FREE
        ]
        if len(found) != 1:
            raise DataeffError(
                f"{self} has {len(found)} values to find; write all but one of them."
            )
        return found[0]

    @cached_property
    def range(self) -> Range:
        """Return where to look for the value."""
        place, key = self.free
        found = self.parts[place].entry.parameters[key].range
        if found is None:
            raise DataeffError(
                f"{self}: {key} is not a number with limits, so it cannot be found; "
                "write a value for it."
            )
        return found

    def at(self, value: float) -> Composition:
        """Return the composition with the open value filled in."""
        place, key = self.free
        parts = list(self.parts)
        entry = parts[place].entry
        parts[place] = Part(entry, entry.read({**parts[place].values, key: value}))
        return Composition(tuple(parts))


def check_conflicts(parts: Sequence[Part]) -> None:
    """Raise where two strategies want the same thing, before anything is trained."""
    taken: dict[str, Part] = {}

    def take(what: str, part: Part) -> None:
        if what in taken:
            raise StrategyConflict(
                f"{taken[what].label} and {part.label} cannot run together: both {what}. "
                "Drop one of them."
            )
        taken[what] = part

    for part in parts:
        take(f"are the strategy {part.entry.name}", part)
        for hook in owned_hooks(part.kind):
            if hook == "plan_epoch":
                raise StrategyConflict(
                    f"{part.label} owns plan_epoch, which belongs to the default: "
                    "wrap it with @hookimpl(wrapper=True)."
                )
            take(f"own the hook {hook}", part)
        for what in part.kind.reserves:
            take(f"reserve {what!r}", part)
