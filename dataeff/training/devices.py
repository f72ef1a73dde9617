"""What a device is, in words: its name, its driver, and why it is not a GPU."""

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from dataeff.errors import one_line
from dataeff.plural import counted
from dataeff.training.nvml import find_gpu

CPU_INFO = Path("/proc/cpuinfo")
"""What Linux says of its processors."""


def device_line(about: Mapping[str, Any]) -> str:
    """Say in one line where runs are, and why not on CUDA; `about` is of `about_device`."""
    driver, threads = about["driver"], about["threads"]
    parts = [
        about["name"],
        counted(threads, "thread") if about["device"] == "cpu" else "",
        f"driver {driver}" if driver else "",
        about["runtime"],
    ]
    why = f": {about['why_not']}" if about["why_not"] else ""
    return f"On {about['device']} ({', '.join(filter(None, parts))}){why}."


def about_device(device: torch.device) -> dict[str, Any]:
    """Return what there is to say of a device; no context is opened on it."""
    cuda = device.type == "cuda"
    return {
        "device": f"cuda:{device.index or 0}" if cuda else str(device),
        "name": device_name(device),
        "threads": torch.get_num_threads(),
        "driver": driver_of(device),
        "runtime": (_runtime() or "") if cuda else "",
        "why_not": _why_no_accelerator() if device.type == "cpu" else "",
    }


def _runtime() -> str | None:
    """Return what torch is built for; None where that is no GPU of this kind."""
    kinds = {"CUDA": torch.version.cuda, "ROCm": torch.version.hip}
    return next((f"{kind} {version}" for kind, version in kinds.items() if version), None)


def _why_no_accelerator() -> str:
    if torch.accelerator.is_available():
        return f"it was asked for, although there is {torch.accelerator.current_accelerator()}"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return why_not(_runtime(), visible, _torch_says())


def why_not(runtime: str | None, visible: str | None, said: str) -> str:
    """Say why there is no CUDA: torch's build, a variable, or else what torch has said."""
    if runtime is None:
        return f"torch {torch.__version__} is built without CUDA"
    if visible is not None and visible.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible} hides every GPU"
    return said or "torch finds no GPU"


def _torch_says() -> str:
    # Where there is no GPU it only raises; asking whether there is one warns once, or never.
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return torchs_reason(error)
    return ""


def torchs_reason(error: Exception) -> str:
    """Return the first sentence of what torch says; where to download what is another matter."""
    return one_line(str(error)).split(". ")[0].rstrip(".")


def device_name(device: torch.device) -> str:
    """Return the marketing name of the device."""
    module = torch.get_device_module(device)
    if hasattr(module, "get_device_name"):
        return module.get_device_name(device)
    return cpu_name() if device.type in ("cpu", "mps") else device.type


def cpu_name() -> str:
    """Return the processor's name as the system knows it."""
    return _cpu_info().get("model name") or platform.processor() or platform.machine()


def cpu_model() -> str | None:
    """Return maker, family and model of the processor; virtual machines tell others one name.

    Libraries choose by it how they compute: both time and the last bits of numbers hang on it.
    """
    info = _cpu_info()
    for kinds in (("vendor_id", "cpu family", "model"), ("CPU implementer", "CPU part")):
        if all(kind in info for kind in kinds):
            return " ".join(info[kind] for kind in kinds)
    return None


def _cpu_info() -> dict[str, str]:
    """Return what the system says of the first processor; nothing where it says nothing."""
    with suppress(OSError):
        lines = CPU_INFO.read_text().partition("\n\n")[0].splitlines()
        pairs = (line.partition(":") for line in lines)
        return {name.strip(): value.strip() for name, _, value in pairs}
    return {}


def is_accelerated(device: str, dtype: torch.dtype) -> bool:
    """Say whether a kind of device has instructions for the type: on a CPU, AVX512-BF16 or AMX."""
    if device == "cuda" and dtype is torch.bfloat16:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device != "cpu":
        return True
    if dtype is torch.float16:
        return torch.cpu._is_amx_fp16_supported()
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def driver_of(device: torch.device) -> str | None:
    """Return the version of a GPU's driver."""
    if device.type != "cuda":
        return None
    gpu = find_gpu(device)
    return (gpu and gpu.driver()) or kernel_driver()


def kernel_driver(root: Path = Path("/")) -> str | None:
    """Return the version of NVIDIA's kernel module, for who has no NVML."""
    # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023"
    with suppress(OSError, IndexError):
        line = (root / "proc/driver/nvidia/version").read_text().splitlines()[0]
        return next((word for word in line.split() if word[0].isdigit() and "." in word), None)
    return None
