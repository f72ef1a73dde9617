"""Claims of papers: how suites carry them, and what the measured intervals make of them."""

import dataclasses
import json
import math
import re
from itertools import product

import boards
import numpy as np
import pandas as pd
import pytest
from browser import Browser, installed
from records import Folder
from rich.console import Console
from scipy import stats
from shell import ok

from dataeff.report.board import write_tables
from dataeff.report.claims import COLUMNS, judge_accuracy, judge_all, judge_speedup
from dataeff.report.terminal import markdown, plain_text, rich_tables
from dataeff.report.web.page import page_text, write_report
from dataeff.report.words import CLAIMS

CLAIM = {
    "text": "Ours drops half without loss",
    "source": "Nobody 2026",
    "strategy": "ours",
    "against": "base",
    "task": None,
    "accuracy": "no worse",
    "speedup": None,
    "clock": "total",
}


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "results" / "hand")


def claims(folder, *changes, **options):
    """Return the lines on these claims, each given by what it has of its own."""
    folder.suite(claims=[CLAIM | change for change in changes])
    return folder.board(**options).claims


def one(folder, **change):
    """Return the line on this one claim."""
    (line,) = claims(folder, change).to_dict("records")
    return line


# Judging ----------------------------------------------------------------------------------------

ENDS = [-3.0, -1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 3.0]
INTERVALS = [(low, high) for low, high in product(ENDS, ENDS) if low <= high]


def truth(claimed, difference):
    """Say whether a difference is as claimed, by a margin of 0.5."""
    return {
        "better": difference > 0,
        "no worse": difference > -0.5,
        "equal": -0.5 < difference < 0.5,
        "worse": difference < 0,
    }[claimed]


@pytest.mark.parametrize("claimed", ["better", "no worse", "equal", "worse"])
def test_a_claim_holds_if_all_of_its_interval_agrees_and_fails_if_none_does(claimed):
    for low, high in INTERVALS:
        inside = [truth(claimed, value) for value in np.linspace(low, high, 101)]
        told = "confirmed" if all(inside) else "not confirmed" if not any(inside) else "open"
        # An end at the limit of the margin belongs to neither side.
        edge = {"no worse": high == -0.5, "equal": high == -0.5 or low == 0.5}.get(claimed, False)
        found = judge_accuracy(claimed, low, high, 0.5)
        assert found == ("open" if edge else told), (low, high)


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (1.4, 1.5, "confirmed"),
        (1.39, 1.5, "open"),
        (1.2, 1.4, "open"),
        (1.2, 1.39, "not confirmed"),
        (0.5, 0.6, "not confirmed"),
    ],
)
def test_a_speedup_is_at_least_what_is_claimed(low, high, told):
    assert judge_speedup(1.4, low, high) == told


@pytest.mark.parametrize("claimed", ["better", "no worse", "equal", "worse"])
def test_what_is_not_known_decides_nothing(claimed):
    assert judge_accuracy(claimed, math.nan, math.nan, 0.5) == "open"
    assert judge_speedup(1.4, math.nan, math.nan) == "open"


def test_all_parts_must_hold():
    yes, no, open_ = "confirmed", "not confirmed", "open"
    assert judge_all([yes]) == judge_all([yes, yes]) == yes
    assert judge_all([yes, no]) == judge_all([no, open_]) == judge_all([open_, no]) == no
    assert judge_all([yes, open_]) == judge_all([open_, open_]) == open_


# What was measured ------------------------------------------------------------------------------

BASE, OURS = [90.0, 92.0, 91.0], [89.9, 92.1, 90.8]
SECONDS = [(1.0, 4.0), (1.5, 4.0), (1.5, 4.0)]


@pytest.fixture
def filled(folder):
    folder.fill("base", BASE, [10.0, 12.0, 11.0])
    return folder.fill("ours", OURS, SECONDS)


def interval(values, chance=0.04):
    """Return mean and the interval that misses with this chance, from another library than ours."""
    mean, error = np.mean(values), stats.sem(values)
    return [mean, *stats.t.interval(1 - chance, len(values) - 1, loc=mean, scale=error)]


NAMES = ["{}", "{}_low", "{}_high"]
DIFFERENCES = [a - b for a, b in zip(OURS, BASE, strict=True)]


def test_a_claim_against_the_reference_has_the_intervals_of_the_table(filled):
    line = one(filled, accuracy="no worse", speedup=1.5)
    ratios = [b / sum(a) for a, b in zip(SECONDS, (10, 12, 11), strict=True)]
    # Faster is known at half of the chance, so that accuracy has all of it.
    points, speed = interval(DIFFERENCES), np.exp(interval(np.log(ratios), 0.02))
    assert [line[n.format("difference")] for n in NAMES] == pytest.approx(points)
    assert [line[n.format("speedup")] for n in NAMES] == pytest.approx(speed)
    assert line["n"] == 3
    assert line["measured"] == (
        f"{points[0]:+.2f} points ({points[1]:+.2f}..{points[2]:+.2f}), "
        f"{speed[0]:.2f}x ({speed[1]:.2f}-{speed[2]:.2f})"
    )
    assert line["claimed"] == "no worse than and at least 1.5x as fast as base"
    row = filled.lines().loc["ours"]
    for name in (n.format(kind) for n in NAMES for kind in ("difference", "speedup")):
        assert line[name] == row[name], "the same as in the table"


def test_other_claims_share_one_chance(filled):
    filled.fill("other", [80.0, 81.5, 80.2], [2.0, 2.1, 1.9])
    ours = claims(filled, {"against": "other", "speedup": 1.1})
    assert ours["claimed"].tolist() == ["no worse than and at least 1.1x as fast as other"]
    ahead = np.subtract(OURS, [80.0, 81.5, 80.2])
    pace = np.log(np.divide([2.0, 2.1, 1.9], [sum(seconds) for seconds in SECONDS]))
    line = ours.iloc[0]
    assert [line[n.format("difference")] for n in NAMES] == pytest.approx(interval(ahead, 0.02))
    found = [line[n.format("speedup")] for n in NAMES]
    assert found == pytest.approx(np.exp(interval(pace, 0.02)))
    two = claims(filled, {"against": "other"}, {}, {"against": "other", "accuracy": "better"})
    assert two["difference_low"].tolist()[::2] == pytest.approx([line["difference_low"]] * 2)
    assert two["difference_low"][1] == filled.lines().loc["ours", "difference_low"]
    alone = claims(filled, {"against": "other"}, {}).iloc[0]
    assert [alone[n.format("difference")] for n in NAMES] == pytest.approx(interval(ahead))


def test_before_a_look_nothing_is_said_of_claims(filled):
    filled.fill("other", [80.0, 81.5, 80.2], [2.0, 2.1, 1.9])
    filled.suite(seeds=5)
    lines = claims(filled, {}, {"against": "other"}, {"accuracy": None, "speedup": 1.1})
    assert lines["verdict"].tolist() == ["open"] * 3
    assert lines["measured"].tolist() == ["-0.07 points", "+10.37 points", "2.06x"]


@pytest.mark.parametrize("word", ["better", "no worse", "equal"])
def test_who_diverges_confirms_nothing_good(filled, word):
    filled.fill("fine", [94.0, 96.1, 95.0], [1.0] * 3)
    filled.fill("same", [90.0, 92.1, 91.0], [1.0] * 3)
    name = "fine" if word == "better" else "same"
    assert one(filled, strategy=name, accuracy=word)["verdict"] == "confirmed"
    for each in ("base", "ours", "fine", "same"):
        more = {"status": "diverged"} if each == name else {}
        filled.add(each, 3, 94.0 + len(each), 1.0, **more)
    line = one(filled, strategy=name, accuracy=word)
    assert line["verdict"] == "not confirmed"
    assert one(filled, strategy=name, accuracy="worse")["verdict"] != "confirmed"


def test_the_train_clock_leaves_preparation_out(filled):
    line = one(filled, accuracy=None, speedup=1.5, clock="train")
    ratios = [b / train for (_, train), b in zip(SECONDS, (10, 12, 11), strict=True)]
    assert line["speedup"] == pytest.approx(np.exp(np.mean(np.log(ratios))))
    assert line["claimed"] == "at least 1.5x as fast on the train clock as base"
    assert (line["verdict"], line["clock"]) == ("confirmed", "train")
    assert "points" not in line["measured"]


@pytest.mark.parametrize(
    ("shift", "verdicts"),
    [
        (+2.0, {"better": "confirmed", "no worse": "confirmed", "equal": "not confirmed"}),
        (+0.0, {"better": "open", "no worse": "confirmed", "equal": "confirmed"}),
        (-0.5, {"better": "not confirmed", "no worse": "open", "equal": "open"}),
        (-2.0, {"better": "not confirmed", "no worse": "not confirmed", "worse": "confirmed"}),
    ],
)
def test_the_words_of_a_claim(folder, shift, verdicts):
    noise = [0.05, -0.05, 0.02, -0.02]
    folder.fill("base", [90.0] * 4, [1.0] * 4)
    folder.fill("ours", [90 + shift + x for x in noise], [1.0] * 4)
    for word, verdict in verdicts.items():
        assert one(folder, accuracy=word)["verdict"] == verdict, word


def test_the_margin_decides_what_is_no_worse(filled):
    (line,) = claims(filled, {}, margin=5.0).to_dict("records")
    assert (line["verdict"], line["margin"]) == ("confirmed", 5.0)
    (line,) = claims(filled, {}, margin=0.01).to_dict("records")
    assert line["verdict"] == "open"


def test_both_must_hold(filled):
    assert one(filled, accuracy="better", speedup=1.1)["verdict"] == "open"
    assert one(filled, accuracy="better", speedup=50)["verdict"] == "not confirmed"
    assert one(filled, accuracy="no worse", speedup=1.1)["verdict"] == "confirmed"


def test_a_claim_may_be_against_another_strategy(filled):
    filled.fill("other", [80.0, 81.0, 80.5], [2.0, 2.0, 2.0])
    line = one(filled, against="other", accuracy="better")
    assert (line["verdict"], line["claimed"]) == ("confirmed", "better than other")
    assert line["difference"] == pytest.approx(np.mean([9.9, 11.1, 10.3]))


def test_a_pattern_is_judged_at_the_value_that_was_found_for_this_table(filled):
    entry = {"task": "blobs", "conditions_id": "c1", "pattern": "ours[keep=?]"}
    entry |= {"match": "other", "note": ""}
    (filled.path / "match.json").write_text(
        json.dumps([entry | {"strategy": "ours"}, entry | {"match": "base", "strategy": "base"}])
    )
    filled.suite(match="other", claims=[CLAIM | {"strategy": "ours[keep=?]"}])
    (line,) = filled.board().claims.to_dict("records")
    assert line == one(filled, strategy="ours")
    filled.suite(match="other", claims=[CLAIM | {"against": "base[keep=?]"}])
    (line,) = filled.board().claims.to_dict("records")
    assert (line["against"], line["measured"]) == ("base[keep=?]", "not run")


def test_equal_counts_of_test_images_are_no_certainty(folder):
    classes = {"test": [50, 50], "accuracy": [90.0, 90.0], "trained": [1.0, 1.0]}
    folder.fill("base", [90.0] * 3, [1.0] * 3, classes=classes)
    folder.fill("ours", [90.0] * 3, [1.0] * 3, classes=classes)
    assert one(folder)["verdict"] == "open"
    half = 6.9646 / np.sqrt(12) / np.sqrt(3)
    assert one(folder)["difference_high"] == pytest.approx(half, rel=1e-4)


def test_too_few_seeds_decide_nothing_and_say_so(folder):
    folder.add("base", 0, 90.0, 2.0)
    assert one(folder)["measured"] == "not run"
    folder.add("ours", 1, 99.0, 1.0)
    assert one(folder)["measured"] == "they share no seed"
    folder.add("ours", 0, 99.0, 1.0)
    line = one(folder, accuracy="better", speedup=1.1)
    assert line["measured"] == "+9.00 points, 2.00x; one seed shows no spread: add seeds"
    assert (line["verdict"], line["n"]) == ("open", 1)


def test_only_failed_runs_are_no_runs(folder):
    folder.add("base", 0, status="failed").add("ours", 0, status="failed")
    assert one(folder, speedup=1.0)["measured"] == "not run"


def test_what_failed_does_not_count(filled):
    before = one(filled)
    filled.add("base", 3, 90.0, 10.0).add("ours", 3, status="failed")
    assert one(filled) == before


def test_without_a_clock_there_is_no_speed(folder):
    folder.fill("base", [90.0, 90.1], [1.0] * 2).fill("ours", [90.0] * 2, [1.0] * 2, clocks={})
    assert one(folder, accuracy=None, speedup=1.0)["verdict"] == "open"
    folder.add("half", 0, 90.0).add("half", 1, 90.0, clocks={})
    assert one(folder, strategy="half", speedup=1.0)["n"] == 1, "the fewer of the two"


def test_every_task_and_all_conditions_are_judged_for_themselves(folder):
    ids = {"blobs": "t1", "rings": "t2", "moons": "t3"}
    tasks = {name: {"dataset": name, "model": "tiny", "epochs": 2.0} for name in ids}
    rings = {"task_name": "rings", "task_id": "t2"}
    for more in ({}, {"conditions_id": "c2"}, rings):
        folder.fill("base", [90.0, 91.0], [2.0, 2.0], **more)
    folder.fill("ours", [80.0, 81.1], [1.0, 1.0])
    folder.fill("ours", [95.0, 96.1], [1.0, 1.0], conditions_id="c2")
    folder.fill("ours", [90.0, 91.0], [1.0, 1.0], **rings)
    folder.suite(claims=[CLAIM, CLAIM | {"task": "rings"}], tasks=tasks, task_ids=ids)
    board = folder.board()
    assert board.claims[["task", "conditions", "verdict"]].values.tolist() == [
        ["blobs", "c1", "not confirmed"],
        ["blobs", "c2", "confirmed"],
        ["rings", "c1", "confirmed"],
        ["moons", "", "open"],
        ["rings", "c1", "confirmed"],
    ]
    said = plain_text(board)
    assert "\nnot confirmed  blobs c1: Ours drops" in said
    assert "\nconfirmed      rings c1: Ours drops" in said
    assert "\nopen           moons: Ours drops" in said


def test_folders_of_before_have_no_claims(filled):
    board = filled.board()
    assert board.claims.empty
    assert board.claims.columns.tolist() == COLUMNS
    assert "Claims" not in plain_text(board) + markdown(board)
    assert 'id="claims"' not in page_text(board)


# Forms ------------------------------------------------------------------------------------------


@pytest.fixture
def judged(filled):
    second = CLAIM | {"text": "Ours is\n  50x | faster", "source": "", "accuracy": None}
    filled.suite(claims=[CLAIM | {"accuracy": "equal"}, second | {"speedup": 50.0}])
    return filled


HEADING = f"{CLAIMS} (margin 0.5 points):"


def test_under_the_tables_stands_a_line_per_claim(judged):
    measured = judged.board().claims["measured"].tolist()
    lines = [
        HEADING,
        "confirmed      Ours drops half without loss (Nobody 2026): ours equal to base: "
        f"{measured[0]}",
        f"not confirmed  Ours is 50x | faster: ours at least 50x as fast as base: {measured[1]}",
    ]
    assert plain_text(judged.board()).endswith("\n\n" + "\n".join(lines))
    safe = [line.replace("|", r"\|") for line in lines]
    assert markdown(judged.board()).endswith(f"\n\n{safe[0]}\n\n- {safe[1]}\n- {safe[2]}")
    console = Console(width=200)
    with console.capture() as capture:
        console.print(*rich_tables(judged.board(), 200), sep="\n")
    assert all(line in capture.get() for line in lines)


def test_claims_come_before_the_notes(judged):
    judged.add("base", 9, 90.0, task_id="old")
    *_, said, note = plain_text(judged.board()).split("\n\n")
    assert said.startswith(HEADING)
    assert note.startswith("1 run was left out")


def test_the_file_holds_every_claim_and_goes_when_there_are_none(judged):
    board = judged.board()
    write_tables(judged.path, board)
    written = pd.read_csv(judged.path / "claims.csv", keep_default_na=False)
    assert written.columns.tolist() == COLUMNS
    assert written["verdict"].tolist() == ["confirmed", "not confirmed"]
    assert written["source"].tolist() == ["Nobody 2026", ""]
    assert written["speedup"].tolist() == pytest.approx(board.claims["speedup"].tolist())
    assert "classes.csv, claims.csv\n" in ok("leaderboard", judged.path)
    judged.suite(claims=[])
    assert "classes.csv\n" in ok("leaderboard", judged.path)
    assert not (judged.path / "claims.csv").exists()


LINES = [
    CLAIM
    | {"verdict": verdict, "task": "digits", "conditions": "99372ed4", "margin": 0.5, "n": 5}
    | {"strategy": "infobatch", "claimed": "no worse than baseline", "measured": "-0.1 points"}
    for verdict in ("confirmed", "not confirmed", "open")
]
for line in LINES:
    del line["accuracy"]


def section(board):
    return re.search(r'<details id="claims">.*?</details>', page_text(board), re.S)[0]


def test_the_page_has_a_section_with_a_tone_for_each_verdict():
    text = section(boards.board(claims=LINES))
    found = re.findall(
        r'<span class="verdict (\w+)"><i aria-hidden="true">.</i> (.+?)</span>', text
    )
    assert found == [("good", "confirmed"), ("bad", "not confirmed"), ("open", "open")]
    assert text.count("infobatch no worse than baseline: <b>-0.1 points</b>") == 3
    assert "1 confirmed, 1 not confirmed, 1 open" in text
    assert text.count("<small>Nobody 2026</small>") == 3
    assert "less than 0.5 points" in text


def test_the_page_says_where_when_there_are_several_places():
    board = boards.board(tasks=("digits", "cifar"), claims=LINES)
    text = page_text(board)
    assert "Nobody 2026 · digits</small>" in text
    assert "<summary>Claims of papers: 1 confirmed, 1 not confirmed, 1 open</summary>" in text
    assert 'id="claims"' not in page_text(dataclasses.replace(board, claims=board.claims[:0]))


def test_a_claim_cannot_break_the_page():
    evil = "<script>alert(1)</script>"
    text = section(boards.board(claims=[LINES[0] | dict.fromkeys(("text", "source"), evil)]))
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 2


@pytest.mark.skipif(not installed(), reason="there is no Chromium here")
def test_the_claims_fit_a_telephone(tmp_path):
    long = LINES[0] | {"strategy": "el2n[keep=0.75,epochs=10]+selective_backprop_batch[keep=0.5]"}
    path = write_report(tmp_path, boards.board(claims=[long, *LINES]))
    with Browser() as browser:
        browser.size(360, 800)
        browser.open(path.as_uri())
        assert browser.run("document.documentElement.scrollWidth") <= 360
        assert browser.run("document.querySelectorAll('#claims li').length") == 4
        assert browser.complaints == []
