"""The columns of leaderboard.csv: declared once, documented as declared."""

from pathlib import Path

import pytest

from dataeff.report.columns import COLUMNS, DISPENSABLE, NAMES, PAGE, TEXT

PAGE_OF_COLUMNS = Path(__file__).parent.parent / "docs" / "reading-a-table.md"


def test_the_documentation_has_every_column_as_it_is_declared():
    text = PAGE_OF_COLUMNS.read_text(encoding="utf-8")
    assert [c.name for c in COLUMNS if f"\n| {c.name} | {c.meaning} |\n" not in text] == []


def test_every_column_has_one_name_and_a_meaning():
    assert len(set(NAMES)) == len(NAMES)
    assert all(column.meaning.endswith(".") for column in COLUMNS)
    assert not [column.name for column in COLUMNS if "|" in column.meaning]


@pytest.mark.parametrize("form", ["text", "page", "drop"])
def test_no_two_columns_have_the_same_place(form):
    places = sorted(getattr(column, form) for column in COLUMNS if getattr(column, form))
    assert places == list(range(1, len(places) + 1))


def test_narrow_terminals_have_columns_of_the_terminal():
    assert set(DISPENSABLE) <= set(TEXT)
    assert all(column.heading for column in TEXT)
    assert all(column.title for column in PAGE)


def test_the_page_says_the_first_sentence_of_a_meaning():
    (column,) = (column for column in COLUMNS if column.name == "energy_joules")
    assert column.brief == "Energy, where a meter exists."
