"""Stages: the seeds of a suite, in parts; after each comes a look, and not everybody goes on."""

import math
from collections.abc import Mapping
from typing import Protocol

from dataeff.bench.cells import Scene
from dataeff.foretell.preview import duration
from dataeff.plural import counted
from dataeff.seeds import AUTO, Seeds, stages


class Looks(Protocol):
    """Judges a suite's tables at planned numbers of seeds."""

    def make(self, n: int) -> None:
        """Make the looks that are due, at n seeds at most."""

    def going(self, task: str, conditions: str, n: int) -> list[str] | None:
        """Return who is not settled after n seeds; None where nobody has looked at these yet."""

    def chances(self, task: str, conditions: str) -> dict[str, float]:
        """Return how likely the next look settles each of those that are not settled."""

    def typical(self, task: str, conditions: str) -> float:
        """Return the typical spread of paired differences in points, NaN where it is not known."""


class Stages:
    """The seeds of a suite in stages, and who goes on after each look.

    `going` are those that are not settled, by task; nobody is left out before there is a look.
    """

    def __init__(self, seeds: Seeds, looks: Looks | None, scenes: Mapping[str, Scene]) -> None:
        self.all, self._until_settled = stages(seeds), seeds == AUTO
        self._looks, self._scenes = looks, scenes
        self.going: dict[str, set[str]] = {}

    @property
    def last(self) -> int:
        """Return how many seeds there are at most."""
        return self.all[-1].stop

    def look(self, task: str, n: int) -> str:
        """Look at a task's table after n seeds; say what came of it, if that changes anything."""
        if self._looks is None:
            return ""
        self._looks.make(n)
        if not self._until_settled:
            return ""
        self.after(task, n)
        if (going := self.going.get(task)) is None:
            return "no look yet, for not all of its cells have ended"
        return f"{counted(len(going), 'strategy')} not settled" if going else "all settled"

    def after(self, task: str, n: int) -> range | None:
        """Return the stage after n seeds, and know who is in it; None where there is none."""
        self.going.pop(task, None)
        if self._looks is None or not self._until_settled:
            return None
        going = self._looks.going(task, self._scenes[task].conditions_id, n)
        if going is not None:
            self.going[task] = set(going)
        return next((seeds for seeds in self.all if going and seeds.start == n), None)

    def foretold(self, task: str, stage: range, seconds: float) -> str:
        """Say what the look after a stage takes, and how likely it settles what is open."""
        said = f"the look at {stage.stop} seeds takes about {duration(seconds)}"
        likely = self.likely(task)
        return f"{said} and {likely}" if likely else said

    def likely(self, task: str) -> str:
        """Say how many the next look settles; nothing before the first, which nobody knows."""
        if self._looks is None:
            return ""
        chances = self._looks.chances(task, self._scenes[task].conditions_id)
        return f"settles about {sum(chances.values()):.1f} of {len(chances)}" if chances else ""

    def typical(self, task: str) -> float:
        """Return the spread between seeds in points, NaN where nobody has looked yet."""
        if self._looks is None:
            return math.nan
        return self._looks.typical(task, self._scenes[task].conditions_id)
