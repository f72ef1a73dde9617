"""Keeping: the final weights of cells as safetensors, for networks that are built elsewhere.

They are made of what each cell leaves for its last test, so that nothing of it is on a clock, and
that cells are the same whether anybody asks for them or not.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from dataeff.bench.cells import Cell
from dataeff.bench.results import settled
from dataeff.checked import digest
from dataeff.files import read_bytes, written_whole
from dataeff.plural import counted
from dataeff.training.weights import FILES

NAME = "weights.safetensors"
"""What the final weights are called, beside the record of their cell."""


def keep_weights(cells: Iterable[Cell]) -> list[str]:
    """Write the final weights of all cells that have ended; say in sentences where that fails."""
    ended = [(cell, cell.record()) for cell in cells]
    why = [_kept(cell.folder, record) for cell, record in ended if settled(record)]
    return _told(why)


def _kept(folder: Path, record: dict[str, Any]) -> str:
    """Write the weights of a cell; return why there are none."""
    form: Any = record.get("network_form")
    source, target = folder / FILES.get(form, FILES["weights"]), folder / NAME
    if form in ("program", "pickle"):
        return "changed"
    if not source.exists():
        # Those that were kept before are still of this run.
        return "" if target.exists() else "gone"
    if target.exists() and target.stat().st_mtime_ns >= source.stat().st_mtime_ns:
        return ""
    if digest(read_bytes(source)) != record.get("weights"):
        return "gone"
    state = torch.load(source, weights_only=True, map_location="cpu")
    with written_whole(target) as partial:
        # One tensor under two names is written twice, and a network is laid out as it likes.
        save_file({name: one.contiguous().clone() for name, one in state.items()}, partial)
    return ""


def _told(why: list[str]) -> list[str]:
    said = []
    if count := why.count("gone"):
        are = counted(count, "finished cell", "finished cells")
        said.append(f"The weights of {are} are no longer there; --fresh trains them again.")
    if count := why.count("changed"):
        are = counted(count, "cell has", "cells have")
        said.append(
            f"{are} another network than the task's by its strategy: it stays as weights.pt2 "
            "(torch.export.load) or weights.pkl."
        )
    return said
