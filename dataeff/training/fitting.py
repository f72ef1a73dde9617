"""How many runs like this one fit into memory beside it."""

from pathlib import Path

import torch

from dataeff.training.system import ROOT, kib

# Share of what is free that others may take: what is measured after a warm-up still grows.
_SHARE = 0.8
# Bytes that a process takes of a device beside its tensors: context, kernels, library handles.
_CONTEXT = 2**29


def more_that_fit(device: torch.device, root: Path = ROOT) -> int | None:
    """Return how many more processes like this one fit beside it; None where nobody knows."""
    if device.type == "cpu":
        own = kib(root / "proc/self/status", "RssAnon")
        free = kib(root / "proc/meminfo", "MemAvailable")
        return None if own is None or free is None else fitting(own, free)
    module = torch.get_device_module(device)
    if not hasattr(module, "mem_get_info"):
        return None
    return fitting(module.memory_reserved(device) + _CONTEXT, module.mem_get_info(device)[0])


def fitting(own: int, free: int) -> int:
    """Return how often what one takes fits into what is free, with room to spare."""
    return int(_SHARE * free / max(1, own))
