"""Missing: what of all that was asked for has not ended, for how long, and what to type."""

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from boards import board
from records import Folder
from shell import ok
from sides import cell, judged

from dataeff.files import json_text
from dataeff.report.board import read_board
from dataeff.report.due import Looking
from dataeff.report.missing import Missing, missing, still_missing
from dataeff.report.screen import screen

COMMAND = "dataeff run mine -s base -s ours"
NAMES = ("base", "ours", "other")
SHORT = "short[share=0.5]"


def cells(names=NAMES, seeds=4, seconds=50.0, **more):
    """Return a cell per seed; each takes so many seconds, and ten more for its tests."""
    told = {"evaluate_seconds": 10.0, "ranked": True, "control": False} | more
    return [
        cell(name, seed, 90 + seed % 3, {"forward": seconds}, **told)
        for name in names
        for seed in range(seeds)
    ]


def asked(names=NAMES, seeds=4, **more):
    """Return what a suite was asked for, on one task."""
    told = {"name": "mine", "reference": "base", "strategies": list(NAMES), "seeds": seeds}
    told |= {"awaited": list(names), "tasks": {"blobs": {}}, "conditions": {"blobs": "c1"}}
    told |= {"counts": {"blobs": {name: {"c1": "v"} for name in names}}}
    return told | {"line": ["short[share=?]"], "commands": ["dataeff run old", COMMAND]} | more


def found(there, **suite):
    """Return what is missing of a table of which these cells have ended."""
    told = asked(**suite)
    return missing(told, judged(there, **told) if there else [])


def one(there, **suite):
    (only,) = found(there, **suite)
    return only


def but(there, name, *seeds):
    return [line for line in there if line["strategy"] != name or line["seed"] not in seeds]


def test_where_all_has_ended_nothing_is_missing():
    assert found(cells()) == []
    assert still_missing([]) == ""


def test_cells_are_counted_and_take_what_others_of_their_strategy_took():
    slow = [line | {"clocked_seconds": 290.0} for line in cells(["ours"])]
    told = one(but(cells(["base", "other"]) + slow, "ours", 2, 3))
    assert (told.key, told.cells, told.of, told.look) == (("blobs", "c1"), 2, 12, None)
    assert told.seconds == 2 * 300
    assert told.command == COMMAND
    assert still_missing([told]) == f"2 of 12 cells missing, about 10 minutes: {COMMAND}"


def test_who_has_not_begun_takes_what_is_usual_and_lanes_share():
    told = one(cells(["base", "ours"]))
    assert (told.cells, told.seconds) == (4, 4 * 60)
    assert one(cells(["base", "ours"], lanes=2)).seconds == 2 * 60


def test_what_the_runner_saw_beside_the_clocks_takes_time_too():
    there = but(cells(start_seconds=2.0, off_seconds=15.0), "ours", 3)
    assert one(there).seconds == 50 + 15 + 2
    assert one(but(cells(off_seconds=1.0), "ours", 3)).seconds == 50 + 10


def test_before_anything_has_ended_no_time_is_told():
    told = one([])
    assert (told.cells, told.of, math.isnan(told.seconds)) == (12, 12, True)
    assert still_missing([told]) == f"12 of 12 cells missing: {COMMAND}"
    numbers = json.loads(json_text(told.numbers()))
    assert (numbers["task"], numbers["conditions"], numbers["seconds"]) == ("blobs", "c1", None)


@pytest.mark.parametrize("status", ["failed", "diverged", "unverified"])
def test_what_has_failed_has_ended(status):
    there = cells()
    there[5] |= {"status": status, "error": "no"}
    assert found(there) == []


def test_only_what_the_last_command_has_named_is_asked_for():
    assert one(cells(["base"], 3), names=("base", "ours")).of == 8
    assert found(cells(["base", "ours"]), names=("base", "ours")) == []


def test_the_line_is_asked_for_where_it_is_planned():
    counts = {"blobs": {name: {"c1": "v"} for name in (*NAMES, SHORT)}}
    there = cells() + cells([SHORT], 1, control=True)
    told = one(there, counts=counts)
    assert (told.cells, told.of) == (3, 16)
    assert found(there, counts=counts, controls=False) == []


def test_what_nobody_can_count_yet_is_named():
    kinds = ["random[keep=?]", "short[share=?]"]
    told = one([], unplanned={"blobs": ["ours[keep=?]", *kinds]}, line=kinds)
    assert told.unplanned == ["ours[keep=?]", "the line"]
    said = "12 of 12 cells missing, beside those of ours[keep=?] and the line"
    assert still_missing([told]) == f"{said}: {COMMAND}"
    assert found(cells(), unplanned={"blobs": kinds}, line=kinds) == [], "nothing waits for them"


def test_the_command_is_the_one_that_plans_the_looks():
    assert one([], command="dataeff run plan").command == "dataeff run plan"


def test_seeds_of_a_range_are_asked_for():
    assert found(cells(seeds=5), seeds="3-4") == []
    assert (one(cells(), seeds="3-4").cells, one(cells(), seeds="3-4").of) == (3, 6)


# Until settled -----------------------------------------------------------------------------------


def apart(seeds=5, more=0):
    """Return a strategy that is settled by five seeds, and one that is not, with more seeds."""
    luck = (0.0, 3.0, -3.0, 2.0, -2.0) * 4
    sure = [
        cell(name, seed, 90 + points + 0.01 * luck[seed], {"forward": share + 0.01 * seed})
        for name, points, share, n in (("base", 0, 50, seeds + more), ("ours", -9, 25, seeds))
        for seed in range(n)
    ]
    vague = [
        cell("other", seed, 90 + luck[seed], {"forward": 50.0 + luck[seed]})
        for seed in range(seeds + more)
    ]
    return sure + vague


def test_the_first_look_waits_for_five_seeds_of_all():
    told = one(cells(seeds=3), seeds="auto")
    assert (told.cells, told.of, told.look) == (6, 15, 5)
    assert still_missing([told]).startswith("6 of 15 cells missing for the look at 5 seeds, about")
    assert (one([], seeds="auto").of, one([], seeds="auto").look) == (15, 5)


def test_what_is_settled_is_not_asked_for():
    told = one(apart(), seeds="auto")
    assert (told.cells, told.of, told.look) == (10, 20, 10), "other, and what it is compared with"
    assert one(apart(more=3), seeds="auto").cells == 4


def test_the_line_is_run_for_as_long_as_anybody():
    counts = {"blobs": {name: {"c1": "v"} for name in (*NAMES, SHORT)}}
    told = one(apart() + cells([SHORT], 5, control=True), seeds="auto", counts=counts)
    assert (told.cells, told.of) == (15, 30)
    settled = [line for line in apart() if line["strategy"] != "other"]
    there = settled + cells([SHORT], 3, control=True)
    told = one(there, names=("base", "ours"), seeds="auto", counts=counts)
    assert (told.cells, told.look) == (2, 5), "the look at the line waits for it"


def test_a_suite_of_yardsticks_waits_for_its_first_look():
    assert one(cells(["base"], 2), names=("base",), seeds="auto").cells == 3
    assert found(cells(["base"], 5), names=("base",), seeds="auto") == []


# Several tables ----------------------------------------------------------------------------------


def several(*names):
    told = asked(tasks={name: {} for name in names}, conditions=dict.fromkeys(names, "c1"))
    counts = told["counts"]["blobs"]
    return told | {"counts": dict.fromkeys(names, counts)}


def test_tables_that_have_not_begun_are_missing_as_a_whole():
    told = several("blobs", "rings", "dots", "signs", "marks")
    tables = missing(told, judged(cells(seeds=2), **told))
    assert [(table.key[0], table.cells) for table in tables] == [
        ("blobs", 6),
        *((name, 12) for name in ("rings", "dots", "signs", "marks")),
    ]
    assert still_missing(tables) == (
        "54 of 60 cells missing (blobs: 6 of 12; rings: 12 of 12; dots: 12 of 12; 2 tables more), "
        f"at least 6 minutes: {COMMAND}"
    )


def test_a_time_of_which_little_is_known_is_not_told():
    told = several("blobs", "rings")
    tables = missing(told, judged(but(cells(seconds=1.0), "ours", 0), **told))
    assert still_missing(tables).endswith(f"rings: 12 of 12): {COMMAND}")


def test_other_conditions_are_not_what_the_command_would_run():
    there = [line | {"conditions_id": "old"} for line in cells(seeds=2)]
    counts = {"blobs": {name: {"c1": "v", "old": "w"} for name in NAMES}}
    told = asked(counts=counts)
    (only,) = missing(told, judged(there + cells(seeds=3), **told))
    assert (only.key, only.cells) == (("blobs", "c1"), 3)


# Where it is said --------------------------------------------------------------------------------


PLANNED = {
    "conditions": {"blobs": "c1"},
    "counts": {"blobs": {name: {"c1": "v"} for name in ("base", "ours")}},
}


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path / "hand", seeds=3)
    made.fill("base", (90, 91, 92), (100, 100, 100), version="v")
    made.fill("ours", (90,), (50,), version="v")
    made.suite(seeds=3, **PLANNED)
    return made


def test_a_board_knows_and_every_form_of_it_says_so(folder):
    (told,) = folder.board().missing
    assert (told.cells, told.of) == (2, 6)
    said = "2 of 6 cells missing, about 2 minutes: dataeff run hand"
    short = ok("leaderboard", folder.path)
    assert said in short
    assert said in ok("leaderboard", folder.path, "--full")
    assert said in ok("leaderboard", folder.path, "--markdown")
    (numbers,) = json.loads(ok("leaderboard", folder.path, "--json"))["missing"]
    assert (numbers["cells"], numbers["of"], numbers["seconds"]) == (2, 6, 110.0)
    assert Looking(folder.path).missing() == said


def test_tables_without_cells_wait_for_nothing(folder, tmp_path):
    ok("leaderboard", folder.path)
    published = tmp_path / "published"
    published.mkdir()
    for name in ("suite.json", "runs.csv"):
        (published / name).write_bytes((folder.path / name).read_bytes())
    assert read_board(published).missing == []


def test_it_stands_on_the_first_screen_whatever_else_does():
    told = Missing(("digits", "99372ed4"), 10, 12, None, [], 240.0, COMMAND)
    full = board(tasks=("digits", "letters", "signs"), notes=["Long. " * 99], missing=[told])
    lines = screen(full)
    said = f"10 of 12 cells missing, about 4 minutes: {COMMAND}"
    assert [line.text for line in lines if line.bold and "missing" in line.text] == [said]


def test_before_anything_has_ended_a_run_that_stops_says_what_it_was_asked_for(tmp_path):
    assert Looking(tmp_path).missing() == ""
    folder = Folder(tmp_path / "hand", strategies=["base", "ours"])
    folder.suite(seeds=2, **PLANNED)
    assert Looking(folder.path).missing() == "4 of 4 cells missing: dataeff run hand"


# What is started in the background of a shell may have been told to ignore Ctrl-C.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[0] = "dataeff"
from dataeff.cli import main
main()
"""
TASK = ["--dataset", "synthetic[samples=90,test_samples=20,classes=4,size=8]", "--model", "tiny"]
TASK += ["--epochs", "3", "--set", "batch_size=16", "--device", "cpu", "--name", "long"]
LONG = ["run", *TASK, "--seeds", "500", "--no-controls", "-s", "baseline", "-s", "random_backprop"]


def ended():
    return len(list(Path("results/long").glob("*/run.json")))


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_really_stopped_is_told_of(how):
    run = subprocess.Popen([sys.executable, "-c", PROGRAM, *LONG], stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while ended() < 3 and time.monotonic() < end:
        time.sleep(0.02)
    run.send_signal(how)
    _, told = run.communicate()
    there = ended()
    assert there >= 3
    said = f"{1000 - there} of 1000 cells missing, "
    told = told.decode().splitlines()
    if how == signal.SIGINT:
        assert run.returncode == 130
        assert told[-1].startswith(said)
        assert told[-1].endswith("-s baseline -s random_backprop")
    else:
        assert not any("missing" in line for line in told)
    assert said in ok("leaderboard", "long")
