"""Doubts: records that do not verify, and times that were spent where no clock counts."""

from pathlib import Path

import pandas as pd

from dataeff.checked import read_entries
from dataeff.forms import VERIFIED
from dataeff.report.frames import RUN_KEYS, finished, numbers
from dataeff.seals import Seals

UNVERIFIED = "unverified"
"""The status of a cell that does not verify: it is in no mean."""
NAME = "verified.json"
"""What `dataeff verify` has found of the cells of a suite, in its folder."""
# Off the clock, a cell may take so many times what the reference does, this share of what it takes
# on the clock, and these seconds: for networks that are exported, scores and checkpoints of nested
# runs. Its start is a matter of imports.
_TIMES, _SHARE = 2.0, 0.5
_SECONDS = {"off_seconds": 2.0, "start_seconds": 5.0}
_SAID = {"off_seconds": "off the clock", "start_seconds": "before its first clock"}


class Doubts:
    """Why records of a folder are not believed."""

    def __init__(self, folder: Path) -> None:
        self._seals = Seals(folder)
        entries = read_entries(folder / NAME, VERIFIED)
        wrong = [entry for entry in entries if entry["outcome"] == "does not verify"]
        self.found = {entry["checksum"]: entry["why"] for entry in wrong}

    def why(self, cell: str, checksum: str | None) -> str:
        """Return why a record is not believed; nothing where it is, or is of an earlier version."""
        if checksum is None:
            return ""
        if self._seals.holds(cell, checksum) is False:
            return "its record was changed after it was written"
        return self.found.get(checksum, "")


def add_off_clock(runs: pd.DataFrame, reference: str) -> None:
    """Doubt the times of cells that spent much more than the reference where no clock counts."""
    for name in _SECONDS:
        if name not in runs:
            return
    for _, group in finished(runs).groupby(list(RUN_KEYS), sort=False):
        theirs = group[group["strategy"] == reference]
        for name, seconds in _SECONDS.items():
            usual = numbers(theirs, name).median()
            spent, clocked = numbers(group, name), numbers(group, "clocked_seconds")
            most = _TIMES * usual + _SHARE * clocked + seconds
            for place in group.index[spent > most]:
                why = (
                    f"it spent {spent[place]:.1f} s {_SAID[name]}, where {reference} spent "
                    f"{usual:.1f} s"
                )
                told = runs.loc[place, "contended"]
                runs.loc[place, "contended"] = f"{told}; {why}" if told else why
