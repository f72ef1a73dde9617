"""Overhead: what a strategy's own work takes, where no count of rows shows it."""

import math


def told(what, share):
    """Say how much of the training time it took, in steps of five percent, so that seeds agree."""
    most = 5 * math.ceil(20 * share)
    return f"{what} took at most {most}% of the time"
