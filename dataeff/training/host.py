"""The host of a run: who tests its network and keeps its books, in a process without strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dataeff.training.job import Job


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


class ClockOnly:
    """The host of a nested run: its clocks count, its books are its parent's affair."""

    def __init__(self, host: Host) -> None:
        self.mark = host.mark

    def test(self, job: Job, epoch: int, whole: bool) -> None:
        """Test nothing: nobody wants to know."""

    def saved(self, epoch: int) -> None:
        """Say nothing."""

    def resumed(self, epoch: int) -> None:
        """Say nothing."""
