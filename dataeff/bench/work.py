"""Work that needs plugins: what the desk asks for, done where their code may run.

What is taken and returned is plain data, so that it can be asked of another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dataeff.bench.boundary import Boundary
from dataeff.bench.line import at_cost, line_kinds, pattern
from dataeff.bench.service import Hear
from dataeff.composition import Composition
from dataeff.data.offered import check_dataset
from dataeff.data.sharing import Shared
from dataeff.foretell.load import Load
from dataeff.foretell.match import Pilot
from dataeff.foretell.pace import Estimate, Setup, Site, let_go
from dataeff.lab import Lab
from dataeff.models.build import is_own_place, is_theirs
from dataeff.models.identity import identity_of
from dataeff.notation import parse_one
from dataeff.plugins import load_plugins
from dataeff.training.devices import about_device, device_line
from dataeff.training.task import Task

Told = dict[str, Any]
"""Plain data: of a composition, a line of a preview, a task."""


def begin(
    tell: Hear,
    folders: Sequence[Path],
    broken: dict[str, str],
    device: str,
    closed: dict[str, str],
) -> Work:
    """Load the plugins in this process; it may not open what is closed."""
    boundary = Boundary(closed)
    boundary.draw()
    return Work(Lab(load_plugins(folders, broken), device), tell, boundary)


class Work:
    """What can be asked of the plugins."""

    def __init__(self, lab: Lab, tell: Hear, boundary: Boundary | None = None) -> None:
        self.lab, self._tell, self._boundary = lab, tell, boundary
        self._pilot: Pilot | None = None
        self._loads: dict[float, Load] = {}

    # What is installed ------------------------------------------------------------------------

    def plugins(self) -> list[Told]:
        """List the plugins, broken ones included."""
        return [asdict(plugin) for plugin in self.lab.installed.plugins]

    def device_line(self) -> str:
        """Say where runs are, and why not on CUDA."""
        return device_line(about_device(self.lab.device))

    def suite_file(self, name: str) -> str:
        """Return the file of a suite that is registered by name."""
        return str(self.lab.installed.suites[name].factory)

    def check_dataset(self, text: str) -> None:
        """Refuse a dataset that is nowhere, or parameters that it does not take."""
        check_dataset(text, self.lab.installed.datasets)

    def sources(self, about: Told) -> list[str] | None:
        """Return the plugins that a task's data and network come from.

        None where that is not known: a plugin may add networks to timm's own.
        """
        installed, task = self.lab.installed, Task(**about)
        data, model = parse_one(task.dataset).name, parse_one(task.model).name
        found = [installed.datasets[data].source]
        if model in installed.models:
            return [*found, installed.models[model].source]
        return found if is_theirs(model) or is_own_place(model) else None

    # Compositions -----------------------------------------------------------------------------

    def describe(self, text: str) -> Told:
        """Read a composition as typed, and say what there is to know of it."""
        return _described(self.lab.composition(text))

    def filled(self, text: str, value: float) -> Told:
        """Say it of a composition with the open value filled in."""
        return _described(self.lab.know(self.lab.composition(text).at(value)))

    def kinds(self, wanted: bool | list[str]) -> list[list[str]]:
        """Return name and pattern of the strategies that the line is made of."""
        return [[kind.name, pattern(kind)] for kind in line_kinds(wanted, self.lab.installed)]

    def at_cost(self, name: str, share: float) -> Told:
        """Say it of one of these that costs this share of the reference."""
        return _described(self.lab.know(at_cost(self.lab.installed.strategies[name], share)))

    # Data and networks ------------------------------------------------------------------------

    def take(self, about: Told, shared: Told) -> None:
        """Have the training set of a task from the evaluator."""
        self.lab.take(Task(**about), Shared.of(shared))
        if self._boundary:
            self._boundary.close(shared["hidden"])

    def check_task(self, about: Told) -> None:
        """Refuse a task that its data or this machine do not allow."""
        self.lab.on_cpu().data(Task(**about))

    def network(self, about: Told, classes: int, shape: Sequence[int]) -> str:
        """Return the hash of a task's network."""
        channels, height, width = shape
        registry = self.lab.installed.models
        return identity_of(Task(**about).model, registry, classes, (channels, height, width))

    def try_network(self, about: Told, classes: int, shape: Sequence[int]) -> list[str]:
        """Refuse a network that such images cannot be given to; return what to say of it."""
        channels, height, width = shape
        return self.lab.try_network(Task(**about), classes, (channels, height, width))

    # Foretelling ------------------------------------------------------------------------------

    def refusal(self, about: Told, text: str, seed: int, on_cpu: bool) -> str:
        """Return what a strategy has against a task; nothing where it takes it."""
        lab = self.lab.on_cpu() if on_cpu else self.lab
        return Site(lab).refusal(Setup(Task(**about), lab.composition(text), seed))

    def estimate(
        self, about: Told, lines: list[tuple[Told, str, int, int]], how: dict[str, Any]
    ) -> list[Told]:
        """Measure strategies on a task: lines of a preview, a composition, a seed, bytes each."""
        site, task = Site(self.lab, **how), Task(**about)
        filled = []
        for line, text, seed, size in lines:
            self._tell(f"Measuring {line['strategy']} on {line['task']}")
            setup = Setup(task, self.lab.composition(text), seed, size)
            filled.append(asdict(site.fill(Estimate(**line), setup)))
        return filled

    def let_go(self) -> None:
        """Leave memory and loader processes of what was set up to the cells."""
        let_go(self.lab.device)

    def train_load(self, about: Told, share: float, seconds: float) -> float:
        """Return the rows per second of plain training, in batches of a share of the task's."""
        if share not in self._loads:
            self._loads[share] = Load(self.lab, Task(**about), share)
        return self._loads[share].pace(seconds)

    def begin_pilot(self, about: Told, reference: str) -> None:
        """Begin to measure what strategies cost beside a reference."""
        self._pilot = Pilot(self.lab, Task(**about), reference)

    def pace(self, strategy: str) -> float:
        """Return the time of a strategy over its counted work."""
        assert self._pilot, "a pilot has begun"
        return self._pilot.pace(strategy)

    def cost(self, strategy: str, target: float) -> float:
        """Return the time of a strategy as a share of the reference's."""
        assert self._pilot, "a pilot has begun"
        return self._pilot.cost(strategy, target)

    def end_pilot(self) -> None:
        """Leave disk, memory and loader processes to the cells."""
        pilot, self._pilot = self._pilot, None
        if pilot:
            pilot.close()


def _described(what: Composition) -> Told:
    told: Told = {
        "text": what.text,
        "parameters": what.parameters,
        "sources": what.sources,
        "plugins": sorted({part.entry.source for part in what.parts}),
        "is_control": what.is_control,
        "is_open": what.is_open,
        "has_setup": what.has_hook("setup"),
    }
    if what.is_open:
        told |= {"free": what.free[1], "range": asdict(what.range)}
    return told
