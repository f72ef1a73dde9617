"""Gains over the line, worked by hand: the clock of a kind, its chords and ends, and who is judged.

A line of three budgets is at 80, 90 and 94 points, and takes 25, 50 and 100 seconds.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from worlds import LineWorld, costs

from dataeff.report.gains import NEAR, Gained, Gains, Line, judge_gains
from dataeff.report.stats import Spread, spread
from dataeff.report.verdicts import CHANCE

NAN = math.nan
SHARES = np.array([0.25, 0.5, 1.0])
# Three seeds: the second is a point better, the third takes twice as long.
ACCURACY = np.add.outer([80.0, 90.0, 94.0], [0.0, 1.0, 0.0])
SECONDS = np.multiply.outer([25.0, 50.0, 100.0], [1, 1, 2])
LINE = Line(SHARES, ACCURACY, SECONDS)


def log(share):
    return pytest.approx(np.log(share))


# The clock ---------------------------------------------------------------------------------------


def test_a_share_is_that_at_which_the_line_takes_as_long():
    assert LINE.share([[50.0, 100.0, 200.0]]) == log([[0.5, 1.0, 1.0]])
    assert LINE.share([[30.0, 30.0, 60.0], [10.0, 20.0, 500.0]]) == log(
        [[0.3, 0.3, 0.3], [0.1, 0.2, 2.5]]
    )


def test_time_that_doing_less_does_not_save_is_found():
    # Half of the budget takes e^-0.5 of the time where the slope is 0.72, not 1.
    slow = replace(LINE, seconds=100 * SHARES[:, None] ** 0.72 * [1, 2, 3])
    assert slow.share(100 * 0.4**0.72 * np.array([[1, 2, 3]])) == log([[0.4] * 3])


def test_the_luck_of_one_reference_is_shared_by_all_cells_of_its_seed():
    # The reference of the first seed took e^0.3 as long: by a third of that the rate is off.
    seconds = SECONDS.copy()
    seconds[2, 0] *= math.exp(0.3)
    found = replace(LINE, seconds=seconds).share([[50.0, 50.0, 100.0]])
    x = np.log(SHARES)
    slope = 1 + (0.3 * (x[2] - x[1])) / (3 * 2 * x[0] ** 2 / 4)
    assert found[0, 0] == pytest.approx(x[1] - 0.1 / slope)
    assert found[0, 1:] == pytest.approx(x[[1, 1]])


def test_a_cell_of_the_line_that_has_no_time_is_left_out_of_the_clock():
    seconds = SECONDS.copy()
    seconds[2, 0] = NAN
    assert replace(LINE, seconds=seconds).share([[50.0, 50.0, 100.0]]) == log([[0.5] * 3])


@pytest.mark.filterwarnings("error")
def test_a_seed_without_any_time_of_the_line_has_no_share():
    seconds = SECONDS.copy()
    seconds[:, 1] = NAN
    found = replace(LINE, seconds=seconds).share([[50.0, 50.0, 100.0]])
    assert found == pytest.approx(np.log([[0.5, NAN, 0.5]]), nan_ok=True)


# What the line reaches ---------------------------------------------------------------------------


def test_between_two_budgets_is_a_chord_in_the_logarithm_of_the_share():
    middle = math.sqrt(0.25 * 0.5)
    at = np.log([[0.25, 0.5, 1.0], [middle, middle, middle], [0.5**0.25] * 3])
    expected = [[80, 91, 94], [85, 86, 85], [93, 94, 93]]
    assert LINE.reached(at) == pytest.approx(np.array(expected))


def test_the_outer_chords_go_on():
    assert LINE.reached(np.log([[0.125, 2.0, 4.0]])) == pytest.approx(np.array([[70, 99, 102]]))


def test_a_cell_of_the_line_that_is_missing_takes_its_two_chords_with_it():
    accuracy = ACCURACY.copy()
    accuracy[1, 0] = NAN
    found = replace(LINE, accuracy=accuracy).gains(np.full((2, 3), 90.0), [[30.0] * 3, [80.0] * 3])
    assert found.least.n.tolist() == [2, 2]
    accuracy[:, 0] = [80, 90, NAN]
    found = replace(LINE, accuracy=accuracy).gains(np.full((2, 3), 90.0), [[30.0] * 3, [80.0] * 3])
    assert found.least.n.tolist() == [3, 2]


# Gains -------------------------------------------------------------------------------------------


def test_gains_are_at_the_own_time_of_each_seed():
    # At 25, 50 and 100 seconds of 100, 100 and 200: shares of 0.25, 0.5 and 0.5.
    found = LINE.gains([[81.0, 93.0, 90.5]], [[25.0, 50.0, 100.0]])
    gains = [1.0, 2.0, 0.5]
    assert found.mean == pytest.approx([np.mean(gains)])
    assert found.least.own == pytest.approx([np.std(gains, ddof=1)])
    assert found.most.own == pytest.approx(found.least.own)
    assert not (found.dearer | found.no_low | found.no_high).any()


def test_a_seed_without_a_time_has_no_gain():
    found = LINE.gains([[91.0, 92.0, 93.0]], [[50.0, NAN, 100.0]])
    assert (found.least.n[0], found.most.n[0]) == (2, 2)
    assert found.mean == pytest.approx([2.0])


@pytest.mark.filterwarnings("error")
def test_nor_has_a_method_that_has_none():
    found = LINE.gains([[91.0] * 3, [91.0] * 3], [[50.0] * 3, [NAN] * 3])
    assert found.least.n.tolist() == [3, 0]
    assert not (found.dearer | found.no_low | found.no_high)[1]
    gained = judge_gains([found])
    assert not gained.known[1]
    assert np.isinf([gained.low[1], gained.high[1]]).all()


def test_rounding_leaves_a_spread():
    times = [[50.0, 50.0, 100.0]]
    assert LINE.gains([[91.0, 92.0, 91.0]], times).least.used[0] == pytest.approx(0, abs=1e-9)
    found = replace(LINE, step=0.3).gains([[91.0, 92.0, 91.0]], times)
    assert found.least.used == pytest.approx([0.3 / math.sqrt(12)])


def at(share):
    """Return the seconds of a method that has this share of the line's time in every seed."""
    return [100 * share * np.array([1, 1, 2])]


def test_a_little_cheaper_than_the_line_is_compared_with_its_end_and_with_twice_its_slope():
    share = 0.25 * 0.95
    found = LINE.gains([[80.0, 81.0, 80.0]], at(share))
    assert found.least.mean == pytest.approx([0.0], abs=1e-9), "no more than the cheapest budget"
    slope = 10 / math.log(2)
    assert found.most.mean == pytest.approx([-2 * slope * math.log(0.95)])
    assert found.mean == pytest.approx(found.least.mean)
    assert not (found.dearer | found.no_low | found.no_high).any()


def test_a_little_dearer_is_compared_the_other_way_round():
    found = LINE.gains([[94.0, 95.0, 94.0]], at(1.05))
    assert found.most.mean == pytest.approx([0.0], abs=1e-9)
    slope = 4 / math.log(2)
    assert found.least.mean == pytest.approx([-2 * slope * math.log(1.05)])
    assert found.mean == pytest.approx(found.most.mean)
    assert found.dearer[0]
    assert not (found.no_low | found.no_high).any()


# Beyond an end by a factor of 0.9, but for rounding.
@pytest.mark.parametrize(("share", "far"), [(0.25 * (NEAR + 0.001), False), (0.25 * 0.89, True)])
def test_far_cheaper_is_never_beaten(share, far):
    found = LINE.gains([[60.0, 61.2, 60.1]], at(share))
    assert (found.no_high[0], found.no_low[0]) == (far, False)
    judged = judge_gains([found])
    assert judged.beaten[0] == (not far)
    assert (judged.high[0] == math.inf) == far
    assert judged.low[0] < -15


@pytest.mark.parametrize(("share", "far"), [(1 / NEAR - 0.001, False), (1.12, True)])
def test_far_dearer_never_beats_the_line(share, far):
    found = LINE.gains([[99.0, 100.2, 99.1]], at(share))
    assert (found.no_low[0], found.no_high[0]) == (far, False)
    judged = judge_gains([found])
    assert judged.beats[0] == (not far)
    assert (judged.low[0] == -math.inf) == far
    assert judged.high[0] > 4


def test_beyond_an_end_a_seed_without_a_time_has_no_gain_either():
    (seconds,) = at(0.24)
    seconds[0] = NAN
    found = LINE.gains([[80.0, 81.0, 80.0]], [seconds])
    assert (found.least.n[0], found.most.n[0]) == (2, 2)


def test_methods_lend_each_other_their_spread():
    draw = np.random.default_rng(0)
    accuracy = 90 + draw.normal(0, 1, (5, 3))
    found = LINE.gains(accuracy, np.tile(at(0.5), (5, 1)))
    expected = spread(accuracy - ACCURACY[1])
    assert found.least.used == pytest.approx(expected.used)
    assert (found.least.df > 2).all()


def test_tables_are_compared_one_by_one_or_all_at_once():
    tables = LineWorld(costs(10), 4, 0.1).drawn(6)
    tables.seconds[0, 0, 0], tables.lines[0].accuracy[1, 2, 1] = NAN, NAN
    found = judge_gains(tables.gains(), 0.3)
    for i in range(6):
        own = tables.accuracy[i], tables.seconds[i]
        lines = (
            replace(line, accuracy=line.accuracy[i], seconds=line.seconds[i])
            for line in tables.lines
        )
        alone = judge_gains([line.gains(*own) for line in lines], 0.3)
        for name in ("mean", "low", "high"):
            assert getattr(found, name)[i] == pytest.approx(getattr(alone, name))


# Who is judged -----------------------------------------------------------------------------------


def kind(mean, n=5):
    """Return gains over one kind, of spread 1, each method for itself."""
    mean, n = np.broadcast_arrays(np.atleast_1d(np.float64(mean)), np.float64(n))
    sd, df = np.where(n > 1, 1.0, NAN), np.where(n > 1, n - 1, NAN)
    seen, never = Spread(n, mean, sd, sd, df, np.float64(NAN)), np.zeros(mean.shape, bool)
    return Gains(seen, seen, never, never, never)


def reach(side):
    """Return how far an end is from a mean that is too far on one side with this chance."""
    return stats.t.isf(side, 4) / math.sqrt(5)


def test_an_interval_is_over_the_better_kind():
    found = judge_gains([kind(3.0), kind(1.0)])
    assert found.mean == pytest.approx([1.0])
    # That it is above must be so for each kind, that it is below for any: that level is divided.
    assert found.low == pytest.approx([1 - reach(CHANCE / 2)])
    assert found.high == pytest.approx([1 + reach(CHANCE / 2 / 2)])


def test_one_kind_alone_has_all():
    found = judge_gains([kind([1.0, -1.0])])
    assert found.mean - found.low == pytest.approx(np.full(2, reach(CHANCE / 2 / 2)))
    assert found.high - found.mean == pytest.approx(np.full(2, reach(CHANCE / 2 / 2)))


def test_to_beat_training_less_is_to_beat_each_kind():
    found = judge_gains([kind([9.0, 9.0, 9.0, 0.0]), kind([9.0, 0.0, -9.0, 0.0])])
    assert found.beats.tolist() == [True, False, False, False]
    assert found.beaten.tolist() == [False, False, True, False]
    assert found.known.tolist() == [True, False, True, False]


def test_who_is_known_hands_its_share_to_the_others():
    gains = [1.001 * reach(CHANCE / 2 / left) for left in (3, 2, 1)]
    found = judge_gains([kind(gains)])
    assert found.beats.all()
    assert found.mean - found.low == pytest.approx(reach(CHANCE / 2 / np.array([3, 2, 1])))
    short = [gains[0], 0.999 * reach(CHANCE / 2 / 2), gains[2]]
    assert judge_gains([kind(short)]).beats.tolist() == [True, False, False]


def test_answers_of_earlier_looks_stay_and_take_no_share():
    first = judge_gains([kind([9.0, 0.0])])
    again = judge_gains([kind([-9.0, 0.5])], CHANCE, first)
    assert again.beats.tolist() == [True, False]
    for name in ("mean", "low", "high"):
        assert getattr(again, name)[0] == getattr(first, name)[0]
    assert (again.mean[1], again.low[1]) == pytest.approx((0.5, 0.5 - reach(CHANCE / 2)))


def test_who_is_not_judged_now_stays_as_it_was():
    first = judge_gains([kind([0.1, 0.2])])
    again = judge_gains([kind([9.0, 9.0])], CHANCE, first, np.array([True, False]))
    assert again.beats.tolist() == [True, False]
    assert (again.mean[1], again.low[1]) == (first.mean[1], first.low[1])
    assert again.low[0] == pytest.approx(9 - reach(CHANCE / 2))


def test_who_was_not_there_before_is_judged_for_the_first_time():
    nothing = Gained(np.array([NAN]), np.array([-math.inf]), np.array([math.inf]))
    found = judge_gains([kind(9.0)], CHANCE, nothing)
    assert found.beats[0]
    assert found.mean == pytest.approx([9.0])


@pytest.mark.parametrize("n", [0, 1])
def test_who_has_one_seed_over_either_kind_is_not_judged_and_takes_no_share(n):
    found = judge_gains([kind([9.0, 0.0]), kind([9.0, 0.0], [n, 5])])
    assert not found.known.any()
    assert np.isinf([found.low[0], found.high[0]]).all()
    assert found.low[1] == pytest.approx(-reach(CHANCE / 2))
