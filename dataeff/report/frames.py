"""What tables of results have in common: which lines belong together, and columns as numbers."""

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pandas as pd

Record = dict[str, Any]
"""One line of a table, by column."""
Key = tuple[str, str]
"""A task and the short name of its conditions: only what shares both may be compared."""
RUN_KEYS = ["task_name", "conditions_id"]
"""What runs call the two."""
KEYS = ["task", "conditions"]
"""What tables call the two."""


def title(key: Key) -> str:
    """Return the heading of a table."""
    return f"{key[0]} (conditions {key[1]})"


def tables(lines: pd.DataFrame) -> Iterable[tuple[Key, pd.DataFrame]]:
    """Split lines into those that may be compared, in the order of their first ones."""
    if lines.empty:
        return []
    return cast(Iterable[tuple[Key, pd.DataFrame]], lines.groupby(_keys(lines), sort=False))


def of_table(lines: pd.DataFrame, key: Key) -> pd.DataFrame:
    """Return the lines of one table."""
    task, conditions = _keys(lines)
    return lines[(lines[task] == key[0]) & (lines[conditions] == key[1])]


def _keys(lines: pd.DataFrame) -> list[str]:
    return RUN_KEYS if RUN_KEYS[0] in lines else KEYS


def records(lines: pd.DataFrame) -> list[Record]:
    """Return the lines of a table one by one."""
    return cast(list[Record], lines.to_dict("records"))


def finished(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that came to their end."""
    return runs[runs["status"] == "finished"]


def of_strategy(cells: pd.DataFrame, strategy: str) -> pd.DataFrame:
    """Return the cells of one strategy, by seed."""
    return cells[cells["strategy"] == strategy].set_index("seed")


def numbers(cells: pd.DataFrame, name: str) -> pd.Series:
    """Return a column as floats, NaN where it is not known."""
    if name not in cells:
        return pd.Series(np.nan, index=cells.index)
    return pd.to_numeric(cells[name], errors="coerce").astype(float)


def resolution(cells: pd.DataFrame, images: str = "test_samples") -> float:
    """Return the step of test accuracy in points, one test image; 0 where it is not known.

    `images` is the column that says of how many.
    """
    samples = numbers(cells, images).min()
    return 100 / samples if samples > 0 else 0.0


def seen_on(cells: pd.DataFrame) -> str:
    """Say on how many test images cells were tested before their end; nothing where on all."""
    part, whole = (numbers(cells, name).min() for name in ("test_part", "test_samples"))
    return f"{part:,.0f} of the {whole:,.0f} test images" if part < whole else ""
