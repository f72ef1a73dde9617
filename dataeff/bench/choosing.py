"""Choosing lanes: what `auto` is on this machine, and what busy lanes do to times beside them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median, stdev
from threading import Event
from time import perf_counter
from typing import Self

from dataeff.bench.cells import Settings
from dataeff.bench.desk import Apart, Desk
from dataeff.bench.lanes import AUTO, CPU, Lane, as_typed
from dataeff.bench.probing import lanes_of, probe
from dataeff.bench.suite import Suite
from dataeff.checked import read_checked
from dataeff.errors import DataeffError
from dataeff.forms import SUITE
from dataeff.seeds import stages
from dataeff.training.system import physical_cores
from dataeff.training.task import Task

# So much more must more lanes train before they are worth it: two measurements differ by as much.
_TIE = 0.03
# Seconds of a measurement, and how often each is taken, in turn with the other: machines drift.
_LONG, _DUELS = 0.5, 3
# The same of a calibration, in slices; where batches take long, fewer pairs have to do.
_SLICE, _SLICES, _PAIRS, _FEWEST, _PATIENCE = 0.05, 7, 8, 3, 20.0


def choose_lanes(desk: Desk, suite: Suite, settings: Settings) -> str:
    """Have a desk work on the lanes that a suite is to run on; say what was measured for it.

    These are the ones that were asked for; for `auto`, those that earlier commands have kept, the
    accelerators, or the groups of cores that train most.
    """
    if settings.device != AUTO or not desk.evaluator:
        return ""
    if lanes := kept_lanes(settings.results / suite.name):
        desk.enter(lanes)
        return ""
    task, blocks = next(iter(suite.tasks.values())), len(suite.tasks) * len(stages(suite.seeds)[0])
    counts = possible(len(physical_cores()), blocks, task.workers)
    if desk.lanes[0].device != CPU or len(counts) == 1 or os.environ.get("OMP_NUM_THREADS"):
        return ""
    desk.facts(task)
    # What is wrong with training is for the cells to say.
    with suppress(DataeffError):
        count, ahead = best(counts, lambda *pair: _duel(desk, settings, task, pair))
        if count > 1:
            desk.enter(_dealt(count))
            return f"{count} lanes train {ahead:.2f} x the images of one: --devices cpu*{count}."
    return ""


def kept_lanes(folder: Path) -> tuple[Lane, ...]:
    """Return the lanes that the commands before have used, if they can be had here and now."""
    with suppress(DataeffError):
        if text := (read_checked(folder / "suite.json", SUITE) or {}).get("devices"):
            lanes = lanes_of(text)
            probe(lanes)
            return lanes
    return ()


def possible(cores: int, blocks: int, workers: int) -> list[int]:
    """Return the numbers of lanes that leave no core idle: as many as there are blocks, at most.

    Workers that load data count as threads: each takes a core.
    """
    most = max(1, min(blocks, cores // (1 + workers)))
    return [count for count in range(1, most + 1) if cores % count == 0]


def best(counts: Sequence[int], faster: Callable[[int, int], float]) -> tuple[int, float]:
    """Return the number of lanes that train most, and how much more than one lane does.

    `faster` says how much more the first of two numbers of lanes trains. Ties go to fewer lanes,
    and where more are no faster, still more are not tried.
    """
    chosen, ahead = counts[0], 1.0
    for more in counts[1:]:
        if (gained := faster(more, chosen)) <= 1 + _TIE:
            break
        chosen, ahead = more, ahead * gained
    return chosen, ahead


def calibrate(desk: Desk, suite: Suite, settings: Settings) -> None:
    """Let a desk know what busy lanes do to ratios of times, measured once for these lanes."""
    known = read_checked(settings.results / suite.name / "suite.json", SUITE) or {}
    before, devices = known.get("calibration"), as_typed(desk.lanes)
    desk.calibration = before if before and before["devices"] == devices else None
    if len(desk.lanes) == 1 or desk.calibration:
        return
    with Crew(desk, settings, desk.lanes, next(iter(suite.tasks.values()))) as crew:
        change, error = changed(_ratios(crew))
    desk.calibration = {"devices": devices, "change": change, "error": error}


def changed(ratios: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean change of log ratios, from the first of each pair to its second; its error.

    The error is the standard error of that mean.
    """
    changes = [math.log(busy / idle) for idle, busy in ratios]
    return fmean(changes), stdev(changes) / math.sqrt(len(changes))


# Measuring ---------------------------------------------------------------------------------------


class Crew:
    """A process on each of some lanes, which trains a task when it is told to."""

    def __init__(self, desk: Desk, settings: Settings, lanes: Sequence[Lane], task: Task) -> None:
        assert desk.evaluator, "who has lanes has an evaluator"
        self._about, shared = task.model_dump(mode="json"), asdict(desk.evaluator.shared(task))
        self._parts = [Apart(settings, lane) for lane in lanes]
        self._pool = ThreadPoolExecutor(len(lanes))
        try:
            list(self._pool.map(lambda part: part.call("take", self._about, shared), self._parts))
            self.together(0.0)
        except BaseException:
            self.__exit__()
            raise

    def together(self, seconds: float) -> float:
        """Return the rows per second of all, training at once."""
        return sum(self._pool.map(lambda part: self._pace(part, 1.0, seconds), self._parts))

    def ratio(self, slices: int = 1) -> float:
        """Return how two loads compare on the first: whole batches to half ones, in rows.

        They are trained in turn, in short slices of which the median counts: a machine that drifts,
        or takes a moment away, would tell of itself.
        """
        paces = [
            [self._pace(self._parts[0], share, _SLICE) for share in (1.0, 0.5)]
            for _ in range(slices)
        ]
        return median(whole / half for whole, half in paces)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Have all but the first train inside."""
        enough = Event()

        def train(part: Apart) -> None:
            while not enough.is_set():
                self._pace(part, 1.0, 0.0)

        going = [self._pool.submit(train, part) for part in self._parts[1:]]
        try:
            yield
        finally:
            enough.set()
            for one in going:
                one.result()

    def _pace(self, part: Apart, share: float, seconds: float) -> float:
        return part.call("train_load", self._about, share, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for part in self._parts:
            part.service.end()
        self._pool.shutdown()


def _dealt(count: int) -> tuple[Lane, ...]:
    """Return so many lanes of cores; one alone is as torch would have it."""
    return lanes_of(CPU if count == 1 else f"{CPU}*{count}")


def _duel(desk: Desk, settings: Settings, task: Task, counts: Sequence[int]) -> float:
    """Return how much more the first number of lanes trains than the second, measured in turn."""
    given = [(desk, settings, _dealt(count), task) for count in counts]
    with Crew(*given[0]) as more, Crew(*given[1]) as fewer:
        return median(more.together(_LONG) / fewer.together(_LONG) for _ in range(_DUELS))


def _ratios(crew: Crew) -> list[tuple[float, float]]:
    """Return how two loads compare while other lanes are idle, and while they are busy; in turn."""
    began, found = perf_counter(), list[tuple[float, float]]()
    crew.ratio()
    while len(found) < _PAIRS and (len(found) < _FEWEST or perf_counter() - began < _PATIENCE):
        idle = crew.ratio(_SLICES)
        with crew.busy():
            found.append((idle, crew.ratio(_SLICES)))
    return found
