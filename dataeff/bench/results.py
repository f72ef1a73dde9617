"""Results on disk: one folder per cell, files that appear whole or not at all."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from dataeff.errors import DataeffError

DONE = ("finished", "diverged")


def cell_folder(root: Path, task: str, strategy: str, seed: int, identity: str) -> Path:
    """Return the folder of a cell: readable, and unique by its identity."""
    return root / f"{slug(task)[:60]}-{slug(strategy)[:60]}-s{seed}-{identity}"


def slug(text: str) -> str:
    """Return the text as a file name: everything unusual becomes one dash."""
    return re.sub(r"[^\w.=+]+", "-", text).strip("-.")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which takes the place of `path` once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two runs of one suite write the same tables: each has a partial file of its own.
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file by write-then-rename."""
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON: what is not finite becomes null."""
    write_text(path, json.dumps(_finite(value), indent=1, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if getattr(value, "ndim", None) == 0:
        return _finite(value.item())
    return value if isinstance(value, int | str | bool | None) else str(value)


def read_json(path: Path) -> Any:
    """Read a JSON file, or return None where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataeffError(f"{path} is damaged ({error}); delete its folder.") from None


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table by write-then-rename."""
    write_text(path, table.to_csv(index=False))


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """Write a table by write-then-rename."""
    with written_whole(path) as partial:
        table.to_parquet(partial, index=False)


def is_done(folder: Path) -> bool:
    """Say whether the cell needs no more running."""
    record = read_json(folder / "run.json")
    return record is not None and record["status"] in DONE


@contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Claim a cell for this process; yields False where another process has it.

    The claim is a file lock: it goes with the process, however that ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "claim").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def read_runs(suite_folder: Path) -> list[dict[str, Any]]:
    """Read the record of every cell of a suite, with its folder's name, in order of the names."""
    paths = sorted(suite_folder.glob("*/run.json"))
    return [read_json(path) | {"folder": path.parent.name} for path in paths]
