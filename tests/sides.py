"""Runs of two strategies made by hand, as lines of runs.csv."""

import numpy as np
import pandas as pd
from scipy import stats

from dataeff.report.frames import tables
from dataeff.report.judge import Judged
from dataeff.report.looks import with_due

PLAIN = {"load": 1.0, "forward": 3.0, "backward": 6.0}
"""Ten seconds of a plain run."""


def cell(strategy, seed=0, accuracy=90.0, phases=PLAIN, flops=300.0, prepare=0.0, **more):
    """Return one line of runs; train is the sum of the phases."""
    train = sum(phases.values())
    line = {
        "task_name": "blobs",
        "conditions_id": "c1",
        "strategy": strategy,
        "seed": seed,
        "status": "finished",
        "contended": "",
        "test_top1": accuracy,
        "prepare_seconds": prepare,
        "train_seconds": train,
        "clocked_seconds": prepare + train,
        "total_seconds": prepare + train,
        "flops": flops,
    }
    line |= {f"{name}_phase_seconds": seconds for name, seconds in phases.items()}
    return line | more


def interval(differences, chance=0.05):
    """Return mean and the t interval that misses with this chance, by scipy."""
    limits = stats.ttest_1samp(differences, 0).confidence_interval(1 - chance)
    return np.mean(differences), limits.low, limits.high


def judged(cells, margin=0.5, **suite):
    """Return the tables of these cells, judged as a suite of their strategies and seeds is."""
    runs = pd.DataFrame(cells)
    told = {"reference": "base", "strategies": [], "seeds": 0}
    if len(runs):
        names, seeds = list(dict.fromkeys(runs["strategy"])), int(runs["seed"].max()) + 1
        told |= {"strategies": names, "seeds": seeds}
    told |= suite
    looks = with_due(runs, told, [])
    return [Judged(key, group, told, looks, margin) for key, group in tables(runs)]
