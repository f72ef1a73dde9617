"""What NVML knows of one GPU, where the optional package `nvidia-ml-py` is installed."""

import multiprocessing
import os
import time
from contextlib import suppress
from typing import Any

import torch

from dataeff.training.system import parent_of

# The bits of NVML's clock event reasons that slow a GPU down: the same in every version, while
# their names have changed. An idle GPU and clocks that the user has set are no slow-down.
_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal",
    0x40: "thermal",
    0x80: "power brake",
}
# What NVML counts violations of, by its numbers. What a GPU holds its clock down by as a matter of
# course (low use, reliability of its voltage) is left out.
_VIOLATIONS = {0: "power cap", 1: "thermal", 3: "board limit"}
# Percent of the multiprocessors that a process may use and still be idle.
_IDLE = 5
# NVML's numbers of its clocks: of the multiprocessors, and of the memory.
_CLOCKS = {"SM": 1, "MEM": 2}


class Gpu:
    """One GPU; whatever the driver does not tell is None."""

    def __init__(self, nvml: Any, handle: Any, uuid: str = "") -> None:
        self._nvml, self._handle, self.uuid = nvml, handle, uuid
        # In microseconds, as NVML counts.
        self._looked = time.time_ns() // 1000

    def driver(self) -> str | None:
        """Return the driver's version."""
        version = self._ask("nvmlSystemGetDriverVersion")
        return version.decode() if isinstance(version, bytes) else version

    def clock(self, kind: str = "SM") -> int | None:
        """Return the current clock in MHz: of the multiprocessors, or of the memory ("MEM")."""
        return self._ask("nvmlDeviceGetClockInfo", self._handle, _CLOCKS[kind])

    def highest_clock(self) -> int | None:
        """Return the highest clock of the multiprocessors in MHz."""
        return self._ask("nvmlDeviceGetMaxClockInfo", self._handle, _CLOCKS["SM"])

    def throttled(self) -> list[str] | None:
        """Say in words what slows the GPU down just now."""
        # The second name is that in packages and drivers before 2023.
        for name in ("ClocksEventReasons", "ClocksThrottleReasons"):
            bits = self._ask(f"nvmlDeviceGetCurrent{name}", self._handle)
            if bits is not None:
                return sorted({word for bit, word in _REASONS.items() if bits & bit})
        return None

    def violations(self) -> dict[str, float]:
        """Return the seconds since the driver was loaded for which something held the GPU back."""
        asked = {
            word: self._ask("nvmlDeviceGetViolationStatus", self._handle, policy)
            for policy, word in _VIOLATIONS.items()
        }
        return {word: told.violationTime / 1e9 for word, told in asked.items() if told is not None}

    def processes(self) -> set[int]:
        """Return the processes that have a context on the GPU."""
        found = self._ask("nvmlDeviceGetComputeRunningProcesses", self._handle)
        return {process.pid for process in found or ()}

    def foreign_processes(self) -> int | None:
        """Count the processes of others that used the GPU since this was asked last.

        Where NVML does not say who used it, all that hold a place on it are counted.
        """
        pids = self.processes()
        # In a container, NVML knows processes by numbers that we do not: ours are among them.
        if os.getpid() not in pids:
            return None
        return sum(not _is_ours(pid) for pid in self._busy(pids))

    def _busy(self, pids: set[int]) -> set[int]:
        since, self._looked = self._looked, time.time_ns() // 1000
        try:
            found = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, since)
        except Exception as error:
            # Nobody has used it, or NVML does not know.
            return set() if type(error).__name__ == "NVMLError_NotFound" else pids
        return {one.pid for one in found if one.timeStamp > since and one.smUtil > _IDLE}

    def exclusive(self) -> bool:
        """Say whether it lets one process in at a time."""
        # NVML's modes: to one thread, as there was once, and to one process.
        return self._ask("nvmlDeviceGetComputeMode", self._handle) in (1, 3)

    def joules(self) -> float:
        """Return the energy used since the driver was loaded, or raise."""
        return self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000

    def _ask(self, function: str, *given: Any) -> Any:
        # Not only NVMLError: an old package lacks functions, an old driver lacks symbols.
        with suppress(Exception):
            return getattr(self._nvml, function)(*given)
        return None


def _is_ours(pid: int) -> bool:
    """Say whether a process is this one, has started it, or was started with it for the same run.

    What is of one run waits for its turn while another part of it computes.
    """
    runner = multiprocessing.parent_process()
    if runner is None:
        return pid in (os.getpid(), os.getppid())
    return pid in (os.getpid(), os.getppid(), runner.pid) or parent_of(pid) == os.getppid()


def find_gpu(device: torch.device) -> Gpu | None:
    """Return the GPU behind a CUDA device; None without NVML."""
    if device.type != "cuda":
        return None
    with suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        # Not by index: CUDA counts visible devices only, and in an order of its own.
        properties = torch.cuda.get_device_properties(device)
        for kind in ("GPU", "MIG"):
            with suppress(pynvml.NVMLError):
                uuid = f"{kind}-{properties.uuid}"
                return Gpu(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid), uuid)
    return None
