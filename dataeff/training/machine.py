"""The machine while a cell runs: was it ours alone, and in which state was it?

What is read from outside says only why a time cannot be trusted; it never corrects one.
"""

import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from glob import glob
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch

from dataeff.training.nvml import find_gpu

_ROOT = Path("/")

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
# Said of any GPU that works as hard as its power limit allows: a property, no disturbance.
_ORDINARY = {"power cap"}


def flags(sampled: Mapping[str, Any]) -> list[str]:
    """Say why the times of a cell cannot be trusted; nothing when they can."""
    judged = sampled["seconds"] >= _SHORTEST
    return [*_gpu_flags(sampled), *(_cpu_flags(sampled) if judged else ())]


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
    if waiting is None:
        yield from _rough_flags(sampled)


def _rough_flags(sampled: Mapping[str, Any]) -> Iterator[str]:
    """Judge by what every system has, where the kernel does not count waiting."""
    share, load, cores = sampled["process_share"], sampled["load_high"], sampled["cores"]
    # Who reads files, or waits for a GPU, may well compute less.
    busy = sampled["device"] == "cpu" and not sampled["streams"]
    if busy and share is not None and share < _LEAST_PROCESS_SHARE:
        yield f"it ran for {share:.0%} of its time only"
    # It lags by a minute, and holds our own threads and the cells before this one.
    if sampled["foreign_cores"] is None and load is not None and load > cores + _OVERLOAD:
        yield f"the load average was {load:.1f} on {cores} cores"


def _gpu_flags(sampled: Mapping[str, Any]) -> Iterator[str]:
    if others := sampled["gpu_processes"]:
        yield f"{others} other process{'es were' if others > 1 else ' was'} on the GPU"
    if reasons := sorted(set(sampled["gpu_throttle"] or ()) - _ORDINARY):
        yield f"the GPU was throttled ({', '.join(reasons)})"


class Guard:
    """Watches the machine from the start of a cell, after warm-up, to its end.

    `threads` are the cores that the cell can use, workers that load its data included (default:
    torch's threads; one beside a GPU). `streams` says that it reads files while it trains.
    A resumed cell keeps the worst of its parts: times of a contended part stay in its clocks.
    """

    def __init__(
        self,
        device: torch.device,
        threads: int | None = None,
        *,
        streams: bool = False,
        root: Path = _ROOT,
    ) -> None:
        self._root = root
        self._gpu = find_gpu(device)
        self._fixed = {
            "device": device.type,
            "streams": streams,
            "cores": cores(),
            "threads": computing_threads(device) if threads is None else threads,
        }
        self._began = time.perf_counter()
        self._start = _processor_seconds(root)
        self._threads = _thread_times(root)
        self._ran = self._waited = 0.0
        load = load_average()
        self._seen: dict[str, Any] = {"load_start": load, "load_high": load}

    def sample(self) -> None:
        """Look at the machine; call it off the clock, at the end of every epoch."""
        self._seen = _worse(self._seen, {"load_high": load_average(), **self._gpu_now()})
        self._add_thread_times()

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
        now, start = _processor_seconds(self._root), self._start
        if seconds >= _SHORTEST and now and start:
            busy, own, stolen = (now[key] - start[key] for key in ("busy", "own", "stolen"))
            # Some sandboxes show cores that are never busy: they tell nothing.
            if busy >= own / 2:
                part["foreign_cores"] = round(max(0.0, busy - own) / seconds, 4)
                part["stolen_share"] = round(stolen / (busy + stolen or 1), 4)
        if seconds >= _SHORTEST and self._ran:
            part["waiting_share"] = round(self._waited / (self._ran + self._waited), 4)
        return {"seconds": round(seconds, 4), **part}

    def _add_thread_times(self) -> None:
        now = _thread_times(self._root)
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
            "gpu_throttle": gpu.throttled() if gpu else None,
            "gpu_clock_low": clock,
            "gpu_clock_high": clock,
        }


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


def snapshot(device: torch.device, root: Path = _ROOT) -> dict[str, Any]:
    """Return the machine's state just now: worth knowing, but no reason not to compare."""
    gpu = find_gpu(device)
    return {
        "kernel": platform.release(),
        "cpu_mhz": _cpu_clock(root),
        "cpu_highest_mhz": highest_cpu_clock(root),
        "governor": _governor(root),
        "memory_gib": _memory(root, "MemTotal"),
        "memory_available_gib": _memory(root, "MemAvailable"),
        "gpu_sm_mhz": gpu.clock() if gpu else None,
        "gpu_highest_mhz": gpu.highest_clock() if gpu else None,
        "gpu_memory_mhz": gpu.clock("MEM") if gpu else None,
    }


# What the system tells --------------------------------------------------------------------------


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(_usable()) or os.cpu_count() or 1


def _usable() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def computing_threads(device: torch.device) -> int:
    """Return the threads that torch computes with: one beside a GPU."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def load_average() -> float | None:
    """Return the load average of the last minute, where the system has one."""
    with suppress(OSError, AttributeError):
        return os.getloadavg()[0]
    return None


def memory_gib(root: Path = _ROOT) -> float | None:
    """Return the machine's memory."""
    if (known := _memory(root, "MemTotal")) is not None:
        return known
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return None


def highest_cpu_clock(root: Path = _ROOT) -> int | None:
    """Return the highest clock of any core in MHz, where the system tells."""
    return max(_cpufreq(root, "cpuinfo_max_freq"), default=None)


def _text(path: Path) -> str:
    """Return what a file says; nothing where it is missing, forbidden or just gone."""
    with suppress(OSError, ValueError), open(path, "rb", buffering=0) as file:
        return file.read().decode()
    return ""


def _numbers(words: list[str]) -> list[int]:
    """Return words as numbers; nothing where one is none."""
    with suppress(ValueError):
        return [int(word) for word in words]
    return []


def kib(path: Path, key: str) -> int | None:
    """Return a size that a file of the kernel gives as `KEY:   123 kB`."""
    found = re.search(rf"^{key}:\s+(\d+)", _text(path), re.M)
    return int(found[1]) if found else None


def _cpufreq(root: Path, name: str) -> list[int]:
    """Return a setting of all cores in MHz."""
    files = root.glob(f"sys/devices/system/cpu/cpu[0-9]*/cpufreq/{name}")
    return [khz // 1000 for file in files for khz in _numbers(_text(file).split())]


def _cpu_clock(root: Path) -> float | None:
    """Return the clock of the fastest core: the others may be asleep."""
    known = re.findall(r"^cpu MHz\s*:\s*([\d.]+)$", _text(root / "proc/cpuinfo"), re.M)
    return max(map(float, known), default=max(_cpufreq(root, "scaling_cur_freq"), default=None))


def _governor(root: Path) -> str | None:
    return _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None


def _memory(root: Path, key: str) -> float | None:
    known = kib(root / "proc/meminfo", key)
    return None if known is None else round(known / 2**20, 2)


def _processor_seconds(root: Path) -> dict[str, float] | None:
    """Return the seconds that the cores we may use were busy, by us and in all, and stolen."""
    usable = {f"cpu{number}" for number in _usable()}
    lines = [line.split() for line in _text(root / "proc/stat").splitlines()]
    # user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
    known = [_numbers(words[1:9]) for words in lines if words and words[0] in usable]
    own = _process_ticks(root, "self")
    if not known or own is None or any(len(ticks) < 8 for ticks in known):
        return None
    busy = sum(sum(ticks[:3]) + sum(ticks[5:7]) for ticks in known)
    stolen = sum(ticks[7] for ticks in known)
    second = os.sysconf("SC_CLK_TCK")
    return {"busy": busy / second, "own": own / second, "stolen": stolen / second}


def _process_ticks(root: Path, process: str) -> int | None:
    """Return the ticks that a process has used, with those of its children, alive or not."""
    folder = root / "proc" / process
    # Children first: one that ends meanwhile is counted twice rather than held against others.
    lists = [_text(folder / name) for name in glob("task/*/children", root_dir=folder)]
    alive = [_process_ticks(root, child) or 0 for text in lists for child in text.split()]
    # The name in parentheses may hold spaces; after it, field 3 comes first.
    ticks = _numbers(_text(folder / "stat").rpartition(")")[2].split()[11:15])
    return sum(ticks) + sum(alive) if ticks else None


def _thread_times(root: Path) -> dict[str, tuple[float, float]]:
    """Return, for each of our threads, the seconds it ran and those it waited for a core."""
    folder = root / "proc/self/task"
    files = glob("*/schedstat", root_dir=folder)
    known = {file: _numbers(_text(folder / file).split()) for file in files}
    # One that has just ended leaves nothing.
    return {file: (t[0] / 1e9, t[1] / 1e9) for file, t in known.items() if len(t) >= 2}
