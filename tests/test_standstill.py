"""A cell that is stopped, or a machine that is suspended: seen, also where it is short; no alarm
where a cell rests as it may."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from machines import Box

from dataeff.training import system
from dataeff.training.machine import stood_still

CELL = {"device": "cpu", "streams": False, "threads": 2, "cores": 2}
# One second, two threads that compute.
BUSY = {
    "wall": 1.0,
    "process": 1.95,
    "thread": 0.99,
    "waited": 0.01,
    "stolen": 0.0,
    "children": 0.0,
    "continued": 0,
}
UNKNOWN = {"waited": None, "stolen": None, "children": None}
MANY = {"threads": 8}
ALONE = {"process": 0.99}
STOPPED = {"wall": 2.0}


@pytest.mark.parametrize(
    ("passed", "cell"),
    [
        ({}, {}),
        (ALONE, {"threads": 1}),
        ({"wall": 0.0, "process": 0.0, "thread": 0.0, "waited": 0.0}, {}),
        # It waited for a core, or computed elsewhere: there are other flags for that, or none.
        ({"thread": 0.4, "waited": 0.6}, {}),
        ({"thread": 0.4, "stolen": 0.6}, {}),
        ({"thread": 0.4, "children": 0.6}, {}),
        # Little enough, of the stretch or in seconds.
        ({"wall": 10.4, "thread": 9.99}, {}),
        ({"thread": 0.81}, {}),
        # More threads than cores: they wait for each other.
        ({"thread": 0.36, "waited": 0.2, "process": 1.8}, MANY),
        # Who reads files, or waits for a GPU.
        ({"thread": 0.1, "process": 0.1}, {"streams": True}),
        ({"thread": 0.1, "process": 0.1}, {"device": "cuda"}),
        # Nothing is known of waiting.
        ({"thread": 0.3, "process": 0.51, **UNKNOWN}, {}),
        # It was stopped for a moment.
        ({"continued": 1}, {}),
        ({"continued": 1, "thread": 0.9}, {"device": "cuda"}),
    ],
    ids=str,
)
def test_a_cell_that_computes_or_rests_does_not_stand_still(passed, cell):
    assert stood_still(BUSY | passed, CELL | cell) == 0


@pytest.mark.parametrize(
    ("passed", "cell", "seconds"),
    [
        (STOPPED, {}, 1.0),
        (STOPPED | ALONE, {"threads": 1}, 1.0),
        (STOPPED | {"stolen": 0.1, "children": 0.2}, {}, 0.7),
        # Children that nobody waited for are missing in the end: no reason for alarm.
        (STOPPED | {"children": -3.0}, {}, 1.0),
        ({"wall": 1.21}, {}, 0.21),
        (STOPPED | ALONE | {"wall": 3.0}, MANY, 2.0),
        (STOPPED | ALONE | UNKNOWN | {"wall": 3.0}, {}, 2.01),
        # That it was continued is enough where it may rest, and where nothing else is known.
        (STOPPED | {"continued": 1}, {"streams": True}, 1.0),
        (STOPPED | {"continued": 1}, {"device": "cuda"}, 1.0),
        (STOPPED | {"continued": 2} | UNKNOWN, {}, 1.01),
    ],
    ids=str,
)
def test_a_cell_that_is_stopped_stands_still(passed, cell, seconds):
    assert stood_still(BUSY | passed, CELL | cell) == pytest.approx(seconds)


# The guard, on a machine made of files ----------------------------------------------------------


@pytest.fixture
def box(tmp_path, monkeypatch):
    box = Box(tmp_path, monkeypatch)
    box.live(0, 0, 0)
    return box


def epoch(box, guard, still=0.0):
    box.live(1.6 + still, 3.0, 1.56, waited=0.04)
    guard.sample()


def test_one_epoch_of_twenty_that_was_stopped_is_enough(box):
    guard = box.guard()
    for number in range(20):
        epoch(box, guard, still=2.7 if number == 7 else 0)
    seen = guard.record(60, 34.7)
    assert (seen["still_seconds"], seen["still_share"]) == (2.7, 0.0778)
    assert seen["flags"] == ["it stood still for 2.7 s of its time"]


def test_a_stop_of_a_second_in_a_long_cell_does_no_harm(box):
    guard = box.guard()
    for number in range(100):
        epoch(box, guard, still=1.0 if number == 7 else 0)
    assert guard.record(300, 161)["flags"] == []


def test_many_short_stops_add_up(box):
    """What limits a process to a share of a core stops it many times a second."""
    guard = box.guard()
    for _ in range(50):
        box.live(0.1, 0.14, 0.07)
        guard.sample()
    assert guard.record(7, 5)["flags"] == ["it stood still for 1.5 s of its time"]


def test_off_the_clock_a_cell_may_wait(box):
    guard = box.guard()
    for _ in range(5):
        epoch(box, guard)
        box.now += 60
        guard.sample()
    seen = guard.record(15, 8)
    assert (seen["still_seconds"], seen["flags"]) == (0, [])


def test_beside_files_the_signal_tells(box):
    guard = box.guard(streams=True)
    for number in range(5):
        box.continued.count += number == 3
        epoch(box, guard, still=3.0)
    assert guard.record(15, 23)["still_seconds"] == 3


def test_a_machine_that_was_suspended(box):
    guard = box.guard()
    epoch(box, guard)
    box.asleep += 3600
    epoch(box, guard)
    seen = guard.record(6, 3.2)
    assert seen["suspended_seconds"] == 3600
    assert seen["flags"] == ["the machine was suspended for 3600.0 s"]


def test_each_part_of_a_resumed_cell_stands_for_itself(box):
    guard = box.guard()
    epoch(box, guard, still=2.0)
    state = json.loads(json.dumps(guard.state_dict()))
    # Between the parts there is no cell that could be disturbed.
    box.asleep += 3600
    box.now += 7200
    resumed = box.guard()
    resumed.load_state_dict(state)
    epoch(box, resumed)
    seen = resumed.record(6, 5.2)
    assert (seen["still_seconds"], seen["suspended_seconds"]) == (2, 0)
    assert seen["flags"] == ["it stood still for 2.0 s of its time"]


# This machine -----------------------------------------------------------------------------------


def test_this_machine_was_not_suspended_meanwhile():
    before = system.slept()
    time.sleep(0.01)
    assert before is None or system.slept() - before < 0.01


@pytest.fixture
def _signals():
    before = signal.getsignal(signal.SIGCONT)
    yield
    signal.signal(signal.SIGCONT, before)


@pytest.mark.usefixtures("_signals")
def test_continues_are_counted_and_passed_on():
    heard = []
    signal.signal(signal.SIGCONT, lambda *_: heard.append(1))
    seen = system.Continues()
    os.kill(os.getpid(), signal.SIGCONT)
    os.kill(os.getpid(), signal.SIGCONT)
    assert (seen.count, len(heard)) == (2, 2)


CELLS = """
import json, os, signal, time
from dataclasses import dataclass
import torch
from dataeff import Strategy, hookimpl
from dataeff.testing import TASK, train_tiny


@dataclass(eq=False)
class Halting(Strategy):
    \"\"\"Compute for a while in each epoch, and be stopped in one.\"\"\"

    stop: int

    @hookimpl
    def on_epoch_start(self, run, epoch):
        end = time.thread_time() + 0.15
        while time.thread_time() < end:
            pass
        if epoch == self.stop:
            os.kill(os.getpid(), signal.SIGSTOP)


torch.set_num_threads(1)
task = TASK.model_copy(update={"epochs": 4})
for stop in (9, 2):
    # Between two epochs, off the clock, a cell may wait.
    cell = train_tiny(Halting(stop), task=task, on_epoch=lambda *_: time.sleep(0.1))
    print(json.dumps(cell.record["machine"]), flush=True)
"""


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="needs schedstat")
def test_a_cell_that_is_stopped_is_flagged_and_one_that_is_not_is_not():
    script = subprocess.Popen([sys.executable, "-c", CELLS], stdout=subprocess.PIPE, text=True)
    try:
        _, status = os.waitpid(script.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        time.sleep(0.5)
        script.send_signal(signal.SIGCONT)
        calm, stopped = map(json.loads, script.communicate(timeout=60)[0].splitlines())
    finally:
        script.kill()
        script.wait()
    assert calm["still_seconds"] == 0
    assert not any("still" in flag or "suspended" in flag for flag in calm["flags"])
    assert stopped["still_seconds"] > 0.4
    assert f"it stood still for {stopped['still_seconds']:.1f} s of its time" in stopped["flags"]
