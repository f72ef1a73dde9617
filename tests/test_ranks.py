"""Ranks: shared where intervals do not separate."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataeff.report.stats import (
    ranks,
)

NAN = math.nan


def test_ranks_are_shared_where_intervals_overlap():
    low = np.array([1.5, 1.4, 1.3, 1.0, 0.8])
    high = np.array([1.6, 1.55, 1.45, 1.0, 0.9])
    assert ranks(np.zeros(5, dtype=int), low, high).tolist() == [1, 1, 2, 4, 5]


def test_intervals_that_touch_share_a_rank():
    ranked = ranks(np.zeros(2, dtype=int), np.array([1.0, 1.5]), np.array([1.5, 2.0]))
    assert ranked.tolist() == [1, 1]


def test_tiers_come_before_speed():
    low, high = np.array([1.0, 3.0, 2.0]), np.array([1.1, 3.1, 2.1])
    assert ranks(np.array([0, 2, 1]), low, high).tolist() == [1, 3, 2]


def test_what_has_no_interval_has_no_rank_and_takes_none():
    low, high = np.array([NAN, 1.0, 3.0]), np.array([NAN, 1.1, NAN])
    assert ranks(np.array([0, 1, 0]), low, high) == pytest.approx([NAN, 1, NAN], nan_ok=True)
    assert ranks(np.array([], dtype=int), np.array([]), np.array([])).shape == (0,)


ENDS = st.one_of(st.sampled_from([1.0, 1.25, 1.5, 2.0]), st.floats(0.1, 4))
LINES = st.tuples(st.integers(0, 2), ENDS, ENDS, st.booleans())


@given(st.lists(LINES, max_size=12))
def test_ranks_are_one_more_than_those_in_front(lines):
    lines = [(t, min(a, b), max(a, b)) if known else (t, NAN, NAN) for t, a, b, known in lines]
    tier, low, high = (np.array(part) for part in zip(*lines, strict=True)) if lines else 3 * [[]]
    found = ranks(np.asarray(tier, dtype=int), np.asarray(low), np.asarray(high))
    for i, mine in enumerate(lines):
        if math.isnan(mine[1]):
            assert math.isnan(found[i])
        else:
            ahead = [t < mine[0] or (t == mine[0] and lo > mine[2]) for t, lo, _ in lines]
            known = [not math.isnan(lo) for _, lo, _ in lines]
            assert found[i] == 1 + np.sum(np.array(ahead) & known)
