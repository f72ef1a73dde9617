"""What the system tells of the machine and of this process; nothing where it does not."""

import multiprocessing
import os
import re
import signal
import time
from contextlib import suppress
from functools import cache
from glob import glob
from pathlib import Path
from types import FrameType

import torch

ROOT = Path("/")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(_usable()) or os.cpu_count() or 1


def _usable() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def physical_cores(root: Path = ROOT) -> list[tuple[int, ...]]:
    """Return the cores that this process may use, each by the numbers of its hyper-threads."""
    usable = _usable() or set(range(os.cpu_count() or 1))
    folder = root / "sys/devices/system/cpu"
    files = {number: folder / f"cpu{number}/topology/thread_siblings_list" for number in usable}
    cores = {number: (_listed(_text(file)) | {number}) & usable for number, file in files.items()}
    return sorted({tuple(sorted(core)) for core in cores.values()})


def _listed(text: str) -> set[int]:
    """Return the numbers of a list such as 0-1,8."""
    ends = [_numbers(part.split("-")) for part in text.strip().split(",")]
    return {number for pair in ends if pair for number in range(pair[0], pair[-1] + 1)}


def computing_threads(device: torch.device) -> int:
    """Return the threads that torch computes with: one beside a GPU."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def load_average() -> float | None:
    """Return the load average of the last minute, where the system has one."""
    with suppress(OSError, AttributeError):
        return os.getloadavg()[0]
    return None


def memory_gib(root: Path = ROOT) -> float | None:
    """Return the machine's memory."""
    if (known := memory(root, "MemTotal")) is not None:
        return known
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return None


def highest_cpu_clock(root: Path = ROOT) -> int | None:
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


def cpu_clock(root: Path = ROOT) -> float | None:
    """Return the clock of the fastest core in MHz: the others may be asleep."""
    known = re.findall(r"^cpu MHz\s*:\s*([\d.]+)$", _text(root / "proc/cpuinfo"), re.M)
    return max(map(float, known), default=max(_cpufreq(root, "scaling_cur_freq"), default=None))


def governor(root: Path = ROOT) -> str | None:
    """Return how the system chooses the processor's clock."""
    return _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None


def memory(root: Path, key: str) -> float | None:
    """Return an entry of the kernel's table of memory, in GiB."""
    known = kib(root / "proc/meminfo", key)
    return None if known is None else round(known / 2**20, 2)


def family() -> str:
    """Return the process whose descendants are no strangers: this one, or who has started it.

    The processes of one command share all cores, and those of another lane are as busy as we are;
    but who keeps to cores of his own has them alone.
    """
    with suppress(OSError, AttributeError):
        parent = os.getppid()
        if multiprocessing.parent_process() and os.sched_getaffinity(parent) == _usable():
            return str(parent)
    return "self"


def processor_seconds(root: Path, family: str = "self") -> dict[str, float] | None:
    """Return the seconds that the cores we may use were busy, and were stolen by a host.

    Of the busy ones, `own` are those of this process and its children, or of a whole family;
    `children` are those of our children alone.
    """
    usable = {f"cpu{number}" for number in _usable()}
    lines = [line.split() for line in _text(root / "proc/stat").splitlines()]
    # user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
    known = [_numbers(words[1:9]) for words in lines if words and words[0] in usable]
    own = _process_ticks(root, "self")
    if not known or own is None or any(len(ticks) < 8 for ticks in known):
        return None
    busy = sum(sum(ticks[:3]) + sum(ticks[5:7]) for ticks in known)
    stolen = sum(ticks[7] for ticks in known)
    # Of children, not every kernel tells.
    ours = max(sum(own), sum(_process_ticks(root, family) or own))
    ticks = {"busy": busy, "own": ours, "children": own[1], "stolen": stolen}
    return {name: count / os.sysconf("SC_CLK_TCK") for name, count in ticks.items()}


def _process_ticks(root: Path, process: str) -> tuple[int, int] | None:
    """Return the ticks that a process has used, and those of its children, alive or not."""
    folder = root / "proc" / process
    # Children first: one that ends meanwhile is counted twice rather than held against others.
    lists = [_text(folder / name) for name in glob("task/*/children", root_dir=folder)]
    alive = [_process_ticks(root, child) or (0, 0) for text in lists for child in text.split()]
    ticks = _numbers(_stat(root, process)[11:15])
    return (sum(ticks[:2]), sum(ticks[2:]) + sum(map(sum, alive))) if ticks else None


def parent_of(pid: int, root: Path = ROOT) -> int | None:
    """Return the process that has started another one."""
    words = _stat(root, str(pid))
    return int(words[1]) if len(words) > 1 else None


def ran(pid: int, root: Path = ROOT) -> float:
    """Return the seconds that a process ran so far, all its threads; 0 where nobody tells."""
    return sum(_numbers(_stat(root, str(pid))[11:13])) / os.sysconf("SC_CLK_TCK")


def _stat(root: Path, process: str) -> list[str]:
    """Return what the kernel says of a process, from its state on; nothing of one that is gone."""
    # The name in parentheses before it may hold spaces.
    return _text(root / "proc" / process / "stat").rpartition(")")[2].split()


def thread_times(root: Path) -> dict[str, tuple[float, float]]:
    """Return, for each of our threads, the seconds it ran and those it waited for a core."""
    folder = root / "proc/self/task"
    files = glob("*/schedstat", root_dir=folder)
    known = {file: _numbers(_text(folder / file).split()) for file in files}
    # One that has just ended leaves nothing.
    return {file: (t[0] / 1e9, t[1] / 1e9) for file, t in known.items() if len(t) >= 2}


def thread_waited(root: Path = ROOT) -> float | None:
    """Return the seconds that the calling thread waited for a core, where the kernel counts."""
    known = _numbers(_text(root / "proc/thread-self/schedstat").split())
    return known[1] / 1e9 if len(known) >= 2 else None


def slept() -> float | None:
    """Return the seconds that the machine was suspended since it was started."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        whole, awake = time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC
    elif hasattr(time, "CLOCK_UPTIME_RAW"):
        whole, awake = time.CLOCK_MONOTONIC, time.CLOCK_UPTIME_RAW
    else:
        return None
    # Held up between two readings, it comes out too small.
    return max(time.clock_gettime(whole) - time.clock_gettime(awake) for _ in range(3))


class Continues:
    """Counts how often this process was continued after a stop (SIGSTOP, Ctrl-Z)."""

    def __init__(self) -> None:
        self.count = 0
        # Only the main thread may listen, and not every system has the signal.
        with suppress(ValueError, AttributeError):
            self._before = signal.signal(signal.SIGCONT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if callable(self._before):
            self._before(number, frame)


@cache
def continues() -> Continues:
    """Return what counts how often this process was continued; it listens from now on."""
    return Continues()
