"""Conditions: what must be equal before two measurements may be compared; and provenance."""

import hashlib
import json
import math
import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from dataeff.training.devices import cpu_model, cpu_name, device_name, driver_of
from dataeff.training.heap import keeps_heap
from dataeff.training.system import cores, memory_gib

_PACKAGE = Path(__file__).parent.parent


def conditions(device: torch.device) -> dict[str, Any]:
    """Return device, driver, memory, library versions and threads; a task adds its numerics."""
    libraries = ("dataeff", "torch", "torchvision", "timm")
    return {
        "device": device.type,
        "device_name": device_name(device),
        **device_facts(device),
        "cpu": cpu_name(),
        "cpu_model": cpu_model(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "keeps_heap": keeps_heap(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **{name: version(name) for name in libraries},
    }


def conditions_id(values: dict[str, Any]) -> str:
    """Return a short name for these conditions."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Say in what two conditions differ; nothing where they are equal."""
    keys = dict.fromkeys([*ours, *theirs])
    found = [
        f"{key} {theirs.get(key)} instead of {ours.get(key)}"
        for key in keys
        if ours.get(key) != theirs.get(key)
    ]
    return ", ".join(found)


def device_facts(device: torch.device) -> dict[str, Any]:
    """Return the device's memory, roughly, and its driver."""
    if device.type != "cuda":
        return {"memory_gib": _about(memory_gib()), "driver": None, "cuda": None, "cudnn": None}
    return {
        "memory_gib": _about(torch.cuda.get_device_properties(device).total_memory / 2**30),
        "driver": driver_of(device),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def _about(gib: float | None) -> int | None:
    """Return a size in coarse steps: the kernel keeps a little for itself, not always the same."""
    if gib is None:
        return None
    step = 2 ** max(0, math.floor(math.log2(gib)) - 2)
    return step * round(gib / step + 0.25)


# Provenance: stamped, not compared ---------------------------------------------------------------


def provenance(plugins: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the commit that dataeff runs from, and the versions of it and of its plugins.

    What decides whether results may be compared is the hash of a strategy's source.
    """
    versions = {
        plugin["name"]: plugin["version"]
        for plugin in plugins
        if plugin["source"] not in ("built in", "bundled") and not plugin["error"]
    }
    return {"commit": commit(_PACKAGE), "versions": versions | {"dataeff": version("dataeff")}}


@cache
def commit(package: Path) -> str | None:
    """Return the commit of the checkout that a package lies in, `+dirty` if its code differs.

    None outside of a checkout, and where the package is only installed below one.
    """
    if not _git(package, "ls-files", "__init__.py"):
        return None
    # Code only: results are written while a suite runs.
    code = (":(top)*.py", ":(top)*.toml")
    told = _git(package, "status", "--porcelain=v2", "--branch", "--", *code)
    lines = (told or "").splitlines()
    name = next((line.split()[2] for line in lines if line.startswith("# branch.oid")), None)
    if name is None or name == "(initial)":
        return None
    return name + "+dirty" * any(not line.startswith("#") for line in lines)


def _git(folder: Path, *arguments: str) -> str | None:
    # Set inside of git's own hooks, they would lead to another repository.
    misleading = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    environment = {key: value for key, value in os.environ.items() if key not in misleading}
    command = ["git", "--no-optional-locks", *arguments]
    with suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return subprocess.check_output(
            command, cwd=folder, env=environment, stderr=subprocess.DEVNULL, text=True, timeout=10
        )
    return None
