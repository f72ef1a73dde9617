"""Headway: how far a run has come, by a fake clock; and how a terminal and a log show it."""

import io
import math
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from dataeff.bench.headway import Headway
from dataeff.bench.progress import SECONDS, StudyWatch, Watch
from dataeff.bench.runner import Event

LONG = "cifar10 el2n[keep=0.75,models=2,epochs=2]+selective_backprop seed 3"
DONE = {"status": "finished", "metrics": {"test_top1": 93.4}, "clocks": {"train": 12.3}}
FAILED = {"status": "failed", "error": "ValueError: " + "so much went wrong " * 6}


class Clock:
    """A clock that moves only when it is told to."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def headway(clock):
    made = Headway(clock)
    made.total = 4
    return made


def event(kind="epoch", title=LONG, share=0.5, lane="", total=4, **record):
    cell = SimpleNamespace(folder=Path(title), title=title)
    return Event(kind, cell, share, record or {"epoch": 11}, 1, total, lane)


# The pace ----------------------------------------------------------------------------------------


def test_before_anything_has_begun_nothing_is_told(headway):
    assert (headway.told(), math.isnan(headway.left)) == ("", True)
    headway.hear("started", "a", 0.0)
    assert headway.told() == "0 of 4 cells done; 1 under way, 0 epochs in"


def test_what_is_left_takes_as_long_as_what_was_done(headway, clock):
    headway.hear("started", "a", 0.0)
    clock.now += 30
    headway.hear("epoch", "a", 0.5, 1)
    assert headway.left == pytest.approx(30 * 3.5 / 0.5)
    clock.now += 10
    assert headway.left == pytest.approx(200), "and passes meanwhile"
    clock.now += 20
    headway.hear("ended", "a", 0.0)
    assert headway.left == pytest.approx(180)
    assert headway.told() == "1 of 4 cells done; about 3 min left"


def test_who_joins_takes_time_at_once(headway, clock):
    clock.now += 5
    headway.hear("started", "a", 0.0)
    clock.now += 10
    headway.hear("ended", "a", 0.0)
    assert headway.left == pytest.approx(30)
    headway.total = 8
    assert headway.left == pytest.approx(70)


def test_cells_that_take_turns_are_told_together(headway, clock):
    for name in "abc":
        headway.hear("started", name, 0.0)
    clock.now += 60
    for name, epochs in zip("abc", (2, 3, 5), strict=True):
        for epoch in range(1, epochs + 1):
            headway.hear("epoch", name, epoch / 10, epoch)
    told = "0 of 4 cells done; 3 under way, 2 to 5 epochs in; about 3 min left"
    assert headway.told() == told


def test_who_was_stopped_has_come_far_at_once_and_tells_no_pace(headway, clock):
    headway.hear("started", "a", 0.0)
    clock.now += 10
    headway.hear("epoch", "a", 0.9, 9)
    assert headway.done == pytest.approx(0.9)
    assert headway.left == pytest.approx(10 * 3.1 / 0.1)


def test_who_need_not_run_takes_no_time(headway, clock):
    headway.hear("skipped", "a", 0.0)
    headway.hear("elsewhere", "b", 0.0)
    clock.now += 500
    headway.hear("started", "c", 0.0)
    clock.now += 20
    headway.hear("ended", "c", 0.0)
    assert (headway.cells, headway.left) == (2, pytest.approx(20))
    headway.hear("ended", "d", 0.0)
    assert headway.told() == "2 of 2 cells done; about 0 s left"


# A terminal --------------------------------------------------------------------------------------


def drawn(width, *events):
    """Return what a terminal of this width shows, line by line, and what has been printed."""
    printed = io.StringIO()
    console = Console(file=printed, force_terminal=True, width=width, no_color=True)
    watch = Watch(console)
    for one in events:
        watch(one)
    with console.capture() as shown:
        console.print(watch.get_renderable())
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in shown.get().splitlines()], printed


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_wider_than_the_terminal(width):
    lanes = [event(lane=f"cpu {n}", total=1350) for n in range(3)]
    shown, printed = drawn(width, *lanes, event("ended", lane="cpu 0", total=1350, **DONE))
    assert len(shown) == 4
    assert max(map(len, shown)) <= width
    assert re.fullmatch(r"1/1350 cells [━ ]+ 0% \d:\d\d:\d\d left \d:\d\d:\d\d", shown[0].strip())
    assert [line.split(": ")[0] for line in shown[1:]] == ["cpu 0", "cpu 1", "cpu 2"]
    assert shown[2].endswith(" seed 3 epoch 12")
    (line,) = printed.getvalue().splitlines()
    assert len(line) <= width
    assert re.fullmatch(r"cell 1/1350: cifar10 .* seed 3: 93.40% in 12.3 s", line)


def test_one_lane_needs_no_name():
    shown, _ = drawn(80, event(lane="cpu"))
    assert shown[1] == f"{LONG} epoch 12"


def test_why_a_cell_has_failed_is_said_in_full():
    _, printed = drawn(60, event("ended", **FAILED))
    told = printed.getvalue().splitlines()
    assert max(map(len, told)) <= 60
    assert FAILED["error"].strip() in " ".join(line.strip() for line in told)


def test_what_goes_on_between_cells_gives_way_to_them():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    watch = Watch(console)
    watch(event(lane="cpu"))
    watch.say("pilot: at 0.5", False)
    assert list(watch.now.values()) == ["pilot: at 0.5"]
    watch(event(lane="cpu"))
    assert list(watch.now.values()) == [f"{LONG} epoch 12"]


# A log -------------------------------------------------------------------------------------------


def logged(watch, out, lines):
    """Wait until a log has so many lines; return them."""
    end = time.monotonic() + 20
    while out.getvalue().count("\n") < lines and time.monotonic() < end:
        time.sleep(0.005)
    return out.getvalue().splitlines()


def test_a_log_has_a_line_now_and_then_of_all_lanes_beside_those_of_what_has_ended():
    out = io.StringIO()
    with Watch(Console(file=out, width=40), every=0.01) as watch:
        watch(event("started", "a", 0.0, "cpu 0"))
        watch(event("epoch", "a", 0.5, "cpu 0"))
        watch(event("epoch", "b", 0.25, "cpu 1", epoch=2))
        first, *_ = logged(watch, out, 2)
        assert re.fullmatch(r"0 of 4 cells done; 2 under way, 3 to 12 epochs in; .* left", first)
        watch(event("ended", LONG, 1.0, "cpu 0", **DONE))
        logged(watch, out, out.getvalue().count("\n") + 2)
    told = out.getvalue().splitlines()
    assert f"cell 1/4: {LONG}: 93.40% in 12.3 s" in told, "as it is, however long"
    assert told[-1].startswith("1 of 4 cells done; 2 under way")
    time.sleep(0.05)
    assert out.getvalue().splitlines() == told, "nothing after the end"


def test_a_log_has_a_line_a_minute_at_most():
    assert SECONDS == 60
    out = io.StringIO()
    with Watch(Console(file=out)) as watch:
        for epoch in range(200):
            watch(event("epoch", "a", epoch / 200, epoch=epoch))
    assert out.getvalue() == ""


def test_a_study_is_shown_as_a_run_is():
    out = io.StringIO()
    with StudyWatch(Console(file=out, force_terminal=True, width=60, no_color=True)) as watch:
        watch.show("started", LONG, 0.0, {})
        watch.show("epoch", LONG, 0.5, {"epoch": 3})
        assert watch.headway.told().startswith("0 of 1 cells done; 1 under way, 4 epochs in")
        watch.show("ended", LONG, 1.0, DONE)
    told = re.sub(r"\x1b\[[\d;?]*\w", "", out.getvalue())
    assert re.search(r"trained cifar10 .* seed 3: 93.40% in 12.3 s", told)
