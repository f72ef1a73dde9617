"""Matched strategies: whether they take as long as what they were matched to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from dataeff.bench.results import read_json
from dataeff.report.sentences import matched_to
from dataeff.report.verdicts import paired


def matched(folder: Path, runs: pd.DataFrame) -> list[str]:
    """Say of each strategy that was matched how its time compares, over the seeds of both."""
    finished = runs[runs["status"] == "finished"]
    places = ["task_name", "conditions_id"]
    tables = dict(iter(finished.groupby(places)))
    said = []
    for entry in read_json(folder / "match.json") or []:
        place = (entry["task"], entry["conditions_id"])
        cells = tables.get(place, finished[:0])
        ours, theirs = (
            cells[cells["strategy"] == entry[name]].set_index("seed")["clocked_seconds"]
            for name in ("strategy", "match")
        )
        ratios = (ours / theirs).dropna()
        if not len(ratios):
            continue
        where = [
            name
            for name, column in zip(place, places, strict=True)
            if finished[column].nunique() > 1
        ]
        said.append(matched_to(entry, paired(np.log(ratios)), " under ".join(where)))
    return said
