"""One strategy against another: in the words of the table where it judges the same."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from records import Folder
from shell import ok
from sides import cell, interval, judged

from dataeff.report.board import write_tables
from dataeff.report.latex import latex
from dataeff.report.pair import BY_NOBODY, BY_PAIR, BY_TABLE, pair_said
from dataeff.report.terminal import markdown, plain_text
from dataeff.report.web.page import page_text

NOISE = [0.0, 0.1, -0.1, 0.05, -0.05]
OTHERS = {"ours": (-0.1, 5.0), "other": (-2.0, 20.0), "third": (0.1, 9.9)}


def seeds(name, points=0.0, seconds=10.0, noise=NOISE, **more):
    """Return a cell per seed, near these points and seconds."""
    return [
        cell(name, seed, 90 + points + x, {"forward": seconds * (1 + x / 5)}, **more)
        for seed, x in enumerate(noise)
    ]


def four(**more):
    """Return a reference and three others, of which each has a look of its own luck."""
    cells = seeds("base", noise=[0.0] * 5)
    for turn, (name, told) in enumerate(OTHERS.items()):
        cells += seeds(name, *told, noise=np.roll(NOISE, turn), **more)
    return cells


def said(cells, a, b, **suite):
    (table,) = judged(cells, **suite)
    return table, pair_said(table, a, b)


@pytest.mark.parametrize("name", OTHERS)
def test_against_the_reference_it_is_what_the_table_says(name):
    table, found = said(four(), "base", name)
    place = table.grid.names.index(name)
    assert found.difference == table.points.interval(place)
    assert list(found.speedup) == pytest.approx(np.exp(table.speed.interval(place)))
    assert found.by == BY_TABLE


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_way_round_it_is_the_same_turned(name):
    _, found = said(four(), "base", name)
    _, turned = said(four(), name, "base")
    mean, low, high = found.difference
    assert turned.difference == (-mean, -high, -low)
    mean, low, high = found.speedup
    assert list(turned.speedup) == pytest.approx([1 / mean, 1 / high, 1 / low])
    assert turned.by == BY_TABLE


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ("base", "ours", "faster and no worse"),
        ("base", "other", "slower and worse"),
        ("base", "third", "no worse, speed open"),
        ("ours", "base", "slower but no worse"),
        ("other", "base", "faster and better"),
        ("ours", "other", "slower and worse"),
        ("other", "ours", "faster and better"),
    ],
)
def test_the_words_are_those_of_the_table(a, b, verdict):
    _, found = said(four(), a, b)
    assert found.verdict == verdict
    assert found.pace in (*verdict.split(), "open")


def test_two_others_have_intervals_of_their_own():
    cells = [line | {"test_samples": 10_000} for line in four()]
    _, found = said(cells, "other", "third")
    ours, theirs = (
        np.array([line["test_top1"] for line in cells if line["strategy"] == name])
        for name in ("third", "other")
    )
    assert list(found.difference) == pytest.approx(interval(ours - theirs, 0.02))
    assert found.by == BY_PAIR


def test_a_control_is_compared_for_itself():
    cells = four() + seeds("half", -1.0, 5.0, noise=NOISE[::-1], control=True)
    _, found = said(cells, "base", "half", strategies=["base", *OTHERS])
    assert (found.verdict, found.by) == ("faster but worse", BY_PAIR)
    _, turned = said(cells, "half", "base", strategies=["base", *OTHERS])
    assert (turned.verdict, turned.by) == ("slower but better", BY_PAIR)


def test_before_a_look_nothing_is_said():
    for a, b in (("base", "ours"), ("ours", "base"), ("ours", "other")):
        _, found = said(four(), a, b, seeds=6)
        assert (found.verdict, found.pace, found.level) == ("no look yet",) * 3
        assert found.by == BY_NOBODY
        assert np.isnan([*found.speedup[1:], *found.difference[1:]]).all()
        assert not np.isnan([found.speedup.mean, found.difference.mean]).any()


def test_who_diverges_is_never_no_worse():
    cells = four()
    for line in cells:
        if line["strategy"] == "ours" and line["seed"] > 2:
            line["status"] = "diverged"
    for a in ("base", "third"):
        _, found = said(cells, a, "ours")
        assert found.verdict == "faster, diverged in 2 of 5"
        assert found.level == "open"


def test_times_of_a_busy_machine_are_no_times():
    cells = [line | {"contended": "busy"} for line in four()]
    _, found = said(cells, "base", "ours")
    assert (found.pace, found.verdict) == ("open", "no worse, speed not judged")
    assert np.isnan(found.speedup).all()
    assert not np.isnan(found.difference).any()


def test_another_margin_is_read_off_the_same_intervals():
    _, strict = said(four(), "base", "ours", margin=0.05)
    _, found = said(four(), "base", "ours")
    assert strict.difference == found.difference
    assert (found.level, strict.level) == ("no worse", "open")


# The same words everywhere -----------------------------------------------------------------------

TOLD = {
    "better": (2.0, 5.0, "faster and better"),
    "fine": (0.0, 5.0, "faster and no worse"),
    "less": (-0.6, 5.0, "faster but less accurate"),
    "bad": (-5.0, 5.0, "faster but worse"),
    "late": (0.0, 20.0, "slower but no worse"),
    "lost": (-5.0, 20.0, "slower and worse"),
    "same": (0.0, 10.0, "no worse, speed open"),
    "gone": (0.0, 5.0, "faster, diverged in 1 of 5"),
}


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a strategy for most words."""
    folder = Folder(tmp_path / "results" / "hand")
    folder.fill("base", [90.0] * 5, [10.0] * 5)
    for turn, (name, (points, seconds, _)) in enumerate(TOLD.items()):
        noise = np.roll(NOISE, turn)
        for seed, x in enumerate(noise):
            more = {"status": "diverged"} if name == "gone" and seed == 4 else {}
            folder.add(name, seed, 90 + points + x, seconds * (1 + x / 5), flops=80, **more)
    return folder


def test_every_form_says_the_same_words(folder):
    board = folder.board()
    assert board.table.set_index("strategy").loc[list(TOLD), "verdict"].to_dict() == {
        name: told[2] for name, told in TOLD.items()
    }
    plain, marked, page, paper = (form(board) for form in (plain_text, markdown, page_text, latex))
    write_tables(folder.path, board)
    written = pd.read_csv(folder.path / "leaderboard.csv").set_index("strategy")["verdict"]
    lines = json.loads(ok("leaderboard", folder.path, "--json"))["lines"]
    listed = {line["strategy"]: line["verdict"] for line in lines}
    for name, (*_, word) in TOLD.items():
        assert written[name] == listed[name] == word
        assert re.search(rf"^{name} +{word}  ", plain, re.M)
        assert f": {word}" in re.search(rf"^{name}: (.*)", plain, re.M)[1]
        assert f"| `{name}` | {word} |" in marked
        assert re.search(rf"^{name} & .*{word}", paper, re.M)
        (said,) = (one for one in page.split("<article") if f"</svg> {name} <a" in one)
        assert f"</i> {word}</span></p>" in said
        rows = re.search(r'class="results">.*?</tbody>', page, re.S)[0].split("</tr>")
        (row,) = (row for row in rows if f"<span>{name}</span>" in row)
        assert f"</i> {word}</span></td>" in row


@pytest.mark.parametrize("name", TOLD)
def test_compare_says_the_words_of_the_table(folder, name):
    word = TOLD[name][2]
    text = ok("compare", folder.path, "base", name)
    assert f"B against A: {word}; the intervals are the table's" in text
    (block,) = json.loads(ok("compare", folder.path, "base", name, "--json"))["blocks"]
    line = folder.lines().loc[name]
    assert block["verdict"] == word
    for key, column in (("speedup", "speedup"), ("accuracy_difference", "difference")):
        ends = {end: line[f"{column}_{end}"] for end in ("low", "high")}
        assert block[key] == pytest.approx({"mean": line[column]} | ends)
