"""Speed-ups with preparation in full, shared, and left out, from records made by hand."""

import math

import pandas as pd
import pytest
from records import Folder

from dataeff.report.read import add_amortised
from dataeff.report.terminal import markdown, plain_text


def used(key, seconds, reuse=True):
    return {"name": "el2n", "key": key, "seconds": seconds, "reuse": reuse, "made": False}


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "hand")
    for seed in range(2):
        folder.add("base", seed, 90.0, seconds=10.0)
        # 6 seconds of scores and 1 of its own, then 5 of training; three runs share the scores.
        folder.add("diet", seed, 90.0, seconds=(7.0, 5.0), artefacts=[used("k", 6.0)])
    folder.add("other", 0, 90.0, seconds=(6.0, 4.0), artefacts=[used("k", 6.0)])
    folder.add("alone", 0, 90.0, seconds=(6.0, 4.0), artefacts=[used("m", 6.0, reuse=False)])
    return folder


def row(folder, strategy):
    return folder.board().table.set_index("strategy").loc[strategy]


def test_speed_ups_in_full_shared_and_without(folder):
    diet = row(folder, "diet")
    assert diet["speedup"] == pytest.approx(10 / 12)
    assert diet["train_speedup"] == pytest.approx(10 / 5)
    assert diet["artefact_uses"] == 3
    assert diet["amortised_speedup"] == pytest.approx(10 / (12 - 6 + 6 / 3))


def test_what_is_not_reused_is_not_shared(folder):
    alone = row(folder, "alone")
    assert math.isnan(alone["amortised_speedup"])
    assert math.isnan(alone["artefact_uses"])
    assert alone["train_speedup"] == pytest.approx(10 / 4)
    assert math.isnan(row(folder, "base")["amortised_speedup"])


def test_runs_that_failed_share_nothing(folder):
    folder.add("diet", 7, artefacts=[used("k", 6.0)], status="failed")
    assert row(folder, "diet")["artefact_uses"] == 3


def test_both_are_printed(folder):
    line = (
        "diet: 0.83x with its preparation in full, 1.25x where 3 runs share its scores, "
        "2.00x without it."
    )
    board = folder.board()
    for text in (plain_text(board), markdown(board)):
        assert line in text
        assert "alone: 1.00x with its preparation, 2.50x without it." in text
        assert "base: 1.00x with" not in text


def test_scores_that_nobody_else_has_used_are_not_shared(folder):
    folder.add("single", 0, 90.0, seconds=(6.0, 4.0), artefacts=[used("n", 6.0)])
    assert "single: 1.00x with its preparation, 2.50x without it." in plain_text(folder.board())


def test_a_short_preparation_is_not_worth_a_sentence(folder):
    folder.add("quick", 0, 90.0, seconds=(0.01, 4.0))
    assert "quick: 2.49x with" not in plain_text(folder.board())


def test_each_artefact_is_shared_by_those_who_use_it():
    runs = pd.DataFrame(
        {
            "status": "finished",
            "clocked_seconds": [20.0, 10.0, 10.0, 3.0],
            "reused": ["a-1:6 b-2:8", "a-1:6", "b-2:8", ""],
        }
    )
    add_amortised(runs)
    assert runs["amortised_seconds"].tolist()[:3] == [20 - 3 - 4, 10 - 3, 10 - 4]
    assert runs["artefact_uses"].tolist()[:3] == [2, 2, 2]
    assert runs.loc[3, ["amortised_seconds", "artefact_uses"]].isna().all()
