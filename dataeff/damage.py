"""Damaged files: set aside under another name, never deleted, and said in one line."""

import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

Tell = Callable[[str], None]
"""Hears a sentence on a damaged file."""
Cure = Callable[[Path], str]
"""Returns what heals a damaged file, as the end of a sentence."""

_LISTENING: list[Tell] = []


class Damaged(Exception):
    """A file is not as it was written; the text goes on from its name."""

    def __init__(self, why: str) -> None:
        super().__init__(f"is damaged ({why})")


class Newer(Damaged):
    """A file was written by a later version than this."""

    def __init__(self, schema: int, known: int) -> None:
        Exception.__init__(
            self, f"is of a newer version of dataeff (schema {schema}, known is {known})"
        )


@contextmanager
def listening(tell: Tell) -> Iterator[None]:
    """Have `tell` hear of the damaged files that are met inside, of each once."""
    heard: set[str] = set()

    def once(text: str) -> None:
        if text not in heard:
            heard.add(text)
            tell(text)

    _LISTENING.append(once)
    try:
        yield
    finally:
        _LISTENING.remove(once)


def say(text: str) -> None:
    """Tell whoever listens of a damaged file, here or in another process."""
    for tell in _LISTENING:
        tell(text)
    if not _LISTENING:
        # Python writes it to stderr, where nobody has said otherwise.
        logging.getLogger("dataeff").warning(text)


def put_aside(path: Path, why: Damaged, cure: Cure) -> None:
    """Rename a damaged file, and say what is wrong with it, where it is now and what heals it."""
    name = _renamed(path)
    where = f"set aside as {name}" if name else "and its folder cannot be written, so it is left"
    say(f"{path} {why}, {where}; {cure(path)}")


def _renamed(path: Path) -> str:
    """Give a file a name that says that it is damaged; return that, "" where there is no way."""
    for number in count(1):
        name = f"{path.name}.damaged" + (f"-{number}" if number > 1 else "")
        if os.path.lexists(path.with_name(name)):
            continue
        try:
            os.rename(path, path.with_name(name))
        except FileNotFoundError:
            # Another process was first.
            pass
        except OSError:
            return ""
        return name
    return ""


def is_aside(name: str) -> bool:
    """Say whether a file of this name was set aside."""
    return bool(re.search(r"\.damaged(-\d+)?$", name))


def was_put_aside(path: Path) -> bool:
    """Say whether a file of this name was damaged once."""
    return any(is_aside(one.name) for one in path.parent.glob(f"{path.name}.damaged*"))


# Cures -------------------------------------------------------------------------------------------


def commands(folder: Path) -> str:
    """Return what to type to run a suite again: the commands that have filled its folder."""
    for name in ("suite.json", "suite.json.copy"):
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            known = json.loads((folder / name).read_bytes())["commands"]
            if known and all(isinstance(one, str) and one for one in known):
                return "; ".join(known)
    return f"dataeff run {folder.name}"


def cell_runs_again(path: Path) -> str:
    """Return the cure of a file in a cell's folder."""
    return f"its cell runs again with: {commands(path.parent.parent)}"


def made_anew(path: Path) -> str:
    """Return the cure of a file in a suite's folder that a run writes."""
    return f"it is made anew with: {commands(path.parent)}"


def got_anew(path: Path) -> str:
    """Return the cure of a file that nothing here can make."""
    return "get it anew from where it came from"
