"""Files that appear whole or not at all: the only place that touches what results are kept in.

What checks them, and sets aside what is damaged, is in `dataeff.checked`.
"""

import csv
import fcntl
import gc
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from dataeff.damage import Cure, Damaged, made_anew, put_aside
from dataeff.errors import FULL, DiskFull
from dataeff.printable import as_was, harmless

CHECKPOINTS = ("checkpoint.pt", "checkpoint-before.pt")
"""What a run that was stopped goes on from: the newest, and the one before it."""
_BLOCK = 2**18


def slug(text: str) -> str:
    """Return the text as a file name: everything unusual becomes one dash."""
    return re.sub(r"[^\w.=+]+", "-", text).strip("-.")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which takes the place of `path` once it is complete."""
    # Two runs of one suite write the same tables: each has a partial file of its own.
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        os.replace(partial, path)
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull.at(path, os.strerror(error.errno)) from error
        raise
    finally:
        partial.unlink(missing_ok=True)


def make_way(path: Path, cure: Cure = made_anew) -> None:
    """Set aside a folder that stands where a file of ours is to be; never where a user says."""
    if path.is_dir():
        put_aside(path, Damaged("it is a folder"), cure)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file by write-then-rename."""
    with written_whole(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text by write-then-rename."""
    # An error may hold a file name that is no UTF-8.
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON by write-then-rename."""
    write_text(path, json_text(value) + "\n")


def json_text(value: Any) -> str:
    """Return strict JSON: what is not finite becomes null."""
    return json.dumps(finite(value), indent=1, allow_nan=False)


def finite(value: Any) -> Any:
    """Return the value as strict JSON has it: what is not finite becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {finite(str(key)): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if getattr(value, "ndim", None) == 0:
        return finite(value.item())
    if isinstance(value, int | bool | None):
        return value
    # Half a character, as names that are no UTF-8 have, would make all of the file unreadable.
    return str(value).encode(errors="backslashreplace").decode()


def read_bytes(path: str | Path) -> bytes:
    """Read a small file, at half the cost of opening a Python file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        parts = [os.read(handle, _BLOCK)]
        while len(parts[-1]) == _BLOCK:
            parts.append(os.read(handle, _BLOCK))
    finally:
        os.close(handle)
    return b"".join(parts)


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table by write-then-rename; no text of it starts a formula in a spreadsheet."""
    table = _each_text(table, harmless)
    with written_whole(path) as partial:
        try:
            lines = pa.Table.from_pandas(table, preserve_index=False)
        except pa.ArrowException:
            # A column of several kinds, such as a strategy may report.
            table.to_csv(partial, index=False)
            return
        # Ten times as fast as pandas.
        with partial.open("wb") as file:
            pyarrow.csv.write_csv(lines, file)


def parse_csv(content: bytes, is_text: Callable[[str], bool]) -> pd.DataFrame:
    """Return the table that `write_csv` has written as these bytes; ValueError where it is none.

    Columns whose name `is_text` stay text, whatever they look like. In them what is empty is "" if
    it was written as that, and else missing.
    """
    names = csv_names(content)
    lines = pyarrow.csv.read_csv(
        io.BytesIO(content),
        # Errors that were recorded have several lines.
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in names if is_text(name)},
            # A strategy may be called nan.
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return _each_text(lines.to_pandas(), as_was)


def _each_text(table: pd.DataFrame, change: Callable[[object], object]) -> pd.DataFrame:
    """Return a table with its texts changed, the names of its columns among them."""
    changed = table.rename(columns=change)
    for place, kind in enumerate(table.dtypes):
        if kind.kind == "O" or isinstance(kind, pd.StringDtype):
            texts = map(change, table.iloc[:, place])
            changed.isetitem(place, pd.Series(texts, table.index, kind))
    return changed


def csv_names(content: bytes) -> list[str]:
    """Return the names of a table's columns; ValueError where they are none."""
    try:
        return next(csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")), [])
    except csv.Error as error:
        raise ValueError(str(error)) from None


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """Write a table by write-then-rename."""
    with written_whole(path) as partial:
        table.to_parquet(partial, index=False)


def write_bits(path: Path, flags: NDArray[np.bool_]) -> None:
    """Write flags by write-then-rename, eight to a byte; how many there are is not written."""
    with written_whole(path) as partial:
        partial.write_bytes(np.packbits(flags).tobytes())


@contextmanager
def locked(path: Path, fleeting: bool = False) -> Iterator[bool]:
    """Lock a file for this process; yields False where another one has it.

    The lock goes with the process, however that ends. A `fleeting` file is deleted afterwards.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Of a file that has just been deleted, nobody else sees the lock.
            mine = os.path.samestat(os.fstat(file.fileno()), path.stat())
        except (BlockingIOError, FileNotFoundError):
            mine = False
        try:
            yield mine
        finally:
            if mine and fleeting:
                path.unlink(missing_ok=True)


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the collector from walking all that is read inside, again and again, for garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
