"""Early termination: the reference stopped at the cost of a method, read off its own curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dataeff.cost import EARLY_TERMINATION
from dataeff.report.verdicts import Array, paired

READ_OFF = "read off a curve"
"""What stands in the place of a claim: nothing was run, so nothing is tested."""


def early_termination(
    seen: Array,
    final: Array,
    clocked: Array,
    prepare: Array,
    shares: Sequence[float],
    reference: str,
    margin: float,
    step: float,
) -> pd.DataFrame:
    """Return one line of the table per share of the reference's time at which a seed had a look.

    `seen` is the accuracy that each seed had last shown by then, shares x seeds; `final`, `clocked`
    and `prepare` are accuracy and seconds of the whole run, by seed. The lines are neither ranked
    nor tested: they change nothing of what is said of the others.
    """
    share = np.asarray(shares, dtype=float)
    points, level = paired(seen - final, step), paired(seen)
    train = np.where(np.isnan(seen), np.nan, share[:, None] * clocked - prepare)
    lines = pd.DataFrame(
        {
            "strategy": [f"{EARLY_TERMINATION}[share={value:g}]" for value in share],
            "n": level.n.astype(int),
            "accuracy": level.mean,
            "accuracy_std": level.sd,
            "difference": points.mean,
            "difference_low": points.low,
            "difference_high": points.high,
            "equivalence_p": points.p_equivalent(margin),
            "margin": margin,
            "prepare_seconds": paired(np.where(np.isnan(seen), np.nan, prepare)).mean,
            "train_seconds": paired(train).mean,
            # Stopped at a share of its own time: the clock and the count agree.
            **dict.fromkeys(("speedup", "speedup_low", "speedup_high"), 1 / share),
            "train_speedup": np.exp(paired(np.log((clocked - prepare) / train)).mean),
            "ideal_speedup": 1 / share,
            "realised": 1.0,
            "claim": READ_OFF,
            "verdict": [
                f"read off the curve of {reference}, stopped at {100 * value:g}% of its time; "
                "nothing was run"
                for value in share
            ],
            "control": True,
            **dict.fromkeys(("ranked", "pareto"), False),
            **dict.fromkeys(("against_controls", "trouble", "note"), ""),
            "contended": 0,
        }
    )
    return lines[lines["n"] > 0]
