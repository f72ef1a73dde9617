"""The host of a run: who tests its network and keeps its books, in a process without strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dataeff.training.job import Job
    from dataeff.training.meter import Meter


class Host(Protocol):
    """What a run tells, and asks, the process that has started it."""

    def test(self, job: Job, epoch: int, whole: bool) -> None:
        """Have the network tested as it is after this epoch; the figures stay with the host.

        On a part of the test set; as it ends, on the `whole`.
        """

    def mark(self, on_clock: bool) -> None:
        """Say that a clock which counts begins or ends here, for the host's own clock."""

    def saved(self, epoch: int) -> None:
        """Say that a checkpoint was written, from which this epoch is the next."""

    def resumed(self, epoch: int) -> None:
        """Say that a checkpoint was read, from which this epoch is the next."""

    def turn(self, job: Job, meter: Meter, over: bool = False, passes: bool = False) -> None:
        """Wait, with this meter standing still, if another cell is to go on before this one.

        A turn is `over` when it has lasted long enough, or where the caller says so. Who `passes`
        has nothing to do before another cell has done its part.
        """


class ClockOnly:
    """The host of a nested run: clocks and turns are its parent's, its books are nobody's."""

    def __init__(self, host: Host, parent: Job) -> None:
        self.mark = host.mark
        self._host, self._parent = host, parent

    def turn(self, job: Job, meter: Meter, over: bool = False, passes: bool = False) -> None:
        """Wait for the turn of the cell, whose progress is that of the parent."""
        self._host.turn(self._parent, meter, over, passes)

    def test(self, job: Job, epoch: int, whole: bool) -> None:
        """Test nothing: nobody wants to know."""

    def saved(self, epoch: int) -> None:
        """Say nothing."""

    def resumed(self, epoch: int) -> None:
        """Say nothing."""
