"""The columns of leaderboard.csv: declared once, documented as declared."""

from pathlib import Path

import pytest

from dataeff.report.columns import COLUMNS, DISPENSABLE, NAMES, PAGE, TEXT

README = Path(__file__).parent.parent / "results" / "README.md"


def documentation():
    """Return what the columns mean, as a Markdown table."""
    lines = [f"| {column.name} | {column.meaning} |" for column in COLUMNS]
    return "\n".join(["| column of leaderboard.csv | meaning |", "|---|---|", *lines])


def test_the_readme_documents_every_column_as_it_is_declared():
    assert f"\n\n{documentation()}\n\n" in README.read_text(encoding="utf-8")


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
