"""Runs of two strategies made by hand, as lines of runs.csv."""

import numpy as np
from scipy import stats

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
        "test_top1": accuracy,
        "prepare_seconds": prepare,
        "train_seconds": train,
        "clocked_seconds": prepare + train,
        "total_seconds": prepare + train,
        "flops": flops,
    }
    line |= {f"{name}_phase_seconds": seconds for name, seconds in phases.items()}
    return line | more


def interval(differences):
    """Return mean and 95% t interval, by scipy."""
    limits = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    return np.mean(differences), limits.low, limits.high
