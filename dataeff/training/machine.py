"""The machine while a cell runs: was it ours alone, and in which state was it?

What is read from outside says only why a time cannot be trusted; it never corrects one.
"""

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch

from dataeff.training import system
from dataeff.training.nvml import find_gpu

# Seconds. The kernel counts busy cores in steps of 10 ms: a shorter stretch cannot be judged.
_SHORTEST = 0.5
# Cores that others may take although the cell needs them: a desktop and its services take this.
_SLACK = 0.25
# Share of their time that threads may wait for a core: it is about the error of the cell's time.
# Left alone, they wait below 1%.
_WAITING = 0.1
# Others who keep fewer cores busy than this cannot be why threads waited so long.
_IDLE = 0.1
# Share of the processor's time that a host may take from a virtual machine, for the same reason.
_STOLEN = 0.1
# What the load average may exceed the cores by: it counts ourselves, and one more thread of ours.
_OVERLOAD = 1
# A cell computes on one core at least. Half of that is not its own doing.
_LEAST_PROCESS_SHARE = 0.5
# Seconds for which a cell must stand still, and share of a stretch, before that is seen: what it
# reads from a disk that is slow for once takes less. Left alone, it stands still below 0.3%.
_STILL, _STILL_SHARE = 0.2, 0.05
# The share of threads that outnumber the cores, and so wait for each other; and of a cell of which
# the kernel does not say how long it waited for a core.
_STILL_ROUGHLY = 0.5
# Share of the time of a cell that it may stand still: less than times differ by anyway.
_STILL_IN_ALL = 0.01
# Seconds by which two clocks of the system may drift apart while nothing is suspended.
_AWAKE = 0.5
# Share of the time of a cell that something may hold its GPU back, for the same reason.
_HELD_BACK = 0.01
# Said of any GPU that works as hard as its power limit allows: a property, no disturbance.
_ORDINARY = {"power cap"}


def flags(sampled: Mapping[str, Any]) -> list[str]:
    """Say why the times of a cell cannot be trusted; nothing when they can."""
    judged = sampled["seconds"] >= _SHORTEST
    seen = [*_gpu_flags(sampled), *(_cpu_flags(sampled) if judged else ())]
    if (slept := sampled["suspended_seconds"]) is not None and slept > _AWAKE:
        seen.append(f"the machine was suspended for {slept:.1f} s")
    return seen


def _cpu_flags(sampled: Mapping[str, Any]) -> Iterator[str]:
    cores, foreign = sampled["cores"], sampled["foreign_cores"]
    waiting, stolen = sampled["waiting_share"], sampled["stolen_share"]
    free = cores - sampled["threads"]
    if foreign is not None and foreign > max(0, free) + _SLACK:
        yield f"other processes kept {foreign:.1f} of {cores} cores busy"
    # Who asks for more threads than there are cores waits for himself.
    by_others = free >= 0 and (foreign is None or foreign > _IDLE)
    if waiting is not None and waiting > _WAITING and by_others:
        yield f"its threads waited {waiting:.0%} of the time for a core"
    if stolen is not None and stolen > _STOLEN:
        yield f"the host of this virtual machine took {stolen:.0%} of its processor time"
    still, share = sampled["still_seconds"], sampled["process_share"]
    if still is not None and sampled["still_share"] > _STILL_IN_ALL:
        yield f"it stood still for {still:.1f} s of its time"
    if not _rests(sampled) and share is not None and share < _LEAST_PROCESS_SHARE:
        yield f"it ran for {share:.0%} of its time only"
    load = sampled["load_high"]
    # It lags by a minute, and holds our own threads and the cells before this one.
    rough = waiting is None and foreign is None and load is not None
    if rough and load > cores + _OVERLOAD:
        yield f"the load average was {load:.1f} on {cores} cores"


def _rests(cell: Mapping[str, Any]) -> bool:
    """Tell whether a cell may well not compute: it reads files, or waits for a GPU."""
    return cell["device"] != "cpu" or cell["streams"]


def stood_still(passed: Mapping[str, Any], cell: Mapping[str, Any]) -> float:
    """Return the seconds of a stretch for which a cell was stopped; 0 if it may have been resting.

    `passed` holds seconds: `wall` on the clocks that count, and what of it `process` and `thread`
    ran; beside the clocks, too, what the thread `waited` for a core (None where that is not known),
    what the host has `stolen`, what `children` ran; and how often the process was `continued`.
    """
    wall, waited, stopped = passed["wall"], passed["waited"], passed["continued"] > 0
    if _rests(cell) and not stopped:
        return 0.0
    # Of several threads that compute, the others would hide that this one did not.
    known = stopped or waited is not None
    ran = passed["thread"] + (waited or 0.0) if known else passed["process"]
    ran += sum(max(0.0, passed[name] or 0.0) for name in ("stolen", "children"))
    sure = stopped or (known and cell["threads"] <= cell["cores"])
    share = _STILL_SHARE if sure else _STILL_ROUGHLY
    return wall - ran if wall - ran >= max(_STILL, share * wall) else 0.0


def _gpu_flags(sampled: Mapping[str, Any]) -> Iterator[str]:
    if others := sampled["gpu_processes"]:
        yield f"{others} other process{'es were' if others > 1 else ' was'} on the GPU"
    if reasons := sorted(set(sampled["gpu_throttle"] or ()) - _ORDINARY):
        yield f"the GPU was throttled ({', '.join(reasons)})"


class Guard:
    """Watches the machine from the start of a cell, after warm-up, to its end.

    `threads` are the cores that the cell can use, workers that load its data included (default:
    torch's threads; one beside a GPU). `streams` says that it reads files while it trains. `lived`
    tells what has passed on the clocks that count, in this process: seconds on the wall, those that
    the process ran, and those that this thread ran. Off these clocks, a cell may wait for anyone.
    A resumed cell keeps the worst of its parts: times of a contended part stay in its clocks.
    """

    def __init__(
        self,
        device: torch.device,
        threads: int | None = None,
        *,
        streams: bool = False,
        lived: Callable[[], tuple[float, float, float]] = lambda: (0.0, 0.0, 0.0),
        root: Path = system.ROOT,
    ) -> None:
        self._root, self._lived, self._family = root, lived, system.family()
        self._gpu = find_gpu(device)
        self._counted = tuple(self._gpu.violations()) if self._gpu else ()
        self._fixed = {
            "device": device.type,
            "streams": streams,
            "cores": system.cores(),
            "threads": system.computing_threads(device) if threads is None else threads,
        }
        self._began = time.perf_counter()
        self._away: Any = Counter()
        self._threads = system.thread_times(root)
        self._ran = self._waited = self._still = 0.0
        self._first = self._last = self._read()
        load = system.load_average()
        self._seen: dict[str, Any] = {"load_start": load, "load_high": load}

    def sample(self) -> None:
        """Look at the machine; call it off the clock, at the end of every epoch."""
        self._seen = _worse(self._seen, {"load_high": system.load_average(), **self._gpu_now()})
        self._add_thread_times()
        now = self._read()
        self._still += stood_still(_passed(self._last, now), self._fixed)
        self._last = now

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Leave out what happens inside: others work there, and this cell stands still."""
        began, before = time.perf_counter(), self._counters()
        yield
        after, seconds = self._counters(), time.perf_counter() - began
        if "busy" in before and "busy" in after:
            passed = {name: after[name] - before[name] for name in before if name in after}
            self._away.update(passed, seconds=seconds)

    def _counters(self) -> dict[str, float]:
        """Return what the machine counts, whoever it works for."""
        held_back = self._gpu.violations() if self._gpu else {}
        return {**(system.processor_seconds(self._root, self._family) or {}), **held_back}

    def record(self, process_seconds: float, wall_seconds: float) -> dict[str, Any]:
        """Return what was seen, and `flags`: why this cell's times cannot be trusted."""
        share = process_seconds / wall_seconds if wall_seconds else None
        sampled = {**self._fixed, "process_share": share, **self.state_dict()}
        return {**sampled, "flags": flags(sampled)}

    def state_dict(self) -> dict[str, Any]:
        """Return the worst seen so far."""
        self.sample()
        return _worse(self._seen, self._part())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what an earlier part of the cell has seen."""
        self._seen = _worse(state, self._seen)

    def _part(self) -> dict[str, Any]:
        """Return what holds from the start of this part to now."""
        seconds = time.perf_counter() - self._began
        part: dict[str, Any] = dict.fromkeys(("foreign_cores", "stolen_share", "waiting_share"))
        whole = _passed(self._first, self._last)
        busy, own, stolen = (whole[key] for key in ("busy", "own", "stolen"))
        if busy is not None and self._away:
            busy, own, stolen = (whole[key] - self._away[key] for key in ("busy", "own", "stolen"))
            seconds -= self._away["seconds"]
        # Some sandboxes show cores that are never busy: they tell nothing.
        if seconds >= _SHORTEST and busy is not None and busy >= own / 2:
            part["foreign_cores"] = round(max(0.0, busy - own) / seconds, 4)
            part["stolen_share"] = round(stolen / (busy + stolen or 1), 4)
        if seconds >= _SHORTEST and self._ran:
            part["waiting_share"] = round(self._waited / (self._ran + self._waited), 4)
        return {
            "seconds": round(seconds, 4),
            **part,
            **self._standstill(whole),
            "gpu_throttle": self._held_back(whole, seconds),
        }

    def _held_back(self, whole: Mapping[str, Any], seconds: float) -> list[str] | None:
        """Say what held the GPU back for long; None where it does not count that."""
        counted = [word for word in self._counted if whole[word] is not None]
        known = {word: whole[word] - self._away[word] for word in counted}
        return [w for w, s in known.items() if s > _HELD_BACK * seconds] if known else None

    def _standstill(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """Return for how long this part stood still, in some epochs or a little in each."""
        # A signal says something about the epoch in which it came.
        still = max(self._still, stood_still({**whole, "continued": 0}, self._fixed))
        wall, slept = whole["wall"], whole["slept"]
        return {
            "still_seconds": round(still, 4) if wall else None,
            "still_share": round(still / wall, 4) if wall else None,
            "suspended_seconds": None if slept is None else round(max(0.0, slept), 4),
        }

    def _read(self) -> dict[str, Any]:
        """Return what only grows, so that the differences of two readings can be judged."""
        waited = system.thread_waited(self._root)
        # Who always computes, and is seen to, needs no signal to be told from one that rests.
        needed = waited is None or _rests(self._fixed)
        counters = self._counters()
        names = ("busy", "own", "children", "stolen", *self._counted)
        return {
            **{name: counters.get(name) for name in names},
            **dict(zip(("wall", "process", "thread"), self._lived(), strict=True)),
            "waited": waited,
            "continued": system.continues().count if needed else 0,
            "slept": system.slept(),
        }

    def _add_thread_times(self) -> None:
        now = system.thread_times(self._root)
        for thread, (ran, waited) in now.items():
            before = self._threads.get(thread, (0.0, 0.0))
            if ran < before[0]:
                # Another thread under the number of one that has ended.
                before = (0.0, 0.0)
            self._ran += ran - before[0]
            self._waited += waited - before[1]
        self._threads = now

    def _gpu_now(self) -> dict[str, Any]:
        gpu = self._gpu
        clock = gpu.clock() if gpu else None
        return {
            "gpu_processes": gpu.foreign_processes() if gpu else None,
            # What holds it back at this moment says little of the rest of an epoch.
            "gpu_throttle": gpu.throttled() if gpu and not self._counted else None,
            "gpu_clock_low": clock,
            "gpu_clock_high": clock,
        }


def _passed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return what passed between two readings; None for what one of them does not know."""
    both = {name: (before[name], now[name]) for name in now}
    return {name: None if None in pair else pair[1] - pair[0] for name, pair in both.items()}


_JOIN: dict[str, Callable[[list[Any]], Any]] = {
    "load_start": itemgetter(0),
    "gpu_clock_low": min,
    "gpu_throttle": lambda lists: sorted(set().union(*lists)),
}


def _worse(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Join two looks at the machine: of most things, the worst is the highest."""
    joined = {}
    for key in {**before, **now}:
        known = [look[key] for look in (before, now) if look.get(key) is not None]
        joined[key] = _JOIN.get(key, max)(known) if known else None
    return joined


def snapshot(device: torch.device, root: Path = system.ROOT) -> dict[str, Any]:
    """Return the machine's state just now: worth knowing, but no reason not to compare."""
    gpu = find_gpu(device)
    return {
        "kernel": platform.release(),
        "cpu_mhz": system.cpu_clock(root),
        "cpu_highest_mhz": system.highest_cpu_clock(root),
        "governor": system.governor(root),
        "memory_gib": system.memory(root, "MemTotal"),
        "memory_available_gib": system.memory(root, "MemAvailable"),
        "gpu_sm_mhz": gpu.clock() if gpu else None,
        "gpu_highest_mhz": gpu.highest_clock() if gpu else None,
        "gpu_memory_mhz": gpu.clock("MEM") if gpu else None,
    }
