"""Headway: how far a run has come, and how long the rest takes at the pace that it has had."""

import math
from collections.abc import Callable, Hashable
from time import monotonic

from dataeff.foretell.preview import duration
from dataeff.plural import counted


class Headway:
    """Hears what happens to the cells of a run, by a clock; `total` is how many there are.

    Who need not run, or runs elsewhere, takes no time. A cell that goes on from where it was
    stopped has come far at once: that tells nothing of the pace.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._began = clock, math.nan
        self.total = self.left_out = self.ended = 0
        # How far each cell has come, and how many epochs of those that are alive have ended.
        self._shares: dict[Hashable, float] = {}
        self._epochs: dict[Hashable, int] = {}
        # How many cells' worth has been run, by when that was last heard of.
        self._gained, self._heard = 0.0, math.nan

    def hear(self, kind: str, cell: Hashable, share: float, epochs: int = 0) -> None:
        """Take in that a cell has `started`, has come to the end of an `epoch`, or has `ended`.

        It may also be `skipped`, or be `elsewhere`. `epochs` are those that have ended.
        """
        if kind in ("skipped", "elsewhere"):
            self.left_out += 1
            return
        if math.isnan(self._began):
            self._began = self._clock()
        if kind == "started":
            self._epochs[cell] = 0
            return
        share = 1.0 if kind == "ended" else share
        if epochs > 1:
            # All but the last one may have been there before.
            self._shares.setdefault(cell, share * (epochs - 1) / epochs)
        before = self._shares.get(cell, 0.0)
        self._gained += max(0.0, share - before)
        self._shares[cell] = max(share, before)
        if kind == "ended":
            self.ended += 1
            self._epochs.pop(cell, None)
        else:
            self._epochs[cell] = epochs
        self._heard = self._clock()

    @property
    def cells(self) -> int:
        """Return how many cells run here."""
        return self.total - self.left_out

    @property
    def done(self) -> float:
        """Return how many of them have been run, those that are alive as far as they have come."""
        return sum(list(self._shares.values()))

    @property
    def left(self) -> float:
        """Return the seconds that are left, NaN before anything tells."""
        if not self._gained:
            return math.nan
        pace = (self._heard - self._began) / self._gained
        return max(0.0, (self.cells - self.done) * pace - (self._clock() - self._heard))

    def told(self) -> str:
        """Say how far all has come, in one line; nothing before anything has begun."""
        if math.isnan(self._began):
            return ""
        said, alive = [f"{self.ended} of {self.cells} cells done"], list(self._epochs.values())
        if alive:
            first, last = min(alive), max(alive)
            reach = f"{first} to " if first < last else ""
            said.append(f"{len(alive)} under way, {reach}{counted(last, 'epoch')} in")
        if not math.isnan(self.left):
            said.append(f"about {duration(self.left)} left")
        return "; ".join(said)
