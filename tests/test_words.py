"""Words: how numbers, intervals and verdicts are written."""

import math
from itertools import product

import numpy as np
import pytest

from dataeff.plural import counted
from dataeff.report.stats import Interval
from dataeff.report.verdicts import Ends, Verdicts
from dataeff.report.web.texts import toned
from dataeff.report.words import (
    POINTS,
    TIMES,
    against_line,
    diverged_in,
    factor,
    gained,
    limits,
    listed,
    number,
    on_page,
    points,
    seeds_more,
    sentence,
    verdict_words,
)

NAN, INF = math.nan, math.inf


# Numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "form", "said"),
    [
        (1.516, TIMES, "1.52x"),
        (-0.001, POINTS, "+0.00"),
        (0.25, ".0%", "25%"),
        (1234.5, ",.0f", "1,234"),
        (94.2, ".2f %", "94.20%"),
        (NAN, TIMES, "-"),
        (math.inf, ".2f", "-"),
        (None, ".2f", "-"),
    ],
)
def test_a_number_is_written_in_its_form(value, form, said):
    assert number(value, form) == said
    assert on_page(value, form) == said.replace("x", "×").replace("-", "–")


def test_an_interval_stands_beside_its_mean_where_it_is_known():
    assert points(Interval(0.1, -0.2, 0.4)) == "+0.10 (-0.20..+0.40)"
    assert points(Interval(0.1, -0.2, 0.4), " points") == "+0.10 points (-0.20..+0.40)"
    assert factor(Interval(1.52, 1.47, 1.58)) == "1.52x (1.47-1.58)"
    assert limits(Interval(1.52, 1.47, 1.58), TIMES, " to ") == "1.47x to 1.58x"
    assert points(Interval(0.1, NAN, NAN)) == "+0.10"
    assert points(Interval(NAN, NAN, NAN)) == "-"
    assert limits(Interval(1.0, NAN, NAN), TIMES) == ""


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ["cell"], "1 cell"),
        (0, ["cell"], "0 cells"),
        (2, ["strategy"], "2 strategies"),
        (1, ["run was", "runs were"], "1 run was"),
        (3, ["run was", "runs were"], "3 runs were"),
    ],
)
def test_so_many_have_their_word(number, words, said):
    assert counted(number, *words) == said


@pytest.mark.parametrize(
    ("texts", "said"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_what_is_listed_ends_with_and(texts, said):
    assert listed(texts) == said


# Verdicts ----------------------------------------------------------------------------------------

SPEEDS = {"faster": (0.1, 0.2), "slower": (-0.2, -0.1), "": (-0.1, 0.1)}
LEVELS = {
    "better": (0.1, 0.2),
    "no worse": (-0.4, 0.2),
    "less accurate": (-0.9, -0.1),
    "worse": (-0.9, -0.6),
    "": (-0.9, 0.2),
}
WORDS = {
    ("faster", "better"): "faster and better",
    ("faster", "no worse"): "faster and no worse",
    ("faster", "less accurate"): "faster but less accurate",
    ("faster", "worse"): "faster but worse",
    ("faster", ""): "faster, accuracy open",
    ("slower", "better"): "slower but better",
    ("slower", "no worse"): "slower but no worse",
    ("slower", "less accurate"): "slower and less accurate",
    ("slower", "worse"): "slower and worse",
    ("slower", ""): "slower, accuracy open",
    ("", "better"): "better, speed open",
    ("", "no worse"): "no worse, speed open",
    ("", "less accurate"): "less accurate, speed open",
    ("", "worse"): "worse, speed open",
    ("", ""): "open",
}


def told(*lines, diverged=()):
    """Return verdicts by a margin of 0.5 for these intervals: accuracy, then speed."""
    ends = Ends(*np.array([(*level, *pace) for pace, level in lines], dtype=float).T)
    return Verdicts(ends, np.array([i in diverged for i in range(len(lines))]), 0.5)


def test_every_pair_of_intervals_has_its_words():
    pairs = list(product(SPEEDS, LEVELS))
    found = told(*((SPEEDS[pace], LEVELS[level]) for pace, level in pairs))
    assert dict(zip(pairs, verdict_words(found, [""] * len(pairs)), strict=True)) == WORDS


def test_what_loses_within_the_margin_for_sure_is_no_worse():
    assert verdict_words(told(((0.1, 0.2), (-0.4, -0.1))), [""]) == ["faster and no worse"]


def test_nothing_can_be_read_off_what_is_not_known():
    nothing, endless = (NAN, NAN), (-INF, INF)
    found = told((endless, endless), ((0.1, 0.2), nothing), ((0.1, 0.2), endless))
    assert verdict_words(found, [""] * 3) == ["open", *["faster, accuracy open"] * 2]


@pytest.mark.parametrize("level", LEVELS)
def test_a_speed_that_nobody_measured_is_not_judged(level):
    found = told(((NAN, NAN), LEVELS[level]))
    (word,) = verdict_words(found, [""])
    assert word == f"{level or 'accuracy open'}, speed not judged"
    text = sentence(line(word, (NAN, NAN, NAN)), "")
    assert text.startswith(f"speed not judged, accuracy +0.10 (-0.20..+0.40): {word}")


@pytest.mark.parametrize(
    ("pace", "level", "said"),
    [
        ("faster", "better", "faster, diverged in 3 of 6"),
        ("faster", "no worse", "faster, diverged in 3 of 6"),
        ("slower", "worse", "slower, worse, diverged in 3 of 6"),
        ("", "less accurate", "less accurate, diverged in 3 of 6"),
        ("", "", "diverged in 3 of 6"),
    ],
)
def test_who_diverged_is_never_no_worse(pace, level, said):
    found = told((SPEEDS[pace], LEVELS[level]), diverged=[0])
    assert verdict_words(found, [diverged_in(3, 6)]) == [said]


def test_who_never_diverged_is_not_told_so():
    assert diverged_in(0, 6) == ""


def test_every_verdict_but_what_is_open_has_a_tone():
    plain = {word for word in WORDS.values() if "○" in toned(word)}
    assert plain == {"open"}


# Sentences ---------------------------------------------------------------------------------------


def line(word, speedup=(1.52, 1.47, 1.58), difference=(0.1, -0.2, 0.4)):
    names = ("speedup", "speedup_low", "speedup_high")
    names += ("difference", "difference_low", "difference_high")
    said = dict(zip(names, (*speedup, *difference), strict=True))
    return said | {"verdict": word, "margin": 0.5}


FASTER = "1.52x faster (1.47-1.58), accuracy +0.10 (-0.20..+0.40): "


@pytest.mark.parametrize("word", ["faster and better", "slower but better", "open"])
def test_a_decided_verdict_ends_with_its_words(word):
    assert sentence(line(word), "") == FASTER + word


@pytest.mark.parametrize(
    "word", ["faster and no worse", "faster but worse", "no worse, speed open", "slower and worse"]
)
def test_a_verdict_by_the_margin_says_the_margin(word):
    assert sentence(line(word), "") == f"{FASTER}{word} (margin 0.5)"
    assert "(margin 1)" in sentence(line(word) | {"margin": 1.0}, "")


def test_an_open_verdict_says_what_seeds_to_come_would_do():
    more = seeds_more(10, 0.62)
    assert more == "10 seeds settle it with a chance of 62%"
    assert sentence(line("faster, accuracy open"), more) == (
        f"{FASTER}faster, accuracy open; {more}"
    )


@pytest.mark.parametrize(
    ("chance", "said"),
    [(0.001, "less than 1%"), (0.01, "1%"), (0.5, "50%"), (0.99, "99%"), (0.999, "more than 99%")],
)
def test_a_chance_is_never_none_and_never_certain(chance, said):
    assert seeds_more(20, chance) == f"20 seeds settle it with a chance of {said}"


def test_slower_is_said_the_other_way_round():
    text = sentence(line("slower, accuracy open", (0.8, 0.5, 0.9), (-0.1, -0.4, 0.2)), "")
    assert text == (
        "1.25x slower (1.11-2.00), accuracy -0.10 (-0.40..+0.20): slower, accuracy open"
    )


@pytest.mark.parametrize("speedup", [(1.02, 0.98, 1.06), (1.02, 1.0, 1.04), (0.97, 0.94, 1.0)])
def test_a_speed_that_is_not_told_apart_is_neither_faster_nor_slower(speedup):
    text = sentence(line("open", speedup), "")
    low, high = (f"{end:.2f}" for end in speedup[1:])
    assert text == (
        f"{speedup[0]:.2f}x the speed ({low}-{high}), accuracy +0.10 (-0.20..+0.40): open"
    )


def test_without_an_interval_nothing_is_faster():
    text = sentence(line("no look yet", (1.52, NAN, NAN), (-0.1, NAN, NAN)), "next look at 5 seeds")
    assert text == "1.52x the speed, accuracy -0.10: no look yet; next look at 5 seeds"


# Against the line --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        ((2.0, 0.5, 3.5), "beats training less, +2.00 (+0.50..+3.50)"),
        ((-2.0, -3.5, -0.5), "beaten by training less, -2.00 (-3.50..-0.50)"),
        ((1.0, -0.5, 2.5), "open against training less, +1.00 (-0.50..+2.50)"),
        ((-5.0, -INF, -1.0), "beaten by training less, -5.00 (at most -1.00)"),
        ((5.0, 1.0, INF), "beats training less, +5.00 (at least +1.00)"),
        ((1.0, -INF, 2.0), "open against training less, +1.00 (at most +2.00)"),
        ((1.0, -INF, INF), "open against training less, +1.00"),
        ((NAN, NAN, NAN), ""),
    ],
)
def test_a_gain_is_said_with_its_word_and_numbers(gain, said):
    assert against_line(Interval(*gain)) == said


def test_a_gain_without_an_interval_is_a_number():
    assert gained(Interval(0.5, NAN, NAN)) == "+0.50"
