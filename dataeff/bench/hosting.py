"""Hosting: the runner's side of a cell that is alive in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

from dataeff.bench.books import Books
from dataeff.bench.cells import Cell, Settings
from dataeff.bench.conditions import differing
from dataeff.bench.desk import Desk
from dataeff.bench.ended import amend, fail, finish, weights_of
from dataeff.bench.evaluator import Evaluator
from dataeff.bench.guest import Died, Guest, Message, told
from dataeff.bench.lanes import CPU, Lane, share_energy
from dataeff.bench.results import BOOKS, clear, clocked_seconds, delete
from dataeff.bench.training import Order, train
from dataeff.bench.turns import Standing
from dataeff.damage import say
from dataeff.errors import DataeffError, DiskFull, one_line
from dataeff.seals import key_file
from dataeff.training.cell import OnEpoch, tested_classes
from dataeff.training.evaluate import merits
from dataeff.training.weights import FILES

# What a cell is is not for its process to say.
_OURS = {
    *("schema", "suite", "task_name", "data", "network", "version", "strategy", "parameters"),
    *("task", "task_id", "seed", "files", "weights", "checksum", "heat", "heats", "lanes"),
}
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
# Seconds that a cell's process has to end, once it has sent all.
_FAREWELL = 10.0
# Share of its clocked time, and seconds, that a process may run on the turns of others: it wakes.
_ASIDE, _SLACK = 0.02, 0.2
# What processes say that memory has no room for.
_NO_ROOM = ("OutOfMemoryError", "MemoryError", "can't allocate memory", "ended by SIGKILL")


class Stopped(Exception):
    """What runs on a lane is to end at once, and to write nothing."""


@dataclass(eq=False)
class Berth:
    """What cells on a lane are given: the lane, its evaluator, and what all lanes share.

    `busy` returns how many lanes are, `stopped` is set when all are to end.
    """

    lane: Lane
    evaluator: Evaluator
    desk: Desk
    settings: Settings
    busy: Callable[[], int] = lambda: 1
    stopped: Event = field(default_factory=Event)

    @property
    def sharing(self) -> int:
        """Return how many lanes share the memory of this one."""
        return len(self.desk.lanes) if self.lane.device == CPU else 1

    def check(self) -> None:
        """Go no further where all are to end."""
        if self.stopped.is_set():
            raise Stopped


class Hosting:
    """A cell that is alive in a process of its own, until it has `ended`.

    It runs while `go` is called, and stands still otherwise.
    """

    def __init__(self, cell: Cell, heat: str, berth: Berth, on_epoch: OnEpoch) -> None:
        self.cell, self.heat, self._berth, self._on_epoch = cell, heat, berth, on_epoch
        self.standing = Standing()
        self.ended: Message | None = None
        self.more: int | None = None
        self.told = 0.0, True
        self._books = Books(self.folder, heat)
        self._left = berth.settings.timeout
        self._lanes = 1
        # What its process had run when it handed its turn over, and what it has run since then.
        self._ran = self._aside = 0.0
        self._guest: Guest | None = None

    @property
    def folder(self) -> Path:
        """Return where its process keeps what it needs."""
        return self.cell.folder

    @property
    def ran_out_of_memory(self) -> bool:
        """Say whether it ended because memory had no room for it."""
        said = self.ended or {}
        text = " ".join(str(said.get(key, "")) for key in ("died", "kind", "failed"))
        return any(word in text for word in _NO_ROOM)

    def start(self) -> None:
        """Start a process; it waits for its first turn before it loads data."""
        order = self._order()
        self._books.begin()
        self._books.watch.to("start")
        self._guest = Guest(train, order, lane=self._berth.lane)
        self._attend(lambda guest: None)

    def go(self, seconds: float) -> None:
        """Let it run until it hands its turn over, which is due after so many seconds."""

        def grant(guest: Guest) -> None:
            self._aside += max(0.0, guest.ran - self._ran) if self.standing.turns > 0 else 0.0
            self._books.watch.to("off" if self.standing.turns > 0 else "start")
            guest.send({"seconds": seconds})

        self._lanes = max(self._lanes, self._berth.busy())
        self._attend(grant)
        self._ran = self._guest.ran if self._guest else 0.0
        self.standing.turns += 1
        self.standing.clocked = self._books.watch.seconds["on"]

    def end(self) -> None:
        """End its process, if it has one."""
        if guest := self._guest:
            self._guest = None
            guest.end(_FAREWELL if self.ended and "ended" in self.ended else 0.0)
            self._berth.evaluator.forget(self.folder)

    def kill(self) -> None:
        """Kill its process, wherever that is; whoever hears it finds out."""
        if guest := self._guest:
            guest.kill()

    def write(self) -> None:
        """Write what came of the cell."""
        try:
            self._finish(self.ended or {})
        except DiskFull:
            raise
        except (DataeffError, *_NONSENSE) as error:
            fail(self.cell, _nonsense("", error))

    def _order(self) -> Order:
        cell, berth, settings = self.cell, self._berth, self._berth.settings
        shared = berth.evaluator.shared(cell.task)
        shelf, runners = cell.shelf(settings.results), "what the runner has written"
        closed = {str(settings.results): "results", str(key_file().parent): "keys"}
        closed |= {str(self.folder): "", str(shelf.folder): ""}
        for name in (BOOKS, "run.json", "epochs.csv", "hits.bin"):
            closed[str(self.folder / name)] = runners
        closed |= dict.fromkeys(shared.hidden, "the test set")
        return Order(
            folder=self.folder,
            task=cell.task,
            strategy=cell.strategy,
            seed=cell.seed,
            shelf=shelf,
            plugin_dirs=settings.plugin_dirs,
            plugins=berth.desk.needed(cell.task, cell.strategy),
            broken=berth.desk.broken,
            device=berth.lane.device,
            timing=cell.scene.conditions["timing"],
            energy=not share_energy(berth.desk.lanes),
            saves_every=settings.saves_every,
            shared=shared,
            closed=closed,
        )

    def _attend(self, begin: Callable[[Guest], None]) -> None:
        """Hear what the process says until it hands its turn over, or has ended."""
        guest = self._guest
        assert guest, "who has a turn has a process"
        try:
            begin(guest)
            self.ended = self._hear(guest)
        except Died as died:
            self._berth.check()
            self.ended = {"died": str(died)}
        except _NONSENSE as error:
            self.ended = {"died": _nonsense(guest.where, error)}
        if self.ended and "unknown" in self.ended:
            # It went on from a checkpoint that the books do not know: it has to begin anew.
            self.ended = None
            self.end()
            clear(self.folder)
            self._books, self.standing.turns = Books(self.folder, self.heat), -1
            self.start()

    def _hear(self, guest: Guest) -> Message | None:
        """Enter what is said into the books; the limit is that of what is held of the turns."""
        limit, books = self._berth.settings.timeout, self._books
        since = monotonic()
        while True:
            left = max(0.0, self._left - (monotonic() - since))
            try:
                message = guest.receive(left, "no epoch ended")
            except Died as died:
                # What is left of the limit is nothing that was asked for.
                cause = died.cause.replace(f"within {left:g} seconds", f"within {limit:g} seconds")
                hint = "; see --timeout" if cause.endswith("stopped") else ""
                raise Died(died.where, f"{cause}{hint}") from None
            match message:
                case {"said": text}:
                    say(str(text))
                case {"mark": on}:
                    books.watch.to("on" if on else "off")
                case {"turn": told}:
                    books.watch.to("")
                    self._left -= monotonic() - since
                    self._take(told)
                    return None
                case {"epoch": number, "epochs": epochs, "line": line}:
                    self._on_epoch(number, epochs, books.epoch(line))
                    self._left, since = limit, monotonic()
                case {"test": epoch, "form": form, "whole": whole}:
                    began = monotonic()
                    books.watch.to("")
                    self._test(int(epoch), form, bool(whole))
                    guest.send({"go": True})
                    books.watch.to("off")
                    since += monotonic() - began
                case {"saved": epoch}:
                    books.saved(int(epoch))
                case {"resumed": epoch}:
                    if not books.resumed(int(epoch)):
                        return {"unknown": epoch}
                    guest.send({"go": True})
                case {"failed": _}:
                    return message
                case {"ended": _}:
                    books.watch.to("")
                    return message

    def _take(self, told: Mapping[str, Any]) -> None:
        self.standing.passes = bool(told.get("passes"))
        self.told = float(told.get("progress", 0.0)), bool(told.get("preparing", True))
        self.more = told.get("more", self.more)

    def _test(self, epoch: int, form: Any, whole: bool) -> None:
        path = self.folder / FILES[form]
        try:
            figures = self._berth.evaluator.test(self.cell.task, form, path, whole)
        except DiskFull:
            raise
        except DataeffError as error:
            raise Died("", f"its network could not be tested: {error}") from None
        self._books.test(epoch, figures | {"form": form})

    def _finish(self, ended: Message) -> None:
        """Write what came of the cell."""
        cell, books = self.cell, self._books
        if "died" in ended:
            fail(cell, ended["died"])
            return
        if ended.get("kind") == "DiskFull":
            raise DiskFull(ended["failed"])
        if "failed" in ended:
            fail(cell, told(ended), ended["trace"])
            return
        if others := differing(cell.scene.conditions, ended["conditions"]):
            fail(cell, f"the cell ran under other conditions: {others}")
            return
        if books.lines and books.final.get("epoch") != books.lines[-1]["epoch"]:
            fail(cell, "it ended without a test of its network")
            return
        record = {key: value for key, value in ended["ended"].items() if key not in _OURS}
        whole = books.final.get("whole", {})
        told_of = {k: v for k, v in record["metrics"].items() if not k.startswith("test_")}
        record["metrics"] = told_of | {f"test_{k}": v for k, v in merits(whole).items()}
        record["part"] = books.final.get("images")
        record["classes"] |= tested_classes(*whole.get("classes", ([], [])))
        record["machine"]["flags"] += self._doubts(record)
        record["outside"] = {**books.watch.seconds, "parts": books.watch.parts}
        record["network_form"] = books.final.get("form", "")
        record["lanes"] = self._lanes
        if self.heat:
            record["heat"] = self.heat
        finish(cell, record, books.lines, whole.get("hits", []))

    def _doubts(self, record: Mapping[str, Any]) -> list[str]:
        reused = sum(part["seconds"] for part in record["artefacts"] if not part["made"])
        found = self._books.doubts(clocked_seconds(dict(record)) - reused)
        if self._aside > _ASIDE * self.standing.clocked + _SLACK:
            found.append(f"it ran for {self._aside:.1f} s while it was the turn of others")
        return [*found, *(self.ended or {})["left"]]


class Copying(Hosting):
    """A timing copy: the reference once more, for its time beside cells that came later.

    What it comes to is known; its clocks are entered into the record of the reference.
    """

    _form: Any = ""

    @property
    def folder(self) -> Path:
        """Return a folder in that of the reference."""
        return copy_folder(self.cell, self.heat)

    def write(self) -> None:
        """Enter its clocks into the record of the reference, under the name of the heat."""
        if reference := self.cell.record():
            try:
                told_of = self._told_of(reference)
            except _NONSENSE as error:
                told_of = {"clocks": {}, "flags": [_nonsense("", error)]}
            amend(self.cell, reference, heats=reference.get("heats", {}) | {self.heat: told_of})
        delete(self.folder)
        with suppress(OSError):
            self.folder.parent.rmdir()

    def _test(self, epoch: int, form: Any, whole: bool) -> None:
        self._form = form

    def _told_of(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """Return its clocks, and why they cannot be trusted."""
        ended = self.ended or {}
        if "ended" not in ended:
            why = ended.get("died") or told(ended)
            return {"clocks": {}, "flags": [f"the reference beside it failed: {one_line(why)}"]}
        record, flags = ended["ended"], []
        if weights_of(self.folder, self._form) != reference.get("weights"):
            flags = ["the reference beside it came to other weights"]
        clocks = {name: record["clocks"].get(name, 0.0) for name in ("prepare", "train")}
        flags += [*record["machine"]["flags"], *self._doubts(record)]
        return {"clocks": clocks, "flags": flags}


def copy_folder(reference: Cell, heat: str) -> Path:
    """Return where the timing copy of a heat keeps what it needs."""
    return reference.folder / "copies" / heat


def _nonsense(where: str, error: Exception) -> str:
    said = f"what its process said makes no sense ({type(error).__name__}: {error})"
    return f"{where}: {said}" if where else said
