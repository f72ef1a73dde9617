"""What preparation makes of a speed-up: in full, shared by those who use it, or left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

# Below this share of a run, its preparation is not worth a sentence.
_NOTABLE = 0.02


def reused_text(record: dict[str, Any]) -> str:
    """Return the artefacts that a run has reused, with the seconds that each took to make."""
    used = [part for part in record.get("artefacts") or () if part["reuse"]]
    return " ".join(f"{part['name']}-{part['key']}:{part['seconds']:.6g}" for part in used)


def add_amortised(runs: pd.DataFrame) -> None:
    """Add what each run takes if all finished runs that use an artefact share the cost of it.

    `artefact_uses` says how many share; both are NaN where nothing is shared.
    """
    runs["amortised_seconds"] = runs["artefact_uses"] = np.nan
    finished = runs["status"] == "finished"
    used = {
        place: dict(part.rsplit(":", 1) for part in text.split())
        for place, text in runs.loc[finished & (runs["reused"] != ""), "reused"].items()
    }
    if not used:
        return
    uses = Counter(name for parts in used.values() for name in parts)
    saved = [
        sum(float(seconds) * (1 - 1 / uses[name]) for name, seconds in parts.items())
        for parts in used.values()
    ]
    places = list(used)
    runs.loc[places, "amortised_seconds"] = runs.loc[places, "clocked_seconds"] - saved
    runs.loc[places, "artefact_uses"] = [min(map(uses.get, parts)) for parts in used.values()]


def preparations(table: pd.DataFrame) -> list[str]:
    """Say of each strategy that prepares what its speed-up is with, and without, that time."""
    said = []
    prepare = table["prepare_seconds"]
    notable = prepare > _NOTABLE * (prepare + table["train_seconds"])
    for row in table[notable & (table["claim"] != "")].to_dict("records"):
        parts = [f"{row['speedup']:.2f}x with its preparation"]
        if row["artefact_uses"] > 1:
            parts[0] += " in full"
            runs = f"{row['artefact_uses']:.0f} runs"
            parts.append(f"{row['amortised_speedup']:.2f}x where {runs} share its scores")
        parts.append(f"{row['train_speedup']:.2f}x without it")
        said.append(f"{row['strategy']}: {', '.join(parts)}.")
    return said
