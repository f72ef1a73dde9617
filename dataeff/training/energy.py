"""Energy counters: of the GPU by NVML, of the processor by RAPL; nothing where there is none."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from dataeff.training.nvml import find_gpu

_POWERCAP = Path("/sys/class/powercap")

# More than a processor package draws. It says how soon a counter could have come round unseen.
_MOST_WATTS = 1000


def energy_counter(device: torch.device, root: Path = _POWERCAP) -> Callable[[], float] | None:
    """Return a function that reads the joules a device has used, from an arbitrary zero.

    The whole GPU or processor is counted, with all that runs on it. The function raises when the
    counter fails; None means that there is no counter, or none that we may read.
    """
    gpu = find_gpu(device)
    # A counter that exists may still be unsupported, or readable by root only.
    with suppress(Exception):
        counter = _rapl(root) if device.type == "cpu" else gpu and gpu.joules
        if counter:
            counter()
            return counter
    return None


@cache
def _rapl(root: Path) -> Callable[[], float]:
    """Count all packages, once per process: each counter has a thread. It fails without any."""
    packages = [_Package(path) for path in sorted(root.glob("intel-rapl:*")) if _whole(path)]
    period = min(package.period for package in packages) / 3
    threading.Thread(target=_keep_up, args=(packages, period), daemon=True).start()
    return lambda: sum(package.joules() for package in packages)


def _whole(domain: Path) -> bool:
    """Say whether a domain is a package: not its cores or memory, nor `psys`, which holds all."""
    return (domain / "name").read_text().startswith("package")


class _Package:
    """A processor package, whose counter starts again at zero every few minutes."""

    def __init__(self, domain: Path) -> None:
        self._file = domain / "energy_uj"
        self._range = int((domain / "max_energy_range_uj").read_text())
        self.period = self._range / 1e6 / _MOST_WATTS
        self._last, self._at = int(self._file.read_text()), time.monotonic()
        self._total = 0
        self._lock = threading.Lock()

    def joules(self) -> float:
        """Return the joules since the first reading, or raise."""
        with self._lock:
            value, now = int(self._file.read_text()), time.monotonic()
            if now - self._at > self.period:
                raise OSError(f"{self._file} may have come round more than once since it was read")
            came_round = value < self._last
            self._total += value - self._last + came_round * self._range
            self._last, self._at = value, now
            return self._total / 1e6


def _keep_up(packages: list[_Package], period: float) -> None:
    """Read often enough that no counter comes round unseen, however long an epoch is."""
    with suppress(OSError, ValueError):
        while True:
            time.sleep(period)
            for package in packages:
                package.joules()
