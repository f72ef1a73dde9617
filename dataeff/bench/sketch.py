"""Sketches: all that is to be known of strategies, data and networks without running their code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dataeff.registry import Range


@dataclass(frozen=True, eq=False)
class Sketch:
    """All that is to be known of a composition without its code."""

    text: str
    parameters: dict[str, dict[str, Any]]
    sources: dict[str, str]
    plugins: tuple[str, ...] = ()
    """The plugins that its strategies come from."""
    is_control: bool = False
    is_open: bool = False
    has_setup: bool = False
    free: str = ""
    """The name of the value that is still to be found."""
    range: Range | None = None
    """Where to look for it."""

    @classmethod
    def of(cls, told: dict[str, Any]) -> Sketch:
        """Return what was told as plain data."""
        told = told | {"plugins": tuple(told["plugins"])}
        if where := told.get("range"):
            told = told | {"range": Range(**where | {"guesses": tuple(where["guesses"])})}
        return cls(**told)


@dataclass(frozen=True)
class Facts:
    """What a task's data and network are known by."""

    data: str
    network: str
    classes: int
    test_samples: int
    said: tuple[str, ...] = ()
    """What is to be said of the network before it is trained."""


@dataclass(frozen=True)
class Kind:
    """A strategy that can be had at any cost, and what it is called at any."""

    name: str
    pattern: str
