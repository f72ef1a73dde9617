"""Errors that teach: each says what was wrong and what to type instead."""

import errno
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from dataeff.printable import printable

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where there is no room: of the disk, of a quota, of a limit."""


_LONG = 200


class DataeffError(Exception):
    """A mistake the user can mend; the command line prints it without a traceback."""


class UnknownName(DataeffError):
    """A strategy, dataset, model, suite or parameter that nobody registered."""


class StrategyConflict(DataeffError):
    """Two strategies of one run want the same thing."""


class StrategyError(DataeffError):
    """A strategy's hook failed; the message names the strategy and the hook."""


class Refused(StrategyError):
    """A strategy says in `setup` that it is not for this task; the message is what it says."""


class Diverged(DataeffError):
    """The training loss is no longer finite."""


class DiskFull(DataeffError, OSError):
    """There is no room to write to; nothing is half-written, and the same command goes on later."""

    @classmethod
    def at(cls, path: str | Path, why: str = "No space left on device") -> "DiskFull":
        """Return the error of a file or folder that there is no room for."""
        return cls(
            f"There is no room to write {path} ({why}): make room, and type the same command "
            "again; it goes on from there."
        )


def needs_all(what: str) -> DataeffError:
    """Return the error of who asks for what trains, where only what reads is installed."""
    return DataeffError(f"{what} needs torch, which is not installed; type: pip install dataeff")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for a misspelt name, or '' where nothing is close."""
    # Nobody misspells that much, and comparing takes the square of it.
    close = get_close_matches(name, list(known), n=3) if len(name) <= _LONG else []
    return f" Did you mean {' or '.join(close)}?" if close else ""


def one_line(text: str) -> str:
    """Return the first line of a message that may have many, with nothing unseen in it."""
    return printable(text.strip().split("\n")[0])
