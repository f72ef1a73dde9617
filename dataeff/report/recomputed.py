"""A leaderboard made anew, beside the one on disk."""

import tempfile
from pathlib import Path

import pandas as pd

from dataeff.files import read_bytes, write_csv


def unlike(path: Path, table: pd.DataFrame) -> str:
    """Say how a table on disk differs from one that was made anew; nothing where it does not."""
    if not path.exists():
        return f"{path.name}: there is none; dataeff leaderboard {path.parent.name} makes it."
    with tempfile.TemporaryDirectory(prefix="dataeff-") as name:
        anew = Path(name) / path.name
        write_csv(anew, table)
        if read_bytes(anew) == read_bytes(path):
            return ""
        told, now = (pd.read_csv(file, dtype=str, keep_default_na=False) for file in (path, anew))
    return f"{path.name} is not what the cells say{_where(told, now)}; " + (
        f"dataeff leaderboard {path.parent.name} makes it anew."
    )


def _where(told: pd.DataFrame, now: pd.DataFrame) -> str:
    if list(told) != list(now) or len(told) != len(now):
        return " (other lines or columns)"
    places = (told != now).to_numpy().nonzero()
    line, column = (int(found[0]) for found in places)
    name = told.columns[column]
    said = f"{name} {told.iloc[line, column]} instead of {now.iloc[line, column]}"
    return f" ({now['strategy'][line]}: {said})"
