"""Whereabouts: whose code runs now, told where another process can read it after this one died."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIZE = 240
"""Bytes of a place: strategy and hook, or a plugin and what is asked of it."""

PLUGIN = "plugin "
"""What the place of a process begins with while a plugin is imported and registers."""


class Whereabouts:
    """The place of this process in foreign code; `now` is empty while none runs."""

    def __init__(self) -> None:
        self.now = bytes(SIZE)
        self._block: Any = bytearray(SIZE)

    def attach(self, block: Any) -> None:
        """Tell it from now on in memory that another process reads."""
        self._block = memoryview(block).cast("B")

    def tell(self, place: bytes) -> None:
        """Say where we are; it is called around every hook, so it does nothing else."""
        self.now = place
        self._block[:] = place

    @contextmanager
    def at(self, text: str) -> Iterator[None]:
        """Be at a place inside; an error leaves it told, for whoever asks where it came from."""
        outer = self.now
        self.tell(place_of(text))
        yield
        self.tell(outer)


def place_of(text: str) -> bytes:
    """Return a text as `tell` takes it."""
    return text.encode(errors="replace")[:SIZE].ljust(SIZE, b"\0")


def text_of(block: Any) -> str:
    """Return what was told last; nothing where no foreign code ran."""
    return bytes(block).split(b"\0", 1)[0].decode(errors="replace")


HERE = Whereabouts()
"""The place of this process."""
