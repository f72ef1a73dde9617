"""What a GPU says of itself, and counters of energy."""

import json
import os
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from machines import CPU, CUDA, Box, Nvml, OldNvml, put_nvml

from dataeff.training import energy
from dataeff.training.energy import energy_counter
from dataeff.training.machine import Guard, snapshot
from dataeff.training.nvml import find_gpu
from dataeff.training.system import parent_of

SECOND = 10**9
"""In nanoseconds, as NVML counts violations."""


@pytest.fixture
def put(monkeypatch):
    """Return a function that puts a pynvml, and a CUDA device that torch knows, in place."""
    return partial(put_nvml, monkeypatch)


@pytest.fixture
def box(tmp_path, monkeypatch):
    return Box(tmp_path, monkeypatch)


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


def test_who_is_idle_on_the_gpu_does_not_contend(put):
    nvml = put(Nvml())
    nvml.pids, nvml.used = [os.getpid(), 10**9, 10**9 + 1], []
    gpu = find_gpu(CUDA)
    assert gpu.foreign_processes() == 0, "nobody has used it"
    nvml.use(os.getpid(), 99)
    nvml.use(10**9, 1)
    nvml.use(10**9 + 1, 80, ago=60)
    assert gpu.foreign_processes() == 0, "one has next to nothing, another has long ago"
    nvml.use(10**9, 40)
    nvml.use(10**9, 60)
    assert gpu.foreign_processes() == 1
    nvml.broken = {"used"}
    assert gpu.foreign_processes() == 2, "who uses it is not known: all are counted"


def test_what_the_same_run_has_started_waits_for_its_turn(put, monkeypatch):
    nvml = put(Nvml())
    nvml.pids = [os.getpid(), 10**9, 10**9 + 1]
    parents = {10**9: os.getppid(), 10**9 + 1: 5}
    monkeypatch.setattr("dataeff.training.nvml.parent_of", parents.get)
    gpu = find_gpu(CUDA)
    assert gpu.foreign_processes() == 2, "a shell starts what has nothing to do with each other"
    monkeypatch.setattr("multiprocessing.parent_process", lambda: SimpleNamespace(pid=7))
    assert gpu.foreign_processes() == 1


def test_who_started_a_process(box):
    box.process("77", 1)
    assert parent_of(77, box.root) == 1
    assert parent_of(78, box.root) is None
    assert parent_of(os.getpid()) == os.getppid()


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


def test_what_held_a_gpu_back_is_counted_from_start_to_end(put, box):
    nvml = put(Nvml())
    nvml.violations = {0: 5 * SECOND, 1: 7 * SECOND, 3: 0, 4: 0}
    guard = Guard(CUDA, 1, root=box.root)
    nvml.bits = 0x20
    box.now += 10
    assert guard.record(1, 1)["gpu_throttle"] == [], "of the moment, where counters tell more"
    nvml.violations |= {0: 9 * SECOND, 1: 7.05 * SECOND, 4: 10 * SECOND}
    assert guard.record(1, 1)["gpu_throttle"] == ["power cap"]
    nvml.violations[1] = 7.2 * SECOND
    seen = guard.record(1, 1)
    assert "the GPU was throttled (thermal)" in seen["flags"]
    resumed = Guard(CUDA, 1, root=box.root)
    resumed.load_state_dict(json.loads(json.dumps(guard.state_dict())))
    box.now += 10
    assert resumed.record(1, 1)["gpu_throttle"] == ["power cap", "thermal"]
    nvml.broken = {"violations"}
    assert Guard(CUDA, 1, root=box.root).record(1, 1)["gpu_throttle"] == ["thermal"]


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
