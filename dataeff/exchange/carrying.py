"""Carrying: one cell from another folder into ours, whole or not at all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dataeff.bench.results import FILES, cell_record, clear, held, settled
from dataeff.checked import read_whole, write_checked
from dataeff.damage import Damaged
from dataeff.files import read_bytes, write_bytes
from dataeff.forms import RECORD
from dataeff.seals import Seals, seal, unseal

Outcome = Literal["taken", "there", "refused", "left"]
_WEIGHTS = {"weights": "weights.pt", "program": "weights.pt2", "pickle": "weights.pkl"}
"""What a network is kept in, by its form."""
_TRACE = "traceback.txt"
# What may be another in the record of one and the same run: who ran beside it later.
_LATER = ("schema", "checksum", "heats")
_MEASURED = ("status", "weights", "metrics", "steps", "rows")


class Carried(NamedTuple):
    """What has become of a cell, and a sentence where that is nothing that was asked for."""

    outcome: Outcome
    why: str = ""


class Sealed:
    """The seals of a folder that is merged: by our key, or by that of somebody else.

    Whether a record was changed can only be told where one seal at least is by our key.
    """

    def __init__(self, suite: Path, records: Mapping[str, Mapping[str, Any]]) -> None:
        self._seals = Seals(suite)
        held = [self._seals.holds(name, sum_of(record)) for name, record in records.items()]
        self._ours = True in held

    def holds(self, name: str, record: Mapping[str, Any]) -> bool | None:
        """Say whether a record is as we have sealed it; None where the seal is not ours."""
        return self._seals.holds(name, sum_of(record)) if self._ours else None


def sum_of(record: Mapping[str, Any]) -> str:
    """Return the checksum of a record; those of earlier versions have none."""
    return str(record.get("checksum", ""))


def carry(source: Path, target: Path, sealed: Sealed) -> Carried:
    """Bring a cell to where it is to be, if it has ended and is not there.

    What is damaged there is set aside, as by whoever else reads it.
    """
    theirs = cell_record(source)
    if theirs is None:
        return Carried("left")
    holds = sealed.holds(source.name, theirs)
    if holds is False:
        return Carried("refused", f"{source}: its record was changed after it was written.")
    with held(target) as mine:
        if not mine:
            why = f"{target} is being run by another process; type this again when it has ended."
            return Carried("refused", why)
        ours = cell_record(target)
        if ours is not None and (settled(ours) or not settled(theirs)):
            return _beside(target, ours, (source, theirs), holds)
        if why := _copied(source, target, theirs):
            return Carried("refused", why)
        _seal(target, theirs, holds)
        return Carried("taken")


def _copied(source: Path, target: Path, record: Mapping[str, Any]) -> str:
    """Copy the files of a cell, its record last; return why that cannot be done."""
    known = dict(record.get("files", {}))
    weights = _WEIGHTS.get(str(record.get("network_form")), "")
    if weights:
        known[weights] = str(record.get("weights"))
    for name in [*filter(None, [weights]), *FILES, _TRACE]:
        try:
            content = read_whole(source / name, known.get(name))
        except Damaged as damage:
            return f"{source / name} {damage}, so its cell is not taken; copy it here again."
        if content is None:
            (target / name).unlink(missing_ok=True)
        else:
            write_bytes(target / name, content)
    content = read_bytes(source / "run.json")
    if sum_of(record).encode() not in content:
        return f"{source} is being written by another process; type this again later."
    write_bytes(target / "run.json", content)
    # What of its own it would have gone on from, and what was made of other weights.
    clear(target)
    (target / "weights.safetensors").unlink(missing_ok=True)
    return ""


def _seal(target: Path, record: Mapping[str, Any], holds: bool | None) -> None:
    """Seal what we have sealed before; what somebody else has run gets no seal of ours."""
    there = Seals(target.parent).holds(target.name, sum_of(record))
    if holds and there is not True:
        seal(target, sum_of(record))
    elif not holds and there is not None:
        unseal(target)


def _beside(
    target: Path, ours: dict[str, Any], other: tuple[Path, dict[str, Any]], holds: bool | None
) -> Carried:
    """Say what becomes of a cell that has ended in both places."""
    source, theirs = other
    if not settled(theirs):
        return Carried("there")
    if what := _differs(ours, theirs):
        return Carried(
            "refused",
            f"{target} and {source} are one cell, and differ in {what}: the first stays; delete "
            "the one that you do not want, and type this again.",
        )
    heats = {**theirs.get("heats", {}), **ours.get("heats", {})}
    if heats == ours.get("heats", {}):
        return Carried("there")
    # Later cells ran beside copies of it elsewhere, whose clocks are in its record.
    mine = Seals(target.parent).holds(target.name, sum_of(ours))
    content = {**ours, "heats": heats}
    now = {"checksum": write_checked(target / "run.json", content, RECORD)}
    _seal(target, now, bool(mine and holds))
    return Carried("taken")


def _differs(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Say in what two records differ; nothing where they are of one and the same run."""
    keys = [key for key in dict.fromkeys([*ours, *theirs]) if key not in _LATER]
    found = [key for key in keys if ours.get(key) != theirs.get(key)]
    measured = [key for key in _MEASURED if key in found]
    if measured or not found:
        return ", ".join(measured)
    # The same numbers by another run.
    return "what their clocks say" if {"clocks", "ended"} & set(found) else found[0]
