"""Checkpoint files: the newest and the one before it, each with a checksum at its end.

The end is of fixed length: a mark, a schema number and the checksum of all that stands before it.
Checkpoints of earlier versions have no such end.
"""

import hashlib
import os
import struct
from pathlib import Path
from typing import Any

import torch
from torch.serialization import default_restore_location

from dataeff.checked import unreadable
from dataeff.damage import Damaged, Newer
from dataeff.files import CHECKPOINTS, make_way, written_whole
from dataeff.saving import save

SCHEMA = 1
"""The form of a checkpoint; it changes when an earlier version would misread the new one."""
_MARK, _END = b"dataeff\n", struct.Struct("<8sI16s")
_BLOCK = 2**20


def write_state(path: Path, state: Any) -> None:
    """Write a checkpoint by write-then-rename; the one that was there becomes the one before.

    Whenever the process is killed, one of the two is whole.
    """
    with written_whole(path) as partial:
        with partial.open("wb") as file:
            checksum = save(state, file)
            file.write(_END.pack(_MARK, SCHEMA, checksum))
        if path.exists():
            before = path.with_name(CHECKPOINTS[1])
            make_way(before, lambda _: "the newer one serves")
            os.replace(path, before)


def read_state(path: Path, device: torch.device) -> Any:
    """Read a checkpoint, the whole of it; None where there is none.

    What was on a device is on this one then, whichever it was: a cell goes on where there is room.
    """

    def move(storage: Any, place: str) -> Any:
        return storage if place == "cpu" else default_restore_location(storage, str(device))

    try:
        checked = _checked(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(error) from None
    if checked:
        return torch.load(path, map_location=move, weights_only=True)
    try:
        return torch.load(path, map_location=move, weights_only=True)
    except Exception as error:
        raise Damaged(f"torch cannot read it: {type(error).__name__}") from None


def _checked(path: Path) -> bool:
    """Say whether a checkpoint has a checksum; one that does not fit it is damaged."""
    with path.open("rb") as file:
        rest = os.fstat(file.fileno()).st_size - _END.size
        if rest < 0:
            raise Damaged("it is too short")
        file.seek(rest)
        mark, schema, known = _END.unpack(file.read(_END.size))
        if mark != _MARK:
            return False
        file.seek(0)
        found = hashlib.blake2b(digest_size=16)
        while rest and (part := file.read(min(rest, _BLOCK))):
            found.update(part)
            rest -= len(part)
    if found.digest() != known:
        raise Damaged("checksum")
    if schema > SCHEMA:
        raise Newer(schema, SCHEMA)
    return True
