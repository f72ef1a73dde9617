"""Saving what torch writes, with what goes wrong told as the system told it."""

import hashlib
from typing import Any, BinaryIO, cast

import torch


class _Sink:
    """Passes what torch writes on to a file, and knows its checksum.

    torch makes an error of its own of what goes wrong here, so that is remembered.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = hashlib.blake2b(digest_size=16)
        self.error: OSError | None = None

    def write(self, content: Any) -> int:
        """Write a part of the file."""
        try:
            written = self._file.write(content)
        except OSError as error:
            self.error = error
            raise
        self.hash.update(content)
        return written

    def flush(self) -> None:
        """Do nothing: the file is flushed when it is closed."""


def save(value: Any, file: BinaryIO) -> bytes:
    """Write a value to a file that is open; return the checksum of what was written.

    To an open file torch writes no name of it, so that the same value gives the same bytes.
    """
    sink = _Sink(file)
    try:
        torch.save(value, cast(BinaryIO, sink))
    except Exception:
        if sink.error:
            raise sink.error from None
        raise
    return sink.hash.digest()
