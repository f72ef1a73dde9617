"""Seals: a keyed hash of every record's checksum, outside its folder, by a key of the user's.

Whoever changes a record afterwards cannot seal it again without the key, which no strategy's
process may open.
"""

import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from dataeff.files import make_way

_HEAD = "dataeff-seals 1"
# In the place of a seal: the record that is there now has none.
_NONE = "none"
_LONG = re.compile(r"[0-9a-f]{64}").fullmatch


def key_file() -> Path:
    """Return where the user's key is kept."""
    home = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(home if os.path.isabs(home) else os.path.expanduser("~/.local/state"))
    return folder / "dataeff" / "seal.key"


def _key() -> bytes | None:
    """Return the user's key, made when it is first needed; None where there is no place for it."""
    path = key_file()
    with suppress(OSError):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):
                # Whole or not at all: two runners may be the first at once.
                fresh = path.with_name(f"{path.name}.{os.getpid()}")
                fresh.touch(mode=0o600)
                fresh.write_bytes(secrets.token_bytes(32))
                os.link(fresh, path)
            fresh.unlink()
        return path.read_bytes()
    return None


def _seal_of(cell: str, checksum: str, key: bytes) -> str:
    # With its name, so that one cell's record does not pass for another's.
    return hmac.new(key, f"{cell} {checksum}".encode(), hashlib.sha256).hexdigest()


def seal(folder: Path, checksum: str) -> None:
    """Seal the record of a cell, which has this checksum: the last seal counts."""
    key = _key()
    if key is None:
        return
    _enter(folder, _seal_of(folder.name, checksum, key))


def unseal(folder: Path) -> None:
    """Say that the record of a cell was written by somebody else, and has no seal of ours."""
    _enter(folder, _NONE)


def _enter(folder: Path, what: str) -> None:
    path = folder.parent / "seals"
    make_way(path)
    line = f"{folder.name} {what}\n"
    with open(path, "ab") as file:
        # In one write, so that those of two runners do not mix; on a line of its own, also where
        # a disk that was full has cut the last one.
        file.write(f"\n{line}".encode() if file.tell() else f"{_HEAD}\n{line}".encode())


class Seals:
    """The seals of a suite's cells."""

    def __init__(self, suite: Path) -> None:
        self._key = _key()
        lines = []
        with suppress(OSError, UnicodeDecodeError):
            lines = (suite / "seals").read_text(encoding="utf-8").splitlines()
        words = [line.split(" ") for line in lines]
        pairs = [(pair[0], pair[1]) for pair in words if len(pair) == 2]
        known = [(cell, said) for cell, said in pairs if _LONG(said) or said == _NONE]
        self._seals = dict(known)

    def holds(self, cell: str, checksum: str) -> bool | None:
        """Say whether a record is as it was sealed; None where there is no seal, or no key."""
        if self._key is None or self._seals.get(cell, _NONE) == _NONE:
            return None
        return hmac.compare_digest(self._seals[cell], _seal_of(cell, checksum, self._key))
