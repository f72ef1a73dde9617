"""Artefacts: what a run has prepared, such as a score per sample, kept for other runs to reuse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dataeff.errors import DataeffError
from dataeff.files import read_json, slug, write_json, write_parquet
from dataeff.training.rng import derive

if TYPE_CHECKING:
    from dataeff.strategy import Strategy
    from dataeff.training.job import Job


@dataclass(frozen=True)
class Shelf:
    """A folder of artefacts, and what must be equal before one is reused: data and conditions.

    An artefact is two files: NAME-KEY.parquet, one line per sample, and NAME-KEY.json, which says
    what it was made from and what that cost. The second is written last: without it there is none.
    """

    folder: Path
    stamp: tuple[str, ...] = ()

    def key(self, made_from: Mapping[str, Any]) -> str:
        """Return a short name for what an artefact is made from."""
        text = json.dumps([self.stamp, made_from], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def read(self, name: str, key: str) -> tuple[Tensor, dict[str, Any]] | None:
        """Return the values of an artefact and what making it has cost; None if there is none."""
        path = self._path(name, key)
        with suppress(OSError, ValueError, DataeffError):
            if said := read_json(path.with_suffix(".json")):
                table = pd.read_parquet(path.with_suffix(".parquet"))
                return torch.from_numpy(table["score"].to_numpy(np.float32).copy()), said["cost"]
        return None

    def write(self, key: str, values: Tensor, said: Mapping[str, Any]) -> None:
        """Keep an artefact; where two runs make the same one, the last stays."""
        path = self._path(said["name"], key)
        table = pd.DataFrame({"sample": np.arange(len(values)), "score": values.cpu().numpy()})
        write_parquet(path.with_suffix(".parquet"), table)
        write_json(path.with_suffix(".json"), said)

    def _path(self, name: str, key: str) -> Path:
        return self.folder / f"{slug(name)}-{key}"


def artefact(
    job: Job,
    strategy: Strategy,
    settings: Mapping[str, Any],
    make: Callable[[], Tensor],
    reuse: bool,
) -> Tensor:
    """Make an artefact or take one from the shelf, as `Run.artefact` says."""
    run, meter, shelf = job.run, job.meter, job.place.shelf
    (mine,) = [part for part in run.strategies if part.plugin is strategy]
    name = mine.entry.name
    made_from = {
        "settings": dict(settings),
        "source": mine.entry.digest,
        "task": run.task.model_dump(mode="json"),
        "samples": f"{derive(0, run.trainable.nonzero()[:, 0].tolist()):x}",
        "precision": [part.label for part in run.strategies if part.kind.precision],
        "seed": "any" if reuse else run.seed,
    }
    key = shelf.key(made_from) if shelf else ""
    found = shelf.read(name, key) if shelf and reuse else None
    if found:
        values, bill = found
        meter.charge(bill)
    else:
        # What is counted by rows becomes FLOPs only here: before, it is not ours to bill.
        job.close_work()
        with meter.bill() as bill:
            values = make().float().cpu()
            job.close_work()
        if shelf:
            said = {"name": name, "made_from": made_from, "stamp": shelf.stamp, "cost": bill}
            with meter.paused():
                shelf.write(key, values, said)
    seconds = sum(bill["wall"].values())
    job.artefacts.append(
        {"name": name, "key": key, "seconds": seconds, "reuse": reuse, "made": not found}
    )
    return values
