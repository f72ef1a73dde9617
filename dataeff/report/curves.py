"""Curves: accuracy over time, of every cell, and what can be read from them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd

from dataeff.bench.results import read_bytes
from dataeff.report.reading import Read
from dataeff.report.verdicts import Array

_WANTED = ("epoch", "prepare_seconds", "train_seconds", "test_top1", "train_loss", "kept", "mixed")


def read_curves(folder: Path, runs: list[Read]) -> pd.DataFrame:
    """Return one line per finished cell and epoch, of all cells in one table."""
    finished = [run for run in runs if run.finished]
    # Files with the same columns are parsed as one: ten thousand small ones would take long.
    bodies: dict[bytes, list[bytes]] = {}
    owners: dict[bytes, list[int]] = {}
    for number, run in enumerate(finished):
        try:
            text = read_bytes(f"{folder}/{run.folder}/epochs.csv")
        except FileNotFoundError:
            continue
        header, _, body = text.partition(b"\n")
        bodies.setdefault(header, []).append(body)
        owners.setdefault(header, []).append(number)
    parts = [_parsed(header, bodies[header], owners[header]) for header in bodies]
    lines = pd.concat(parts) if parts else pd.DataFrame(columns=["run", *_WANTED], dtype=float)
    lines = lines.reindex(columns=["run", *_WANTED])
    keys = pd.DataFrame(
        [(*run.label, run.seed) for run in finished],
        columns=["task", "conditions", "strategy", "seed"],
    )
    curves = keys.loc[lines["run"].astype(int)].reset_index(drop=True)
    curves["epoch"] = lines["epoch"].to_numpy() + 1
    curves["seconds"] = (lines["prepare_seconds"] + lines["train_seconds"]).to_numpy()
    for name in ("test_top1", "train_loss", "kept", "mixed"):
        curves[name] = lines[name].to_numpy(dtype=float)
    return curves


def _parsed(header: bytes, bodies: list[bytes], owners: list[int]) -> pd.DataFrame:
    names = next(csv.reader([header.decode()]))
    wanted = [name for name in _WANTED if name in names]
    lines = pd.read_csv(io.BytesIO(b"".join(bodies)), names=names, usecols=wanted)
    return lines.assign(run=np.repeat(owners, [body.count(b"\n") for body in bodies]))


def first_reached(looks: pd.DataFrame, target: float, shape: tuple[int, int]) -> Array:
    """Return the seconds after which each cell first showed this accuracy, NaN where it never did.

    `looks` are the lines of `read_curves` with a look at the test set; its columns `row` and
    `column` say where in the result a cell belongs.
    """
    seconds = np.full(shape, np.nan)
    there = np.flatnonzero(looks["test_top1"].to_numpy() >= target)[::-1]
    # Written from the last to the first: what stays is the first look that reached it.
    place = looks["row"].to_numpy()[there], looks["column"].to_numpy()[there]
    seconds[place] = looks["seconds"].to_numpy()[there]
    return seconds


def accuracy_at(looks: pd.DataFrame, row: int, seconds: Array) -> Array:
    """Return the accuracy of one strategy, seed by seed, after each of these times.

    Between two looks it is interpolated; before the first one nothing is known.
    """
    accuracy = np.full(seconds.shape, np.nan)
    for column, curve in looks[looks["row"] == row].groupby("column"):
        times = seconds[:, column]
        accuracy[:, column] = np.interp(times, curve["seconds"], curve["test_top1"], left=np.nan)
    return np.where(np.isnan(seconds), np.nan, accuracy)


def first_as_good(looks: pd.DataFrame, row: int, accuracy: Array) -> Array:
    """Return the seconds after which one strategy first showed each accuracy, seed by seed.

    NaN where it never did, and where there is a single look, which is no curve.
    """
    seconds = np.full(accuracy.shape, np.nan)
    for column, curve in looks[looks["row"] == row].groupby("column"):
        if len(curve) > 1:
            best = np.maximum.accumulate(curve["test_top1"].to_numpy())
            place = np.searchsorted(best, accuracy[:, column])
            seconds[:, column] = np.append(curve["seconds"], np.nan)[place]
    return np.where(np.isnan(accuracy), np.nan, seconds)


def last_seen(looks: pd.DataFrame, row: int, seconds: Array) -> Array:
    """Return the accuracy that one strategy had last shown, seed by seed, by each of these times.

    A run that was stopped has no later look, so there is nothing to interpolate; before the first
    look nothing is known, and a single look is no curve.
    """
    accuracy = np.full(seconds.shape, np.nan)
    for column, curve in looks[looks["row"] == row].groupby("column"):
        if len(curve) > 1:
            seen = np.searchsorted(curve["seconds"], seconds[:, column], side="right")
            accuracy[:, column] = np.append(np.nan, curve["test_top1"])[seen]
    return np.where(np.isnan(seconds), np.nan, accuracy)
