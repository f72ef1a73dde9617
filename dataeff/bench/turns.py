"""Turns: who of the cells that are alive together goes on next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

SECONDS = 1.0
"""About what a turn lasts; one batch at least, and an epoch at most."""
FOREVER = 1e9
"""What a turn lasts where nobody else waits for one."""


@dataclass(eq=False)
class Standing:
    """How far a cell has come, as it said itself when it handed its turn over.

    `expected` are the seconds that it will take on its clocks, where earlier blocks have told;
    `clocked` those that it has taken. Without, `progress` of training tells how far it has come,
    counted from `base`: where the others stood when it began to train. `before` is how far it had
    come when its last turn began.
    """

    expected: float | None = None
    clocked: float = 0.0
    progress: float = 0.0
    preparing: bool = True
    base: float = 0.0
    before: float = 0.0
    passes: bool = False
    turns: int = 0
    last: int = -1

    @property
    def waits_to_train(self) -> bool:
        """Say whether nobody can know how far it has come."""
        return self.preparing and not self.expected

    @property
    def share(self) -> float:
        """Return how far it has come: equal shares, not equal steps, are a fair comparison."""
        if self.expected:
            return self.clocked / self.expected
        return self.base + (1 - self.base) * self.progress

    def key(self, luck: float) -> float:
        """Return by what those that stand level are put in order: luck is worth a turn at most.

        Turns are alike, so without it one goes before another all along, and the same in each
        block: who follows on whom, with what is left of caches, would be a difference in time.
        """
        return self.share + luck * max(0.0, self.share - self.before)

    def tell(self, progress: float, preparing: bool, others: Sequence[Standing]) -> None:
        """Take what it says of itself; who begins to train does so where the others stand."""
        if self.preparing and not preparing and not self.expected:
            known = [one.share for one in others if not one.waits_to_train]
            self.base = self.before = min(known, default=0.0)
        self.progress, self.preparing = progress, preparing


def next_of(standings: Sequence[Standing], turn: int, draw: Random) -> Standing:
    """Return who goes next: who has had no turn, then who has come least far; a draw of the level.

    Of those that prepare for a time nobody knows, one has every other turn: their progress is 0,
    and they would keep the lane. Who has passed waits until another one has had a turn.
    """
    fresh = [one for one in standings if not one.turns]
    if fresh:
        return fresh[0]
    able = [one for one in standings if not one.passes] or list(standings)
    waiting = [one for one in able if one.waits_to_train]
    known = [one for one in able if not one.waits_to_train]
    if waiting and (not known or turn % 2):
        return min(waiting, key=lambda one: one.last)
    return min(known, key=lambda one: one.key(draw.random()))
