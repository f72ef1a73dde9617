"""Patterns: strategies with one value still to be found, written `?`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataeff.errors import DataeffError
from dataeff.plugins import Installed, Strategy, canonical, compose
from dataeff.registry import FREE, Part, Range, format_part, is_open, parse


@dataclass(frozen=True)
class Pattern:
    """A composition as typed, and the parameter of it that is free: part number `place`, `key`."""

    parts: Sequence[Part]
    place: int
    key: str
    range: Range
    installed: Installed

    @classmethod
    def read(cls, text: str, installed: Installed) -> Pattern:
        """Read a composition that has exactly one `?`, for a number."""
        parts = parse(text)
        free = [
            (place, key)
            for place, part in enumerate(parts)
            for key, value in part.params.items()
            if value == FREE
        ]
        if len(free) != 1:
            raise DataeffError(f"{text} has {len(free)} values to find; write all but one of them.")
        place, key = free[0]
        name = parts[place].name
        # A name that is not there is explained by whoever builds it.
        known = installed.strategies[name].parameters if name in installed.strategies else {}
        within = known[key].range if key in known else Range(0, 1, False, (0.5, 1))
        if within is None:
            raise DataeffError(
                f"{text}: {key} is not a number with limits, so it cannot be found; "
                "write a value for it."
            )
        pattern = cls(parts, place, key, within, installed)
        # What cannot be built is told now.
        _ = pattern.example
        return pattern

    def strategies(self, value: float) -> list[Strategy]:
        """Build the composition with this value."""
        filled = [
            {**part.params, self.key: value} if place == self.place else part.params
            for place, part in enumerate(self.parts)
        ]
        named = zip(self.parts, filled, strict=True)
        return compose("+".join(format_part(p.name, values) for p, values in named), self.installed)

    def at(self, value: float) -> str:
        """Return the label of the composition with this value."""
        return canonical(self.strategies(value))

    @property
    def example(self) -> list[Strategy]:
        """Return the composition with some value, for what does not hang on it."""
        return self.strategies(self.range.guesses[0])

    @property
    def text(self) -> str:
        """Return the one canonical form, with its `?`."""
        strategies = self.example
        strategies[self.place].values[self.key] = FREE
        return canonical(strategies)


def canonical_form(text: str, installed: Installed) -> str:
    """Return a strategy in its one canonical form, `?` or not."""
    if is_open(text):
        return Pattern.read(text, installed).text
    return canonical(compose(text, installed))
