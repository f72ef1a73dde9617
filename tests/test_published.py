"""Published results: today's rules say of them what their tables say; pages are made of these."""

from pathlib import Path

import pandas as pd
import pytest

from dataeff.report.board import read_board

PUBLISHED = Path(__file__).parent.parent / "results" / "published"
JUDGED = sorted(path.parent.name for path in PUBLISHED.glob("*/leaderboard.csv"))


@pytest.mark.parametrize("suite", JUDGED)
def test_published_results_are_judged_by_the_rules_of_today(suite):
    folder = PUBLISHED / suite
    now, kept = read_board(folder).table, pd.read_csv(folder / "leaderboard.csv")
    for name in ("strategy", "verdict", "settled"):
        assert now[name].tolist() == kept[name].fillna("").tolist(), name


def test_published_claims_are_judged_by_the_rules_of_today():
    folder = PUBLISHED / "diet-sb-mini"
    now, kept = read_board(folder).claims, pd.read_csv(folder / "claims.csv")
    for name in ("text", "measured", "verdict"):
        assert now[name].tolist() == kept[name].tolist()


@pytest.mark.parametrize("suite", JUDGED)
def test_a_published_table_stands_whole_beside_its_story(suite):
    story = (PUBLISHED / suite / "README.md").read_text(encoding="utf-8")
    assert f"<!-- made: table {suite} -->" in story
