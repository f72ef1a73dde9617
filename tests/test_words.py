"""Words: how numbers, intervals and verdicts are written."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from differences import made

from dataeff.plural import counted
from dataeff.report.stats import (
    Interval,
    paired,
)
from dataeff.report.words import (
    POINTS,
    TIMES,
    against_control,
    factor,
    limits,
    listed,
    number,
    on_page,
    points,
    sentence,
    verdict_words,
    without_control,
)

NAN = math.nan


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


# Sentences ---------------------------------------------------------------------------------------


def line(word, speedup=(1.52, 1.47, 1.58), difference=(0.1, -0.2, 0.4)):
    names = ("speedup", "speedup_low", "speedup_high")
    names += ("difference", "difference_low", "difference_high")
    return dict(zip(names, (*speedup, *difference), strict=True)) | {"verdict": word}


FASTER = "1.52x faster (1.47-1.58), accuracy +0.10 (-0.20..+0.40): "


@pytest.mark.parametrize(
    "word",
    ["faster and no worse", "faster and better", "faster but worse", "worse", "slower but better"],
)
def test_a_decided_verdict_ends_with_its_words(word):
    assert sentence(line(word), 5, 0) == FASTER + word


@pytest.mark.parametrize(
    ("word", "shared", "needed", "end"),
    [
        ("undecided", 5, 9, "undecided, about 4 more seeds"),
        ("undecided", 5, 6, "undecided, about 1 more seed"),
        ("undecided", 5, 5, "undecided, about 1 more seed"),
        ("undecided", 9, 4, "undecided, about 1 more seed"),
        ("undecided", 5, 100, "undecided, about 95 more seeds"),
        ("undecided", 5, math.inf, "undecided, more than 100 seeds would be needed"),
        ("no worse", 5, 9, "no worse, speed undecided, about 4 more seeds"),
        ("better", 3, 4, "better, speed undecided, about 1 more seed"),
        (
            *("no worse", 5, math.inf),
            "no worse, speed undecided, more than 100 seeds would be needed",
        ),
    ],
)
def test_an_open_verdict_says_how_many_seeds_are_missing(word, shared, needed, end):
    assert sentence(line(word), shared, needed) == FASTER + end


def test_slower_is_said_the_other_way_round():
    text = sentence(line("slower", (0.8, 0.5, 0.9), (-0.1, -0.4, 0.2)), 5, 0)
    assert text == "1.25x slower (1.11-2.00), accuracy -0.10 (-0.40..+0.20): slower"


@pytest.mark.parametrize("speedup", [(1.02, 0.98, 1.06), (1.02, 1.0, 1.04), (0.97, 0.94, 1.0)])
def test_a_speed_that_is_not_told_apart_is_neither_faster_nor_slower(speedup):
    text = sentence(line("no worse", speedup), 5, 40)
    low, high = (f"{end:.2f}" for end in speedup[1:])
    assert text == (
        f"{speedup[0]:.2f}x the speed ({low}-{high}), accuracy +0.10 (-0.20..+0.40): "
        "no worse, speed undecided, about 35 more seeds"
    )


@pytest.mark.parametrize(
    ("speedup", "said"), [(1.52, "1.52x faster"), (0.8, "1.25x slower"), (1.0, "1.00x faster")]
)
def test_one_seed_gives_no_verdict_and_says_why(speedup, said):
    text = sentence(line("no verdict", (speedup, NAN, NAN), (-0.1, NAN, NAN)), 1, math.inf)
    assert text == (
        f"{said}, accuracy -0.10: no verdict, for one seed shows no spread; add seeds: --seeds 5"
    )


def test_no_common_seed_gives_no_verdict_and_says_why():
    text = sentence(line("no verdict", (NAN,) * 3, (NAN,) * 3), 0, math.inf)
    assert text == "no verdict: it shares no seed with the reference"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (1, "better, "),
        (-1, "worse, "),
        (0, "not told apart, "),
    ],
)
def test_a_control_is_named_with_its_speed(told, said):
    points, pace = made([0, 1.0], [1, 0.1]), made([0, np.log(1.1)], [1, 0.01])
    found = points.interval(1), pace.interval(1).exp()
    assert against_control(*found, told, "half at 2.00x") == (
        f"{said}+1.00 points (+0.88..+1.12) at 1.10x the speed (1.09-1.11) of half at 2.00x"
    )


def test_one_seed_tells_nothing_of_a_control():
    pair = paired([[NAN, -1.0]])
    said = "-1.00 points against half at 2.00x: one seed tells nothing"
    found = pair.interval(), pair.interval().exp()
    assert against_control(*found, 0, "half at 2.00x") == said


def test_a_missing_control_is_said_with_the_nearest_one():
    assert without_control(0.5, np.array([]), []) == "none was run"
    # 0.72 is nearer to 1 than to 0.5 by its factor, not by its difference.
    said = "none was run at its cost, 72% of the reference's; the nearest is all at 100%"
    assert without_control(0.72, np.array([0.5, 1.0]), ["half", "all"]) == said


def test_words_are_said_of_each_strategy():
    flags = ("faster", "slower", "better", "worse", "no_worse")
    told = SimpleNamespace(**{name: np.array([name == "faster", False]) for name in flags})
    assert verdict_words(told, [True, True]) == ["undecided", "undecided"]
    assert verdict_words(told, [False, True]) == ["no verdict", "undecided"]
