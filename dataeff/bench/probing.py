"""Probing: what devices there are, and under which conditions a lane's cells will run.

Each look is taken by a process that ends thereafter: the runner itself never wakes a device, of
which some let a single process in.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from dataeff.bench.conditions import conditions, differing
from dataeff.bench.lanes import Accelerator, Lane, read_lanes
from dataeff.bench.service import Hear, Service
from dataeff.errors import DataeffError
from dataeff.lab import pick_device
from dataeff.training.heap import steady_heap
from dataeff.training.nvml import find_gpu

# Seconds: a driver that nobody has loaded yet takes its time.
_LIMIT = 120.0


def lanes_of(text: str) -> tuple[Lane, ...]:
    """Return the lanes that a text names on this machine."""
    return read_lanes(text, accelerators)


@cache
def accelerators() -> list[Accelerator]:
    """List what there is beside the CPU, in its own order and as far as this process may see it."""
    with Service(Probing, limit=_LIMIT) as service:
        return [Accelerator(*told) for told in service.call("accelerators")]


def probe(lanes: Sequence[Lane]) -> dict[str, Any]:
    """Return the conditions of cells on these lanes; lanes that differ are refused."""
    found = [_probed(lane) for lane in lanes]
    for lane, theirs in zip(lanes, found, strict=True):
        if others := differing(found[0], theirs):
            raise DataeffError(
                f"{lane.name} is not as {lanes[0].name} ({others}), so their times cannot be "
                "compared; name --devices that are alike."
            )
    return found[0]


@cache
def _probed(lane: Lane) -> dict[str, Any]:
    with Service(Probing, limit=_LIMIT, lane=lane) as service:
        told: dict[str, Any] = service.call("conditions", lane.device)
        return told


class Probing:
    """Looks at devices."""

    def __init__(self, tell: Hear) -> None:
        """Begin with nothing awake."""

    def accelerators(self) -> list[Accelerator]:
        """List the devices beside the CPU."""
        if not torch.accelerator.is_available():
            return []
        kind = str(torch.accelerator.current_accelerator())
        return [_accelerator(kind, number) for number in range(torch.accelerator.device_count())]

    def conditions(self, device: str) -> dict[str, Any]:
        """Return the conditions as a cell finds them; a device that is of no use is refused."""
        with steady_heap():
            return conditions(pick_device(device))


def _accelerator(kind: str, number: int) -> Accelerator:
    if kind != "cuda":
        # There is one of Apple's, and it has no number.
        return Accelerator(kind if kind == "mps" else f"{kind}:{number}", kind)
    device = torch.device(kind, number)
    gpu, model = find_gpu(device), torch.cuda.get_device_name(device)
    exclusive = gpu is not None and gpu.exclusive()
    return Accelerator(str(device), model, gpu.uuid if gpu else _uuid(device), exclusive)


def _uuid(device: torch.device) -> str | None:
    """Return how CUDA knows a GPU, without NVML; AMD's are known by their numbers."""
    if torch.version.hip:
        return None
    kind = "MIG" if "MIG-" in os.environ.get("CUDA_VISIBLE_DEVICES", "") else "GPU"
    return f"{kind}-{torch.cuda.get_device_properties(device).uuid}"
