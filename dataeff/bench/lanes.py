"""Lanes: where one block runs at a time, a GPU or a fixed group of cores; and how to name them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from dataeff.errors import DataeffError
from dataeff.plural import counted
from dataeff.printable import shortened
from dataeff.training import system

AUTO = "auto"
"""An accelerator's lanes where there is one, else what this machine's cores do best."""
CPU = "cpu"
"""All cores, with as many threads as torch finds fit."""

_NAME = re.compile(r"[a-z][a-z_0-9]*(:[0-9]{1,6})?").fullmatch
_GROUPS = re.compile(r"cpu\*([0-9]{1,6})").fullmatch

Timing = Literal["turns", "whole"]
"""Whether the cells of a block take turns on their lane, or each runs as a whole."""
Core = tuple[int, ...]
"""A core, by the numbers of its hyper-threads."""


@dataclass(frozen=True)
class Lane:
    """A place where one block runs at a time.

    `device` is what its processes call it: of a GPU that is known by its `uuid`, they see no other.
    `cpus` are the cores that they keep to, and `threads` those that torch computes with; None
    leaves them as they are. An `exclusive` GPU lets one process in at a time.
    """

    name: str
    device: str
    uuid: str | None = None
    cpus: tuple[int, ...] | None = None
    threads: int | None = None
    exclusive: bool = False

    def enter(self) -> None:
        """Make this process one of the lane's, and with it all that it starts: before CUDA wakes.

        Threads that are there already stay where they are.
        """
        if self.uuid:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.uuid
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)
        if self.threads:
            os.environ["OMP_NUM_THREADS"] = str(self.threads)
            torch.set_num_threads(self.threads)

    @property
    def own(self) -> list[str]:
        """Return what nobody else may use meanwhile; nothing where all cores are anybody's."""
        if self.device.startswith(CPU):
            return [f"{CPU}-{number}" for number in self.cpus or ()]
        return [self.uuid or self.name]


class Accelerator(NamedTuple):
    """A device as it was found: its name, that of its model, and how it is known."""

    name: str
    model: str
    uuid: str | None = None
    exclusive: bool = False


Found = Callable[[], Sequence[Accelerator]]
"""Returns what there is beside the CPU: waking it takes a while, so only who needs it asks."""


def read_lanes(text: str, found: Found) -> tuple[Lane, ...]:
    """Return the lanes that a text names; what is not found has to be tried.

    `auto` is all accelerators of the kind of the first, or else one lane of all cores.
    """
    if text == AUTO:
        there = found()
        alike = [one for one in there if one.model == there[0].model]
        return tuple(map(_on, alike)) or read_lanes(CPU, found)
    if groups := _GROUPS(text):
        return _dealt_lanes(int(groups[1]))
    names = _named(text)
    if names[0].startswith((CPU, "meta")):
        return tuple(Lane(name, name) for name in names)
    known = {one.name: one for one in found()}
    return tuple(_on(known[name]) if name in known else Lane(name, name) for name in names)


def as_typed(lanes: Sequence[Lane]) -> str:
    """Return what to type to get these lanes."""
    if lanes[0].device == CPU and lanes[0].threads:
        return f"{CPU}*{len(lanes)}"
    return ",".join(lane.name for lane in lanes)


def share_energy(lanes: Sequence[Lane]) -> bool:
    """Say whether the energy of one lane is counted with that of others: by processor, it is."""
    return len(lanes) > 1 and lanes[0].device == CPU


def _on(one: Accelerator) -> Lane:
    # Who sees one GPU only calls it the first.
    device = "cuda:0" if one.uuid else one.name
    return Lane(one.name, device, one.uuid, exclusive=one.exclusive)


def _named(text: str) -> list[str]:
    """Return the devices of a list, each by its full name: `cuda:0,1` has cuda:0 and cuda:1."""
    names: list[str] = []
    for part in text.split(","):
        kind, _, number = part.strip().rpartition(":")
        if not kind and number.isdecimal() and names:
            kind = names[0].partition(":")[0]
        elif number in ("cuda", "xpu"):
            kind, number = number, "0"
        names.append(f"{kind}:{number}" if kind else number)
    given = shortened(repr(text), 100)
    if not all(_NAME(name) for name in names):
        raise DataeffError(
            f"--devices takes auto, cpu, cpu*2, cuda:0 or cuda:0,cuda:1, not {given}."
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataeffError(f"{twice[0]} is there twice in --devices; name each one once.")
    kinds = {name.partition(":")[0] for name in names}
    if len(kinds) > 1 or (CPU in kinds and len(names) > 1):
        raise DataeffError(
            f"Lanes are GPUs of one kind or groups of cores, so write --devices cuda:0,cuda:1 or "
            f"cpu*2, not {given}."
        )
    return names


# Groups of cores ---------------------------------------------------------------------------------


def _dealt_lanes(count: int) -> tuple[Lane, ...]:
    cores = system.physical_cores()
    if not 1 <= count <= len(cores):
        raise DataeffError(
            f"cpu*{count} cannot be had: each lane takes a core at least, and there "
            f"{'is' if len(cores) == 1 else 'are'} {counted(len(cores), 'core')} to use; "
            f"type --devices cpu*{len(cores)}."
        )
    return tuple(map(_of_cores, dealt(cores, count)))


def dealt(cores: Sequence[Core], count: int) -> list[Sequence[Core]]:
    """Deal cores into groups of neighbours, all as large; those that are left over nobody gets."""
    size = len(cores) // count
    return [cores[first : first + size] for first in range(0, count * size, size)]


def _of_cores(cores: Sequence[Core]) -> Lane:
    cpus = tuple(sorted(number for core in cores for number in core))
    pinned = cpus if hasattr(os, "sched_setaffinity") else None
    return Lane(f"{CPU} {_ranges(cpus)}", CPU, cpus=pinned, threads=len(cores))


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers as a list such as 0-3,8."""
    ends: list[list[int]] = []
    for number in numbers:
        if ends and ends[-1][1] == number - 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ends)
