"""Interleaved measurement: two ways to do one thing, in turn, in one process, as a ratio."""

import statistics
import time

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def ratio(benchmark):
    """Return a function that measures ours / theirs, round by round, in turn.

    The machines are noisy, so the figure is the median over rounds of the ratio within a round;
    an absolute time proves nothing. pytest-benchmark prints the times of `ours`; `pairs`, a list,
    is filled with the seconds of theirs and ours in each round.
    """

    def measure(ours, theirs, rounds=15, pairs=None):
        pairs = [] if pairs is None else pairs

        def reference():
            start = time.perf_counter()
            theirs()
            pairs.append([time.perf_counter() - start])

        def timed():
            start = time.perf_counter()
            ours()
            pairs[-1].append(time.perf_counter() - start)

        timed_once(ours, theirs)
        benchmark.pedantic(timed, setup=reference, rounds=rounds)
        value = statistics.median(mine / other for other, mine in pairs)
        benchmark.extra_info["ratio"] = round(value, 3)
        print(
            f"\n{benchmark.name}: {value:.3f} of the reference (median of {rounds} rounds in turn)"
        )
        return value

    return measure


def timed_once(*functions):
    """Call each once, unmeasured, so that nobody pays for the first time."""
    for function in functions:
        function()
