"""Seals: a record that was changed is told from one that was not, and from one nobody sealed."""

from pathlib import Path

import pytest

from dataeff.seals import Seals, key_file, seal

SUITE = Path("results/suite")
SUM = "0123456789abcdef" * 2


@pytest.fixture(autouse=True)
def _suite(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    SUITE.mkdir(parents=True)


def test_a_record_is_as_it_was_sealed_or_it_is_not():
    seal(SUITE / "a", SUM)
    seals = Seals(SUITE)
    assert seals.holds("a", SUM) is True
    assert seals.holds("a", SUM[::-1]) is False
    assert seals.holds("b", SUM) is None


def test_one_cells_record_does_not_pass_for_anothers():
    for name in "ab":
        seal(SUITE / name, SUM)
    first, second = (line.split()[1] for line in _lines()[1:])
    assert first != second


def test_the_last_seal_counts():
    seal(SUITE / "a", SUM)
    seal(SUITE / "a", SUM[::-1])
    assert Seals(SUITE).holds("a", SUM) is False
    assert Seals(SUITE).holds("a", SUM[::-1]) is True


def test_the_key_is_the_users_alone_and_made_once():
    seal(SUITE / "a", SUM)
    key = key_file().read_bytes()
    assert key_file().stat().st_mode & 0o777 == 0o600
    assert [path.name for path in key_file().parent.iterdir()] == ["seal.key"]
    seal(SUITE / "b", SUM)
    assert key_file().read_bytes() == key


def test_another_key_seals_otherwise():
    seal(SUITE / "a", SUM)
    key_file().write_bytes(b"x" * 32)
    assert Seals(SUITE).holds("a", SUM) is False


def test_without_a_place_for_a_key_nothing_is_sealed(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    seal(SUITE / "a", SUM)
    assert not (SUITE / "seals").exists()
    assert Seals(SUITE).holds("a", SUM) is None


@pytest.mark.parametrize("left", [0, 5, 30, -1])
def test_a_line_that_was_cut_accuses_nobody(left):
    for name in "ab":
        seal(SUITE / name, SUM)
    text = (SUITE / "seals").read_text().rstrip("\n")
    head, last = text.rsplit("\n", 1)
    (SUITE / "seals").write_text(f"{head}\n{last[:left]}")
    assert Seals(SUITE).holds("a", SUM) is True
    assert Seals(SUITE).holds("b", SUM) is None
    seal(SUITE / "b", SUM)
    assert Seals(SUITE).holds("b", SUM) is True


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\0", b"no seals here", b"a b c\n" * 3])
def test_what_is_no_list_of_seals_accuses_nobody(content):
    (SUITE / "seals").write_bytes(content)
    assert Seals(SUITE).holds("a", SUM) is None


def test_a_folder_in_its_place_is_set_aside():
    (SUITE / "seals").mkdir()
    assert Seals(SUITE).holds("a", SUM) is None
    seal(SUITE / "a", SUM)
    assert Seals(SUITE).holds("a", SUM) is True
    assert (SUITE / "seals.damaged").is_dir()


def _lines():
    return [line for line in (SUITE / "seals").read_text().splitlines() if line]
