"""Curves: accuracy over time, of every cell, and what can be read from them."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from dataeff.checked import Sums, read_whole
from dataeff.damage import Damaged, cell_runs_again, put_aside
from dataeff.files import csv_names
from dataeff.report.frames import KEYS, RUN_KEYS, finished, numbers
from dataeff.report.stats import Array

Reader = Callable[[Array, Array, Array], Array]
"""What reads wanted numbers off a curve: its times, its accuracies, and what is wanted."""
CLOCKS = ("prepare_seconds", "train_seconds")
"""The clocks that curves are drawn over, in sum."""
_TOLD = ("test_top1", "train_loss", "kept", "mixed")
_WANTED = ("epoch", *CLOCKS, *_TOLD)
# Published accuracies have five decimals; one test image of a million is twenty times as much.
_ROUNDED = 5e-6


def read_curves(folder: Path, runs: pd.DataFrame, sums: Mapping[str, Sums]) -> pd.DataFrame:
    """Return one line per finished cell and epoch, of all cells in one table.

    `sums` are the checksums of each cell's files; what is damaged is set aside.
    """
    cells = finished(runs)
    # Files with the same columns are parsed as one: ten thousand small ones would take long.
    bodies: dict[bytes, dict[int, bytes]] = {}
    paths = [f"{folder}/{cell}/epochs.csv" for cell in cells["folder"]]
    for number, (cell, path) in enumerate(zip(cells["folder"], paths, strict=True)):
        try:
            content = read_whole(path, sums.get(cell, {}).get("epochs.csv"))
        except Damaged as damage:
            put_aside(Path(path), damage, cell_runs_again)
            continue
        if content is not None:
            header, _, body = content.partition(b"\n")
            bodies.setdefault(header, {})[number] = body
    parts = [part for header, some in bodies.items() for part in _read(header, some, paths)]
    parts = parts or [pd.DataFrame({"run": []}, dtype=float)]
    lines = pd.concat(parts, ignore_index=True).reindex(columns=["run", *_WANTED])
    places = lines.pop("run").astype(int)
    lines = _from_one(lines)
    # As the runs themselves, so that one clock holds for all.
    lines["seconds"] *= numbers(cells, "pace").fillna(1.0).to_numpy()[places]
    return _curves(_keys(cells).iloc[places].reset_index(drop=True), lines)


def published_curves(lines: pd.DataFrame | None, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the same from the lines of curves.csv, as far as there are any of finished cells."""
    keys = _keys(finished(runs))
    if lines is None or lines.empty:
        return _curves(keys[:0], pd.DataFrame(columns=["epoch", "seconds"], dtype=float))
    # Tables of version 0.1.0 and before hold epochs as cells do, all of the same conditions.
    lines = lines if "seconds" in lines else _from_one(lines)
    lines = lines.merge(keys, on=[name for name in keys if name in lines])
    seen, ends = (numbers(table, "test_top1").to_numpy() for table in (lines, runs))
    return _curves(lines[list(keys)], lines.assign(test_top1=_unrounded(seen, ends)))


def _unrounded(seen: Array, ends: Array) -> Array:
    """Return accuracies on the way as runs ended with the same, for them to be as good as those."""
    known = np.append(np.unique(ends[~np.isnan(ends)]), np.inf)
    near = known[np.searchsorted(known, seen - _ROUNDED).clip(max=len(known) - 1)]
    return np.where(np.abs(near - seen) <= _ROUNDED, near, seen)


def _keys(cells: pd.DataFrame) -> pd.DataFrame:
    names = [*KEYS, "strategy", "seed"]
    return cells[[*RUN_KEYS, "strategy", "seed"]].set_axis(names, axis=1)


def _from_one(epochs: pd.DataFrame) -> pd.DataFrame:
    """Return epochs counted from one, and the seconds of both clocks after each."""
    prepare, train = (epochs[name] for name in CLOCKS)
    return epochs.assign(epoch=epochs["epoch"] + 1, seconds=prepare + train)


def _curves(keys: pd.DataFrame, lines: pd.DataFrame) -> pd.DataFrame:
    told = lines.reindex(columns=list(_TOLD)).astype(float)
    return keys.assign(epoch=lines["epoch"], seconds=lines["seconds"], **told)


def _read(header: bytes, bodies: dict[int, bytes], paths: list[str]) -> list[pd.DataFrame]:
    """Read the files with this header, by the numbers of their runs; set aside what is none."""
    try:
        return [_parsed(header, bodies)]
    except ValueError as error:
        if len(bodies) == 1:
            (number,) = bodies
            why = Damaged(str(error).strip().partition("\n")[0])
            put_aside(Path(paths[number]), why, cell_runs_again)
            return []
    # Which of them it is shows one by one.
    return [part for one, body in bodies.items() for part in _read(header, {one: body}, paths)]


def _parsed(header: bytes, bodies: dict[int, bytes]) -> pd.DataFrame:
    """Parse these files as one; ValueError where they are no lines of numbers."""
    names = csv_names(header)
    wanted = [name for name in _WANTED if name in names]
    if missing := {"epoch", *CLOCKS} - {*names}:
        raise ValueError(f"no column {min(missing)}")
    lines = pd.read_csv(io.BytesIO(b"".join(bodies.values())), names=names, usecols=wanted)
    counts = [body.count(b"\n") for body in bodies.values()]
    if len(lines) != sum(counts):
        raise ValueError("a line that is none")
    if texts := lines.select_dtypes(exclude="number").columns.tolist():
        raise ValueError(f"{texts[0]} is no number")
    return lines.assign(run=np.repeat(list(bodies), counts))


# What is read off --------------------------------------------------------------------------------
#
# Tests are the lines of `read_curves` with an accuracy on the test set; their columns `strategy_at`
# and `seed_at` say which point of a grid of strategies and seeds a cell is.


def first_reached(tests: pd.DataFrame, target: float, shape: tuple[int, int]) -> Array:
    """Return after how many seconds each cell first showed this accuracy; NaN is never."""
    first = tests[tests["test_top1"] >= target].drop_duplicates(["strategy_at", "seed_at"])
    seconds = np.full(shape, np.nan)
    seconds[first["strategy_at"], first["seed_at"]] = first["seconds"]
    return seconds


def at_end(tests: pd.DataFrame, shape: tuple[int, int]) -> Array:
    """Return the accuracy that the last test of each cell showed; NaN where there is none."""
    last = tests.drop_duplicates(["strategy_at", "seed_at"], keep="last")
    accuracy = np.full(shape, np.nan)
    accuracy[last["strategy_at"], last["seed_at"]] = last["test_top1"]
    return accuracy


def accuracy_at(tests: pd.DataFrame, strategy: int, seconds: Array) -> Array:
    """Return the accuracy of one strategy, seed by seed, after each of these times.

    Between two tests it is interpolated; before the first one nothing is known.
    """

    def between(times: Array, seen: Array, at: Array) -> Array:
        return np.interp(at, times, seen, left=np.nan)

    return _by_seed(tests, strategy, seconds, between)


def first_as_good(tests: pd.DataFrame, strategy: int, accuracy: Array) -> Array:
    """Return the seconds after which one strategy first showed each accuracy, seed by seed.

    NaN where it never did, and where there is a single test, which is no curve.
    """

    def first(times: Array, seen: Array, wanted: Array) -> Array:
        place = np.searchsorted(np.maximum.accumulate(seen), wanted)
        return np.append(times if len(times) > 1 else [np.nan], np.nan)[place]

    return _by_seed(tests, strategy, accuracy, first)


def last_seen(tests: pd.DataFrame, strategy: int, seconds: Array) -> Array:
    """Return the accuracy that one strategy had last shown, seed by seed, by each of these times.

    A run that was stopped has no later test, so there is nothing to interpolate; before the first
    test nothing is known, and a single test is no curve.
    """

    def last(times: Array, seen: Array, at: Array) -> Array:
        place = np.searchsorted(times, at, side="right")
        return np.append(np.nan, seen if len(times) > 1 else [np.nan])[place]

    return _by_seed(tests, strategy, seconds, last)


def _by_seed(tests: pd.DataFrame, strategy: int, wanted: Array, read: Reader) -> Array:
    """Read what is wanted of each seed, a column, off the seed's own times and accuracies."""
    found = np.full(wanted.shape, np.nan)
    for seed, curve in tests[tests["strategy_at"] == strategy].groupby("seed_at"):
        times, seen = (curve[name].to_numpy(dtype=float) for name in ("seconds", "test_top1"))
        found[:, seed] = read(times, seen, wanted[:, seed])
    return np.where(np.isnan(wanted), np.nan, found)
