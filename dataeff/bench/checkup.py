"""The check-up: what a machine has for runs, and in plain sentences what is amiss with it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dataeff import catalogue
from dataeff.bench.service import Hear, Service
from dataeff.data.datasets import found
from dataeff.errors import DataeffError
from dataeff.lab import pick_device
from dataeff.seals import key_file
from dataeff.training.devices import (
    about_device,
    device_line,
    is_accelerated,
    kernel_driver,
)
from dataeff.training.numerics import flags
from dataeff.training.nvml import find_gpu
from dataeff.training.system import cores, load_average

Facts = Mapping[str, Any]
"""What was found, by the keys that `dataeff doctor --json` shows."""

# Seconds that a device has to wake up.
_WAKING = 120.0
# What a small suite leaves behind, many times over.
_LEAST_GIB = 1.0


@dataclass(frozen=True)
class Asked:
    """Where runs would be: a device, folders of data, results and plugins."""

    device: str = "auto"
    data_root: Path | None = None
    results: Path = Path("results")
    plugin_dirs: Sequence[Path] = ()


def facts(asked: Asked) -> dict[str, Any]:
    """Examine everything; the device is woken in a process of its own."""
    with Service(Examination, asked.device, limit=_WAKING) as service:
        told: dict[str, Any] = service.call("examine")
    plugins = catalogue.offers(tuple(asked.plugin_dirs))["plugins"]
    told |= {
        "data": {
            "root": asked.data_root and str(asked.data_root),
            "is_there": asked.data_root is None or asked.data_root.is_dir(),
            "found": found(asked.data_root),
        },
        "plugins": {
            "count": len(plugins),
            "broken": {one["name"]: one["error"] for one in plugins if one["error"]},
        },
        "disk": _room(asked.results),
        "state": _room(key_file().parent),
    }
    return told | {"amiss": list(amiss(told))}


def _room(folder: Path) -> dict[str, Any]:
    """Say how much room there is where a folder is or would be, and whether one may write there."""
    folder = folder.absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return {
        "folder": str(folder),
        "free_gib": round(shutil.disk_usage(there).free / 2**30, 1),
        "may_write": there.is_dir() and os.access(there, os.W_OK | os.X_OK),
    }


class Examination:
    """What is examined where a device may be woken."""

    def __init__(self, tell: Hear, device: str) -> None:
        self._device = device

    def examine(self) -> dict[str, Any]:
        """Return what there is to say of device, precision and threads."""
        trouble = ""
        try:
            device = pick_device(self._device)
        except DataeffError as error:
            device, trouble = torch.device("cpu"), str(error)
        about = about_device(device)
        return {
            "device": about | {"line": device_line(about), "trouble": trouble},
            "driver": kernel_driver(),
            "nvml": find_gpu(device) is not None,
            "precision": flags()
            | {
                name: is_accelerated(device.type, getattr(torch, name))
                for name in ("bfloat16", "float16")
            },
            "threads": {
                "torch": torch.get_num_threads(),
                "cores": cores(),
                "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
                "load_average": load_average(),
            },
        }


def amiss(told: Facts) -> Iterator[str]:
    """Say what is not as it should be, and what to type."""
    device, threads, data = told["device"], told["threads"], told["data"]
    if device["trouble"]:
        yield device["trouble"]
    if told["driver"] and not torch.version.cuda and device["device"] == "cpu":
        yield (
            f"There is an NVIDIA driver ({told['driver']}), but this torch is built without CUDA: "
            "choose a build at https://pytorch.org/get-started/locally and install it."
        )
    if device["device"].startswith("cuda") and not told["nvml"]:
        yield (
            "Energy, throttling and other processes on the GPU cannot be watched; type: "
            "pip install nvidia-ml-py"
        )
    yield from _crowded(threads)
    if not data["is_there"]:
        yield f"There is no folder {data['root']}; name another by --data-root or DATAEFF_DATA."
    for name, error in told["plugins"]["broken"].items():
        yield f"Plugin {name} did not load ({error}); type: dataeff plugins list"
    yield from _cramped(told["disk"], told["state"])


def _crowded(threads: Facts) -> Iterator[str]:
    ours, there, load = threads["torch"], threads["cores"], threads["load_average"]
    if ours > there:
        yield (
            f"torch computes with {ours} threads on {there} cores; type: "
            f"export OMP_NUM_THREADS={there}"
        )
    if load is not None and load > max(0, there - ours) + 0.5:
        yield (
            f"The load average is {load:.1f} on {there} cores: what else runs here makes times "
            "doubtful; type: top"
        )


def _cramped(disk: Facts, state: Facts) -> Iterator[str]:
    if not disk["may_write"]:
        yield f"Results cannot be written to {disk['folder']}; name another folder by --results."
    elif disk["free_gib"] < _LEAST_GIB:
        yield f"Only {disk['free_gib']} GiB are free for results in {disk['folder']}; make room."
    if not state["may_write"]:
        yield (
            f"Results cannot be sealed, because {state['folder']} cannot be written; set "
            "XDG_STATE_HOME to a folder of yours."
        )
