"""Statistics, against scipy, printed tables and counting by hand."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from differences import made
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dataeff.report.stats import (
    MOST_SEEDS,
    NO_WORSE,
    holm,
    paired,
    seeds_needed,
    seeds_to_decide,
    verdict,
)
from dataeff.report.words import verdict_words

NAN = math.nan
README = (Path(__file__).parent.parent / "results" / "README.md").read_text(encoding="utf-8")
# Accuracy in percent, five seeds.
BASE = np.array([91.2, 90.8, 91.5, 90.9, 91.1])
OURS = np.array([[91.4, 90.9, 91.3, 91.2, 91.4], [90.1, 90.0, 90.2, 89.9, 90.4]])
DIFFERENCES = OURS - BASE


NOBODY = made([], [])


# Pairs -----------------------------------------------------------------------------------------


def test_intervals_are_those_of_scipy():
    found = paired(DIFFERENCES)
    for i, ours in enumerate(OURS):
        test = stats.ttest_rel(ours, BASE)
        low, high = test.confidence_interval(0.95)
        assert (found.low[i], found.high[i]) == pytest.approx((low, high))
        assert found.p_differs()[i] == pytest.approx(test.pvalue)
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


def test_too_few_seeds_have_no_interval_and_no_p_value():
    found = paired([[NAN, NAN], [NAN, 3.0], [1.0, 3.0]])
    assert found.n.tolist() == [0, 1, 2]
    assert found.mean == pytest.approx([NAN, 3, 2], nan_ok=True)
    unknown = [found.sd, found.low, found.high, found.p_differs(), found.p_above(0.0)]
    for values in [*unknown, found.p_equivalent(1.0)]:
        assert np.isnan(values).tolist() == [True, True, False]
    assert found.sd[2] == pytest.approx(math.sqrt(2))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_lines_and_no_seeds_are_no_trouble(shape):
    found = paired(np.empty(shape))
    assert found.mean.shape == found.low.shape == found.p_differs().shape == (shape[0],)
    assert not found.n.any()


def test_equal_steps_are_no_certainty():
    step = 0.25
    found = paired([[step] * 3, [0.0, 1.0, 2.0]], step)
    assert found.sd[0] == pytest.approx(step / math.sqrt(12))
    assert found.sd[1] == 1
    # Rounding to a step leaves an error that is uniform over it.
    assert stats.uniform(0, step).std() == pytest.approx(found.sd[0])
    assert paired([step] * 3).sd[0] == 0
    assert paired([step] * 3).p_differs()[0] == 0


def test_one_seed_has_no_spread_at_any_resolution():
    assert np.isnan(paired([1.0], 0.2).sd[0])


def test_nothing_speaks_against_a_limit_that_is_met_without_spread():
    found = paired([[0.0] * 4, [-0.5] * 4])
    assert found.p_differs().tolist() == [1, 0]
    assert found.p_above(-0.5).tolist() == [0, 0.5]


@pytest.mark.parametrize("limit", [-0.5, 0.0, 0.3])
def test_p_values_are_those_of_scipy(limit):
    found = paired(DIFFERENCES)
    for i, line in enumerate(DIFFERENCES):
        test = stats.ttest_1samp(line, limit, alternative="greater")
        assert found.p_above(limit)[i] == pytest.approx(test.pvalue)
    assert found.p_differs() == pytest.approx(stats.ttest_1samp(DIFFERENCES, 0, axis=1).pvalue)


@pytest.mark.parametrize("margin", [0.1, 0.5, 2.0])
def test_equivalence_is_two_one_sided_tests(margin):
    for line in (*DIFFERENCES, -DIFFERENCES[1]):
        above = stats.ttest_1samp(line, -margin, alternative="greater").pvalue
        below = stats.ttest_1samp(line, margin, alternative="less").pvalue
        assert paired(line).p_equivalent(margin)[0] == pytest.approx(max(above, below))


def test_a_p_value_of_a_printed_table():
    # t = 2.776 with four degrees of freedom is 5% on both sides, 2.5% on one.
    found = made(2.776, math.sqrt(5))
    assert found.p_differs() == pytest.approx(0.05, abs=1e-4)
    assert found.p_above(0.0) == pytest.approx(0.025, abs=1e-4)
    assert made(-2.776, math.sqrt(5)).p_above(0.0) == pytest.approx(0.975, abs=1e-4)


# Holm ------------------------------------------------------------------------------------------


def holm_by_hand(p):
    """Return, for each, the smallest level at which stepping down would reject it."""
    corrected = []
    for mine in p:
        # All that are smaller must be rejected first, each at its own step.
        steps = [*sorted(value for value in p if value < mine), mine]
        corrected.append(min(1.0, max(value * (len(p) - i) for i, value in enumerate(steps))))
    return corrected


def rejected_by_hand(p, level):
    """Step down: the smallest against level / m, the next against level / (m - 1), ..."""
    rejected = set()
    for i, place in enumerate(sorted(range(len(p)), key=lambda place: p[place])):
        if p[place] > level / (len(p) - i):
            break
        rejected.add(place)
    return rejected


def test_holm_on_a_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_out_what_was_not_tested():
    assert holm([0.01, NAN, 0.04]) == pytest.approx([0.02, NAN, 0.04], nan_ok=True)
    assert np.isnan(holm([NAN, NAN])).all()
    assert holm([]).shape == (0,)


P = st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.0125, 0.025, 0.05, 1.0])


@given(st.lists(P, max_size=8))
def test_holm_is_the_definition(p):
    assert holm(p) == pytest.approx(holm_by_hand(p))


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.001, 0.2))
def test_holm_rejects_what_stepping_down_rejects(p, level):
    # Not where rounding decides: the two multiply and divide.
    if all(abs(value * m - level) > 1e-9 for value in p for m in range(1, len(p) + 1)):
        assert set(np.flatnonzero(holm(p) <= level)) == rejected_by_hand(p, level)


@given(st.lists(P | st.just(NAN), max_size=8))
def test_holm_keeps_the_order_and_never_helps(p):
    p, corrected = np.array(p, dtype=float), holm(p)
    known = ~np.isnan(p)
    assert (np.isnan(corrected) == ~known).all()
    assert (corrected[known] >= p[known]).all()
    assert (corrected[known] <= np.minimum(1, p[known] * known.sum())).all()
    assert (np.diff(corrected[known][np.argsort(p[known])]) >= 0).all()


# Verdicts --------------------------------------------------------------------------------------

# Mean differences with a spread of 0.1 over 5 seeds, by what they show at a margin of 0.5.
SHOWN = {"better": 1.0, "no worse": 0.0, "within": -0.3, "open": -0.5, "worse": -1.0}
SPEED = {"faster": 0.4, "same": 0.0, "slower": -0.4}
WORDS = {
    ("faster", "better"): "faster and better",
    ("faster", "no worse"): "faster and no worse",
    ("faster", "within"): "faster and no worse",
    ("faster", "worse"): "faster but worse",
    ("same", "better"): "better",
    ("same", "no worse"): "no worse",
    ("same", "within"): "no worse",
    ("same", "worse"): "worse",
    ("slower", "better"): "slower but better",
    ("slower", "no worse"): "slower",
    ("slower", "within"): "slower",
    ("slower", "worse"): "slower and worse",
}


@pytest.mark.parametrize("speed", SPEED)
@pytest.mark.parametrize("shown", [name for name in SHOWN if name != "open"])
def test_what_may_be_claimed(shown, speed):
    accuracy, times = made(SHOWN[shown], 0.1), made(SPEED[speed], 0.03)
    told = verdict(accuracy, times, NOBODY, 0.5)
    assert told.faster.tolist() == [speed == "faster"]
    assert told.slower.tolist() == [speed == "slower"]
    assert told.better.tolist() == [shown == "better"]
    assert told.no_worse.tolist() == [shown != "worse"]
    assert told.worse.tolist() == [shown == "worse"]
    assert verdict_words(told, [True]) == [WORDS[speed, shown]]
    assert verdict_words(told, [False]) == ["no verdict"]


@pytest.mark.parametrize(
    ("speed", "said"), [("faster", "undecided"), ("same", "undecided"), ("slower", "slower")]
)
def test_a_wide_interval_is_undecided_whatever_the_speed_unless_slower(speed, said):
    told = verdict(made(-0.1, 1.0), made(SPEED[speed], 0.03), NOBODY, 0.5)
    assert not (told.better | told.no_worse | told.worse)[0]
    assert verdict_words(told, [True]) == [said]


def test_less_accurate_but_within_the_margin_is_not_worse():
    accuracy, speed = made([-0.3, -0.3], [0.1, 0.1]), made([0.0, 0.0], [0.03, 0.03])
    assert (accuracy.p_differs() < 0.01).all()
    wide = verdict(accuracy, speed, NOBODY, 0.5)
    assert wide.no_worse.all()
    assert not wide.worse.any()
    narrow = verdict(accuracy, speed, NOBODY, 0.2)
    assert narrow.worse.all()
    assert not narrow.no_worse.any()


def test_a_margin_is_part_of_the_claim():
    accuracy, speed = made(-0.3, 0.2), made(0.4, 0.03)
    found = {m: verdict(accuracy, speed, NOBODY, m).no_worse[0] for m in (0.2, 0.5, 0.6, 1.0)}
    assert found == {0.2: False, 0.5: False, 0.6: True, 1.0: True}


def test_no_worse_has_the_level_of_a_95_percent_interval():
    # One strategy alone: it is no worse exactly where its interval ends above the margin.
    for mean in np.linspace(-0.6, 0.3, 50):
        accuracy = made(mean, 0.2)
        told = verdict(accuracy, made(0.0, 0.03), NOBODY, 0.5)
        assert told.no_worse[0] == (accuracy.low[0] > -0.5)


def test_claims_are_corrected_for_the_size_of_the_table():
    # p = 0.02: enough for one comparison, not for the first of several.
    t = stats.t.ppf(1 - 0.02 / 2, 4)
    one, none = made(t, math.sqrt(5)), made(0.0, math.sqrt(5))
    assert one.p_differs() == pytest.approx(0.02)
    missing = made(NAN, NAN, 0)
    assert verdict(one, missing, NOBODY, 0.5).better[0]
    assert verdict(one, none, NOBODY, 0.5).better[0], "0.02 <= 0.05 / 2"
    assert not verdict(one, none, none, 0.5).better[0], "0.02 > 0.05 / 3"
    assert not verdict(none, one, none, 0.5).faster[0]
    assert verdict(none, none, one, 0.5).rivals.tolist() == [0]


def test_the_two_families_do_not_pay_for_each_other():
    # No worse is tested with accuracies only, however many speeds and rivals there are.
    t = stats.t.ppf(1 - 0.024, 4)
    accuracy, many = made(t - 0.5, math.sqrt(5)), made([0.0] * 20, [1.0] * 20)
    assert accuracy.p_above(-0.5) == pytest.approx(0.024)
    assert verdict(accuracy, made(0.0, 1.0), many, 0.5).no_worse[0]
    two = made([t - 0.5, -3.0], [math.sqrt(5)] * 2)
    assert not verdict(two, made([0.0] * 2, [1.0] * 2), NOBODY, 0.5).no_worse.any()


def test_rivals_are_better_worse_or_not_told_apart():
    rivals = made([1.0, -1.0, 0.05, NAN], [0.1, 0.1, 0.5, NAN], [5, 5, 5, 1])
    told = verdict(made(0.0, 0.1), made(0.0, 0.03), rivals, 0.5)
    assert told.rivals.tolist() == [1, -1, 0, 0]


@pytest.mark.filterwarnings("error")
def test_what_was_not_tested_is_not_claimed():
    missing, one = made([NAN], [NAN], 0), made([3.0], [NAN], 1)
    for accuracy, speed in ((missing, missing), (one, one)):
        told = verdict(accuracy, speed, one, 0.5)
        for name in ("faster", "slower", "better", "worse", "no_worse", "rivals"):
            assert not getattr(told, name).any()
        assert (told.open_differs, told.open_no_worse) == (1, 1)


def test_open_tests_are_counted():
    accuracy = made([1.0, 0.0, -0.5, NAN], [0.1, 0.1, 0.4, NAN], [5, 5, 5, 0])
    speed = made([0.4, 0.0, 0.0, NAN], [0.03] * 3 + [NAN], [5, 5, 5, 0])
    told = verdict(accuracy, speed, made([0.0, 2.0], [0.4, NAN], [5, 1]), 0.5)
    # Seven are tested: three accuracies, three speeds, one rival. One of each kind is found.
    assert (told.better.sum(), told.faster.sum()) == (1, 1)
    assert told.open_differs == 5
    assert told.no_worse.tolist() == [True, True, False, False]
    assert told.open_no_worse == 1


# Seeds -----------------------------------------------------------------------------------------


def exact_power(effect, n, level):
    return stats.nct.sf(stats.t.ppf(1 - level, n - 1), n - 1, effect * np.sqrt(n))


def power(n, spread, margin, difference=0.0):
    """Return the chance that one strategy, faster beyond doubt, is called no worse.

    `spread` is the standard deviation of the paired accuracy difference, in points.
    """
    return exact_power((difference + margin) / np.asarray(spread), np.asarray(n), NO_WORSE)


@pytest.mark.parametrize("level", [0.025, 0.0125, 0.025 / 4, 0.025 / 20])
def test_seeds_needed_are_within_one_of_the_exact_number(level):
    n = np.arange(2, 2 * MOST_SEEDS)
    for effect in np.geomspace(0.45, 9, 40):
        exact = n[np.argmax(exact_power(effect, n, level) >= 0.8)]
        assert abs(seeds_needed(effect, level) - exact) <= 1


@pytest.mark.parametrize("level", [0.025, 0.0125, 0.025 / 4])
def test_seeds_needed_have_about_the_power_that_they_promise(level):
    # With fewer seeds, one more or less makes a large difference.
    for effect in np.linspace(0.45, 1.4, 20):
        n = seeds_needed(effect, level)
        assert exact_power(effect, n, level) >= 0.78
        assert exact_power(effect, n - 2, level) < 0.8


@given(st.floats(0.001, 20), st.floats(1, 3), st.floats(0.0001, 0.05))
def test_a_larger_effect_needs_no_more_seeds_and_a_stricter_level_no_fewer(effect, factor, level):
    needed = seeds_needed(effect, level)
    assert needed >= seeds_needed(effect * factor, level)
    assert needed <= seeds_needed(effect, level / factor)
    assert needed == math.inf or 2 <= needed <= MOST_SEEDS


def test_what_no_number_of_seeds_finds_is_infinite():
    needed = seeds_needed([NAN, -1.0, 0.0, 0.2, math.inf], 0.025)
    assert needed.tolist() == [math.inf] * 4 + [2]
    assert math.isinf(seeds_needed(0.28, 0.025))
    assert seeds_needed(0.285, 0.025) <= MOST_SEEDS


def decided(accuracy, speed, margin=0.5):
    return seeds_to_decide(accuracy, speed, verdict(accuracy, speed, NOBODY, margin), margin)


def test_what_is_decided_needs_no_seeds():
    accuracy = made([0.0, -0.3, 1.0, -1.0, -1.0], [0.1] * 5)
    speed = made([0.4, 0.4, 0.4, 0.4, 0.0], [0.03] * 5)
    assert not decided(accuracy, speed).any()


def test_who_has_lost_in_one_needs_no_seeds_for_the_other():
    assert decided(made(-0.1, 1.0), made(-0.4, 0.03)).tolist() == [0], "slower"
    assert decided(made(-1.0, 0.1), made(0.001, 0.1)).tolist() == [0], "worse"


def test_an_open_accuracy_needs_seeds_for_the_nearer_of_the_two_claims():
    speed = made(0.4, 0.03)
    # Three seeds are too few for no worse: five tenths of a point at a spread of 0.5 are one.
    up = decided(made(0.0, 0.5, 3), speed)[0]
    assert up == seeds_needed(0.5 / 0.5, 0.025)
    # Nine tenths below: worse is nearer, one open test of two is left.
    down = decided(made(-0.9, 0.7, 3), speed)[0]
    assert down == seeds_needed(0.9 / 0.7, 0.025)
    assert down < seeds_needed(0.4 / 0.7, 0.025)


def test_an_open_speed_needs_seeds_at_the_corrected_level():
    # Both differences are open: each faces half of the level.
    assert decided(made(0.0, 0.1), made(0.05, 0.05))[0] == seeds_needed(1.0, 0.025 / 2)
    assert decided(made(0.0, 0.1), made(-0.05, 0.05))[0] == seeds_needed(1.0, 0.025 / 2)


def test_the_slower_of_two_open_questions_counts():
    speed_alone = decided(made(0.0, 0.1), made(0.03, 0.05))[0]
    points_alone = decided(made(0.0, 0.5), made(0.4, 0.03))[0]
    both = decided(made(0.0, 0.5), made(0.03, 0.05))[0]
    assert speed_alone > points_alone > 0
    assert both == speed_alone


def test_the_same_speed_is_never_decided():
    assert math.isinf(decided(made(0.0, 0.1), made(0.0, 0.03))[0])


def test_more_strategies_need_more_seeds():
    few = decided(made([-0.1] * 2, [0.5] * 2), made([0.4] * 2, [0.03] * 2))
    many = decided(made([-0.1] * 9, [0.5] * 9), made([0.4] * 9, [0.03] * 9))
    assert (many[:2] > few).all()


# Power -----------------------------------------------------------------------------------------


def called_no_worse(spread, n, strategies, suites=4000, seed=0):
    """Return the share of equally accurate strategies that are called no worse, by drawing."""
    draw = np.random.default_rng(seed)
    points = draw.normal(0, spread, (suites * strategies, n))
    p = paired(points).p_above(-0.5).reshape(suites, strategies)
    return np.mean([holm(line) <= 0.025 for line in p])


@pytest.mark.parametrize(("spread", "n"), [(0.2, 3), (0.2, 5), (0.3, 5), (0.4, 8), (0.5, 10)])
def test_power_is_how_often_it_happens(spread, n):
    assert power(n, spread, 0.5) == pytest.approx(called_no_worse(spread, n, 1), abs=0.025)


def test_power_is_that_of_the_noncentral_t():
    assert power(5, 0.3, 0.5) == pytest.approx(exact_power(0.5 / 0.3, 5, 0.025))
    assert power(5, 0.3, 0.5, -0.2) == pytest.approx(exact_power(0.3 / 0.3, 5, 0.025))
    assert power(5, 0.3, 0.5, -0.5) == pytest.approx(0.025), "at the margin only chance is left"
    assert power([3, 4], [[0.2], [0.3], [0.4]], 0.5).shape == (3, 2)


def tables_of_power():
    """Return the tables of the README as {spread: [percent of 3 to 10 seeds]}."""
    tables = []
    for heading, lines in re.findall(r"\| (spread.*)\n\|[-|]*\n((?:\|.*\n?)*)", README):
        assert re.findall(r"(\d+) seeds", heading) == [str(n) for n in range(3, 11)]
        rows = [line.strip("|\n ").split(" | ") for line in lines.splitlines()]
        tables.append({float(row[0]): [int(cell) for cell in row[1:]] for row in rows})
    return tables


SPREADS = [0.2, 0.3, 0.4, 0.5]


def test_the_table_of_power_is_what_it_says():
    alone, _ = tables_of_power()
    assert list(alone) == SPREADS
    for spread, row in alone.items():
        assert row == np.rint(100 * power(range(3, 11), spread, 0.5)).tolist()


def test_the_table_of_power_for_four_is_what_it_says():
    _, of_four = tables_of_power()
    assert list(of_four) == SPREADS
    for spread, row in of_four.items():
        at_least = exact_power(0.5 / spread, np.arange(3, 11), 0.025 / 4)
        assert row == np.rint(100 * at_least).tolist()


@pytest.mark.parametrize(("spread", "n"), [(0.2, 4), (0.3, 6), (0.5, 9)])
def test_the_tables_of_power_hold_when_drawn(spread, n):
    alone, of_four = tables_of_power()
    drawn = 100 * called_no_worse(spread, n, 1, seed=1)
    assert alone[spread][n - 3] == pytest.approx(drawn, abs=2.5)
    among_four = 100 * called_no_worse(spread, n, 4, seed=2)
    assert of_four[spread][n - 3] - 1.5 <= among_four < drawn


def test_the_spread_can_be_had_from_an_interval_as_the_readme_says():
    (factor,) = re.findall(r"\(difference_high - difference\) × ([\d.]+)", README)
    found = paired(DIFFERENCES[:, :3])
    assert (found.high - found.mean) * float(factor) == pytest.approx(found.sd, rel=0.01)
