"""Verdicts: what is read off intervals, how a chance is shared, and what more seeds would do."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from worlds import POINTS, Tables, Truth, looked

from dataeff.report.stats import Spread
from dataeff.report.verdicts import (
    CHANCE,
    SHARE,
    Asked,
    Ends,
    chance_settled,
    judge,
    smallest_margin,
    unjudged,
)
from dataeff.report.words import verdict_words

NAN = math.nan
MARGIN = 0.5
PAIRED = math.sqrt(2) * POINTS


def seen(mean, sd, n=5):
    """Return differences of which mean and spread are known, each strategy for itself."""
    mean, sd, n = np.broadcast_arrays(*(np.atleast_1d(np.float64(v)) for v in (mean, sd, n)))
    sd, df = np.where(n > 1, sd, NAN), np.where(n > 1, n - 1, NAN)
    return Spread(n, mean, sd, sd, df, np.float64(NAN))


def asked(accuracy, speed, diverged=False, margin=MARGIN):
    flags = np.broadcast_to(diverged, accuracy.n.shape)
    return Asked(accuracy, speed, flags, margin)


def just(level, beyond=True):
    """Return the mean of spread 1 and 5 seeds that an interval of this level just tells from 0."""
    return stats.t.ppf(1 - level / 2, 4) / math.sqrt(5) * (1.001 if beyond else 0.999)


def half_width(low, high, n=5):
    """Return the level that the ends of intervals of spread 1 have."""
    return 2 * stats.t.sf((high - low) / 2 * np.sqrt(n), n - 1)


# What is read off --------------------------------------------------------------------------------

# Mean differences with a spread of 0.1 over 5 seeds, by what they show at a margin of 0.5.
SHOWN = {"better": 1.0, "no worse": 0.0, "within": -0.3, "less": -0.5, "worse": -1.0}
SPEED = {"faster": 0.4, "": 0.0, "slower": -0.4}


@pytest.mark.parametrize("speed", SPEED)
@pytest.mark.parametrize("shown", SHOWN)
def test_what_may_be_said(shown, speed):
    found = judge(asked(seen(SHOWN[shown], 0.1), seen(SPEED[speed], 0.03)))
    said = {name for name in ("faster", "slower") if getattr(found, name)[0]}
    assert said == {speed} - {""}
    assert found.better[0] == (shown == "better")
    assert found.no_worse[0] == (shown in ("better", "no worse", "within"))
    assert found.less_accurate[0] == (shown in ("less", "worse"))
    assert found.worse[0] == (shown == "worse")
    assert found.scored[0]
    assert found.both[0] == found.timed[0] == bool(speed)
    assert found.settled[0] == (bool(speed) or shown in ("less", "worse"))


def test_a_wide_interval_leaves_accuracy_open():
    found = judge(asked(seen(-0.1, 1.0), seen(0.4, 0.03)))
    assert not (found.scored | found.settled)[0]
    assert verdict_words(found, [""]) == ["faster, accuracy open"]
    slower = judge(asked(seen(-0.1, 1.0), seen(-0.4, 0.03)))
    assert slower.settled[0], "it has lost already"


def test_within_the_margin_is_no_worse_though_it_is_less():
    accuracy, speed = seen(-0.3, 0.1), seen(0.0, 0.03)
    wide, narrow = (judge(asked(accuracy, speed, margin=margin)) for margin in (0.5, 0.2))
    assert wide.ends.high[0] < 0
    assert wide.no_worse[0]
    assert not wide.less_accurate[0]
    assert narrow.less_accurate[0]
    assert not narrow.no_worse[0]


@pytest.mark.parametrize("mean", SHOWN.values())
def test_who_diverged_is_never_no_worse_but_may_be_less_accurate(mean):
    table = seen(mean, 0.1), seen(0.4, 0.03)
    found, steady = judge(asked(*table, diverged=True)), judge(asked(*table))
    assert not (found.no_worse | found.better)[0]
    assert found.less_accurate[0] == (found.ends.high[0] < 0) >= steady.less_accurate[0]
    assert found.worse.tolist() == steady.worse.tolist()
    assert found.faster[0]
    assert found.settled[0], "no more seeds can make it no worse"


def test_who_diverged_and_is_not_timed_is_not_settled():
    found = judge(asked(seen(0.0, 0.1), seen(0.0, 0.03), diverged=True))
    assert not found.settled[0]


# How the chance is shared ------------------------------------------------------------------------

SURE, OPEN = 9.0, 0.0
"""Means with a spread of 1 and 5 seeds: known at any level, and open at any, for a small margin."""


def table(accuracy, speed, n=5, n_speed=5):
    return asked(seen(accuracy, 1.0, n), seen(speed, 1.0, n_speed), margin=0.01)


@pytest.mark.parametrize("place", ["accuracy", "speed"])
def test_a_strategy_has_a_half_for_each_of_its_questions(place):
    def judged(level, beyond, other):
        mean = just(level, beyond)
        found = judge(table(*((mean, other) if place == "accuracy" else (other, mean))))
        return bool((found.better if place == "accuracy" else found.faster)[0])

    assert judged(CHANCE / 2, True, OPEN)
    assert not judged(CHANCE / 2, False, OPEN)
    # Once the other is answered, it has all.
    assert judged(CHANCE, True, SURE)
    assert not judged(CHANCE, False, SURE)


def test_intervals_of_open_questions_are_shown_at_their_share():
    ends = judge(table([OPEN] * 4, [OPEN] * 4)).ends
    for low, high in (ends[:2], ends[2:]):
        assert half_width(low, high) == pytest.approx(np.full(4, CHANCE / 4 / 2))


def test_who_is_answered_hands_its_share_to_the_others():
    # Each is told by what is left once those before it are answered: a quarter, a third, ...
    speed = [just(CHANCE / left) for left in (4, 3, 2, 1)]
    found = judge(table([SURE] * 4, speed))
    assert found.faster.all()
    # Their answers stay as they were given, at the level at which they were.
    levels = half_width(found.ends.speed_low, found.ends.speed_high)
    assert levels == pytest.approx(CHANCE / np.array([4, 3, 2, 1]))
    assert half_width(*found.ends[:2]) == pytest.approx(np.full(4, CHANCE / 4 / 2))
    short = [*speed[:2], just(CHANCE / 2, beyond=False), speed[3]]
    assert judge(table([SURE] * 4, short)).faster.tolist() == [True, True, False, False]


def test_one_answer_of_two_hands_nothing_to_others():
    found = judge(table([SURE, OPEN], [OPEN, just(CHANCE / 2 / 2, beyond=False)]))
    assert not found.timed.any()


def test_answers_of_earlier_looks_stay_whatever_comes():
    first = judge(table([SURE, OPEN], [SURE, SURE]))
    again = judge(table([-SURE, OPEN], [-SURE, -SURE]), CHANCE, first)
    for before, now in zip(first.ends, again.ends, strict=True):
        assert now[0] == before[0]
    assert again.faster.tolist() == [True, True]
    # What was open is asked anew; the first strategy is answered and takes no share.
    assert half_width(*again.ends[:2])[1] == pytest.approx(CHANCE)


def test_who_is_not_judged_now_stays_as_it_was_and_takes_no_share():
    first = judge(table([OPEN] * 3, [OPEN] * 3))
    who = np.array([True, False, False])
    again = judge(table([SURE] * 3, [just(CHANCE)] * 3), CHANCE, first, who)
    assert again.both.tolist() == [True, False, False]
    for before, now in zip(first.ends, again.ends, strict=True):
        assert now[1:].tolist() == before[1:].tolist()
    nobody = judge(table([SURE] * 3, [SURE] * 3), CHANCE, first, ~who & who)
    assert not nobody.scored.any()


def test_who_was_never_judged_says_nothing():
    found = unjudged(table([SURE] * 2, [SURE] * 2))
    assert not (found.scored | found.timed | found.worse | found.settled).any()
    assert np.isinf(found.ends).all()


@pytest.mark.parametrize("missing", [0, 1])
def test_a_question_that_cannot_be_asked_leaves_all_to_the_other(missing):
    # Times may be missing, as where the machine was busy.
    found = judge(table(just(CHANCE), OPEN, n_speed=missing))
    assert found.better[0]
    assert not found.timed[0]
    assert half_width(*found.ends[:2]) == pytest.approx(CHANCE)
    assert np.isinf(found.ends[2:]).all()
    assert not judge(table(just(CHANCE, beyond=False), OPEN, n_speed=missing)).better[0]
    assert judge(table(OPEN, just(CHANCE), n=missing)).faster[0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("mean", "n"), [(NAN, 0), (3.0, 1)])
def test_what_was_not_asked_is_not_said_and_takes_no_share(mean, n):
    accuracy, speed = seen([mean, OPEN], 1.0, [n, 5]), seen([mean, OPEN], 1.0, [n, 5])
    found = judge(asked(accuracy, speed))
    assert not (found.scored | found.timed | found.settled)[0]
    assert np.isinf([end[0] for end in found.ends]).all()
    assert half_width(*found.ends[:2])[1] == pytest.approx(CHANCE / 2)


def test_nobody_is_no_trouble():
    found = judge(asked(seen([], []), seen([], [])))
    assert found.settled.shape == (0,)


# What holds for any table ------------------------------------------------------------------------


def some(seed, k=6, n=4, tables=1):
    """Return a table of all kinds of strategies, some of which have diverged or miss seeds."""
    draw = np.random.default_rng(seed)
    shape = tables, k, n
    points, pace = draw.normal(0, 0.5, shape), draw.normal(0, 0.05, shape)
    points += draw.choice([0, -0.5, 0.5, -1, -3], shape[:2])[..., None]
    pace += draw.choice([0, 0.1, 0.4, -0.4], shape[:2])[..., None]
    points[draw.random(shape) < 0.05], pace[draw.random(shape) < 0.05] = NAN, NAN
    diverged = draw.random(shape[:2]) < 0.1
    return Tables(points, pace).asked()._replace(diverged=diverged)


def one(whole, i):
    """Return one of several tables."""
    parts = [replace(part, **{k: v[i] for k, v in vars(part).items()}) for part in whole[:2]]
    return Asked(*parts, whole.diverged[i], whole.margin)


@given(st.integers(0, 10**6), st.sampled_from([0.004, CHANCE, 0.3]))
def test_no_interval_excludes_zero_beside_an_open_question(seed, chance):
    first = some(seed)
    found = judge(first, chance)
    for verdicts in (found, judge(some(seed + 1), chance, found, ~found.settled)):
        low, high, *_ = verdicts.ends
        steady = ~verdicts.diverged
        assert verdicts.scored[((low > 0) & steady) | (high < 0)].all()
        assert (verdicts.ends.speed_low <= 0)[~verdicts.timed].all()
        assert (verdicts.ends.speed_high >= 0)[~verdicts.timed].all()
        assert verdicts.less_accurate[verdicts.worse].all()
        assert verdicts.no_worse[verdicts.better].all()
        assert not (verdicts.no_worse & verdicts.less_accurate).any()
        assert not (verdicts.faster & verdicts.slower).any()


@given(st.integers(0, 10**6))
def test_looks_forget_nothing_that_was_said(seed):
    first = judge(some(seed), SHARE * CHANCE)
    later = judge(some(seed)._replace(accuracy=some(seed + 1).accuracy), CHANCE, first)
    for name in ("faster", "slower", "no_worse", "less_accurate", "better", "worse"):
        known = first.timed if name in ("faster", "slower") else first.scored
        assert (getattr(later, name) == getattr(first, name))[known].all()


def test_tables_are_judged_one_by_one_or_all_at_once():
    whole = some(3, tables=40)
    found = judge(whole)
    assert 0.1 < found.both.mean() < 0.9
    for i in range(40):
        alone = judge(one(whole, i))
        for ends, expected in zip(found.ends, alone.ends, strict=True):
            assert ends[i] == pytest.approx(expected)


def test_the_order_of_strategies_is_no_matter():
    whole = one(some(5), 0)
    order = np.random.default_rng(0).permutation(6)
    turned = [
        replace(part, **{k: v[order] if v.ndim else v for k, v in vars(part).items()})
        for part in whole[:2]
    ]
    again = judge(Asked(*turned, whole.diverged[order], whole.margin))
    for ends, expected in zip(again.ends, judge(whole).ends, strict=True):
        assert ends == pytest.approx(expected[order])


# What more seeds would do ------------------------------------------------------------------------


def foretold(tables, now=5, then=10):
    """Return chances and outcomes, of strategies that are open now: does the next look settle?"""
    first, later = (looked(tables, looks).found for looks in ((now,), (now, then)))
    before = tables.asked(np.full(first.settled.shape, now))
    chances = []
    for i in range(len(first.settled)):
        ends = Ends(*(end[i] for end in first.ends))
        found = replace(first, ends=ends, diverged=first.diverged[i])
        chances.append(chance_settled(one(before, i), found, SHARE * CHANCE, then))
    return np.array(chances)[~first.settled], later.settled[~first.settled]


def of_all_kinds(tables, k):
    """Return tables of all kinds of truths, so that nothing is known but what is seen."""
    drawn, draw = Tables.drawn((tables, k, 10)), np.random.default_rng(2)
    points, pace = (draw.uniform(*ends, (tables, k, 1)) for ends in ((-1.5, 1.0), (-0.1, 0.3)))
    return Tables(drawn.points + points, drawn.pace + pace)


# Alone, a strategy has the same share at each look, and nearly as many are settled as was foretold.
# Of eight, others are settled at the next look too, and leave their shares: then it is more.
@pytest.mark.parametrize(("k", "tables", "more"), [(1, 7000, 0.15), (8, 800, 0.25)])
def test_as_many_are_settled_as_was_foretold(k, tables, more):
    chances, came = foretold(of_all_kinds(tables, k))
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        these = (chances >= low) & (chances <= low + 0.2)
        # Two standard errors of these are 5% at most.
        assert these.sum() > 400
        told = chances[these].mean()
        assert told - 0.05 <= came[these].mean() <= told + more


def test_what_is_settled_stays_so():
    accuracy, speed = seen([0.0, -1.0, -0.1], [0.1, 0.1, 1.0]), seen([0.4, 0.0, -0.4], 0.03)
    now = asked(accuracy, speed)
    assert chance_settled(now, judge(now), CHANCE, 10) == pytest.approx(np.ones(3))


def test_the_same_speed_is_hardly_ever_settled_and_more_seeds_settle_more():
    now = asked(seen([0.0, -0.2], [0.1, 1.0]), seen([0.0, 0.4], 0.03))
    chances = [chance_settled(now, judge(now), CHANCE, n) for n in (10, 20, 1000)]
    assert (np.diff(chances, axis=0) > 0).all()
    assert chances[0][0] < 0.2
    assert chances[-1][1] > 0.8


def test_no_more_seeds_settle_nothing_more():
    now = asked(seen(0.0, 0.6), seen(0.4, 0.03))
    assert chance_settled(now, judge(now), CHANCE, 5) == pytest.approx([0.0])


def test_who_diverged_need_not_be_shown_to_be_no_worse():
    table = seen(0.0, 1.0), seen(0.05, 0.05)
    chances = [
        chance_settled(now, judge(now), CHANCE, 10)[0]
        for now in (asked(*table, diverged=True), asked(*table))
    ]
    assert chances[0] > 2 * chances[1] > 0


@pytest.mark.filterwarnings("error")
def test_one_seed_foretells_nothing():
    now = asked(seen([0.1, 0.0], 1.0, [1, 5]), seen([0.1, 0.0], 1.0, [1, 5]))
    assert np.isnan(chance_settled(now, judge(now), CHANCE, 5)).tolist() == [True, False]


@pytest.mark.parametrize("k", [1, 4, 10])
@pytest.mark.parametrize("n", [5, 10])
def test_the_smallest_margin_is_shown_in_about_four_of_five(k, n):
    margin = float(smallest_margin(PAIRED, n, k))
    sure = Truth(np.zeros(k), np.full(k, 0.5))
    tables = Tables.drawn((1000, k, n)).shifted(sure, margin)
    assert judge(tables.asked()).no_worse.mean() == pytest.approx(0.8, abs=0.07)


def test_the_smallest_margin_by_hand():
    # One strategy, three seeds: t of two degrees of freedom is 4.85 at 2%, and 1.06 at 20%.
    assert smallest_margin(1.0, 3, 1) == pytest.approx((4.849 + 1.061) / math.sqrt(3), abs=0.001)
    assert smallest_margin([1.0, 2.0], 5, 3) == pytest.approx(
        smallest_margin(1.0, 5, 3) * np.array([1, 2])
    )
    assert smallest_margin(1.0, 5, 9) > smallest_margin(1.0, 5, 3) > smallest_margin(1.0, 9, 3)
    assert smallest_margin(1.0, 5, 3, SHARE * CHANCE) > smallest_margin(1.0, 5, 3)
    assert np.isnan(smallest_margin(1.0, 1, 3))


def test_the_documentation_says_how_many_seeds_to_plan():
    docs = Path(__file__).parent.parent / "docs"
    text = (docs / "reading-a-table.md").read_text(encoding="utf-8")
    for spread in (0.2, 0.3, 0.5, 0.7, 1.0, 1.5):
        margins = [f"{float(smallest_margin(spread, n, 6)):.1f}" for n in (2, 3, 5, 10, 20)]
        assert f"\n| {spread:g} | {' | '.join(margins)} |\n" in text
