"""Named random streams, so that switching a strategy on shifts nobody else's draws."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def derive(seed: int | str, *names: Any) -> int:
    """Return a seed for (seed, names), the same on every machine."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


class Streams:
    """CPU generators by name, each seeded from the run's seed and its own name."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, torch.Generator] = {}

    def __call__(self, name: str) -> torch.Generator:
        if name not in self._streams:
            self._streams[name] = torch.Generator().manual_seed(derive(self.seed, "stream", name))
        return self._streams[name]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return where each stream stands."""
        return {name: stream.get_state() for name, stream in self._streams.items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Put each stream back where it stood."""
        for name, value in state.items():
            self(name).set_state(value)


def global_state(device: torch.device) -> dict[str, Any]:
    """Return the state of every global generator (dropout draws from torch's)."""
    numpy: Any = np.random.get_state()  # noqa: NPY002 the global one is what we save
    kind, keys, *rest = numpy
    state = {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(keys.astype(np.int64)), *rest),
    }
    if hasattr(torch.get_device_module(device), "get_rng_state"):
        state["device"] = torch.get_device_module(device).get_rng_state()
    return state


@contextmanager
def forked(device: torch.device, seed: int | None = None) -> Iterator[None]:
    """Put the global generators back afterwards; inside, torch's are seeded if `seed` is given."""
    before = global_state(device)
    if seed is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        set_global_state(before, device)


def set_global_state(state: dict[str, Any], device: torch.device) -> None:
    """Put every global generator back."""
    torch.set_rng_state(state["torch"])
    version, keys, gauss = state["python"]
    random.setstate((version, tuple(keys), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    if "device" in state:
        torch.get_device_module(device).set_rng_state(state["device"])
