"""Pairing: times of later heats, as they would have been beside the reference's own run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataeff.bench.results import pairing

if TYPE_CHECKING:
    from dataeff.report.read import Read


def pair(runs: Sequence[Read], reference: str) -> None:
    """Multiply the times of each run by what the reference beside it says of the machine then.

    `pace` is that factor. A time that no reference was alive beside is one that cannot be trusted.
    """
    base = {
        (*run.label[:2], run.line["seed"]): run.timing for run in runs if run.label[2] == reference
    }
    for run in runs:
        line = run.line
        factor, why = pairing(run.timing, base.get((*run.label[:2], line["seed"])))
        if why:
            line["contended"] = "; ".join(filter(None, (line["contended"], why)))
        elif run.timing["heat"]:
            line |= {name: line[name] * factor for name in run.times if line.get(name) is not None}
            line["pace"] = factor
