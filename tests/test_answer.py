"""The answer: who is recommended, how sure that is, and what is said where nobody can be."""

import json
import math
from pathlib import Path

import pytest
from trials import Trial

from dataeff.files import json_text
from dataeff.report.answer import BET, FAILED, LESS, LOSES, ONE_SEED, RUNNING, SLOW, UNSURE, answer
from dataeff.report.board import read_board
from dataeff.report.price import price_of, with_seeds
from dataeff.report.worth import Sure

PUBLISHED = Path(__file__).parent.parent / "results" / "published"


def test_the_best_bet_is_told_with_its_numbers_its_doubts_and_what_training_less_costs():
    found = Trial().lined().add("good", -0.1, 0.5).add("poor", -9.0, 0.5).answer(margin=2.0)
    assert (found.kind, found.strategy, found.open, found.price) == (BET, "good", "", None)
    assert found.headline == (
        "good is the best bet: 50% less time for -0.1 points. All is proven."
    ), found.headline
    assert found.time_saved.mean == pytest.approx(0.5, abs=0.01)
    assert found.time_saved.low < found.time_saved.mean < found.time_saved.high
    assert found.training_less == pytest.approx(9 * math.log(0.5), abs=0.3)
    assert found.gain.mean == pytest.approx(found.accuracy.mean - found.training_less)
    assert set(found.evidence.values()) == {"proven"}
    assert found.counts == (
        "2 methods were tried: 1 lies above what just training less reaches, 1 loses more than 2 "
        "points."
    )


def test_a_tight_gain_is_worth_more_than_a_larger_one_that_nobody_knows():
    trial = Trial(3).lined().add("wide", -1.0, 0.5, spread=4.0).add("tight", -2.0, 0.5)
    worth = trial.worth(4.0)
    wide, tight = (worth.judged.gain[0][trial.names.index(name)] for name in ("wide", "tight"))
    assert wide > tight > 0
    assert answer(worth).strategy == "tight"


def test_the_order_of_a_table_is_that_of_worth():
    trial = Trial().lined().add("slow", 0.0, 1.4).add("poor", -9.0, 0.5).add("good", -0.1, 0.5)
    worth = trial.worth(margin=2.0)
    ordered = [trial.names[place] for place in worth.order()]
    assert ordered[0] == "base"
    assert ordered[1] == "good"
    assert all(name.startswith("short") for name in ordered[4:])


def test_without_a_line_order_is_by_time_saved():
    trial = Trial().add("good", 0.1, 0.8).add("better", 0.0, 0.5)
    worth = trial.worth(margin=2.0)
    assert [trial.names[place] for place in worth.order()] == ["base", "better", "good"]
    found = answer(worth)
    assert (found.strategy, found.gain, found.training_less) == ("better", None, None)
    assert "beats_training_less" not in found.evidence
    assert "training less" not in " ".join(found.sentences)


def test_what_may_be_lost_decides_who_may_be_taken():
    trial = Trial().lined().add("careful", -0.1, 0.8).add("bold", -1.5, 0.3)
    assert trial.answer(margin=0.5).strategy == "careful"
    assert trial.answer(margin=3.0).strategy == "bold"


def test_nothing_beats_training_less():
    found = Trial().lined(1.0).add("poor", -1.2, 0.6).answer(margin=2.0)
    assert (found.kind, found.strategy) == (LESS, "short[share=0.3]")
    assert found.headline.startswith("Nothing here beats training less: 70% less time costs 1.")
    assert found.open.startswith("Closest to it is poor: -0.")


def test_all_that_saves_time_loses_too_much():
    found = Trial().lined().add("poor", -9.0, 0.6).answer(margin=1.0)
    assert (found.kind, found.strategy) == (LOSES, "short[share=0.7]")
    assert found.headline.startswith("All that saves time here loses more than 1 point. Training")
    alone = Trial().add("poor", -9.0, 0.6).answer(margin=1.0)
    assert (alone.kind, alone.strategy) == (LOSES, "")
    assert alone.headline == "Nothing here saves time without losing more than 1 point."


def test_nothing_saves_time():
    found = Trial().lined().add("slow", 0.0, 1.3).answer()
    assert found.kind == SLOW
    assert found.headline.endswith("the one that was tried is slower than training as usual.")
    two = Trial().lined().add("slow", 0.0, 1.3).add("slower", 0.0, 1.5).answer()
    assert "all 2 are slower" in two.headline
    assert two.counts.endswith("2 are slower.")


def test_whether_anything_saves_time_is_open_and_has_its_price():
    found = Trial(3).lined().add("even", 0.0, 0.995).answer()
    assert found.kind == UNSURE
    assert found.detail.startswith("Closest is even: time saved ")
    assert found.price is None or found.price.command.startswith("dataeff run mine --seeds ")


def test_times_that_cannot_be_trusted_are_to_be_measured_again():
    trial = Trial(3).lined().add("good", 0.0, 0.5)
    for one in trial.cells:
        one |= {"contended": "others were busy"}
    found = trial.answer()
    assert (found.kind, found.strategy, found.detail) == (UNSURE, "", "")
    assert found.headline.endswith("is open: no time that was measured can be trusted.")
    assert found.open == "To measure them again: dataeff run mine --seeds 5 --rerun-flagged"


def test_one_seed_proves_nothing():
    found = Trial(1).lined().add("good", -0.1, 0.5).answer()
    assert (found.kind, found.strategy) == (ONE_SEED, "")
    assert found.detail == "Fastest was good: 49% less time for -0.2 points."
    assert found.open.endswith("dataeff run mine --seeds 5")


def test_failures_are_said_with_their_cause():
    trial = Trial().lined().add("good", -0.1, 0.5).add("broken", 0.0, 0.5).failing("broken")
    assert trial.answer().counts.endswith("1 failed (broken: ValueError: no).")
    assert trial.answer().strategy == "good"
    alone = Trial().add("broken", 0.0, 0.5).failing("broken").answer()
    assert (alone.kind, alone.headline) == (FAILED, "All failed: broken (ValueError: no).")
    nobody = Trial().add("good", 0.0, 0.5).failing("base").answer()
    assert nobody.kind == FAILED
    assert nobody.headline.startswith("base failed, so nothing can be compared: ValueError: no")


def test_who_diverges_is_never_recommended():
    trial = Trial().lined().add("good", -0.1, 0.5).add("wild", 0.5, 0.5)
    assert trial.answer(margin=2.0).strategy == "wild"
    trial.failing("wild", "diverged", at=(1,))
    assert trial.answer(margin=2.0).strategy == "good"


def test_before_a_look_nothing_is_said():
    found = Trial(3).lined().add("good", -0.1, 0.5).answer(seeds="auto")
    assert found.kind == RUNNING
    assert found.headline.startswith("Nothing may be said yet: next look at 5 seeds")


def test_a_table_of_yardsticks_has_no_method():
    found = Trial().lined().answer()
    assert found.headline == "No method was compared: the table has yardsticks alone."


def test_the_price_is_of_all_that_the_command_runs_on_as_many_lanes():
    worth = Trial().lined().add("good", -0.1, 0.5, spread=2.0).worth()
    price = price_of(worth, 10)
    # Five more seeds of the reference, the method and the line: each second is as measured.
    spent = 5 * sum(10 * share + 1 for share in (1.0, 0.5, 0.3, 0.5, 0.7))
    assert price.minutes == pytest.approx(spent / 60, rel=0.02)
    assert price.command == "dataeff run mine --seeds 10"
    two = price_of(Trial().lined().add("good", -0.1, 0.5, spread=2.0, lanes=2).worth(), 10)
    assert two.minutes == pytest.approx(price.minutes / 2)
    assert with_seeds("dataeff run x --seeds=auto -s a", 7) == "dataeff run x -s a --seeds 7"


def test_evidence_is_by_the_table_or_by_a_methods_own_interval():
    many = Trial(4).lined()
    for place in range(8):
        many.add(f"m{place}", -0.4, 0.6, spread=0.5)
    worth = many.worth(margin=1.0)
    levels = {Sure(level).word for level in worth.keeps[worth.judged.methods]}
    assert levels <= {"proven", "likely", "open"}
    told = worth.judged.verdicts.no_worse[worth.judged.methods]
    assert ((worth.keeps[worth.judged.methods] == Sure.PROVEN) == told).all()


def test_numbers_are_strict_json():
    found = Trial(1).lined().add("good", -0.1, 0.5).answer()
    told = json.loads(json_text(found.numbers()))
    assert (told["task"], told["kind"], told["price"]["seeds"]) == ("blobs", ONE_SEED, 5)


@pytest.mark.parametrize(
    ("suite", "kind", "strategy"),
    [
        ("selection-zoo-mini", BET, "progressive_resizing[initial=0.5]"),
        ("comparison-mini", LOSES, "short_schedule[share=0.756]"),
        ("mixtrain-mini", LOSES, "random_backprop[keep=0.72,mode=accumulate]"),
    ],
)
def test_the_answers_of_published_runs(suite, kind, strategy):
    for found in read_board(PUBLISHED / suite).answers:
        assert found.kind == kind, found.sentences
        assert strategy in (None, found.strategy)
