"""Names and texts of others: none acts on a terminal, a spreadsheet or a folder."""

import csv
import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest
from conftest import EVERYTHING
from hypothesis import given, settings
from hypothesis import strategies as st
from nonsense import SUITE
from records import Folder
from rich.console import Console
from shell import call, ok

from dataeff.errors import DataeffError, one_line
from dataeff.files import parse_csv, slug, write_csv, write_json, write_text
from dataeff.names import LONGEST_FOLDER, check_folder_name, check_suite_name
from dataeff.printable import as_was, harmless, printable, shortened, unseen
from dataeff.registry import Registry
from dataeff.report import terminal
from dataeff.report.board import read_board

often = settings(max_examples=1000 if EVERYTHING else 40)
ACTS = "\x1b]0;title\x07\x1b[31m\u202e\u2066\u200b\x9b\x7f\r"
# What a terminal may be sent: what can be seen, and the styles of our own.
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def harmful(text):
    return unseen(STYLES.sub("", text).replace("\n", ""))


# Terminals ---------------------------------------------------------------------------------------


@often
@given(st.text())
def test_nothing_printable_acts_on_a_terminal(text):
    assert not unseen(printable(text))
    assert not unseen(printable(text, lines=True).replace("\n", "").replace("\t", ""))
    printable(text).encode()
    if not unseen(text):
        assert printable(text) == text


def test_what_cannot_be_seen_is_written_out():
    assert (
        printable("a\x1b[1m\u202e\u200b\n\udcffä\xa0名")
        == r"a\x1b[1m\u202e\u200b\n\udcffä" + "\xa0名"
    )
    assert printable("a\n\tb\r", lines=True) == "a\n\tb\\r"
    assert one_line(f"\n first{ACTS}\nsecond").isprintable()
    assert shortened("x" * 2000).startswith("x" * 500 + " ... x")


PLUGIN = f'''
"""A module.

A paper {ACTS!r}.
"""

from dataclasses import dataclass

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("calm", Calm)


@dataclass(eq=False)
class Calm(Strategy):
    mode: str = {ACTS!r}

    @hookimpl
    def prepare(self, run):
        raise ValueError({ACTS!r})

    @hookimpl
    def report(self, run):
        return {{"=cmd()": "=1+1"}}


Calm.__doc__ = "Do nothing " + {ACTS!r}
__doc__ += {ACTS!r}
'''
LOUD = SUITE.replace('["baseline"]', '["baseline", "calm"]').replace(
    "controls = false",
    'controls = false\ntitle = "=1\\u001b[31m\\u202e"\n'
    'claims = [{text = "@\\u001b[31m\\u202e", strategy = "calm", accuracy = "no worse"}]',
)


@pytest.fixture
def loud(tmp_path):
    """Write a plugin and a suite whose texts would act on a terminal."""
    Path("loud").mkdir()
    Path("loud/loud.py").write_text(PLUGIN)
    Path("loud/broken.py").write_text(f"raise RuntimeError({ACTS!r})")
    Path("loud.toml").write_text(LOUD)
    return ["--plugins-dir", "loud"]


@pytest.mark.long
def test_listings_print_texts_of_plugins_without_their_powers(loud):
    for command in (["strategies", "calm"], ["plugins", "list"], ["strategies"], ["suites"]):
        text = ok(*command, *loud)
        assert not harmful(text), command
    assert r"Do nothing \x1b]0;title\x07\x1b[31m\u202e" in ok("strategies", "calm", *loud)


def test_files_of_any_kind_may_lie_among_plugins(loud):
    os.mkfifo("loud/waits.py")
    Path("loud/folder.py").mkdir()
    Path("loud/a\udcff.py").write_text("")
    Path("loud/b\u202e.py").write_text("1 / 0")
    text = ok("plugins", "list", *loud)
    assert not harmful(text)
    assert r"a\udcff  (loud/a\udcff.py)" in text
    assert "waits" not in text


def test_runs_and_tables_print_texts_of_suites_without_their_powers(loud):
    result = call("run", "loud.toml", *loud, "--in-process")
    assert result.exit_code == 1
    assert not harmful(result.output)
    assert r"calm, in prepare: ValueError: \x1b]0;title" in result.stderr
    for form in ("--markdown", "--latex", "--json"):
        assert not harmful(call("leaderboard", "loud", form).output)


def test_a_terminal_table_of_somebody_elses_results_has_no_powers():
    folder = Folder(Path("results/hand"))
    for seed in range(3):
        folder.add("base", seed, 90 + seed)
        folder.add(f"other{ACTS}", seed, 89 + seed)
    board = read_board(Path("results/hand"))
    shown = Console(width=120, force_terminal=True)
    with shown.capture() as capture:
        for part in terminal.rich_tables(board, 120):
            shown.print(part)
    assert not harmful(capture.get())
    assert not harmful(ok("leaderboard", "hand"))
    assert not harmful(call("compare", "hand", "base", "othe").output)


# Spreadsheets ------------------------------------------------------------------------------------

FORMULAS = ["=1+1", "+1 (x)", "-x", "@sum", "\t=1", "\r=1", "\n=1", "＝1", "'=1", "''@x"]
TEXTS = [*FORMULAS, "", "-", "=", "'", "'x", "plain", "-0.5", "+3", "a,b", 'a"b', "two\nlines"]


def test_no_text_of_a_table_starts_a_formula():
    path = Path("table.csv")
    table = pd.DataFrame({"strategy": TEXTS, "n": range(len(TEXTS)), "=cmd()": -1.5})
    write_csv(path, table)
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["strategy", "n", "'=cmd()"]
    assert [line[0] for line in lines[: len(FORMULAS)]] == [f"'{text}" for text in FORMULAS]
    assert {line[2] for line in lines} == {"-1.5"}
    read = parse_csv(path.read_bytes(), lambda name: name == "strategy")
    pd.testing.assert_frame_equal(read, table)


def test_a_column_of_several_kinds_starts_no_formula_either():
    write_csv(Path("table.csv"), pd.DataFrame({"told": [1, "=1+1", None, -2.5]}))
    assert Path("table.csv").read_text().splitlines()[1:] == ["1", "'=1+1", '""', "-2.5"]


@often
@given(st.text() | st.sampled_from(TEXTS))
def test_what_is_made_harmless_is_read_as_it_was(text):
    written = harmless(text)
    assert as_was(written) == text
    try:
        float(text)
    except ValueError:
        assert len(written) == 1 or written[:1] not in ("=", "+", "-", "@", "\t", "\r", "\n")


def test_numbers_stay_numbers():
    for value in (-1, 2.5, True, None, "-0.5", "+1e5"):
        assert harmless(value) is value


def test_what_is_no_utf8_is_kept_readable():
    write_json(Path("a.json"), {"a\udcff": ["b\udcff", 1]})
    assert json.loads(Path("a.json").read_text()) == {"a\\udcff": ["b\\udcff", 1]}
    write_text(Path("a.txt"), "c\udcff")
    assert Path("a.txt").read_text() == "c\\udcff"


# Folders -----------------------------------------------------------------------------------------


@often
@given(st.text() | st.text("./\\a-", max_size=6))
def test_a_name_that_passes_is_a_folder_of_its_own(name):
    home = Path("/home/results")
    assert "/" not in slug(name)
    try:
        check_suite_name(name)
    except DataeffError:
        return
    assert (home / name).parent == home
    assert len(name.encode()) <= LONGEST_FOLDER
    assert name not in ("artefacts", "published", ".", "..")


@pytest.mark.parametrize("name", ["", " ", "..", ".x", "a/b", "a\\b", "a\nb", "\u202e", "\udcff"])
def test_names_of_tasks_are_such_names_too(name):
    with pytest.raises(DataeffError, match="call it by letters, digits and dashes"):
        check_folder_name("the task", name)


@pytest.mark.parametrize(
    "name",
    [3, None, "", "a b", "a+b", "a[b]", "=a", "-a", "_a", "a\n", "a/b", "\u202ea", "x" * 101],
)
def test_a_name_that_cannot_be_typed_is_not_registered(name):
    with pytest.raises(DataeffError, match="is no name for a strategy: use letters, digits"):
        Registry("strategy").register(name, object)


def test_a_suite_is_registered_by_the_path_of_its_file():
    with pytest.raises(DataeffError, match="takes the path of a file"):
        Registry("suite").register("mine", None)


def test_a_long_comparison_has_a_short_folder_of_its_own(monkeypatch):
    made = []
    monkeypatch.setattr("dataeff.door.running.run_cells", lambda *given: made.append(given[0]))
    task = ["-m", "tiny", "--epochs", "1", "-s", "baseline", "--seeds", "1", "--no-controls"]
    for noise in ("0.1", "0.2"):
        places = "synthetic[samples=90,test_samples=20,classes=4,size=8,label_noise=" + noise
        call("run", "-d", f"{places.ljust(250)}]", *task)
    names = [schedule.suite.name for schedule in made]
    assert len(set(names)) == 2
    assert all(len(name) <= LONGEST_FOLDER for name in names)
