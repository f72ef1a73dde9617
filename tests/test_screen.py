"""The first screen: an answer and its methods in 24 lines of 80 letters, whatever there is."""

import re
import shutil
from pathlib import Path

import pytest
from boards import METHODS, board
from shell import ok

from dataeff.report.answer import BET, Answer
from dataeff.report.board import read_board
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
@pytest.mark.parametrize(("width", "lines"), [(80, 24), (80, 21), (60, 24), (120, 40)])
def test_what_was_published_fits(suite, width, lines):
    made = texts(read_board(PUBLISHED / suite), width, lines)
    assert len(made) <= lines
    assert max(map(len, made[:-1])) <= width or width < 80
    assert made[-1].endswith(f"dataeff leaderboard {suite} --full")


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
