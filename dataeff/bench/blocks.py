"""Blocks: the cells of a task and a seed, alive together in heats, where they take turns."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from time import sleep
from typing import Any

from dataeff.bench.books import Books
from dataeff.bench.cells import Cell
from dataeff.bench.hosting import Berth, Copying, Hosting, copy_folder
from dataeff.bench.turns import FOREVER, SECONDS, Standing, next_of

# Seconds until it is asked again whether what all wait for is there.
_POLL = 0.05
Tell = Callable[..., None]
"""Hears what happens to a cell: kind, cell, share, record."""


@dataclass(frozen=True, eq=False)
class Block:
    """Cells of a task and a seed, and the reference that their times are compared with.

    `expected` returns the seconds that each strategy takes on its clocks, where that is known.
    """

    cells: Sequence[Cell]
    reference: Cell | None = None
    expected: Callable[[], Mapping[str, float]] = dict

    @property
    def in_turns(self) -> bool:
        """Say whether its cells take turns; without, each runs whole."""
        return self.cells[0].scene.conditions.get("timing") != "whole"


class Cells(list[Cell]):
    """Cells that are run by themselves, compared with nobody."""

    def waves(self, lanes: int) -> Iterator[list[Block]]:
        """Yield them one by one."""
        yield from ([Block([cell])] for cell in self)


@dataclass(frozen=True, eq=False)
class Heat:
    """Cells of a block that are alive together; a `copy` of the reference may run beside them."""

    name: str
    cells: Sequence[Cell]
    copy: Cell | None = None


def heats_of(todo: Sequence[Cell], reference: Cell | None) -> list[Heat]:
    """Return the heats of a block: that of the reference, and later ones beside a copy of it.

    Who was stopped goes on in its heat if that is not over, and so does a copy all beside which has
    ended; who is new does not join one that is under way, for the reference would not be beside it
    from the start.
    """
    if reference is None:
        return [Heat("", todo)]
    known = {cell.folder: Books.heat_of(cell.folder) for cell in todo}
    own = known.get(reference.folder)
    # None where the reference has ended, and nothing where it has not begun.
    main, later = None if own is None else own or _name(), _name()

    def heat_of(cell: Cell) -> str:
        heat = known[cell.folder]
        if main and (not own or heat == main):
            return main
        return heat if heat and copy_folder(reference, heat).is_dir() else later

    groups: dict[str, list[Cell]] = {name: [] for name in copies_left(reference)}
    for cell in todo:
        groups.setdefault(heat_of(cell), []).append(cell)
    beside = {name: None if name == main else reference for name in groups}
    heats = [Heat(name, cells, beside[name]) for name, cells in groups.items()]
    # The reference's own comes first: without its record there is nothing to enter a copy into.
    return sorted(heats, key=lambda heat: heat.name != main)


def copies_left(reference: Cell | None) -> list[str]:
    """Return the heats whose timing copy has begun, and not ended."""
    folder = reference.folder / "copies" if reference else None
    return sorted(path.name for path in folder.iterdir()) if folder and folder.is_dir() else []


def _name() -> str:
    return secrets.token_hex(4)


class Track:
    """Where the heats of a block are run, one after another."""

    def __init__(self, block: Block, berth: Berth, tell: Tell) -> None:
        self._block, self._berth, self._tell = block, berth, tell
        self._heats: list[Heat] = []
        self.alive: list[Hosting] = []
        self._expected = block.expected()
        self._draw = Random()

    def run(self, todo: Sequence[Cell]) -> None:
        """Run cells to their end; a crash, a hang or a lack of memory ends that cell alone."""
        if self._block.in_turns:
            self._heats = heats_of(todo, self._block.reference)
        else:
            self._heats = [Heat("", [cell]) for cell in todo]
        while self._heats:
            self._run(self._heats.pop(0))

    def _run(self, heat: Heat) -> None:
        waiting = [self._hosting(cell, heat.name) for cell in heat.cells]
        if copy := self._copy(heat):
            # Anywhere: who starts first is warmed, and has its first turn, on another machine.
            waiting.insert(Random(heat.name).randint(0, len(waiting)), copy)
        try:
            self._start(waiting)
            turn = 0
            while self.alive:
                turn += self._turn(turn)
        finally:
            for host in self.alive:
                host.end()
            self.alive = []

    def _hosting(self, cell: Cell, heat: str) -> Hosting:
        host = Hosting(cell, heat, self._berth, partial(tell_epoch, self._tell, cell))
        host.standing = Standing(self._expected.get(cell.strategy))
        return host

    def _copy(self, heat: Heat) -> Hosting | None:
        """Return a timing copy of the reference, where that has a time to be compared with."""
        record = heat.copy.record() if heat.copy else None
        if heat.copy is None or record is None or record["status"] != "finished":
            return None
        copy = Copying(heat.copy, heat.name, self._berth, lambda *line: None)
        copy.standing = Standing((record.get("outside") or {}).get("on"))
        copy.folder.mkdir(parents=True, exist_ok=True)
        return copy

    def _start(self, waiting: list[Hosting]) -> None:
        """Start as many as fit into memory, which the first tells when it is warm.

        The others are left to another heat; what all are compared with is not one of them.
        """
        if not waiting:
            return
        first, *others = waiting
        self._begin(first)
        room = len(others)
        if others and self.alive:
            self._go(first)
            # One beside it at the least: they are tried, at the worst.
            if first.more is not None:
                room = max(1, first.more // self._berth.sharing)
        if room < len(others):
            others.sort(key=lambda host: not is_same(host.cell, self._block.reference))
            left = [host.cell for host in others[room:]]
            self._heats.append(Heat(_name(), left, self._block.reference))
        for host in others[:room]:
            self._begin(host)

    def _begin(self, host: Hosting) -> None:
        if not isinstance(host, Copying):
            begin(self._tell, host.cell)
        self.alive.append(host)
        host.start()
        if host.ended:
            self._end(host)

    def _turn(self, turn: int) -> bool:
        """Give a turn to who is next; say whether it was one, and nobody has passed."""
        self._berth.check()
        alive = self.alive
        standing = next_of([host.standing for host in alive], turn, self._draw)
        standing.before = standing.share
        host = next(host for host in alive if host.standing is standing)
        self._go(host, SECONDS if len(alive) > 1 else FOREVER)
        if standing.passes:
            if all(one.standing.passes for one in alive):
                sleep(_POLL)
            return False
        standing.last = turn
        for one in alive:
            one.standing.passes = False
        return True

    def _go(self, host: Hosting, seconds: float = SECONDS) -> None:
        host.go(seconds)
        if host.ended:
            self._end(host)
        else:
            host.standing.tell(*host.told, [one.standing for one in self.alive if one is not host])

    def _end(self, host: Hosting) -> None:
        """Write what came of a cell; one that did not fit beside others is run again, alone."""
        beside = len(self.alive) > 1
        self.alive.remove(host)
        host.end()
        if isinstance(host, Copying):
            host.write()
        elif host.ran_out_of_memory and beside:
            only_copy = len(self.alive) == 1 and isinstance(self.alive[0], Copying)
            copy = None if only_copy else self._block.reference
            self._heats.append(Heat(_name(), [host.cell], copy))
        else:
            host.write()
            self._tell("ended", host.cell, record=host.cell.record())


def begin(tell: Tell, cell: Cell) -> None:
    """Tell that a cell begins, and forget what came of it before."""
    tell("started", cell)
    (cell.folder / "run.json").unlink(missing_ok=True)


def tell_epoch(tell: Tell, cell: Cell, epoch: int, epochs: float, line: Mapping[str, Any]) -> None:
    """Tell that an epoch of a cell has ended; a fractional last one is not more than all of it."""
    tell("epoch", cell, min(1.0, epoch / epochs), dict(line))


def is_same(one: Cell, other: Cell | None) -> bool:
    """Say whether two are one cell."""
    return other is not None and one.folder == other.folder
