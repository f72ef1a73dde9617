"""The boundary: what foreign code may not open, and a note of what it starts.

Python tells an audit hook of every file that it opens and every thread and process that it starts,
and a hook cannot be taken off again. Code that goes around Python (a library of its own, another
process) is not seen here: what it could gain is caught elsewhere, see docs/fairness.md.
"""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataeff.errors import StrategyError
from dataeff.whereabouts import HERE, text_of

# By event: where the paths stand among its arguments.
_PATHS = {
    "open": (0,),
    "os.rename": (0, 1),
    "os.link": (0, 1),
    "os.symlink": (0, 1),
    "os.remove": (0,),
    "os.truncate": (0,),
    "os.rmdir": (0,),
    "os.listdir": (0,),
    "os.scandir": (0,),
    "shutil.rmtree": (0,),
}
_STARTS = {
    "subprocess.Popen": "process",
    "os.fork": "process",
    "os.posix_spawn": "process",
}


class Crossed(StrategyError):
    """Foreign code has opened what is not for it."""


@dataclass(eq=False)
class Boundary:
    """What a process may not open while foreign code runs in it.

    `closed` are files and folders with all in them, by what they hold; one that holds nothing is
    open, and the nearest counts. `crossings` says who has tried, `started` who has started what.
    """

    closed: dict[str, str]
    crossings: list[str] = field(default_factory=list)
    started: dict[str, str] = field(default_factory=dict)

    def draw(self) -> None:
        """Hold this process to it, for good."""
        self.closed = {_real(path): what for path, what in self.closed.items()}
        sys.addaudithook(_hook(self, HERE))
        start = threading.Thread.start

        # Python tells of threads only since 3.13.
        def noted(thread: threading.Thread) -> None:
            self.note("thread", text_of(HERE.now))
            start(thread)

        threading.Thread.start = noted  # type: ignore[method-assign, assignment]

    def note(self, kind: str, where: str) -> None:
        """Remember who was the first to start a thread or a process."""
        if where:
            self.started.setdefault(kind, where)

    def close(self, hidden: Iterable[str]) -> None:
        """Close what the test set lies in, too."""
        self.closed |= {_real(path): "the test set" for path in hidden}

    def check(self) -> None:
        """Raise what was tried, also where whoever tried has caught it."""
        if self.crossings:
            raise Crossed(self.crossings[0])

    def holding(self, path: str) -> str:
        """Return what a closed path holds; nothing where it is open to all."""
        real = _real(path)
        around = [closed for closed in self.closed if _within(real, closed)]
        return self.closed[max(around, key=len)] if around else ""

    def left_behind(self) -> list[str]:
        """Say what was left running, in the name of who has started it."""
        found = []
        if any(not thread.daemon for thread in threading.enumerate()[1:]):
            found.append("thread")
        if _processes():
            found.append("process")
        return [f"{self.started.get(kind, 'somebody')} left a {kind} running" for kind in found]


def _hook(boundary: Boundary, here: Any) -> Callable[[str, tuple[Any, ...]], None]:
    busy = threading.local()

    def hear(event: str, given: tuple[Any, ...]) -> None:
        places = _PATHS.get(event)
        if places is None and event not in _STARTS:
            return
        where = text_of(here.now)
        # What the harness does itself, and what looking at a path does, is nobody's doing.
        if not where or getattr(busy, "now", False):
            return
        if event in _STARTS:
            boundary.note(_STARTS[event], where)
            return
        busy.now = True
        try:
            for path in (given[place] for place in places or ()):
                if isinstance(path, str | bytes) and (what := boundary.holding(os.fsdecode(path))):
                    told = f"{where}: it opened {os.fsdecode(path)}, which holds {what}"
                    boundary.crossings.append(told)
                    raise Crossed(told)
        finally:
            busy.now = False

    return hear


def _real(path: str) -> str:
    return os.path.realpath(path)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _processes() -> set[int]:
    """Return the processes that were started from this one and still run, but for loaders."""
    ours = {child.pid for child in multiprocessing.active_children()}
    found: set[int] = set()
    with suppress(OSError):
        for path in Path("/proc/self/task").glob("*/children"):
            found |= {int(number) for number in path.read_text().split()}
    return {number for number in found - ours if not _is_gone(number)}


def _is_gone(number: int) -> bool:
    with suppress(OSError):
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        return state in "ZX"
    return True


class Opened:
    """Notes which files are opened while it is entered: those that data were read from."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._listening = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if self._listening and event == "open" and isinstance(given[0], str | bytes):
            self.files.append(os.fsdecode(given[0]))

    def __enter__(self) -> "Opened":
        self.files, self._listening = [], True
        return self

    def __exit__(self, *error: object) -> None:
        self._listening = False

    def data(self) -> list[str]:
        """Return the files that hold data: no code, no devices, nothing of the system."""
        return sorted({_real(path) for path in self.files if _holds_data(path)})


_CODE = {".py", ".pyc", ".so", ".pth", ".toml", ".pyi"}


def _holds_data(path: str) -> bool:
    system = any(_within(_real(path), root) for root in ("/proc", "/sys", "/dev", "/etc"))
    return not system and Path(path).suffix not in _CODE and Path(path).is_file()


def test_folders(files: Iterable[str], training: Iterable[str]) -> list[str]:
    """Return the folders in which there are test images, and no training images."""
    theirs = {os.path.dirname(file) for file in training}
    return sorted({os.path.dirname(file) for file in files} - theirs)
