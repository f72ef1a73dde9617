"""Locks: two commands never share a lane, for each would spoil the other's times."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from typing import IO

from dataeff.bench.lanes import Lane
from dataeff.errors import DataeffError
from dataeff.seals import key_file


@contextmanager
def locked(lanes: Sequence[Lane]) -> Iterator[None]:
    """Have lanes to ourselves inside, as far as other commands of this user go.

    A lock is a file's: it goes with the process, however that ends. All cores together, which are
    pinned to nobody, have none.
    """
    folder = key_file().parent / "lanes"
    with ExitStack() as held:
        # Where the user has no place of his own, nobody can be told.
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for lane in lanes:
                for name in lane.own:
                    _lock(held.enter_context((folder / name).open("a+")), lane)
        yield


def _lock(file: IO[str], lane: Lane) -> None:
    try:
        flock(file, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise DataeffError(
            f"{lane.name} is in use by another command (process {file.read().strip()}); wait until "
            "that has ended, or name other --devices."
        ) from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
