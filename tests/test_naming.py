"""Strategies by name, found in the results alone."""

import pytest

from dataeff.errors import UnknownName
from dataeff.report.naming import strategy_named

HALF, ALL = "random[keep=0.5]", "random[keep=0.5,mode=all]"
KNOWN = {
    HALF: {"random": {"keep": 0.5, "mode": "some", "strict": False}},
    "mix[form=cut]": {"mix": {"form": "cut", "rounds": 3}},
    "mix[form=cut]+random[keep=0.25]": {
        "mix": {"form": "cut", "rounds": 3},
        "random": {"keep": 0.25, "mode": "some", "strict": False},
    },
    "old[keep=0.5]": {},
}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (HALF, HALF),
        (" random[ keep = 0.50 ]", HALF),
        ("random", HALF),
        ("random[mode=some,keep=0.5]", HALF),
        ("random[strict=FALSE]", HALF),
        ("mix[rounds=3,form=cut]", "mix[form=cut]"),
        ("mix[form=cut]+random", "mix[form=cut]+random[keep=0.25]"),
        ("old[keep=.5]", "old[keep=0.5]"),
    ],
)
def test_any_spelling_of_what_was_recorded_is_found(text, name):
    assert strategy_named(text, KNOWN, "hand") == name


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("mix", "mix was not run in hand. Did you mean mix[form=cut]?"),
        ("random[keep=0.3]", "Did you mean random[keep=0.5]?"),
        ("random[keep=0.5,speed=1]", "Did you mean random[keep=0.5]?"),
        ("random[keep=0.25]+mix[form=cut]", "Did you mean mix[form=cut]+random[keep=0.25]?"),
        ("mixx", "Did you mean mix?"),
        ("zzz[", "zzz[ was not run in hand. See what was: dataeff leaderboard hand"),
    ],
)
def test_what_was_not_run_is_not_guessed(text, hint):
    with pytest.raises(UnknownName) as caught:
        strategy_named(text, KNOWN, "hand")
    assert hint in str(caught.value)


def test_of_several_that_may_be_meant_none_is_taken():
    known = KNOWN | {"random[keep=0.25]": {"random": {"keep": 0.25, "mode": "some"}}}
    with pytest.raises(
        UnknownName, match=r"Did you mean random\[keep=0.5\] or random\[keep=0.25\]"
    ):
        strategy_named("random", known, "hand")


def test_what_is_not_the_default_must_be_said():
    known = {HALF: KNOWN[HALF], ALL: {"random": {"keep": 0.5, "mode": "all", "strict": False}}}
    assert strategy_named("random", known, "hand") == HALF
    assert strategy_named("random[mode=all]", known, "hand") == ALL
