"""One method in its numbers: the sentences that an answer and a comparison have in common."""

import json
import math

import pytest
from trials import Trial

from dataeff.files import json_text
from dataeff.report.method import costs, method_between, method_of
from dataeff.report.worth import BEATS, KEEPS, SAVES


def method(trial, name, margin=2.0, **suite):
    return method_of(trial.worth(margin, **suite), trial.names.index(name))


@pytest.fixture
def trial():
    return Trial().lined().add("good", -0.1, 0.5).add("poor", -9.0, 0.5).add("slow", 0.0, 1.25)


def test_what_is_saved_what_it_costs_and_how_sure_each_is(trial):
    told = method(trial, "good")
    first, detail, sure = told.sentences
    assert first == "good: 50% less time for -0.1 points."
    assert detail.startswith("Time saved 50% (")
    assert " points, 5 seeds. Simply training less costs 6.2 points for the same time: " in detail
    assert sure == (
        "Saves time: proven. Loses no more than 2 points: proven. Beats training less: proven."
    )
    assert told.training_less == pytest.approx(told.accuracy.mean - told.gain.mean)


def test_who_loses_too_much_is_told_so(trial):
    told = method(trial, "poor")
    assert told.evidence == {SAVES: "proven", KEEPS: "proven not", BEATS: "proven not"}
    assert "Loses no more than 2 points: proven not." in told.answers


def test_who_takes_longer_is_not_held_against_training_less(trial):
    told = method(trial, "slow")
    assert told.bargain.startswith("25% more time for ")
    assert told.evidence[SAVES] == "proven not"
    assert "training less" not in told.detail


def test_what_is_open_has_its_price():
    trial = Trial().lined().add("wide", 0.3, 0.5, spread=2.0)
    told = method(trial, "wide", margin=0.5)
    assert told.evidence[KEEPS] == "open"
    assert told.open == told.sentences[-1]
    assert told.price.command == f"dataeff run mine --seeds {told.price.seeds}"
    assert told.price.told in told.open


def test_without_a_line_two_questions_are_asked():
    told = method(Trial().add("good", 0.1, 0.8), "good")
    assert [*told.evidence] == [SAVES, KEEPS]
    assert told.gain is told.training_less is None
    assert "training less" not in " ".join(told.sentences)


def test_one_seed_proves_nothing_and_has_the_price_of_an_answer():
    told = method(Trial(1).lined().add("good", -0.1, 0.5), "good")
    assert told.evidence == {}
    assert len(told.sentences) == 3
    assert told.detail.startswith("Time saved 49%; accuracy ")
    assert told.open.startswith("To have an answer: ")
    assert told.price.seeds == 5


def test_times_that_cannot_be_trusted_are_not_told():
    trial = Trial().lined().add("good", -0.1, 0.5)
    for one in trial.cells:
        if one["strategy"] == "good":
            one |= {"contended": "others were busy", "total_seconds": math.nan}
    told = method(trial, "good")
    assert told.bargain == "-0.1 points, speed not judged"
    assert told.detail.startswith("Speed not judged; accuracy ")
    assert SAVES not in told.evidence
    assert "nan" not in " ".join(told.sentences)


def test_numbers_are_strict_json(trial):
    told = json.loads(json_text(method(trial, "good").numbers()))
    assert (told["strategy"], told["seeds"], told["price"]) == ("good", 5, None)
    assert told["time_saved"]["mean"] == pytest.approx(0.5, abs=0.01)
    assert len(told["sentences"]) == 3


@pytest.mark.parametrize(("a", "b"), [("base", "good"), ("good", "base")])
def test_between_the_reference_and_a_method_there_is_one_either_way(trial, a, b):
    assert method_between(trial.worth(), a, b).name == "good"


@pytest.mark.parametrize("other", ["poor", "short[share=0.5]"])
def test_between_two_methods_and_of_yardsticks_there_is_none(trial, other):
    assert method_between(trial.worth(), "good", other) is None
    assert method_between(trial.worth(), "base", "short[share=0.5]") is None


def test_before_a_look_there_is_none():
    trial = Trial(3).add("good", -0.1, 0.5)
    assert method_between(trial.worth(seeds="auto"), "base", "good") is None


@pytest.mark.parametrize(
    ("difference", "said"),
    [(-0.64, "costs 0.6 points"), (0.3, "brings 0.3 points"), (0.04, "costs 0.0 points")],
)
def test_what_training_less_costs(difference, said):
    assert costs(difference) == said
