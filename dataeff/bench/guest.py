"""Guests: processes of foreign code. They send plain data; how one dies tells whose doing it was.

Messages are JSON in both directions: what a guest sends is read, never run.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataeff.errors import DataeffError
from dataeff.training.system import ran
from dataeff.whereabouts import HERE, SIZE, text_of

if TYPE_CHECKING:
    from dataeff.bench.lanes import Lane

Message = dict[str, Any]
Target = Callable[..., None]
"""What a guest does: called with its line to the host, and what it was given."""

# Slow to import: where this process needed one, the fork server imports it once for all guests.
_HEAVY = ("sklearn.datasets", "torchvision", "timm")
_MARK = "DATAEFF_GUEST"
# Seconds that a guest has to end by itself, once it has said all.
_FAREWELL = 5.0
_LONGEST = 2**28
_STARTING = threading.Lock()


class Died(DataeffError):
    """A guest has died or hangs: `where` is whose code ran last, `cause` how it ended."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"{where}: {cause}" if where else cause)
        self.where, self.cause = where, cause


class Line:
    """One end of the line between a guest and its host."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: Message) -> None:
        """Send a message."""
        self._connection.send_bytes(json.dumps(message, default=_plain).encode())

    def receive(self) -> Message:
        """Wait for a message; the end of the line is an EOFError."""
        message: Message = json.loads(self._connection.recv_bytes(_LONGEST))
        return message

    def ask(self, message: Message) -> Message:
        """Send a message, and wait for what is said to it."""
        self.send(message)
        return self.receive()


def _plain(value: Any) -> Any:
    # Numbers of numpy and torch; of anything else, what it looks like.
    return value.item() if getattr(value, "ndim", None) == 0 else str(value)


class Guest:
    """A process of foreign code, as its host sees it; on a lane, if there is one."""

    def __init__(self, target: Target, *given: Any, lane: Lane | None = None) -> None:
        context = multiprocessing.get_context("forkserver")
        heavy = [name for name in _HEAVY if name in sys.modules]
        context.set_forkserver_preload(["dataeff.bench.preload", *heavy])
        self._block = context.RawArray("c", SIZE)
        self._ours, theirs = context.Pipe()
        # The fork server has the environment and the folder of when it was started.
        around = (dict(os.environ), os.getcwd(), lane)
        order = (target, theirs, self._block, around, given)
        self._process = context.Process(target=_begin, args=order)
        with _nobodys_program():
            self._process.start()
        theirs.close()
        self._line = Line(self._ours)

    @property
    def where(self) -> str:
        """Return whose code runs, or ran when it died."""
        return text_of(self._block)

    @property
    def ran(self) -> float:
        """Return the seconds that its process ran so far, 0 where the system does not tell."""
        return ran(self._process.pid or 0)

    def send(self, message: Message) -> None:
        """Say something to the guest; one that is gone does not hear it."""
        with suppress(OSError):
            self._line.send(message)

    def receive(self, limit: float, what: str) -> Message:
        """Return the next message; `what` says what did not happen within the limit."""
        ready = wait([self._ours, self._process.sentinel], limit)
        if not ready:
            raise Died(self.where, f"{what} within {limit:g} seconds, so it was stopped")
        if self._ours in ready:
            with suppress(EOFError, OSError, ValueError):
                return self._line.receive()
        self._process.join(_FAREWELL)
        code = self._process.exitcode
        raise Died(self.where, "it hung up" if code is None else cause_of_death(code))

    def kill(self) -> None:
        """Kill it, from any thread; whoever waits for what it says hears that it died."""
        self._process.kill()

    def end(self, patience: float = 0.0) -> None:
        """End it with all that it has started; it has so many seconds to end by itself."""
        self._process.join(patience)
        # Whom it started may have outlived it; its group bears its number.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        _kill_marked(self._process.pid)
        self._ours.close()


@contextmanager
def _nobodys_program() -> Iterator[None]:
    """Hide what this process was started with: else a new one would run that script once more."""
    main, names = vars(sys.modules["__main__"]), ("__file__", "__spec__")
    # Several lanes start processes.
    with _STARTING:
        known = {name: main[name] for name in names if name in main}
        main.update(dict.fromkeys(names))
        try:
            yield
        finally:
            for name in names:
                del main[name]
            main.update(known)


def cause_of_death(code: int) -> str:
    """Say how a process ended by its exit code."""
    if code >= 0:
        return f"the process ended with exit code {code} and left no result"
    name = signal.Signals(-code).name
    hint = "; usually that means that memory ran out" if name == "SIGKILL" else ""
    return f"the process was ended by {name}{hint}"


def _kill_marked(pid: int | None) -> None:
    """Kill what a guest has started and sent into a group of its own: the mark is inherited."""
    mark = f"{_MARK}={pid}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


# The guest's side --------------------------------------------------------------------------------


def _begin(
    target: Target,
    connection: Connection,
    block: Any,
    around: tuple[dict[str, str], str, Lane | None],
    given: tuple[Any, ...],
) -> None:
    # Ctrl-C reaches the whole group of the host, who ends us, so that one of us speaks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()
    environment, folder, lane = around
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment, **{_MARK: str(os.getpid())})
    # Locks of other methods have names, which the host would find left behind: we end at once.
    if sys.platform == "linux":
        multiprocessing.set_start_method("fork", force=True)
    HERE.attach(block)
    threading.Thread(target=_end_with_host, daemon=True).start()
    line = Line(connection)
    try:
        if lane:
            lane.enter()
        target(line, *given)
    except BaseException as error:
        line.send(failure(error))
    connection.close()
    # Without the way out that plugins could have changed, and threads that they left behind.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def failure(error: BaseException) -> Message:
    """Return a message about an error: what it says, of which kind it is, whose code has run."""
    return {
        "failed": str(error),
        "kind": type(error).__name__,
        "ours": isinstance(error, DataeffError),
        "where": "" if isinstance(error, DataeffError) else text_of(HERE.now),
        "trace": "".join(traceback.format_exception(error)),
    }


def told(message: Message) -> str:
    """Return what a message says of an error: its kind, and in whose code it was raised."""
    where = f"{message['where']}: " if message.get("where") else ""
    return f"{where}{message['kind']}: {message['failed']}"


def _end_with_host() -> None:
    """End this process and all that it started with its host, whose hold of a cell is gone then."""
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)
