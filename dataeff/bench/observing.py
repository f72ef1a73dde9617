"""Observing: what happens to cells is passed on to observers, who live in a process of their own.

They hear what the runner has heard, later than it and at the lowest priority, so that no clock
waits for them; plugins are imported before the first cell starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from dataeff.bench.cells import Cell, Settings
from dataeff.bench.runner import Event
from dataeff.bench.service import PluginService
from dataeff.errors import DataeffError, one_line
from dataeff.notation import parse_one
from dataeff.observer import Observer
from dataeff.plugins import Installed, load_plugins

# Seconds that observers have for one thing, and that they have at the end for all that waits.
_LIMIT, _FAREWELL = 60.0, 30.0
# What an observer hears of, and by which of its methods.
_METHODS = {"started": "cell_started", "epoch": "epoch_ended", "ended": "cell_ended"}


class Audience:
    """The observers of a run, where their code may run."""

    def __init__(self, installed: Installed, asked: Sequence[str], folder: Path) -> None:
        self._observers = {text: _made(installed, text, folder) for text in asked}

    def ready(self) -> None:
        """Say nothing but that they are there."""

    def hear(self, kind: str, cell: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
        """Tell all observers; return a sentence on each that fails, and is left out from now on."""
        given = (cell,) if kind == "started" else (cell, told)
        return self._each(_METHODS[kind], given)

    def end(self) -> list[str]:
        """Tell them that this is all."""
        return self._each("run_ended", ())

    def _each(self, method: str, given: tuple[Any, ...]) -> list[str]:
        said = []
        for text, observer in list(self._observers.items()):
            try:
                getattr(observer, method)(*given)
            # A plugin may raise anything at all.
            except Exception as error:
                del self._observers[text]
                why = f"{type(error).__name__}: {one_line(str(error))}"
                said.append(f"{text} sees no more of this run ({why}); cells go on without it.")
        return said


def _made(installed: Installed, text: str, folder: Path) -> Observer:
    part = parse_one(text)
    entry = installed.observers[part.name]
    values = entry.read(part.params)
    try:
        made: Observer = entry.factory(folder, **values)
    except DataeffError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {one_line(str(error))}"
        raise DataeffError(f"--log {text} cannot be had: {why}") from error
    return made


def _guests(
    tell: Callable[[Any], None],
    folders: Sequence[Path],
    broken: dict[str, str],
    asked: Sequence[str],
    folder: str,
) -> Audience:
    """Make the observers of a run in a process of their own, behind all that is measured."""
    with suppress(OSError):
        os.nice(19)
    return Audience(load_plugins(folders, broken), asked, Path(folder))


class Passing:
    """Passes events on, in their order, without waiting; `said` are sentences on who has failed."""

    def __init__(self, service: PluginService) -> None:
        self._service = service
        self._waiting: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self.said: list[str] = []
        self._thread = Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Take in an event of the runner."""
        if event.kind in _METHODS:
            self._waiting.put(("hear", event.kind, _about(event.cell), event.record))

    def end(self) -> None:
        """Wait until all was heard, but not for ever."""
        self._waiting.put(("end",))
        self._waiting.put(None)
        self._thread.join(_FAREWELL)
        if self._thread.is_alive():
            self.said.append(f"Observers were still busy after {_FAREWELL:g} s: not all is logged.")

    def _pass_on(self) -> None:
        while (told := self._waiting.get()) is not None:
            try:
                self.said += self._service.call(*told)
            except DataeffError as error:
                self.said.append(f"Observers see no more of this run: {error}")
                return


def _about(cell: Cell) -> dict[str, Any]:
    return {
        "name": cell.folder.name,
        "suite": cell.suite,
        "task_name": cell.task_name,
        "strategy": cell.strategy,
        "seed": cell.seed,
        "version": cell.version,
        "conditions_id": cell.scene.conditions_id,
        "task": cell.task.model_dump(mode="json"),
    }


@contextmanager
def observed(
    asked: Sequence[str], settings: Settings, folder: Path, say: Callable[[str], None]
) -> Iterator[Callable[[Event], None]]:
    """Yield what passes events on to the observers that are asked for; who fails is said."""
    if not asked:
        yield lambda event: None
        return
    if settings.in_process:
        audience = Audience(load_plugins(settings.plugin_dirs), asked, folder)

        def tell(event: Event) -> None:
            if event.kind in _METHODS:
                _say_all(audience.hear(event.kind, _about(event.cell), event.record), say)

        yield tell
        _say_all(audience.end(), say)
        return
    where = (list(asked), str(folder.absolute()))
    with PluginService(_guests, settings.plugin_dirs, *where, limit=_LIMIT) as service:
        # Imports are over before anything is on a clock, and mistakes are told.
        service.call("ready")
        passing = Passing(service)
        try:
            yield passing
        finally:
            passing.end()
            _say_all(passing.said, say)


def _say_all(sentences: Sequence[str], say: Callable[[str], None]) -> None:
    for text in sentences:
        say(text)
