"""Conditions: what must be equal before two measurements may be compared."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

import torch


def conditions(device: torch.device) -> dict[str, Any]:
    """Return device, library versions, threads and precision flags of this process."""
    libraries = {
        name: importlib.metadata.version(name)
        for name in ("dataeff", "torch", "torchvision", "timm")
    }
    return {
        "device": device.type,
        "device_name": device_name(device),
        "cpu": cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **libraries,
        "matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
    }


def conditions_id(values: dict[str, Any]) -> str:
    """Return a short name for these conditions."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def device_name(device: torch.device) -> str:
    """Return the marketing name of the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name() if device.type == "cpu" else device.type


def cpu_name() -> str:
    """Return the processor's name as the system knows it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
