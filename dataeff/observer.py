"""Observers: who logs what cells come to elsewhere, as they run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Observer:
    """Hears of the cells of a run as they go: `dataeff run --log NAME`.

    It lives in a process of its own, or with --in-process between epochs, off every clock, and is
    told what the runner knows: nothing that it does changes a cell. One that fails is left out from
    then on, and said. `folder` is that of the suite's results; what else its constructor takes by
    keyword is the user's, in `NAME[key=value]`.

    `cell` has its `name` (of its folder), `suite`, `task_name`, `strategy`, `seed`, `version`,
    `conditions_id`, and the keys of its `task`. Where a cell was stopped, it starts again, and the
    epochs since its last checkpoint are told again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cell_started(self, cell: Mapping[str, Any]) -> None:
        """Hear that a cell starts, or goes on."""

    def epoch_ended(self, cell: Mapping[str, Any], line: Mapping[str, Any]) -> None:
        """Hear of an epoch that has ended: its line of epochs.csv.

        That is `epoch`, `train_loss`, `lr`, `kept`, `rows_trained`, `steps`, seconds on the clocks
        and, where it was tested, `test_top1` and others.
        """

    def cell_ended(self, cell: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        """Hear that a cell has ended: its run.json; `status` says how."""

    def run_ended(self) -> None:
        """Write what waits: this is the last that is heard."""
