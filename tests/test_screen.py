"""The first screen: an answer and its methods in 24 lines of 80 letters, whatever there is."""

import dataclasses
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from boards import METHODS, board
from shell import ok

from dataeff.printable import fitted, told_apart
from dataeff.report.answer import BET, Answer
from dataeff.report.board import read_board
from dataeff.report.claims import CONFIRMED, NOT_CONFIRMED, UNDECIDED
from dataeff.report.screen import LINES, WIDTH, screen

PUBLISHED = Path(__file__).parent.parent / "results" / "published"
SUITES = sorted(path.parent.name for path in PUBLISHED.glob("*/suite.json"))
KEY = ("digits", "99372ed4")
SAID = Answer(KEY, BET, "mixtrain_cutmix is the best bet: 34% less time.", "mixtrain_cutmix")
LONG = {
    f"strategy_{n}[a_long_parameter=0.5,another_long_parameter=0.25]": (1.1, -n) for n in range(99)
}


def texts(made, width=WIDTH, lines=LINES):
    return [line.text for line in screen(made, width, lines)]


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(
    ("width", "lines"), [(80, 24), (80, 21), (60, 24), (60, 21), (100, 24), (140, 40)]
)
def test_what_was_published_fits(suite, width, lines):
    made = read_board(PUBLISHED / suite)
    told = texts(made, width, lines)
    assert len(told) <= lines
    assert max(map(len, told)) <= width
    assert told[-1].endswith(f"dataeff leaderboard {suite} --full")
    verdicts = {*made.table["verdict"], *made.table["trouble"]} - {""}
    shown = [line for line in told if re.search(r" -?\d+%( \S+)? +[-+]\d+\.\d\d", line)]
    assert len(shown) >= 1
    assert all(line.endswith(tuple(f" {verdict}" for verdict in verdicts)) for line in shown)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_two_methods_look_the_same(width):
    told = texts(read_board(PUBLISHED / "diet-sb-mini"), width)
    names = [line.split()[0] for line in told if re.search(r" -?\d+%( \S+)? +[-+]\d+\.", line)]
    assert len(names) == len(set(names)) == 7


@pytest.mark.parametrize(
    "made",
    [
        board(answers=[SAID]),
        board({"baseline": (1.0, 0.0)} | LONG, (), answers=[SAID]),
        board(tasks=("digits", "letters", "signs"), conditions=("99372ed4", "aaaaaaaa")),
        board(answers=[SAID], notes=["A note that is long. " * 9] * 5),
    ],
    ids=["ten", "hundred", "six tables", "many notes"],
)
def test_whatever_there_is_fits(made):
    told = texts(made)
    assert len(told) <= LINES
    assert max(map(len, told)) <= WIDTH


def test_the_answer_is_first_and_bold_and_each_method_has_its_verdict():
    made = board(answers=[SAID])
    lines = screen(made)
    assert (lines[1].text, lines[1].bold) == (SAID.headline, True)
    assert [line.text for line in lines if line.bold] == [SAID.headline]
    told = "\n".join(line.text for line in lines)
    methods = made.table[~made.table["control"].astype(bool) & (made.table["verdict"] != "")]
    shown = [line for line in told.splitlines() if re.search(r" -?\d+% .* [-+]\d+\.\d\d ", line)]
    for name, verdict, line in zip(methods["strategy"], methods["verdict"], shown, strict=True):
        assert line.startswith(name[:8])
        assert line.endswith(f" {verdict}")
    assert "random_backprop" not in told, "yardsticks are in the full table"


def test_intervals_stand_where_there_is_room():
    made = board({name: METHODS[name] for name in list(METHODS)[:2]}, (), answers=[SAID])
    narrow, wide = ("\n".join(texts(made, width)) for width in (80, 140))
    assert ".." in wide
    assert wide.count("..") > narrow.count("..")


def test_how_many_methods_and_notes_have_no_place_is_said():
    made = board({"baseline": (1.0, 0.0)} | LONG, (), answers=[SAID], notes=["Long. " * 80, "And."])
    told = texts(made)
    (more,) = (
        int(found[1]) for line in told if (found := re.match(r"and (\d+) methods more", line))
    )
    shown = sum(line.startswith("strategy_") for line in told)
    assert shown + more == 99
    assert "and 2 notes more" in told


@pytest.mark.parametrize("room", [15, 24, 40])
def test_names_that_would_look_the_same_show_what_differs(room):
    tail = "start=0,end=1,interrupt=0,and=so_on]"
    names = ["other", *(f"a_long_name[keep={keep},{tail}" for keep in (0.5, 0.25, 0.1))]
    told = told_apart(names, room)
    assert max(map(len, told)) <= room
    assert len(set(told)) == 4
    assert told[0] == "other"
    assert told_apart(["one name", "one name"], 4) == [fitted("one name", 4)] * 2


@pytest.mark.parametrize("width", range(60, 120, 5))
def test_a_command_can_be_copied(width):
    command = "dataeff run mine --device cpu -s baseline --seeds 28"
    price = f"To settle it: about 23 more seeds, about 8 minutes: {command}"
    told = texts(board(answers=[dataclasses.replace(SAID, open=price)]), width)
    assert sum(line.endswith(command) for line in told) == 1
    assert max(map(len, told)) <= width


def test_a_narrow_terminal_has_verdicts_and_no_gain():
    made = board(answers=[SAID])
    narrow, wide = texts(made, 50), texts(made, 80)
    assert max(map(len, narrow)) <= 50
    assert "vs train" in "".join(wide)
    assert "vs train" not in "".join(narrow)
    assert sum(line.endswith("  faster and no worse") for line in narrow) == 4


def test_long_names_keep_both_ends():
    told = texts(board({"baseline": (1.0, 0.0)} | LONG, (), answers=[SAID]))
    line = next(line for line in told if line.startswith("strategy_"))
    assert re.match(r"strategy_\S*\.\.\S*25\] ", line)


def test_the_command_prints_a_screen_and_all_of_it_if_asked(tmp_path):
    folder = shutil.copytree(PUBLISHED / "selection-zoo-mini", tmp_path / "zoo")
    short = ok("leaderboard", folder)
    assert len(short.splitlines()) <= LINES
    assert "progressive_resizing[initial=0.5] is the best bet: " in short
    assert len(ok("leaderboard", folder, "--full").splitlines()) > 2 * LINES
    assert ok("leaderboard", folder, "--may-lose", "20") != short


def test_claims_are_on_the_screen_by_number_and_in_json_one_by_one(tmp_path):
    folder = shutil.copytree(PUBLISHED / "diet-sb-mini", tmp_path / "diet")
    told = json.loads(ok("leaderboard", folder, "--json"))["claims"]
    counts = Counter(claim["verdict"] for claim in told)
    assert counts.keys() == {CONFIRMED, NOT_CONFIRMED, UNDECIDED}
    assert all(claim["text"] and claim["strategy"] for claim in told)
    (line,) = (line for line in ok("leaderboard", folder).splitlines() if "Claims of" in line)
    for verdict, count in counts.items():
        assert re.search(rf"\b{count} {verdict}\b", line)
    zoo = shutil.copytree(PUBLISHED / "quickstart", tmp_path / "quick")
    assert json.loads(ok("leaderboard", zoo, "--json"))["claims"] == []
