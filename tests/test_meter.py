"""The meter: exclusive clocks, phases that add up, counts by hand, FLOPs by shape."""

import mmap
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch import nn

from dataeff.testing import train_tiny
from dataeff.training.meter import Meter, flops_per_row, peak_memory, reset_peak_memory

CPU = torch.device("cpu")


class Time:
    """A clock that stands still until it is told to go on."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now

    def process_time(self):
        return self.now / 2


@pytest.fixture
def time(monkeypatch):
    time = Time()
    monkeypatch.setattr("dataeff.training.meter.time", time)
    return time


def test_an_inner_clock_stops_the_outer_one(time):
    meter = Meter(CPU)
    with meter.clock("train"):
        time.now += 2
        with meter.clock("off_oracle"):
            time.now += 10
        time.now += 4
    assert meter.wall == {"train": 6, "off_oracle": 10}
    assert meter.process == {"train": 3, "off_oracle": 5}


def test_what_was_lived_on_the_clocks_that_count_is_of_this_process_alone(time, monkeypatch):
    monkeypatch.setattr("dataeff.training.meter.thread_time", lambda: time.now / 4)
    meter, child = Meter(CPU), Meter(CPU)
    for clock in ("prepare", "train", "evaluate", "off_oracle"):
        with meter.clock(clock):
            time.now += 8
            with meter.paused():
                time.now += 100
    assert meter.lived() == (16, 8, 4)
    resumed = Meter(CPU)
    resumed.load_state_dict(meter.state_dict())
    with child.clock("train"):
        time.now += 4
    resumed.absorb(child)
    resumed.charge({"wall": {"prepare": 9}, "process": {}, "energy": {}, "rows": {}, "flops": 0})
    assert resumed.lived() == (4, 2, 1)


def test_a_clock_stops_when_its_work_fails(time):
    meter = Meter(CPU)

    def fail():
        time.now += 1
        raise KeyError

    with pytest.raises(KeyError), meter.clock("train"):
        fail()
    with meter.clock("evaluate"):
        time.now += 5
    assert meter.wall == {"train": 1, "evaluate": 5}


def test_phases_split_the_train_clock_and_nothing_else(time):
    meter = Meter(CPU)
    with meter.clock("prepare"):
        meter.phase("forward")
        time.now += 1
    with meter.clock("train"):
        time.now += 1
        meter.phase("load")
        time.now += 2
        with meter.during("score"):
            time.now += 4
        time.now += 8
        with meter.clock("off_oracle"):
            time.now += 16
        meter.phase("step")
        time.now += 32
    assert +meter.seconds == {"other": 1, "load": 10, "score": 4, "step": 32}
    assert sum(meter.seconds.values()) == meter.wall["train"]


class Event:
    """A device event: it can be read only once the device was waited for."""

    made: ClassVar[list] = []

    def __init__(self, time):
        self.at, self.done = time.now, False
        Event.made.append(self)

    def elapsed_time(self, other):
        assert self.done
        assert other.done, "an event was read before the device had passed it"
        return 1000 * (other.at - self.at)


def test_device_events_are_read_after_the_device_was_waited_for(time, monkeypatch):
    def synchronize(device):
        for event in Event.made:
            event.done = True

    monkeypatch.setattr("torch.accelerator.synchronize", synchronize)
    monkeypatch.setattr(Meter, "_event", lambda self: Event(time))
    meter = Meter(torch.device("cuda"))
    with meter.clock("train"):
        meter.phase("load")
        time.now += 2
        meter.phase("step")
        time.now += 3
    assert +meter.seconds == {"load": 2, "step": 3}


def test_counts_of_a_run_computed_by_hand(installed):
    record = train_tiny("baseline", installed=installed).record
    rows = 81 * 4  # 90 samples less a tenth for validation, four epochs
    assert record["rows"] == {"loaded": rows, "forwarded": rows, "trained": rows}
    assert record["steps"] == 5 * 4
    forward = flops_per_row(_tiny(installed), [3, 8, 8])
    assert record["flops"] == 3 * rows * forward
    assert set(record["clocks"]) == {"prepare", "train", "evaluate"}
    assert {"plan", "load", "forward", "backward", "step"} <= set(record["phases"])


def _tiny(installed):
    from dataeff.models import build_model

    return build_model("tiny", installed.models, classes=4, shape=(3, 8, 8))


def test_flops_are_those_of_the_layers():
    model = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.Flatten(), nn.Linear(5 * 64, 7))
    assert flops_per_row(model, [3, 8, 8]) == 2 * (5 * 64 * 27 + 5 * 64 * 7)
    assert next(model.parameters()).device == CPU, "the model itself stays where it is"


def test_a_model_that_changes_is_counted_by_version(installed):
    from dataeff import hookimpl

    class Widen:
        @hookimpl
        def on_epoch_start(self, run, epoch):
            if epoch == 2:
                run.model_changed()

    plain = train_tiny("baseline", installed=installed).job.meter
    changed = train_tiny(Widen(), installed=installed).job.meter
    assert changed.flops == plain.flops
    keys = [key for table in changed._flops_per_row.values() for key in table]
    assert {key.split("/")[0] for key in keys} == {"0", "1"}


def test_state_goes_on_where_it_was():
    meter = Meter(CPU)
    with meter.clock("train"):
        meter.count("trained", torch.Size([3, 3, 8, 8]), "0", 1.0)
    other = Meter(CPU)
    other.load_state_dict(meter.state_dict())
    assert other.state_dict() == meter.state_dict()


# Energy ----------------------------------------------------------------------------------------


class Power:
    """An energy counter: ten joules per second of the clock that stands still."""

    def __init__(self, time):
        self.time, self.broken = time, False

    def __call__(self):
        if self.broken:
            raise OSError("the counter is gone")
        return 10 * self.time.now


@pytest.fixture
def power(time, monkeypatch):
    power = Power(time)
    monkeypatch.setattr("dataeff.training.meter.energy_counter", lambda device: power)
    return power


def spend(meter, time, seconds, clock="train"):
    with meter.clock(clock):
        time.now += seconds


def test_energy_is_charged_as_time_is(time, power):
    meter = Meter(CPU)
    time.now += 100
    with meter.clock("train"):
        time.now += 2
        with meter.clock("off_oracle"):
            time.now += 10
        with meter.paused():
            time.now += 5
        time.now += 4
    assert meter.energy == {"train": 60, "off_oracle": 100}
    assert meter.wall == {"train": 6, "off_oracle": 10}


def test_a_counter_that_fails_in_the_middle_leaves_no_energy(time, power):
    meter = Meter(CPU)
    spend(meter, time, 2)
    with meter.clock("train"):
        power.broken = True
        with meter.clock("evaluate"):
            time.now += 1
        power.broken = False
        time.now += 1
    spend(meter, time, 3)
    assert meter.energy == {}
    assert meter.wall == {"train": 6, "evaluate": 1}


def test_without_a_counter_there_is_no_energy(time, monkeypatch):
    monkeypatch.setattr("dataeff.training.meter.energy_counter", lambda device: None)
    meter = Meter(CPU)
    spend(meter, time, 2)
    with meter.paused():
        time.now += 1
    assert meter.energy == {}
    assert meter.state_dict()["energy"] is None


def test_a_counter_that_others_share_is_not_read(time, power):
    meter = Meter(CPU, energy=False)
    spend(meter, time, 2)
    assert meter.state_dict()["energy"] is None


def test_energy_goes_on_where_it_was(time, power):
    meter = Meter(CPU)
    spend(meter, time, 2)
    other = Meter(CPU)
    other.load_state_dict(meter.state_dict())
    spend(other, time, 3)
    assert other.energy == {"train": 50}


def test_energy_of_a_part_is_not_that_of_the_whole(time, power, monkeypatch):
    """A part of the run went without: before energy was measured, on failure, or elsewhere."""
    meter = Meter(CPU)
    spend(meter, time, 2)
    state = meter.state_dict()
    older = {key: value for key, value in state.items() if key != "energy"}
    for known in (older, state | {"energy": None}):
        resumed = Meter(CPU)
        resumed.load_state_dict(known)
        spend(resumed, time, 1)
        assert resumed.energy == {}
        assert resumed.wall == {"train": 3}
    monkeypatch.setattr("dataeff.training.meter.energy_counter", lambda device: None)
    elsewhere = Meter(CPU)
    elsewhere.load_state_dict(state)
    spend(elsewhere, time, 1)
    assert elsewhere.energy == {}


def test_energy_of_nested_runs(time, power):
    meter, child = Meter(CPU), Meter(CPU)
    spend(meter, time, 1, "prepare")
    for clock in ("prepare", "train", "evaluate"):
        spend(child, time, 2, clock)
    meter.absorb(child)
    assert meter.energy == {"prepare": 50}
    spend(meter, time, 1)
    failed = Meter(CPU)
    power.broken = True
    spend(failed, time, 1)
    power.broken = False
    meter.absorb(failed)
    assert meter.energy == {}


def test_a_cell_stamps_its_energy(installed, power):
    energy = train_tiny("baseline", installed=installed).job.meter.energy
    assert set(energy) == {"prepare", "train", "evaluate"}


def test_peak_memory_sees_what_was_allocated():
    reset_peak_memory(CPU)
    before, whose = peak_memory(CPU)
    assert whose == "process"
    # Fresh pages: an allocator may hand out again what it has kept.
    block = mmap.mmap(-1, 64 * 2**20)
    block.write(b"x" * len(block))
    assert peak_memory(CPU)[0] - before > 48 * 2**20
    del block


def test_the_peak_of_a_device_is_its_own_where_it_knows(monkeypatch):
    freed = []
    metal = SimpleNamespace(driver_allocated_memory=lambda: 5, empty_cache=lambda: freed.append(1))
    modules = {"xpu": SimpleNamespace(max_memory_allocated=lambda device: 7), "mps": metal}
    monkeypatch.setattr("torch.get_device_module", lambda device: modules.get(device.type))
    assert peak_memory(torch.device("xpu")) == (7, "device")
    assert peak_memory(torch.device("mps")) == (5, "driver")
    reset_peak_memory(torch.device("mps"))
    assert freed
    assert peak_memory(torch.device("hpu"))[1] == "process"
