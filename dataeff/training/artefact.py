"""Artefacts: what a run has prepared, such as a score per sample, kept for other runs to reuse."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dataeff.training.child import is_precision
from dataeff.training.rng import derive

if TYPE_CHECKING:
    from dataeff.training.run import Run


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
        try:
            said = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            table = pd.read_parquet(path.with_suffix(".parquet"))
        except (OSError, ValueError):
            return None
        return torch.from_numpy(table["score"].to_numpy(np.float32).copy()), said["cost"]

    def write(
        self, name: str, key: str, values: Tensor, made_from: Mapping[str, Any], cost: Any
    ) -> None:
        """Keep an artefact; where two runs make the same one, the last stays."""
        path = self._path(name, key)
        self.folder.mkdir(parents=True, exist_ok=True)
        table = pd.DataFrame({"sample": np.arange(len(values)), "score": values.cpu().numpy()})
        said = {"name": name, "made_from": dict(made_from), "stamp": self.stamp, "cost": cost}
        text = json.dumps(said, indent=1, default=str) + "\n"
        for suffix, write in (
            (".parquet", lambda partial: table.to_parquet(partial, index=False)),
            (".json", lambda partial: partial.write_text(text, encoding="utf-8")),
        ):
            partial = path.with_suffix(f"{suffix}.{os.getpid()}.partial")
            write(partial)
            os.replace(partial, path.with_suffix(suffix))

    def _path(self, name: str, key: str) -> Path:
        return self.folder / f"{name}-{key}"


def artefact(
    run: Run,
    strategy: Any,
    settings: Mapping[str, Any],
    make: Callable[[], Tensor],
    reuse: bool,
) -> Tensor:
    """Make an artefact or take one from the shelf, as `Run.artefact` says."""
    (mine,) = [part for part in run.strategies if part.plugin is strategy]
    name, shelf = mine.entry.name, run.shelf
    made_from = {
        "settings": dict(settings),
        "source": mine.entry.digest,
        "task": run.task.model_dump(mode="json"),
        "samples": f"{derive(0, run.trainable.nonzero()[:, 0].tolist()):x}",
        "precision": [part.label for part in run.strategies if is_precision(part)],
        "seed": "any" if reuse else run.seed,
    }
    key = shelf.key(made_from) if shelf else ""
    found = shelf.read(name, key) if shelf and reuse else None
    if found:
        values, bill = found
        run.meter.charge(bill)
    else:
        # What is counted by rows becomes FLOPs only here: before, it is not ours to bill.
        with run.meter.paused():
            run.close_work()
        with run.meter.bill() as bill:
            values = make().float().cpu()
            with run.meter.paused():
                run.close_work()
        if shelf:
            with run.meter.paused():
                shelf.write(name, key, values, made_from, bill)
    seconds = sum(bill["wall"].values())
    run.artefacts.append(
        {"name": name, "key": key, "seconds": seconds, "reuse": reuse, "made": not found}
    )
    return values
