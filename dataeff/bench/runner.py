"""The runner: decides which cell is next, gives each a process of its own, and writes its record.

No plugin's code runs here, but with `--in-process`: a cell's process sends what it measured, the
evaluator what it tested, and the clock of the runner says how long that took.
"""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
import pandas as pd

from dataeff.bench.books import Books
from dataeff.bench.cells import Again, Cell, Settings, never, write_record
from dataeff.bench.conditions import differing
from dataeff.bench.desk import Desk
from dataeff.bench.evaluator import Evaluator
from dataeff.bench.guest import Died, Guest, Message, told
from dataeff.bench.lanes import share_energy
from dataeff.bench.results import BOOKS, clear, clocked_seconds, empty, held, settled
from dataeff.bench.schedule import Schedule
from dataeff.bench.training import Order, train, write_samples
from dataeff.checked import digest
from dataeff.composition import Composition
from dataeff.damage import say
from dataeff.data.sharing import Shared
from dataeff.errors import DataeffError, DiskFull, one_line
from dataeff.files import read_bytes, write_bits, write_csv, write_text
from dataeff.lab import Lab
from dataeff.seals import key_file, seal
from dataeff.training.cell import OnEpoch, tested_classes
from dataeff.training.heap import steady_heap
from dataeff.training.job import Place
from dataeff.training.weights import FILES, Packer

# What a cell is is not for its process to say.
_OURS = {
    *("schema", "suite", "task_name", "data", "network", "version", "strategy", "parameters"),
    *("task", "task_id", "seed", "files", "weights", "checksum", "lanes"),
}
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
# Seconds that a cell's process has to end, once it has sent all.
_FAREWELL = 10.0


@dataclass
class Event:
    """What the runner tells whoever watches: a cell started, went on, or ended."""

    kind: str
    cell: Cell
    share: float
    record: dict[str, Any]
    number: int = 1
    total: int = 1


Watcher = Callable[[Event], None]


def run_cells(
    cells: Schedule, desk: Desk, settings: Settings, watch: Watcher, again: Again = never
) -> None:
    """Run what is not finished yet; a cell that fails is recorded and the rest goes on.

    More cells may join meanwhile. `again` says which ones to start anew.
    """
    for number, cell in enumerate(cells, 1):

        def tell(kind: str, share: float = 0.0, record: dict | None = None) -> None:
            watch(Event(kind, cell, share, record or {}, number, len(cells)))  # noqa: B023

        def tell_epoch(epoch: int, epochs: float, line: Mapping[str, Any]) -> None:
            tell("epoch", min(1.0, epoch / epochs), dict(line))

        with held(cell.folder) as mine:
            if not mine:
                tell("elsewhere")
                continue
            record = cell.record()
            if again(record):
                empty(cell.folder)
            elif settled(record):
                tell("skipped", record=record)
                continue
            tell("started")
            (cell.folder / "run.json").unlink(missing_ok=True)
            if desk.evaluator is None:
                assert desk.lab, "who has no evaluator has a lab"
                run_cell(cell, desk.lab, settings, tell_epoch)
            else:
                _Hosting(cell, desk, settings, tell_epoch).run(desk.evaluator)
            tell("ended", record=cell.record())


# A process of its own ----------------------------------------------------------------------------


class _Hosting:
    """The runner's side of a cell that runs in its own process."""

    def __init__(self, cell: Cell, desk: Desk, settings: Settings, on_epoch: OnEpoch) -> None:
        self._cell, self._desk, self._settings, self._on_epoch = cell, desk, settings, on_epoch
        self._books = Books(cell.folder)
        self._form = ""

    def run(self, evaluator: Evaluator) -> None:
        """Run the cell; a crash or a hang ends that cell alone."""
        while (ended := self._heard(evaluator)) is None:
            # It went on from a checkpoint that the books do not know: it has to begin anew.
            self._books = Books(self._cell.folder)
            clear(self._cell.folder)
        try:
            self._finish(ended)
        except DiskFull:
            raise
        except (DataeffError, *_NONSENSE) as error:
            fail(self._cell, _nonsense("", error))

    def _heard(self, evaluator: Evaluator) -> Message | None:
        """Start a process, and return the last that it says; None where it must not go on."""
        lane = self._desk.lanes[0]
        guest = Guest(train, self._order(evaluator.shared(self._cell.task)), lane=lane)
        patience = 0.0
        try:
            ended = self._hear(guest, evaluator)
            patience = _FAREWELL
            return ended
        except Died as died:
            return {"died": str(died)}
        except _NONSENSE as error:
            return {"died": _nonsense(guest.where, error)}
        finally:
            guest.end(patience)
            evaluator.forget()

    def _order(self, shared: Shared) -> Order:
        cell, settings = self._cell, self._settings
        shelf, runners = cell.shelf(settings.results), "what the runner has written"
        closed = {str(settings.results): "results", str(key_file().parent): "keys"}
        closed |= {str(cell.folder): "", str(shelf.folder): ""}
        for name in (BOOKS, "run.json", "epochs.csv", "hits.bin"):
            closed[str(cell.folder / name)] = runners
        closed |= dict.fromkeys(shared.hidden, "the test set")
        return Order(
            folder=cell.folder,
            task=cell.task,
            strategy=cell.strategy,
            seed=cell.seed,
            shelf=shelf,
            plugin_dirs=settings.plugin_dirs,
            plugins=self._desk.needed(cell.task, cell.strategy),
            broken=self._desk.broken,
            device=self._desk.lanes[0].device,
            timing=cell.scene.conditions["timing"],
            energy=not share_energy(self._desk.lanes),
            shared=shared,
            closed=closed,
        )

    def _hear(self, guest: Guest, evaluator: Evaluator) -> Message | None:
        """Enter what the cell's process says into the books, until it has said all."""
        limit, books = self._settings.timeout, self._books
        end = monotonic() + limit
        while True:
            left = max(0.0, end - monotonic())
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
                case {"epoch": number, "epochs": epochs, "line": line}:
                    self._on_epoch(number, epochs, books.epoch(line))
                    end = monotonic() + limit
                case {"test": epoch, "form": form}:
                    began = monotonic()
                    books.watch.to("")
                    self._test(int(epoch), form, evaluator)
                    guest.send({"go": True})
                    books.watch.to("off")
                    end += monotonic() - began
                case {"saved": epoch}:
                    books.saved(int(epoch))
                case {"resumed": epoch}:
                    if not books.resumed(int(epoch)):
                        return None
                    guest.send({"go": True})
                case {"failed": _}:
                    return message
                case {"ended": _}:
                    books.watch.to("")
                    return message

    def _test(self, epoch: int, form: Any, evaluator: Evaluator) -> None:
        self._form = form
        path = self._cell.folder / FILES[form]
        try:
            figures = evaluator.test(self._cell.task, form, path)
        except DiskFull:
            raise
        except DataeffError as error:
            raise Died("", f"its network could not be tested: {error}") from None
        self._books.test(epoch, figures)

    def _finish(self, ended: Message) -> None:
        """Write what came of the cell."""
        cell, books = self._cell, self._books
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
        record = {key: value for key, value in ended["ended"].items() if key not in _OURS}
        tests = {k: v for k, v in (books.lines or [{}])[-1].items() if k.startswith("test_")}
        told_of = {k: v for k, v in record["metrics"].items() if not k.startswith("test_")}
        record["metrics"] = told_of | tests
        record["classes"] |= tested_classes(*(books.classes or ([], [])))
        reused = sum(part["seconds"] for part in record["artefacts"] if not part["made"])
        record["machine"]["flags"] += [
            *books.doubts(clocked_seconds(record) - reused),
            *ended["left"],
        ]
        record["outside"] = {**books.watch.seconds, "parts": books.watch.parts}
        record["network_form"] = self._form
        finish(cell, record, books.lines, books.hits)


def _nonsense(where: str, error: Exception) -> str:
    said = f"what its process said makes no sense ({type(error).__name__}: {error})"
    return f"{where}: {said}" if where else said


# In this process ---------------------------------------------------------------------------------


def run_cell(cell: Cell, lab: Lab, settings: Settings, on_epoch: OnEpoch) -> None:
    """Train a cell in this process and write its folder, whatever happens; if there is room."""
    place = Place(cell.folder, cell.shelf(settings.results))
    try:
        with steady_heap():
            what = cell.composition
            composition = what if isinstance(what, Composition) else lab.composition(what.text)
            result = lab.run(cell.task, composition, cell.seed, place, on_epoch)
        write_samples(cell.folder, result)
        result.record["network_form"] = Packer(result.job).pack(cell.folder)
    except DiskFull:
        raise
    except Exception as error:
        fail(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
        return
    hits = [] if result.hits is None else result.hits.tolist()
    finish(cell, result.record, result.epochs, hits)


# What is left ------------------------------------------------------------------------------------


def finish(
    cell: Cell, record: dict[str, Any], lines: list[dict[str, Any]], hits: list[bool]
) -> None:
    """Write what a cell leaves behind, the record last, and clear away what it went on from."""
    # Cells run one after the other, on one lane.
    record["lanes"] = 1
    write_csv(cell.folder / "epochs.csv", pd.DataFrame(lines))
    if hits:
        write_bits(cell.folder / "hits.bin", np.array(hits, dtype=np.bool_))
    (cell.folder / "traceback.txt").unlink(missing_ok=True)
    if form := record.get("network_form"):
        record["weights"] = digest(read_bytes(cell.folder / FILES[form]))
    _write_sealed(cell, record)
    clear(cell.folder)


def fail(cell: Cell, error: str, trace: str = "") -> None:
    """Record that a cell has failed, and why."""
    write_text(cell.folder / "traceback.txt", trace or error + "\n")
    _write_sealed(cell, {"status": "failed", "error": error})


def _write_sealed(cell: Cell, record: dict[str, Any]) -> None:
    seal(cell.folder, write_record(cell, record))


def failures(cells: list[Cell]) -> list[str]:
    """Return one line per failed cell: which, why, and where its traceback is."""
    records = [(cell, cell.record()) for cell in cells]
    return [
        f"{cell.title}: {one_line(record['error'])} (see {cell.folder}/traceback.txt)"
        for cell, record in records
        if record and record["status"] == "failed"
    ]
