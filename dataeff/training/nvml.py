"""What NVML knows of one GPU, where the optional package `nvidia-ml-py` is installed."""

import multiprocessing
import os
from contextlib import suppress
from typing import Any

import torch

# The bits of NVML's clock event reasons that slow a GPU down: the same in every version, while
# their names have changed. An idle GPU and clocks that the user has set are no slow-down.
_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal",
    0x40: "thermal",
    0x80: "power brake",
}
# NVML's numbers of its clocks: of the multiprocessors, and of the memory.
_CLOCKS = {"SM": 1, "MEM": 2}


class Gpu:
    """One GPU; whatever the driver does not tell is None."""

    def __init__(self, nvml: Any, handle: Any, uuid: str = "") -> None:
        self._nvml, self._handle, self.uuid = nvml, handle, uuid

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

    def foreign_processes(self) -> int | None:
        """Count the compute processes of others."""
        found = self._ask("nvmlDeviceGetComputeRunningProcesses", self._handle)
        pids = {process.pid for process in found or ()}
        # Those that started this process may have opened the GPU to name it.
        parent = multiprocessing.parent_process()
        ours = {os.getpid(), os.getppid(), parent.pid if parent else None}
        # In a container, NVML knows processes by numbers that we do not: ours are among them.
        return len(pids - ours) if os.getpid() in pids else None

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
