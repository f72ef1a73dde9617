"""What NVML knows of one GPU, where the optional package `nvidia-ml-py` is installed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
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


class Gpu:
    """One GPU; whatever the driver does not tell is None."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    def driver(self) -> str | None:
        """Return the driver's version."""
        version = self._ask(lambda nvml, gpu: nvml.nvmlSystemGetDriverVersion())
        return version.decode() if isinstance(version, bytes) else version

    def clock(self, kind: str = "SM") -> int | None:
        """Return the current clock in MHz: of the multiprocessors, or of the memory ("MEM")."""
        return self._ask(
            lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, getattr(nvml, f"NVML_CLOCK_{kind}"))
        )

    def highest_clock(self) -> int | None:
        """Return the highest clock of the multiprocessors in MHz."""
        return self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM))

    def throttled(self) -> list[str] | None:
        """Say in words what slows the GPU down just now."""
        bits = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
        if bits is None:
            # The name in packages and drivers before 2023.
            bits = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))
        if bits is None:
            return None
        return sorted({word for bit, word in _REASONS.items() if bits & bit})

    def foreign_processes(self) -> int | None:
        """Count the compute processes of others."""
        found = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetComputeRunningProcesses(gpu))
        pids = {process.pid for process in found or ()}
        # In a container, NVML knows processes by numbers that we do not: ours are among them.
        return len(pids - _ours()) if os.getpid() in pids else None

    def joules(self) -> float:
        """Return the energy used since the driver was loaded, or raise."""
        return self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000

    def _ask(self, question: Callable[[Any, Any], Any]) -> Any:
        # Not only NVMLError: an old package lacks functions, an old driver lacks symbols.
        with suppress(Exception):
            return question(self._nvml, self._handle)
        return None


def _ours() -> set[int]:
    """Return this process and those that started it: they may have opened the GPU to name it."""
    parent = multiprocessing.parent_process()
    started = {parent.pid} if parent and parent.pid else set()
    return {os.getpid(), os.getppid(), *started}


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
                handle = pynvml.nvmlDeviceGetHandleByUUID(f"{kind}-{properties.uuid}")
                return Gpu(pynvml, handle)
    return None
