"""The machine: who else used it, as its files tell, and what is a reason not to trust a time."""

import json
import os
import signal
import sys
from types import SimpleNamespace

import pytest
import torch
from machines import CPU, CUDA, Box

from dataeff.training import machine, system
from dataeff.training.machine import Guard, flags, snapshot
from dataeff.training.system import Continues

# What is a reason not to trust a time -----------------------------------------------------------

CLEAN = {
    "device": "cpu",
    "streams": False,
    "seconds": 10.0,
    "cores": 4,
    "threads": 4,
    "process_share": 3.5,
    "load_start": 4.0,
    "load_high": 4.5,
    "foreign_cores": 0.02,
    "waiting_share": 0.01,
    "stolen_share": 0.0,
    "still_seconds": 0.0,
    "still_share": 0.0,
    "suspended_seconds": 0.0,
    "gpu_processes": None,
    "gpu_throttle": None,
    "gpu_clock_low": None,
    "gpu_clock_high": None,
}
OLD_KERNEL = {"waiting_share": None}
NO_PROC = {"waiting_share": None, "foreign_cores": None, "stolen_share": None}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"foreign_cores": 0.25},
        {"foreign_cores": 2.25, "threads": 2},
        {"foreign_cores": 0.2, "threads": 9},
        {"waiting_share": 0.1, "foreign_cores": 0.2},
        # More threads than cores, or many of its own processes: it waits for itself.
        {"waiting_share": 0.5, "foreign_cores": 0.2, "threads": 5},
        {"waiting_share": 0.5, "foreign_cores": 0.1},
        {"stolen_share": 0.1},
        # The load average is believed only where nothing better is known.
        {"load_high": 99.0},
        {"load_high": 99.0, **OLD_KERNEL},
        {"load_high": 99.0, "foreign_cores": None},
        {"load_high": 5.0, **NO_PROC},
        {"load_high": None, "process_share": None, **NO_PROC},
        # Little process time may be legitimate.
        {"process_share": 0.5},
        {"process_share": 0.5, **NO_PROC},
        {"process_share": 0.1, "streams": True},
        {"process_share": 0.1, "device": "cuda", **NO_PROC},
        # An hour in which it stood still for a second.
        {"still_seconds": 1.0, "still_share": 0.01},
        {"still_seconds": None, "still_share": None, "suspended_seconds": None},
        {"suspended_seconds": 0.5},
        # Too short to be judged.
        {"seconds": 0.4, "foreign_cores": 4.0, "waiting_share": 0.9, "stolen_share": 0.9},
        {"seconds": 0.4, "load_high": 99.0, "process_share": 0.1, **NO_PROC},
        {"seconds": 0.4, "still_seconds": 0.3, "still_share": 0.7},
        {"gpu_processes": 0, "gpu_throttle": []},
        {"gpu_throttle": ["power cap"]},
    ],
    ids=str,
)
def test_a_clean_cell_is_not_flagged(changed):
    assert flags(CLEAN | changed) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"foreign_cores": 0.26}, "other processes kept 0.3 of 4 cores busy"),
        ({"foreign_cores": 2.3, "threads": 2}, "other processes kept 2.3 of 4 cores busy"),
        ({"foreign_cores": 1.2, "threads": 9}, "other processes kept 1.2 of 4 cores busy"),
        (
            {"waiting_share": 0.31, "foreign_cores": 0.11},
            "its threads waited 31% of the time for a core",
        ),
        (
            {"waiting_share": 0.31, "foreign_cores": None},
            "its threads waited 31% of the time for a core",
        ),
        (
            {"stolen_share": 0.2},
            "the host of this virtual machine took 20% of its processor time",
        ),
        ({"load_high": 5.1, **NO_PROC}, "the load average was 5.1 on 4 cores"),
        ({"process_share": 0.4}, "it ran for 40% of its time only"),
        ({"process_share": 0.4, **NO_PROC}, "it ran for 40% of its time only"),
        ({"process_share": 0.4, **OLD_KERNEL}, "it ran for 40% of its time only"),
        ({"still_seconds": 2.68, "still_share": 0.08}, "it stood still for 2.7 s of its time"),
        (
            {"still_seconds": 2.68, "still_share": 0.08, "device": "cuda"},
            "it stood still for 2.7 s of its time",
        ),
        (
            {"suspended_seconds": 61.23, "seconds": 0.1},
            "the machine was suspended for 61.2 s",
        ),
        ({"gpu_processes": 1, "seconds": 0.1}, "1 other process was on the GPU"),
        ({"gpu_processes": 2}, "2 other processes were on the GPU"),
        (
            {"gpu_throttle": ["thermal", "power cap", "hardware slowdown"]},
            "the GPU was throttled (hardware slowdown, thermal)",
        ),
    ],
    ids=str,
)
def test_each_reason_is_told_by_itself(changed, said):
    assert flags(CLEAN | changed) == [said]


def test_reasons_add_up():
    assert len(flags(CLEAN | {"foreign_cores": 2.0, "waiting_share": 0.5, "gpu_processes": 1})) == 3


# The guard, on a machine made of files ----------------------------------------------------------


@pytest.fixture
def box(tmp_path, monkeypatch):
    return Box(tmp_path, monkeypatch)


def test_cores_that_others_kept_busy(box):
    box.cores(cpu0=1000, cpu1=1000, cpu2=1000)
    box.process("self", 500)
    guard = box.guard()
    box.now += 10
    box.cores(cpu0=1010, cpu1=1010, cpu2=1007)
    box.process("self", 505)
    seen = guard.record(5.0, 8.0)
    assert seen["foreign_cores"] == 1.2  # 17 busy less 5 of ours; core 1 is none of ours
    assert seen["process_share"] == 0.625
    assert (seen["cores"], seen["threads"], seen["seconds"]) == (2, 2, 10.0)
    assert seen["flags"] == ["other processes kept 1.2 of 2 cores busy"]


def test_children_are_not_others(box):
    box.process("self", 1, children="77 78 ")
    box.process("77", 5, children="79")
    box.process("78", 1)
    box.process("79", 1)
    guard = box.guard()
    box.now += 10
    box.cores(cpu0=10, cpu2=10)
    # 77 used six more, its own child two; 78 has ended, and one that began meanwhile has, too.
    box.process("self", 3, dead_children=5, children="77")
    box.process("77", 11, children="79")
    box.process("79", 3)
    assert guard.record(1, 1)["foreign_cores"] == 0.6  # 20 - (22 - 8)


def test_lanes_that_share_all_cores_are_no_strangers(box, monkeypatch):
    monkeypatch.setattr(system, "family", lambda: "70")
    box.process("70", 100, children="71 72")
    box.process("71", 5)
    box.process("72", 5)
    guard = box.guard()
    box.now += 10
    box.cores(cpu0=10, cpu2=10)
    # We are 71, 72 is of another lane; of three more seconds nobody knows.
    box.process("self", 9)
    box.process("71", 14)
    box.process("72", 13)
    assert guard.record(1, 1)["foreign_cores"] == 0.3


def test_where_a_kernel_does_not_tell_of_children_we_are_our_own_family(box, monkeypatch):
    monkeypatch.setattr(system, "family", lambda: "70")
    box.process("70", 0)
    guard = box.guard()
    box.now += 10
    box.cores(cpu0=10, cpu2=10)
    box.process("self", 14)
    assert guard.record(1, 1)["foreign_cores"] == 0.6


def test_a_lane_of_its_own_cores_sees_these_alone(box):
    """What other lanes do is on other cores."""
    guard = box.guard()
    box.now += 10
    box.cores(cpu0=10, cpu1=10, cpu2=10)
    box.process("self", 14)
    assert guard.record(1, 1)["foreign_cores"] == 0.6


def test_a_child_that_is_just_gone_harms_nothing(box):
    box.process("self", 1, children="77 nonsense")
    guard = box.guard()
    box.now += 10
    box.cores(cpu0=10, cpu2=10)
    box.process("self", 6, children="78")
    assert guard.record(1, 1)["foreign_cores"] == 1.5


def test_what_the_host_takes(box):
    guard = box.guard()
    box.now += 10
    box.cores(cpu0=5, cpu2=10, stolen=2.5)
    box.process("self", 15)
    seen = guard.record(1, 1)
    assert seen["stolen_share"] == 0.25
    assert seen["foreign_cores"] == 0
    assert seen["flags"] == ["the host of this virtual machine took 25% of its processor time"]


def test_time_that_threads_waited(box):
    box.thread("1", 100, 50)
    box.thread("2", 10, 1)
    guard = box.guard()
    box.thread("1", 103, 51)
    guard.sample()
    box.end_thread("2")
    box.thread("3", 2, 1)  # It began meanwhile.
    guard.sample()
    box.thread("1", 104, 51)
    box.thread("3", 1, 1)  # Another thread under the number of one that has ended.
    guard.sample()
    box.now += 1
    # Ran 3 + 2 + 1 + 1, waited 1 + 1 + 1.
    assert guard.record(1, 1)["waiting_share"] == 0.3


def test_a_thread_without_readable_times_is_left_out(box):
    box.thread("1", 0, 0)
    guard = box.guard()
    box.now += 1
    box.thread("1", 4, 1)
    for name, text in {"2": "", "3": "five six 7", "4": "12"}.items():
        box.write(f"proc/self/task/{name}/schedstat", text)
    assert guard.record(1, 1)["waiting_share"] == 0.2


def test_a_machine_that_tells_nothing(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "getloadavg", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(machine, "_SHORTEST", 0.0)
    monkeypatch.setattr(system, "time", SimpleNamespace())
    monkeypatch.setattr(system, "continues", Continues)
    monkeypatch.delattr(signal, "SIGCONT")
    guard = Guard(CPU, root=tmp_path)
    guard.sample()
    seen = guard.record(0.0, 0.0)
    assert seen.pop("seconds") >= 0
    assert seen.pop("cores") == os.cpu_count()
    assert seen.pop("threads") == torch.get_num_threads()
    fixed = {"device": "cpu", "streams": False, "flags": []}
    assert {key: value for key, value in seen.items() if value is not None} == fixed
    assert {"foreign_cores", "waiting_share", "load_high", "process_share"} <= set(seen)
    state = snapshot(CPU, root=tmp_path)
    assert state.pop("kernel")
    assert set(state.values()) == {None}


@pytest.mark.parametrize("text", ["", "cpu0\n", "cpu0 a b c\n", "cpu0 1 2 3\n", "\n\n"])
def test_a_broken_file_is_as_good_as_none(box, text):
    guard = box.guard()
    box.now += 10
    box.write("proc/stat", text)
    seen = guard.record(1, 1)
    assert seen["foreign_cores"] is None
    assert seen["stolen_share"] is None


def test_cores_that_are_never_busy_tell_nothing(box):
    """Some sandboxes show a /proc/stat full of zeros."""
    guard = box.guard()
    box.now += 10
    box.process("self", 9)
    assert guard.record(1, 1)["foreign_cores"] is None


def test_a_cell_alone_on_its_cores(box):
    """Busy cores are counted more roughly than our own time, which may come out higher."""
    guard = box.guard()
    box.now += 10
    box.cores(cpu0=9, cpu2=9)
    box.process("self", 19)
    assert guard.record(19, 10)["foreign_cores"] == 0


def test_a_machine_on_which_nothing_ran(box):
    guard = box.guard()
    box.now += 10
    seen = guard.record(0, 10)
    assert (seen["foreign_cores"], seen["stolen_share"]) == (0, 0)


def test_a_short_cell_is_not_judged(box):
    box.thread("1", 0, 0)
    guard = box.guard()
    box.now += 0.4
    box.cores(cpu0=1, cpu2=1)
    box.thread("1", 0.2, 0.2)
    seen = guard.record(0.1, 0.4)
    assert (seen["foreign_cores"], seen["waiting_share"], seen["flags"]) == (None, None, [])


def test_the_load_average_at_the_start_and_at_its_highest(box):
    guard = box.guard()
    box.load = 7.0
    guard.sample()
    box.load = 2.0
    seen = guard.record(1, 1)
    assert (seen["load_start"], seen["load_high"]) == (1.5, 7.0)


def contended(box):
    """Return the state that a contended part of a cell leaves."""
    box.thread("1", 0, 0)
    guard = box.guard()
    box.now += 10
    box.cores(cpu0=10, cpu2=10)
    box.process("self", 8)
    box.thread("1", 8, 8)
    box.load = 9.0
    state = json.loads(json.dumps(guard.state_dict()))
    box.load = 1.0
    return state


def test_a_resumed_cell_keeps_the_flags_of_its_earlier_part(box):
    state = contended(box)
    box.load = 3.0
    guard = box.guard()
    guard.load_state_dict(state)
    box.now += 1000
    box.cores(cpu0=510, cpu2=510)
    box.process("self", 1008)
    box.thread("1", 1008, 8)
    seen = guard.record(1, 1)
    assert (seen["foreign_cores"], seen["waiting_share"]) == (1.2, 0.5)
    assert (seen["load_start"], seen["load_high"]) == (1.5, 9.0)
    assert len(seen["flags"]) == 2
    # And once more: a cell may be interrupted twice.
    again = box.guard()
    again.load_state_dict(guard.state_dict())
    assert again.record(1, 1)["flags"] == seen["flags"]


def test_what_was_seen_after_a_resume_counts_too(box):
    box.thread("1", 0, 0)
    first = box.guard()
    box.now += 10
    box.cores(cpu0=5, cpu2=5)
    box.process("self", 10)
    box.thread("1", 10, 0)
    state = first.state_dict()
    guard = box.guard()
    guard.load_state_dict(state)
    box.now += 10
    box.cores(cpu0=15, cpu2=15)
    box.process("self", 15)
    box.thread("1", 15, 5)
    assert len(guard.record(1, 1)["flags"]) == 2


def test_a_checkpoint_without_a_guard_is_fine(box):
    guard = box.guard()
    guard.load_state_dict({})
    assert guard.record(1, 1)["flags"] == []


def test_a_record_of_this_machine_is_plain():
    guard = Guard(CPU)
    guard.sample()
    record = guard.record(1.0, 2.0) | snapshot(CPU)
    assert json.loads(json.dumps(record)) == record
    assert record["cores"] >= 1


def test_a_guard_beside_a_gpu_needs_one_core(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert Guard(CPU).record(1, 1)["threads"] == 7
    assert Guard(CUDA).record(1, 1)["threads"] == 1


def test_facts_of_the_moment(box):
    box.write("proc/cpuinfo", "cpu MHz\t\t: 1200.000\nmodel name: x\ncpu MHz\t\t: 2445.430\n")
    box.write("proc/meminfo", "MemTotal:   24682416 kB\nMemAvailable:   12341208 kB\n")
    cpufreq = "sys/devices/system/cpu/cpu0/cpufreq"
    box.write(f"{cpufreq}/scaling_governor", "powersave\n")
    box.write(f"{cpufreq}/scaling_cur_freq", "999000\n")
    assert snapshot(CPU, box.root) == {
        "kernel": os.uname().release,
        "cpu_mhz": 2445.43,
        "cpu_highest_mhz": None,
        "governor": "powersave",
        "memory_gib": 23.54,
        "memory_available_gib": 11.77,
        "gpu_sm_mhz": None,
        "gpu_highest_mhz": None,
        "gpu_memory_mhz": None,
    }
    (box.root / "proc/cpuinfo").unlink()
    assert snapshot(CPU, box.root)["cpu_mhz"] == 999
