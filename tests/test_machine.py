"""The machine: who else used it, what the GPU says, energy counters, conditions, provenance."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from dataeff.bench import conditions as stamped
from dataeff.plugins import Installed, Plugin
from dataeff.training import energy, machine
from dataeff.training.energy import energy_counter
from dataeff.training.machine import Guard, flags, snapshot
from dataeff.training.nvml import find_gpu

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)
SECOND = os.sysconf("SC_CLK_TCK")


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
        # Little process time may be legitimate, and says nothing where waiting is known.
        {"process_share": 0.1},
        {"process_share": 0.5, **NO_PROC},
        {"process_share": 0.1, "streams": True, **NO_PROC},
        {"process_share": 0.1, "device": "cuda", **NO_PROC},
        # Too short to be judged.
        {"seconds": 0.4, "foreign_cores": 4.0, "waiting_share": 0.9, "stolen_share": 0.9},
        {"seconds": 0.4, "load_high": 99.0, "process_share": 0.1, **NO_PROC},
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
        ({"process_share": 0.4, **NO_PROC}, "it ran for 40% of its time only"),
        ({"process_share": 0.4, **OLD_KERNEL}, "it ran for 40% of its time only"),
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


class Box:
    """A machine of three cores, of which this process may use two."""

    def __init__(self, root, monkeypatch):
        self.root, self.now, self.load = root, 100.0, 1.5
        monkeypatch.setattr(machine, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(machine, "_usable", lambda: {0, 2})
        monkeypatch.setattr(os, "getloadavg", lambda: (self.load, 0, 0), raising=False)
        self.cores(cpu0=0, cpu1=0, cpu2=0)
        self.process("self", 0)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def cores(self, stolen=0.0, **busy):
        """Write /proc/stat: seconds since boot that each core was busy."""
        lines = ["cpu  9 9 9 9 9 9 9 9 9 9"]
        for name, seconds in busy.items():
            # In equal parts: user, nice, system, irq and softirq; a tenth of user was for guests.
            part, lost = round(seconds * SECOND / 5), round(stolen * SECOND)
            idle = 3 * part + 77777
            times = [part, part, part, idle, idle, part, part, lost, part // 10, 0]
            lines.append(f"{name} {' '.join(map(str, times))}")
        self.write("proc/stat", "\n".join([*lines, "intr 5 6 7", "", "ctxt 123\n"]))

    def process(self, name, seconds, dead_children=0.0, children=""):
        own, dead = (round(time * SECOND / 2) for time in (seconds, dead_children))
        head = "4242 (py thon) 1) R 1 1 1 0 -1 4194304 2836 6533 9 2"
        self.write(f"proc/{name}/stat", f"{head} {own} {own} {dead} {dead} 20 0 1 0 94319")
        self.write(f"proc/{name}/task/1/children", children)

    def thread(self, name, ran, waited):
        self.write(f"proc/self/task/{name}/schedstat", f"{ran * 1e9:.0f} {waited * 1e9:.0f} 55\n")

    def end_thread(self, name):
        (self.root / f"proc/self/task/{name}/schedstat").unlink()

    def guard(self, **options):
        return Guard(CPU, 2, root=self.root, **options)


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


# NVML, played by an object ----------------------------------------------------------------------


class Nvml:
    """A pynvml that knows one GPU."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    class NVMLError(Exception):
        pass

    def __init__(self, uuid="GPU-1234-abcd"):
        self.uuid = uuid
        self.pids, self.bits, self.millijoules = [os.getpid()], 0, 5000
        self.clocks = {1: 1500, 2: 9000}
        self.broken = set()

    def _answer(self, name, handle, value):
        assert handle == f"handle of {self.uuid}"
        if name in self.broken:
            raise self.NVMLError(name)
        return value

    def nvmlInit(self):
        if "init" in self.broken:
            raise self.NVMLError("no driver")

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != self.uuid:
            raise self.NVMLError("not found")
        return f"handle of {uuid}"

    def nvmlSystemGetDriverVersion(self):
        return b"535.104.05"

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return self._answer("clock", handle, self.clocks[kind])

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):
        return self._answer("clock", handle, {1: 1980}[kind])

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self._answer("reasons", handle, self.bits)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self._answer("pids", handle, [SimpleNamespace(pid=pid) for pid in self.pids])

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return self._answer("energy", handle, self.millijoules)


class OldNvml(Nvml):
    """One whose function has its old name."""

    nvmlDeviceGetCurrentClocksEventReasons = property()

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self._answer("reasons", handle, self.bits)


@pytest.fixture
def put(monkeypatch):
    """Return a function that puts a pynvml, and a CUDA device that torch knows, in place."""

    def put(nvml):
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        properties = SimpleNamespace(uuid="1234-abcd", total_memory=int(79.2 * 2**30))
        monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: properties)
        monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "A GPU")
        return nvml

    return put


@pytest.mark.parametrize("uuid", ["GPU-1234-abcd", "MIG-1234-abcd"])
def test_a_gpu_is_found_by_what_it_is_and_not_by_its_place(put, uuid):
    put(Nvml(uuid))
    assert find_gpu(CUDA).clock() == 1500
    assert find_gpu(CPU) is None


def test_no_gpu_is_better_than_the_wrong_one(put):
    put(Nvml("GPU-another"))
    assert find_gpu(CUDA) is None


def test_without_the_package_or_a_driver_there_is_no_gpu(put):
    put(None)
    assert find_gpu(CUDA) is None
    put(Nvml()).broken = {"init"}
    assert find_gpu(CUDA) is None


def test_others_on_the_gpu(put, monkeypatch):
    nvml = put(Nvml())
    gpu = find_gpu(CUDA)
    assert gpu.foreign_processes() == 0
    nvml.pids = [os.getpid(), 10**9, 10**9 + 1, 10**9]
    assert gpu.foreign_processes() == 2
    # The run that started this cell has named the GPU.
    parent = SimpleNamespace(pid=10**9)
    monkeypatch.setattr("multiprocessing.parent_process", lambda: parent)
    assert gpu.foreign_processes() == 1
    nvml.pids = [os.getpid(), os.getppid()]
    assert gpu.foreign_processes() == 0


def test_in_a_container_nobody_knows_who_is_who(put):
    nvml = put(Nvml())
    nvml.pids = [10**9, 10**9 + 1]
    assert find_gpu(CUDA).foreign_processes() is None
    nvml.pids = []
    assert find_gpu(CUDA).foreign_processes() is None


@pytest.mark.parametrize("kind", [Nvml, OldNvml])
def test_what_slows_a_gpu_down(put, kind):
    nvml = put(kind())
    words = {
        0x01 | 0x02 | 0x10 | 0x100: [],
        0x04: ["power cap"],
        0x08 | 0x40: ["hardware slowdown", "thermal"],
        0x20: ["thermal"],
        0x80 | 0x01: ["power brake"],
    }
    for bits, said in words.items():
        nvml.bits = bits
        assert find_gpu(CUDA).throttled() == said


def test_what_a_gpu_does_not_tell_is_unknown(put):
    put(Nvml()).broken = {"clock", "reasons", "pids"}
    gpu = find_gpu(CUDA)
    told = (gpu.clock(), gpu.highest_clock(), gpu.throttled(), gpu.foreign_processes())
    assert told == (None, None, None, None)
    guard = Guard(CUDA)
    guard.sample()
    assert guard.record(1, 1)["flags"] == []


def test_the_guard_keeps_the_worst_that_a_gpu_said(put):
    nvml = put(Nvml())
    guard = Guard(CUDA)
    nvml.pids, nvml.bits, nvml.clocks[1] = [os.getpid(), 10**9], 0x20, 600
    guard.sample()
    nvml.pids, nvml.bits, nvml.clocks[1] = [os.getpid()], 0x04, 1800
    guard.sample()
    state = json.loads(json.dumps(guard.state_dict()))
    nvml.bits, nvml.clocks[1] = 0, 1700
    resumed = Guard(CUDA)
    resumed.load_state_dict(state)
    seen = resumed.record(1, 1)
    assert (seen["gpu_clock_low"], seen["gpu_clock_high"]) == (600, 1800)
    assert (seen["gpu_processes"], seen["gpu_throttle"]) == (1, ["power cap", "thermal"])
    assert seen["flags"][:2] == [
        "1 other process was on the GPU",
        "the GPU was throttled (thermal)",
    ]


def test_gpu_clocks_of_the_moment(put):
    put(Nvml())
    facts = snapshot(CUDA)
    assert (facts["gpu_sm_mhz"], facts["gpu_memory_mhz"]) == (1500, 9000)
    assert facts["gpu_highest_mhz"] == 1980


# Energy -----------------------------------------------------------------------------------------

RANGE = 262_143_000_000


def domain(root, name, what="package-0", microjoules=0):
    folder = root / name
    folder.mkdir()
    (folder / "name").write_text(what + "\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    return folder / "energy_uj"


def test_energy_of_all_packages_and_of_nothing_inside_them(tmp_path):
    first = domain(tmp_path, "intel-rapl:0", microjoules=7_000_000)
    second = domain(tmp_path, "intel-rapl:1", "package-1")
    rest = [
        domain(tmp_path, "intel-rapl:0:0", "core"),
        domain(tmp_path, "intel-rapl:2", "psys"),
        domain(tmp_path, "intel-rapl-mmio:0"),
    ]
    counter = energy_counter(CPU, tmp_path)
    start = counter()
    first.write_text("9000000\n")
    second.write_text("500000\n")
    for file in rest:
        file.write_text("100000000000\n")
    assert counter() - start == 2.5
    assert counter() - start == 2.5


def test_a_counter_that_comes_round(tmp_path):
    file = domain(tmp_path, "intel-rapl:0", microjoules=RANGE - 1_000_000)
    counter = energy_counter(CPU, tmp_path)
    start = counter()
    file.write_text("2000000")
    assert counter() - start == 3
    file.write_text(str(RANGE))
    assert counter() - start == 1 + RANGE / 1e6
    file.write_text("0")
    assert counter() - start == 1 + RANGE / 1e6


def test_a_counter_that_was_not_read_for_too_long_is_not_believed(tmp_path, monkeypatch):
    domain(tmp_path, "intel-rapl:0")
    counter = energy_counter(CPU, tmp_path)
    later = energy.time.monotonic() + RANGE / 1e6 / 1000 + 1
    monkeypatch.setattr(energy, "time", SimpleNamespace(monotonic=lambda: later))
    with pytest.raises(OSError, match="come round"):
        counter()


def test_a_long_epoch_loses_nothing(tmp_path, monkeypatch):
    """A counter that goes round ten times between two borders is read meanwhile."""
    file = domain(tmp_path, "intel-rapl:0")
    clock = SimpleNamespace(now=0.0)

    def sleep(seconds):
        if clock.now > 3000:
            raise OSError("that was long enough")
        clock.now += seconds
        file.write_text(str(int(clock.now * 900e6) % RANGE))  # 900 W

    monkeypatch.setattr(energy, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    package = energy._Package(file.parent)
    energy._keep_up([package], package.period / 3)
    assert clock.now * 900e6 > 10 * RANGE
    assert package.joules() == pytest.approx(clock.now * 900, abs=0.01)


def test_a_processor_is_read_by_one_thread_only_and_is_no_other_device(tmp_path):
    domain(tmp_path, "intel-rapl:0")
    assert energy_counter(torch.device("meta"), tmp_path) is None
    assert energy_counter(CPU, tmp_path) is energy_counter(CPU, tmp_path)


def test_no_energy_is_better_than_a_guess(tmp_path):
    assert energy_counter(CPU, tmp_path / "missing") is None
    domain(tmp_path, "intel-rapl:0")
    # One of two packages cannot be read: their sum is unknown.
    forbidden = domain(tmp_path, "intel-rapl:1", "package-1")
    forbidden.unlink()
    forbidden.mkdir()
    assert energy_counter(CPU, tmp_path) is None


def test_energy_of_a_gpu(put):
    nvml = put(Nvml())
    counter = energy_counter(CUDA)
    assert counter() == 5
    nvml.broken = {"energy"}
    with pytest.raises(Nvml.NVMLError):
        counter()
    assert energy_counter(CUDA) is None
    put(None)
    assert energy_counter(CUDA) is None


# Conditions and provenance ----------------------------------------------------------------------


def test_conditions_of_a_processor(box, monkeypatch):
    cpus = "sys/devices/system/cpu"
    box.write(f"{cpus}/cpu0/cpufreq/cpuinfo_max_freq", "2400000\n")
    box.write(f"{cpus}/cpu11/cpufreq/cpuinfo_max_freq", "3675000\n")
    box.write(f"{cpus}/cpu1/cpufreq/cpuinfo_max_freq", "\n")
    box.write("proc/meminfo", "MemTotal:   24682416 kB\n")
    assert machine.highest_cpu_clock(box.root) == 3675
    assert machine.memory_gib(box.root) == 23.54
    monkeypatch.setattr(stamped, "memory_gib", lambda: 23.54)
    facts = stamped.conditions(CPU)
    assert facts["memory_gib"] == 24
    monkeypatch.setattr(stamped, "memory_gib", lambda: 23.4)
    assert stamped.conditions(CPU)["memory_gib"] == 24, "the kernel keeps more or less of it"
    assert facts["cores"] == 2
    assert (facts["driver"], facts["cuda"], facts["cudnn"]) == (None, None, None)
    monkeypatch.setattr(stamped, "memory_gib", lambda: None)
    assert stamped.conditions(CPU)["memory_gib"] is None


def test_conditions_are_the_same_from_one_moment_to_the_next():
    first, second = stamped.conditions(CPU), stamped.conditions(CPU)
    assert stamped.conditions_id(first) == stamped.conditions_id(second)
    assert json.loads(json.dumps(first)) == first


def test_memory_is_known_without_proc(tmp_path):
    assert machine.memory_gib(tmp_path) == pytest.approx(machine.memory_gib(), rel=0.01)


def test_conditions_of_a_gpu(put, monkeypatch):
    monkeypatch.setattr("torch.version.cuda", "12.6")
    monkeypatch.setattr("torch.backends.cudnn.version", lambda: 90501)
    put(Nvml())
    facts = stamped.conditions(CUDA)
    assert (facts["device_name"], facts["memory_gib"]) == ("A GPU", 80)
    assert (facts["driver"], facts["cuda"], facts["cudnn"]) == ("535.104.05", "12.6", 90501)
    put(None)
    monkeypatch.setattr(stamped, "kernel_driver", lambda: "535.104.05")
    facts = stamped.conditions(CUDA)
    assert facts["driver"] == "535.104.05"


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build",
    ],
)
def test_the_driver_is_known_without_nvml(tmp_path, line):
    assert stamped.kernel_driver(tmp_path) is None
    path = tmp_path / "proc/driver/nvidia/version"
    path.parent.mkdir(parents=True)
    path.write_text("")
    assert stamped.kernel_driver(tmp_path) is None
    path.write_text(f"{line}\nGCC version:  gcc version 12.2.0\n")
    assert stamped.kernel_driver(tmp_path) == "535.104.05"


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout with a package and a result, and forget commits that were read before."""
    stamped.commit.cache_clear()
    root = tmp_path / "checkout"
    for name in ("package/__init__.py", "other/tool.py", "results/run.json", ".gitignore"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("venv\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    yield root
    stamped.commit.cache_clear()


def test_the_commit_of_a_checkout(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    assert stamped.commit(checkout / "package") == head
    (checkout / "results/run.json").write_text("another")
    (checkout / "results/more.json").write_text("more")
    stamped.commit.cache_clear()
    assert stamped.commit(checkout / "package") == head, "results are no code"


@pytest.mark.parametrize("name", ["package/__init__.py", "other/tool.py", "other/new.py"])
def test_changed_code_is_told(checkout, name):
    (checkout / name).write_text("changed")
    head = git(checkout, "rev-parse", "HEAD")
    assert stamped.commit(checkout / "package") == f"{head}+dirty"


def test_the_commit_is_read_once(checkout):
    before = stamped.commit(checkout / "package")
    (checkout / "other/tool.py").write_text("changed")
    assert stamped.commit(checkout / "package") == before


def test_a_package_installed_below_a_checkout_is_not_of_it(checkout):
    package = checkout / "venv/package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    assert stamped.commit(package) is None


def test_git_is_not_misled_by_its_own_variables(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert stamped.commit(checkout / "package") is not None


def test_there_may_be_no_checkout_no_commit_and_no_git(tmp_path, checkout, monkeypatch):
    assert stamped.commit(tmp_path / "missing") is None
    assert stamped.commit(tmp_path) is None
    git(tmp_path, "init", "-q", "fresh")
    (tmp_path / "fresh/__init__.py").write_text("")
    git(tmp_path / "fresh", "add", ".")
    assert stamped.commit(tmp_path / "fresh") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stamped.commit(checkout / "package") is None


def test_versions_of_plugins_that_came_from_elsewhere():
    plugins = [
        Plugin("own", "0.1", "built in"),
        Plugin("ours", "0.1", "bundled"),
        Plugin("theirs", "2.3", "their-package"),
        Plugin("loose", "", "plugins/loose.py"),
        Plugin("broken", "9", "their-package", error="ImportError: no"),
    ]
    facts = stamped.provenance(Installed(plugins=plugins))
    own = facts["versions"].pop("dataeff")
    assert own == stamped.conditions(CPU)["dataeff"]
    assert facts["versions"] == {"theirs": "2.3", "loose": ""}
    assert json.loads(json.dumps(facts)) == facts
