"""The desk: what the runner knows of plugins, as plain data; their code runs in another process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from dataeff.bench.conditions import conditions
from dataeff.bench.evaluator import Evaluator
from dataeff.bench.lanes import Lane, Timing
from dataeff.bench.probing import lanes_of, probe
from dataeff.bench.service import Hear, PluginService, unheard
from dataeff.bench.sketch import Facts, Kind, Sketch
from dataeff.bench.work import Work, begin
from dataeff.errors import DataeffError
from dataeff.foretell.pace import Estimate
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.seals import key_file

if TYPE_CHECKING:
    from dataeff.bench.cells import Settings
    from dataeff.training.task import Task


class Asked(Protocol):
    """Work, here or in another process."""

    def call(self, name: str, *given: Any, hear: Hear = unheard) -> Any:
        """Call a method of it by name."""


@dataclass(eq=False)
class Beside:
    """Work in this process, for debugging and tests."""

    lab: Lab

    def __post_init__(self) -> None:
        self._work = Work(self.lab, lambda told: self._hear(told))
        self._hear: Hear = unheard

    def call(self, name: str, *given: Any, hear: Hear = unheard) -> Any:
        """Call a method of it by name."""
        self._hear = hear
        return getattr(self._work, name)(*given)


class Apart:
    """Work in another process; a plugin that ends or hangs it is left out from then on."""

    def __init__(self, settings: Settings, lane: Lane) -> None:
        self._settings = settings
        self._taken: list[tuple[Any, ...]] = []
        # Several lanes ask.
        self._lock = RLock()
        self.service = self._on(lane)

    def _on(self, lane: Lane) -> PluginService:
        settings = self._settings
        closed = {str(settings.results): "results", str(key_file().parent): "keys"}
        given = (settings.plugin_dirs, lane.device, closed)
        return PluginService(begin, *given, limit=settings.timeout, lane=lane)

    def enter(self, lane: Lane) -> None:
        """Go on on another lane."""
        self.service.end()
        broken, self.service = self.service.broken, self._on(lane)
        self.service.broken.update(broken)

    def call(self, name: str, *given: Any, hear: Hear = unheard) -> Any:
        """Call a method of it by name; a new process is told what the one before was given."""
        with self._lock:
            if not self.service.begun:
                for taken in self._taken:
                    self.service.call("take", *taken)
            if name == "take":
                self._taken.append(given)
            # What is only to be looked at, before anything is run, has less time than an epoch.
            limit = self.service.limit if name == "refusal" else None
            return self.service.call(name, *given, hear=hear, limit=limit)


@contextmanager
def open_desk(settings: Settings) -> Iterator[Desk]:
    """Yield a desk, with processes for as long as it is needed; or without, for debugging."""
    if settings.in_process:
        if set(settings.device) & {",", "*"}:
            raise DataeffError("--in-process runs on one device, such as --device cpu; name one.")
        lab = Lab(load_plugins(settings.plugin_dirs), settings.device, settings.data_root)
        yield Desk.beside(lab)
        return
    desk = Desk.apart(settings)
    try:
        yield desk
    finally:
        desk.end()


class Desk:
    """What the runner asks about strategies, data and networks; answers are kept.

    Who asks has lanes to work on, of which the first is the desk's own as well; `calibration` says
    what busy lanes do to ratios of times beside them, where there are several.
    """

    def __init__(self, asked: Asked, lanes: tuple[Lane, ...]) -> None:
        self._asked, self.lanes = asked, lanes
        self.evaluator: Evaluator | None = None
        self.calibration: dict[str, Any] | None = None
        self._conditions: dict[str, Any] = {}
        self._known: dict[str, Sketch] = {}
        self._facts: dict[tuple[str, int, str, bool], Facts] = {}
        self._checked: set[Task] = set()
        self._sources: dict[Task, Sequence[str] | None] = {}

    @classmethod
    def beside(cls, lab: Lab) -> Desk:
        """Return a desk whose work is done in this process."""
        return cls(Beside(lab), (Lane(str(lab.device), str(lab.device)),))

    @classmethod
    def apart(cls, settings: Settings) -> Desk:
        """Return a desk whose work is done in other processes."""
        lanes = lanes_of(settings.device)
        desk = cls(Apart(settings, lanes[0]), lanes)
        desk.evaluator = Evaluator(settings, desk.sources, lanes[0])
        return desk

    def enter(self, lanes: tuple[Lane, ...]) -> None:
        """Go on on other lanes, where they are others; what was answered holds there too."""
        if lanes == self.lanes:
            return
        self.lanes, self._conditions = lanes, {}
        if isinstance(self._asked, Apart):
            self._asked.enter(lanes[0])
        if self.evaluator:
            self.evaluator.enter(lanes[0])

    @property
    def conditions(self) -> dict[str, Any]:
        """Return the conditions of cells on its lanes, from a probe; lanes that differ are refused.

        A device that cannot be used is refused here, too.
        """
        if not self._conditions:
            here = self.lab and conditions(self.lab.device)
            self._conditions = here or probe(self.lanes)
        return self._conditions

    def timing(self, wanted: Timing) -> Timing:
        """Return how cells share a lane: one process at a time, or this one, has no turns."""
        alone = self.lab or any(lane.exclusive for lane in self.lanes)
        return "whole" if alone else wanted

    @property
    def lab(self) -> Lab | None:
        """Return the lab of this process, where work is done here."""
        return self._asked.lab if isinstance(self._asked, Beside) else None

    @property
    def broken(self) -> dict[str, str]:
        """Return the plugins that ended or hung the process that imported them, and how."""
        return self._asked.service.broken if isinstance(self._asked, Apart) else {}

    def end(self) -> None:
        """End the processes."""
        if isinstance(self._asked, Apart):
            self._asked.service.end()
        if self.evaluator:
            self.evaluator.end()

    # What is installed ------------------------------------------------------------------------

    def plugins(self) -> list[dict[str, Any]]:
        """List the plugins: name, version, source, and why one is broken."""
        return self._asked.call("plugins")

    def device_line(self) -> str:
        """Say where runs are, on how many lanes, and why not on CUDA."""
        told: str = self._asked.call("device_line")
        self._leave()
        return f"{len(self.lanes)} lanes, each o{told[1:]}" if len(self.lanes) > 1 else told

    def suite_file(self, name: str) -> Path:
        """Return the file of a suite that is registered by name."""
        return Path(self._asked.call("suite_file", name))

    def sources(self, task: Task) -> Sequence[str] | None:
        """Return the plugins that a task needs; None where that is not known."""
        if task not in self._sources:
            self._sources[task] = self._asked.call("sources", _told(task))
        return self._sources[task]

    def needed(self, task: Task, composition: str) -> list[str] | None:
        """Return the plugins that a cell needs; None where that is not known."""
        of_task = self.sources(task)
        return None if of_task is None else [*of_task, *self.composition(composition).plugins]

    def check_dataset(self, text: str) -> None:
        """Refuse a dataset that nobody has registered, or parameters that it does not take."""
        self._asked.call("check_dataset", text)

    # Compositions -----------------------------------------------------------------------------

    def composition(self, text: str) -> Sketch:
        """Return a composition as typed; a text is asked for once, its canonical form never."""
        if text not in self._known:
            self._known[text] = self._keep(self._asked.call("describe", text))
        return self._known[text]

    def filled(self, pattern: Sketch, value: float) -> Sketch:
        """Return a composition with the open value filled in."""
        return self._keep(self._asked.call("filled", pattern.text, value))

    def kinds(self, wanted: bool | list[str]) -> list[Kind]:
        """Return the strategies that the line is made of: all, none, or those named."""
        return [Kind(*told) for told in self._asked.call("kinds", wanted)] if wanted else []

    def at_cost(self, kind: Kind, share: float) -> Sketch:
        """Return one of these that costs this share of the reference."""
        return self._keep(self._asked.call("at_cost", kind.name, share))

    def _keep(self, told: dict[str, Any]) -> Sketch:
        sketch = Sketch.of(told)
        return self._known.setdefault(sketch.text, sketch)

    # Data and networks ------------------------------------------------------------------------

    def facts(self, task: Task) -> Facts:
        """Look at the task's data and network; fail with one sentence where there are none."""
        key = (task.dataset, task.workers, task.model, task.channels_last)
        if key not in self._facts:
            self._facts[key] = self._found(task)
        if task not in self._checked:
            self._asked.call("check_task", _told(task))
            self._checked.add(task)
        return self._facts[key]

    def _found(self, task: Task) -> Facts:
        data: Any
        if self.evaluator:
            data = self.evaluator.shared(task)
            self._asked.call("take", _told(task), asdict(data))
            tests = data.test_samples
        else:
            assert self.lab, "who has no evaluator has a lab"
            data = self.lab.on_cpu().data(task)
            tests = len(data.test)
        about = (_told(task), data.classes, data.shape)
        network = self._asked.call("network", *about)
        said = self._asked.call("try_network", *about)
        return Facts(data.fingerprint, network, data.classes, tests, tuple(said))

    # Foretelling ------------------------------------------------------------------------------

    def refusal(self, task: Task, text: str, seed: int, on_cpu: bool) -> str:
        """Return what a strategy has against a task; nothing where it takes it."""
        return self._asked.call("refusal", _told(task), text, seed, on_cpu)

    def estimate(
        self, task: Task, lines: Sequence[tuple[Estimate, str, int, int]], hear: Hear, **how: Any
    ) -> list[Estimate]:
        """Measure strategies on a task, as `Site` does: a line, a composition, a seed, bytes."""
        told = [(asdict(line), *rest) for line, *rest in lines]
        filled = self._asked.call("estimate", _told(task), told, how, hear=hear)
        return [Estimate(**line) for line in filled]

    def let_go(self) -> None:
        """Leave memory and loader processes of what was set up to the cells."""
        self._asked.call("let_go")
        self._leave()

    def _leave(self) -> None:
        """Leave a device that lets a single process in to the cells."""
        if isinstance(self._asked, Apart) and self.lanes[0].exclusive:
            self._asked.service.end()

    @contextmanager
    def pilot(self, task: Task, reference: str) -> Iterator[Piloting]:
        """Measure what strategies cost beside a reference, inside."""
        self._asked.call("begin_pilot", _told(task), reference)
        try:
            yield Piloting(self._asked)
        finally:
            self._asked.call("end_pilot")
            self._leave()


@dataclass(frozen=True, eq=False)
class Piloting:
    """A pilot that has begun."""

    asked: Asked

    def pace(self, strategy: str) -> float:
        """Return the time of a run over its counted work, both as shares of the reference's."""
        return self.asked.call("pace", strategy)

    def cost(self, strategy: str, target: float) -> float:
        """Return the time of a whole run as a share of the reference's."""
        return self.asked.call("cost", strategy, target)


def _told(task: Task) -> dict[str, Any]:
    return task.model_dump(mode="json")
