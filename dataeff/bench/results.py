"""Results on disk: one folder per cell, held by one process at a time."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from os.path import isdir
from pathlib import Path
from typing import Any

from dataeff.checked import digest, read_checked, read_whole
from dataeff.damage import Damaged, cell_runs_again, is_aside, put_aside, was_put_aside
from dataeff.files import CHECKPOINTS, locked, read_bytes, uncollected
from dataeff.forms import RECORD

BOOKS = "books.json"
"""What the runner keeps of a cell while it runs."""
FILES = ("epochs.csv", "samples.parquet", "hits.bin")
"""What a cell leaves beside its record, which lists their checksums."""


def settled(record: dict[str, Any] | None) -> bool:
    """Say whether a cell with this record needs no more running."""
    return record is not None and record["status"] in ("finished", "diverged")


def flags_of(record: dict[str, Any]) -> list[str]:
    """Return why the times of a cell cannot be trusted; nothing when they can."""
    return (record.get("machine") or {}).get("flags", [])


def clocked_seconds(record: dict[str, Any]) -> float:
    """Return the seconds of prepare and train, 0 where there are none."""
    clocks = record.get("clocks") or {}
    return clocks.get("prepare", 0.0) + clocks.get("train", 0.0)


def pairing(record: dict[str, Any], reference: dict[str, Any] | None) -> tuple[float, str]:
    """Return by what to multiply a cell's times, to be those beside the reference's own run.

    A cell of a later heat ran beside a timing copy of the reference: what that was slower than the
    reference, the machine was slower. NaN, and why, where no reference was alive beside the cell.
    """
    heat = record.get("heat")
    if not heat or (reference and heat == reference.get("heat")):
        return 1.0, ""
    copy = ((reference or {}).get("heats") or {}).get(heat)
    if reference is None or not copy:
        return math.nan, "no reference was alive beside it"
    if copy["flags"]:
        return math.nan, f"of the reference beside it: {copy['flags'][0]}"
    return clocked_seconds(reference) / clocked_seconds(copy), ""


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold a cell for this process; yields False where another process has it.

    The hold is a file lock: it goes with the process, however that ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "held") as mine:
        # Whoever was writing one was killed: nobody else writes here now.
        for partial in folder.rglob("*.partial") if mine else ():
            partial.unlink(missing_ok=True)
        yield mine


def empty(folder: Path) -> None:
    """Delete what a cell has left in its folder; what holds it, and what was set aside, stays."""
    for path in folder.iterdir():
        if not is_aside(path.name) and path.name != "held":
            delete(path)


def clear(folder: Path) -> None:
    """Delete what a cell needs only while it runs: its checkpoints, and its nested runs."""
    for name in (*CHECKPOINTS, BOOKS, "children"):
        with suppress(FileNotFoundError):
            delete(folder / name)


def delete(path: Path) -> None:
    """Delete a file, or a folder with all that was not set aside in it."""
    if path.is_dir() and not path.is_symlink():
        empty(path)
        # Not where something was set aside in it.
        with suppress(OSError):
            path.rmdir()
    else:
        path.unlink()


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of what a cell has left, for its record to list."""
    found = {}
    for name in FILES:
        with suppress(OSError):
            found[name] = digest(read_bytes(folder / name))
    return found


def cell_record(folder: Path) -> Any:
    """Read what came of a cell; None where that is not known, or where its files are damaged.

    A file that is merely missing is not.
    """
    record = read_checked(folder / "run.json", RECORD)
    if record is None:
        return None
    whole = [_is_whole(folder / name, known) for name, known in record.get("files", {}).items()]
    return record if all(whole) else None


def _is_whole(path: Path, known: str) -> bool:
    """Say whether a file of a cell is as it was left; set it aside if it is not."""
    try:
        found = path.stat()
    except OSError:
        found = None
    if found is None and not path.is_symlink():
        return not was_put_aside(path)
    try:
        _check(path, known, found and (found.st_ino, found.st_mtime_ns, found.st_size))
    except Damaged as damage:
        put_aside(path, damage, cell_runs_again)
        return False
    return True


@lru_cache(maxsize=2**16)
def _check(path: Path, known: str, state: Any) -> None:
    """Hold a file to its checksum: once, as long as its state is the same."""
    read_whole(path, known)


def read_runs(
    suite_folder: Path, keep: Callable[[dict[str, Any]], Any] = lambda record: record
) -> list[Any]:
    """Read the record of every cell of a suite, with its folder's name, in order of the names.

    `keep` says what to keep of each: ten thousand whole ones are a lot.
    """
    if not suite_folder.is_dir():
        return []
    with os.scandir(suite_folder) as entries:
        # What is no folder may be a loop of links, of which nothing can be asked.
        names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) or isdir(e.path))
    records = []
    with uncollected():
        for name in names:
            record = read_checked(f"{suite_folder}/{name}/run.json", RECORD)
            if record is not None:
                record["folder"] = name
                records.append(keep(record))
    return records
