"""The heap of a process: where it lies costs time, which no strategy is to be charged for.

glibc gives freed memory back to the system where it can, and gets it back page by page. How often
hangs on how the heap happens to lie, which is the same in every run of a cell: it made one of two
equal strategies up to 18% slower than the other. So what a process has used stays with it. What is
left of such luck, in caches and pages, is drawn anew for each cell: a bias would pass for a
difference, while noise is seen by the spread between seeds.
"""

import ctypes
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# What glibc's mallopt calls them, and as much as it takes.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_OPTIONS = {_TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 2**26, _MMAP_THRESHOLD: 2**25}
_MOST_SHIFTED = 2**22


def keeps_heap() -> bool:
    """Say whether a process can be made to keep what it has freed: with glibc."""
    return _mallopt() is not None


@contextmanager
def steady_heap() -> Iterator[None]:
    """Keep what is freed in this process, and begin at a random place of its heap."""
    if mallopt := _mallopt():
        for option, value in _OPTIONS.items():
            mallopt(option, value)
    ballast = bytes(secrets.randbelow(_MOST_SHIFTED))
    try:
        yield
    finally:
        del ballast


def _mallopt() -> Callable[[int, int], int] | None:
    try:
        found: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return None
    return found
