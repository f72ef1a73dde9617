"""Results on disk: one folder per cell, held by one process at a time."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dataeff.files import read_json, uncollected


def settled(record: dict[str, Any] | None) -> bool:
    """Say whether a cell with this record needs no more running."""
    return record is not None and record["status"] in ("finished", "diverged")


def flags_of(record: dict[str, Any]) -> list[str]:
    """Return why the times of a cell cannot be trusted; nothing when they can."""
    return (record.get("machine") or {}).get("flags", [])


def clocked_seconds(record: dict[str, Any]) -> float:
    """Return the seconds of prepare and train, 0 where there are none."""
    clocks = record.get("clocks", {})
    return clocks.get("prepare", 0.0) + clocks.get("train", 0.0)


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold a cell for this process; yields False where another process has it.

    The hold is a file lock: it goes with the process, however that ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "held").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        for partial in folder.rglob("*.partial"):
            # Whoever was writing it was killed: nobody else writes here now.
            partial.unlink(missing_ok=True)
        yield True


def empty(folder: Path) -> None:
    """Delete what a cell has left in its folder; what holds it stays."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "held":
            path.unlink()


def read_runs(
    suite_folder: Path, keep: Callable[[dict[str, Any]], Any] = lambda record: record
) -> list[Any]:
    """Read the record of every cell of a suite, with its folder's name, in order of the names.

    `keep` says what to keep of each: ten thousand whole ones are a lot.
    """
    if not suite_folder.is_dir():
        return []
    with os.scandir(suite_folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    records = []
    with uncollected():
        for name in names:
            record = read_json(f"{suite_folder}/{name}/run.json")
            if record is not None:
                record["folder"] = name
                records.append(keep(record))
    return records
