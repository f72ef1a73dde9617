"""Statistics, against scipy, printed tables and counting by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from dataeff.report.stats import MOST, Interval, interval_of, named, paired, spread

NAN = math.nan
# Accuracy in percent, five seeds.
BASE = np.array([91.2, 90.8, 91.5, 90.9, 91.1])
OURS = np.array([[91.4, 90.9, 91.3, 91.2, 91.4], [90.1, 90.0, 90.2, 89.9, 90.4]])
DIFFERENCES = OURS - BASE


# Intervals -------------------------------------------------------------------------------------


def test_an_interval_of_logarithms_is_one_of_factors():
    factor = Interval(0.0, math.log(0.5), math.log(4.0)).exp()
    assert factor == pytest.approx((1.0, 0.5, 4.0))


def test_a_line_of_a_table_gives_back_what_it_was_given():
    found = Interval(0.1, -0.2, 0.4)
    assert named(found, "gain") == {"gain": 0.1, "gain_low": -0.2, "gain_high": 0.4}
    assert interval_of(named(found, "gain"), "gain") == found


# Pairs -----------------------------------------------------------------------------------------


def test_intervals_are_those_of_scipy():
    found = paired(DIFFERENCES)
    for i, ours in enumerate(OURS):
        low, high = stats.ttest_rel(ours, BASE).confidence_interval(0.95)
        assert found.interval(i)[1:] == pytest.approx((low, high))
    assert found.mean == pytest.approx(DIFFERENCES.mean(1))
    assert found.sd == pytest.approx(DIFFERENCES.std(1, ddof=1))
    assert found.n.tolist() == [5, 5]


@pytest.mark.parametrize(
    ("n", "quantile"), [(2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (10, 2.262), (31, 2.042)]
)
def test_intervals_have_the_quantiles_of_printed_tables(n, quantile):
    values = np.arange(n, dtype=float)
    found = paired(values)
    assert found.high - found.mean == pytest.approx(
        quantile * values.std(ddof=1) / math.sqrt(n), rel=2e-4
    )
    assert found.mean - found.low == pytest.approx(found.high - found.mean)


def test_a_missing_seed_is_left_out_wherever_it_is():
    lines = [[NAN, 1.0, 2.0, 4.0], [1.0, 2.0, NAN, 4.0], [1.0, 2.0, 4.0, NAN]]
    found, alone = paired(lines), paired([1.0, 2.0, 4.0])
    for name in ("n", "mean", "sd", "low", "high"):
        assert getattr(found, name) == pytest.approx(np.repeat(getattr(alone, name), 3))


def test_too_few_seeds_have_no_interval():
    found = paired([[NAN, NAN], [NAN, 3.0], [1.0, 3.0]])
    assert found.n.tolist() == [0, 1, 2]
    assert found.mean == pytest.approx([NAN, 3, 2], nan_ok=True)
    for values in (found.sd, found.low, found.high):
        assert np.isnan(values).tolist() == [True, True, False]
    assert found.sd[2] == pytest.approx(math.sqrt(2))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("summed", [paired, spread])
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_lines_and_no_seeds_are_no_trouble(shape, summed):
    found = summed(np.empty(shape))
    assert found.mean.shape == found.n.shape == (shape[0],)
    assert not found.n.any()


def test_equal_steps_are_no_certainty():
    step = 0.25
    found = paired([[step] * 3, [0.0, 1.0, 2.0]], step)
    assert found.sd[0] == pytest.approx(step / math.sqrt(12))
    assert found.sd[1] == 1
    # Rounding to a step leaves an error that is uniform over it.
    assert stats.uniform(0, step).std() == pytest.approx(found.sd[0])
    assert paired([step] * 3).sd[0] == 0


@pytest.mark.parametrize("summed", [paired, spread])
def test_one_seed_has_no_spread_at_any_resolution(summed):
    found = summed([[1.0]], 0.2)
    assert found.mean[0] == 1
    spreads = (found.sd,) if summed is paired else (found.own, found.used, found.error)
    assert all(np.isnan(part[0]) for part in spreads)


# Spreads of a table ----------------------------------------------------------------------------


def by_hand(lines):
    """Return used spreads, degrees of freedom and what is typical, strategy by strategy."""
    lines = [np.array(line)[~np.isnan(line)] for line in lines]
    own = np.array([line.var(ddof=1) for line in lines])
    d = np.array([len(line) - 1 for line in lines])
    logs = np.log(own) - digamma(d / 2) + np.log(d / 2)
    wide = 3 * np.sqrt(polygamma(1, d / 2))
    logs = np.clip(logs, np.median(logs) - wide, np.median(logs) + wide)
    beyond = logs.var(ddof=1) - polygamma(1, d / 2).mean()
    prior, typical = math.inf, math.exp(logs.mean())
    if beyond > 1e-4:
        half = brentq(lambda x: polygamma(1, x) - beyond, 1e-3, 1e5, xtol=1e-12, rtol=1e-12)
        prior, typical = 2 * half, typical * math.exp(digamma(half)) / half
    used, df = [], []
    for mine, freedom in zip(own, d, strict=True):
        counts = min(prior, 3 * freedom)
        w = freedom / (freedom + counts)
        used.append(math.sqrt(max(mine, w * mine + (1 - w) * typical)))
        q = (1 + 3 / len(own)) / 4
        df.append(min(freedom + counts, freedom / (w**2 + (1 - w**2) * q)))
    return used, df, math.sqrt(typical)


@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(2, 8), st.floats(0, 1.5))
def test_spreads_are_as_by_hand(seed, k, n, wide):
    draw = np.random.default_rng(seed)
    lines = draw.normal(0.3, np.exp(draw.normal(0, wide, (k, 1))), (k, n))
    if n > 3:
        lines[0, 1:3], lines[1, -1] = NAN, NAN
    found, (used, df, typical) = spread(lines), by_hand(lines)
    assert found.used == pytest.approx(used, rel=1e-5)
    assert found.df == pytest.approx(df, rel=1e-5)
    assert found.typical == pytest.approx(typical, rel=1e-5)
    assert found.error == pytest.approx(found.used / np.sqrt(found.n))


def scaled(spreads, n=5):
    """Return differences about zero that have just these spreads."""
    line = np.arange(n) - (n - 1) / 2
    return np.outer(spreads, line / line.std(ddof=1))


def test_spreads_that_are_alike_count_for_three_times_the_seeds():
    found = spread(scaled([1.0] * 10))
    # All have the same variance, which is unbiased for itself: digamma(2) - log(2) is left.
    typical = math.exp(math.log(2) - digamma(2))
    assert found.typical**2 == pytest.approx(typical)
    assert found.used**2 == pytest.approx(np.full(10, 0.25 + 0.75 * typical))
    together = (1 + 3 / 10) / 4
    assert found.df == pytest.approx(np.full(10, 4 / (1 / 16 + 15 / 16 * together)))
    assert (found.df < (1 + MOST) * 4).all()


def test_the_lucky_are_lifted_and_the_wild_are_believed():
    spreads = np.array([0.01, 0.8, 0.9, 1.0, 1.1, 1.2, 20.0])
    found = spread(scaled(spreads))
    assert found.own == pytest.approx(spreads)
    assert found.used[0] > 20 * spreads[0]
    assert found.used[-1] == pytest.approx(20.0)
    assert (found.used >= found.own * (1 - 1e-12)).all()


def test_one_that_is_wild_hardly_changes_what_is_typical():
    tens, thousands = (spread(scaled([0.8, 0.9, 1.0, 1.1, 1.2, far])) for far in (100.0, 1e4))
    # An outlier is taken to be three of its standard deviations away, however far it is.
    assert tens.typical == pytest.approx(thousands.typical)
    assert tens.df == pytest.approx(thousands.df)


def test_more_seeds_than_a_strategy_has_itself_are_not_lent_without_end():
    lines = scaled([1.0] * 8, n=9)
    lines[0, 2:] = NAN
    found = spread(lines)
    assert found.n.tolist() == [2] + [9] * 7
    assert found.df[0] <= 1 + MOST
    assert (found.df[1:] > 8).all()


def test_who_is_the_reference_itself_is_not_lifted_and_does_not_vote():
    others = scaled([0.8, 1.0, 1.3])
    alone, found = spread(others), spread(np.vstack([np.zeros(5), others]))
    assert (found.used[0], found.df[0], found.mean[0]) == (0, 4, 0)
    for name in ("mean", "used", "df"):
        assert getattr(found, name)[1:] == pytest.approx(getattr(alone, name))
    assert found.typical == pytest.approx(alone.typical)


def test_nor_is_it_where_a_step_is_known():
    found = spread(np.vstack([np.zeros(5), scaled([0.8, 1.0, 1.3])]), 0.2)
    assert found.used[0] == pytest.approx(0.2 / math.sqrt(12))
    assert found.df[0] == 4


def test_the_same_difference_in_every_seed_is_lifted():
    lines = np.vstack([np.full(5, 0.2), scaled([0.8, 1.0, 1.3])])
    assert spread(lines).used[0] == 0, "no logarithm of no spread"
    assert spread(lines, 0.2).own[0] == pytest.approx(0.2 / math.sqrt(12))
    assert spread(lines, 0.2).used[0] > 0.3


@pytest.mark.parametrize("k", [1, 2])
def test_fewer_than_three_strategies_have_their_own_spread(k):
    lines = scaled([0.2, 3.0])[:k] + 0.1
    # Who has one seed, or is the reference itself, does not make them three.
    found = spread(np.vstack([lines, np.zeros(5), [1.0] + [NAN] * 4]))
    assert found.used[:k] == pytest.approx(found.own[:k])
    assert found.df[:k].tolist() == [4] * k
    low, high = found.limits(0.05)
    alone = paired(lines)
    assert low[:k] == pytest.approx(alone.low)
    assert high[:k] == pytest.approx(alone.high)


def test_three_strategies_lend_each_other_theirs():
    found = spread(scaled([0.2, 1.0, 3.0]))
    assert (found.df > 4).all()
    assert found.used[0] > found.own[0]


def test_a_missing_seed_counts_less():
    lines = scaled([1.0, 1.0, 1.0, 1.0])
    lines[0, 0] = NAN
    found = spread(lines)
    assert found.n.tolist() == [4, 5, 5, 5]
    assert found.df[0] < found.df[1]


def test_limits_miss_with_the_chance_that_they_are_given():
    found = spread(scaled([0.8, 1.0, 1.3]) + 0.4)
    low, high = found.limits(np.array([0.01, 0.04, 0.5]))
    expected = stats.t.ppf([0.995, 0.98, 0.75], found.df) * found.error
    assert high - found.mean == pytest.approx(expected)
    assert found.mean - low == pytest.approx(expected)


def test_tables_are_summed_up_one_by_one_or_all_at_once():
    lines = np.random.default_rng(0).normal(0, 1, (2, 3, 5, 4))
    lines[0, 0, 1, 2:], lines[0, 1, 2], lines[1, 2, 3], lines[1, 0, 1:] = NAN, 0, NAN, NAN
    whole = spread(lines)
    for place in np.ndindex(2, 3):
        alone = spread(lines[place])
        for name in ("n", "mean", "own", "used", "df", "typical"):
            expected = getattr(alone, name)
            assert getattr(whole, name)[place] == pytest.approx(expected, nan_ok=True)
