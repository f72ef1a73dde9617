"""Services: an object in a process of its own, asked by name, with plain data to and fro."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dataeff import errors
from dataeff.bench.guest import Died, Guest, Line, failure, told
from dataeff.errors import DataeffError, one_line
from dataeff.whereabouts import PLUGIN

if TYPE_CHECKING:
    from dataeff.bench.lanes import Lane

IMPORTING = 120.0
"""Seconds that the plugins have to be imported and to register, at the most."""
Hear = Callable[[Any], None]
"""Takes what an object tells while it is asked."""


def unheard(told: Any) -> None:
    """Take no notice."""


class Service:
    """An object that lives in a process of its own, made there by `make(tell, *given)`.

    It begins with the first call, on its lane if it has one. A call that takes longer than `limit`
    seconds, or that its process does not survive, raises `Died`; the next one finds a new process.
    """

    def __init__(
        self, make: Callable[..., Any], *given: Any, limit: float, lane: Lane | None = None
    ) -> None:
        self._make, self._given, self.limit, self._lane = make, given, limit, lane
        self._guest: Guest | None = None

    @property
    def begun(self) -> bool:
        """Say whether there is a process that knows what it was told."""
        return self._guest is not None

    def call(self, name: str, *given: Any, hear: Hear = unheard, limit: float | None = None) -> Any:
        """Call a method, and return what it returns; what it raises is raised here.

        The limit is for each thing told: who goes on telling may go on.
        """
        limit = self.limit if limit is None else limit
        if self._guest is None:
            self._guest = Guest(_serve, self._make, self._given, lane=self._lane)
            try:
                self._next(self._guest, self.limit, unheard)
            except DataeffError:
                self.end()
                raise
        self._guest.send({"call": name, "given": given})
        return self._next(self._guest, limit, hear)

    def _next(self, guest: Guest, limit: float, hear: Hear) -> Any:
        try:
            while True:
                message = guest.receive(limit, "it did not answer")
                if "failed" in message:
                    raise _as_raised(message)
                if "result" in message:
                    return message["result"]
                hear(message["told"])
        except Died:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """End its process, if there is one."""
        guest, self._guest = self._guest, None
        if guest:
            guest.end()


def _as_raised(message: dict[str, Any]) -> DataeffError:
    kind = getattr(errors, str(message["kind"]), DataeffError)
    if message["ours"] and isinstance(kind, type) and issubclass(kind, DataeffError):
        return kind(str(message["failed"]))
    if message["where"].startswith(PLUGIN):
        return Died(message["where"], f"{message['kind']}: {one_line(message['failed'])}")
    return DataeffError(one_line(told(message)))


def _serve(line: Line, make: Callable[..., Any], given: tuple[Any, ...]) -> None:
    """Answer calls until the line is closed."""
    served = make(lambda told: line.send({"told": told}), *given)
    line.send({"result": None})
    while True:
        try:
            asked = line.receive()
        except EOFError:
            return
        try:
            line.send({"result": getattr(served, asked["call"])(*asked["given"])})
        # Plugins may raise anything, to leave the process included.
        except BaseException as error:
            line.send(failure(error))


class PluginService(Service):
    """A service that loads plugins: made by `make(tell, folders, broken, *given)`.

    A plugin that ends or hangs the process that imports it is left out from then on: it is in
    `broken`, with how it ended, and everybody else works.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        folders: Sequence[Path],
        *given: Any,
        limit: float,
        lane: Lane | None = None,
    ) -> None:
        self.broken: dict[str, str] = {}
        importing = min(IMPORTING, limit)
        super().__init__(make, tuple(folders), self.broken, *given, limit=importing, lane=lane)
        self._longest = limit

    def call(self, name: str, *given: Any, hear: Hear = unheard, limit: float | None = None) -> Any:
        """Call a method; its time is another one than that of an import."""
        while True:
            try:
                return super().call(name, *given, hear=hear, limit=limit or self._longest)
            except Died as died:
                if not died.where.startswith(PLUGIN):
                    raise
                self.broken[died.where.removeprefix(PLUGIN)] = died.cause
