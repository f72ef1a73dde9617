"""Values written `?`: where to look for them, how they are read, and mistakes."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, PositiveInt
from shell import mistake
from ticking import ADHOC, SUITE

from dataeff import Share
from dataeff.registry import Parameter, Range
from dataeff.testing import lab_of


@pytest.mark.parametrize(
    ("kind", "default", "low", "high", "guesses"),
    [
        (Share, 0.5, 0.01, 1, (0.333, 0.667)),
        (Annotated[float, Field(ge=0, lt=1)], 0.25, 0, 0.99, (0.333, 0.667)),
        (Annotated[float, Field(gt=1, lt=3)], 2.0, 1.02, 2.98, (1.67, 2.33)),
        (Annotated[float, Field(gt=0)], 2.0, 0.06, 200, (2, 4)),
        (Annotated[float, Field(gt=5)], 10.0, 5.3, 1000, (10, 20)),
        (Annotated[float, Field(le=3)], 2.0, 0.02, 3, (2, 3)),
        (float, 2.0, 0.02, 200, (2, 4)),
        (PositiveInt, 4, 1, 400, (4, 8)),
        (Annotated[int, Field(gt=0, lt=10)], 4, 1, 9, (3, 7)),
        (Annotated[int, Field(ge=0)], 2, 0, 200, (2, 4)),
        (int | None, 4, 1, 400, (4, 8)),
        (float, 0.0, None, None, None),
        (int | None, None, None, None, None),
        (str, "", None, None, None),
        (bool, True, None, None, None),
        (Literal[1, 2], 1, None, None, None),
        (Annotated[int, Field(ge=3, le=3)], 3, None, None, None),
    ],
)
def test_where_to_look_for_a_value(kind, default, low, high, guesses):
    found = Parameter("x", kind, default).range
    if low is None:
        assert found is None
        return
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.guesses == guesses
    assert found.whole == isinstance(default, int)
    for value in (found.low, found.high, *found.guesses):
        assert Parameter("x", kind, default).read(value) == value


def test_values_have_three_digits_or_are_whole():
    share, count = Range(0.01, 1, False, (0, 1)), Range(1, 9, True, (0, 1))
    assert [share.nearest(value) for value in (0.31249, 0.0012, 2)] == [0.312, 0.01, 1]
    assert [count.nearest(value) for value in (0.2, 3.6, 12)] == [1, 4, 9]


def test_a_pattern_has_one_canonical_form(installed):
    read = lab_of(installed).composition
    text = " random_backprop[mode=accumulate, keep = ?] + amp[dtype=auto]"
    assert read(text).text == "random_backprop[keep=?,mode=accumulate]+amp"
    assert read("random_subset[keep=0.50]").text == "random_subset[keep=0.5]"
    pattern = read("random_subset[keep=0.75]+random_backprop[keep=?]")
    assert pattern.is_open
    assert pattern.free == (1, "keep")
    filled = pattern.at(0.5)
    assert filled.text == "random_subset[keep=0.75]+random_backprop[keep=0.5]"
    assert not filled.is_open


OPEN = '"short_schedule[share=?]"'
MISTAKES = {
    "no match": (
        'match = "random_subset[keep=0.60]"',
        "",
        "match: short_schedule[share=?] takes the time of another strategy, so name that one: "
        'write match = "..." in a suite, or --match; or write a value instead of the ?.',
    ),
    "nothing to find": (
        OPEN,
        '"amp"',
        "match: there is nothing to match with random_subset[keep=0.6]; add a strategy with a "
        "value to be found, such as short_schedule[share=?], or leave match out.",
    ),
    "two values": (
        OPEN,
        '"short_schedule[share=?]+random_backprop[keep=?]"',
        "strategies: short_schedule[share=?]+random_backprop[keep=?] has 2 values to find; write "
        "all but one of them.",
    ),
    "no number": (
        OPEN,
        '"random_backprop[mode=?]"',
        "strategies: random_backprop[keep=0.5,mode=?]: mode is not a number with limits, so it "
        "cannot be found; write a value for it.",
    ),
    "a parameter that there is not": (
        OPEN,
        '"short_schedule[shar=?]"',
        "strategies: strategy short_schedule has no parameter 'shar'. Did you mean share? It "
        "takes: share.",
    ),
    "a strategy that there is not": (
        OPEN,
        '"shirt_schedule[share=?]"',
        "strategies: There is no strategy 'shirt_schedule'. Did you mean short_schedule? See: "
        "dataeff strategies",
    ),
    "twice": (
        OPEN,
        '"short_schedule[share=?]", "short_schedule[ share = ? ]"',
        "strategies: short_schedule[share=?] is there twice; delete one.",
    ),
    "the reference": (
        '"baseline", ',
        "",
        "strategies: short_schedule[share=?] is the reference; write its value.",
    ),
    "match with an unknown strategy": (
        'match = "random_subset[keep=0.60]"',
        'match = "random_subsett"',
        "match: There is no strategy 'random_subsett'. Did you mean random_subset? See: dataeff "
        "strategies",
    ),
    "match with one that does not run": (
        'match = "random_subset[keep=0.60]"',
        'match = "random_subset"',
        "match: random_subset[keep=0.5] is none of the strategies, which are: baseline, "
        "random_subset[keep=0.6].",
    ),
    "match with one to be found": (
        'match = "random_subset[keep=0.60]"',
        'match = "short_schedule[share=?]"',
        "match: short_schedule[share=?] has itself a value to be found; write it.",
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_in_one_sentence(tmp_path, old, new, sentence):
    path = tmp_path / "mine.toml"
    text = SUITE.replace(old, new)
    if old == '"baseline", ':
        text = SUITE.replace('"random_subset[keep=0.6]", ', "").replace(old, "")
    path.write_text(text)
    assert mistake("run", path) == f"{path}: {sentence}"
    assert not Path("results").exists()


def test_mistakes_on_the_command_line():
    assert mistake(*ADHOC, "-s", "short_schedule[share=?]").startswith(
        "command line: match: short_schedule[share=?] takes the time of another strategy"
    )
    assert mistake(*ADHOC, "--match", "amp").startswith(
        "command line: match: there is nothing to match with amp; add"
    )
    assert mistake(*ADHOC, "-s", "short_schedule[share=?]", "--match", "ampp").startswith(
        "There is no strategy 'ampp'. Did you mean amp?"
    )
