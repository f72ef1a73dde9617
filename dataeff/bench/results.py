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

DONE = ("finished", "diverged")


def cell_folder(root: Path, task: str, strategy: str, seed: int, identity: str) -> Path:
    """Return the folder of a cell: readable, and unique by its identity."""
    slug = re.sub(r"[^\w.=+]+", "-", strategy).strip("-")[:60]
    return root / f"{task}-{slug}-s{seed}-{identity}"


def write_text(path: Path, text: str) -> None:
    """Write a file by write-then-rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    os.replace(partial, path)


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
    return value if isinstance(value, int | str | bool | None) else str(value)


def read_json(path: Path) -> Any:
    """Read a JSON file, or return None where there is none."""
    return json.loads(path.read_text()) if path.exists() else None


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table by write-then-rename."""
    write_text(path, table.to_csv(index=False))


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """Write a table by write-then-rename."""
    partial = path.with_name(path.name + ".partial")
    table.to_parquet(partial, index=False)
    os.replace(partial, path)


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
    """Read the record of every cell of a suite, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(suite_folder.glob("*/run.json"))]
