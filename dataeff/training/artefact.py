"""Artefacts: what a run has prepared, such as a score per sample, kept for other runs to reuse."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dataeff.checked import digest, read_checked, read_whole, write_checked
from dataeff.damage import Damaged, put_aside
from dataeff.files import locked, read_bytes, slug, write_parquet
from dataeff.forms import ARTEFACT
from dataeff.training.rng import derive

if TYPE_CHECKING:
    from dataeff.strategy import Strategy
    from dataeff.training.job import Job


@dataclass(frozen=True)
class Shelf:
    """A folder of artefacts, and what must be equal before one is reused: data and conditions.

    An artefact is two files: NAME-KEY.parquet, one line per sample, and NAME-KEY.json, which says
    what it was made from and what that cost. The second is written last: without it there is none.
    Where one of them is damaged it is set aside, and there is none either.
    """

    folder: Path
    stamp: tuple[str, ...] = ()

    def key(self, made_from: Mapping[str, Any]) -> str:
        """Return a short name for what an artefact is made from."""
        text = json.dumps([self.stamp, made_from], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def read(self, name: str, key: str) -> tuple[Tensor, dict[str, Any]] | None:
        """Return the values of an artefact and what making it has cost; None if there is none."""
        path = self._path(name, key, "parquet")
        said = read_checked(self._path(name, key, "json"), ARTEFACT)
        if said is None:
            return None
        try:
            content = read_whole(path, said.get("files", {}).get(path.name))
            return None if content is None else (_scores(content), said["cost"])
        except Damaged as damage:
            put_aside(path, damage, ARTEFACT.cure)
            return None

    @contextmanager
    def reused(self, name: str, key: str, job: Job) -> Iterator[tuple[Tensor, Any] | None]:
        """Yield an artefact, or None: it is to be made inside then, while others pass their turns.

        Of the runs that need it one makes it. If that one ends before, the next does.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            with locked(self._path(name, key, "making"), fleeting=True) as mine:
                found = self.read(name, key)
                # Without a host there is nobody to wait for: it is made twice then.
                if found or mine or not job.place.host:
                    yield found
                    return
            job.turn(passes=True)

    def write(self, key: str, values: Tensor, said: Mapping[str, Any]) -> None:
        """Keep an artefact; where two runs make the same one, the last stays."""
        path = self._path(said["name"], key, "parquet")
        table = pd.DataFrame({"sample": np.arange(len(values)), "score": values.cpu().numpy()})
        write_parquet(path, table)
        files = {path.name: digest(read_bytes(path))}
        write_checked(self._path(said["name"], key, "json"), {**said, "files": files}, ARTEFACT)

    def _path(self, name: str, key: str, kind: str) -> Path:
        return self.folder / f"{slug(name)}-{key}.{kind}"


def _scores(content: bytes) -> Tensor:
    """Return the scores of a parquet file."""
    try:
        table = pd.read_parquet(io.BytesIO(content), columns=["score"])
        return torch.from_numpy(table["score"].to_numpy(np.float32).copy())
    except (ValueError, TypeError, LookupError, OSError) as error:
        raise Damaged(f"no table of scores: {type(error).__name__}") from None


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
    with shelf.reused(name, key, job) if shelf and reuse else nullcontext() as found:
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
