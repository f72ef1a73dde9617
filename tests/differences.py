"""Paired differences made by hand."""

import numpy as np
from scipy import stats

from dataeff.report.stats import Paired


def made(mean, sd, n=5):
    """Return paired differences of which mean and spread are known."""
    mean, sd = (np.atleast_1d(np.asarray(value, dtype=float)) for value in (mean, sd))
    n = np.broadcast_to(np.asarray(n, dtype=float), mean.shape)
    half = stats.t.ppf(0.975, n - 1) * sd / np.sqrt(n)
    return Paired(n, mean, sd, mean - half, mean + half)
