"""Choosing lanes: what auto is, what is kept of it, and what busy lanes do to times beside them."""

import json
import math
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from benches import TASK, Bench
from shell import ok

from dataeff.bench import choosing
from dataeff.bench.choosing import best, calibrate, changed, choose_lanes, possible
from dataeff.bench.desk import open_desk
from dataeff.bench.lanes import Lane
from dataeff.bench.suite import make_suite
from dataeff.errors import DataeffError
from dataeff.foretell.load import Load
from dataeff.training.task import Task

WHOLE = (Lane("cpu", "cpu"),)
GPU = Lane("cuda:0", "cuda:0", uuid="GPU-a")
TWO = (Lane("cpu 0", "cpu", cpus=(0,), threads=1), Lane("cpu 1", "cpu", cpus=(1,), threads=1))
ADHOC = (
    *("run", "-d", TASK["dataset"], "-m", "tiny", "--epochs", 1, "--seeds", 1, "--name", "try"),
    *("-s", "baseline", "--no-controls"),
)


# How many --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "blocks", "workers", "counts"),
    [
        (1, 5, 0, [1]),
        (2, 5, 0, [1, 2]),
        (2, 1, 0, [1]),
        (6, 5, 0, [1, 2, 3]),
        (8, 20, 0, [1, 2, 4, 8]),
        # Workers are threads: a lane takes as many cores more.
        (8, 20, 1, [1, 2, 4]),
        (8, 20, 9, [1]),
    ],
)
def test_lanes_leave_no_core_idle_and_have_blocks_to_run(cores, blocks, workers, counts):
    assert possible(cores, blocks, workers) == counts


@pytest.mark.parametrize(
    ("paces", "chosen", "ahead"),
    [
        ({1: 100}, 1, 1.0),
        ({1: 100, 2: 125}, 2, 1.25),
        ({1: 100, 2: 100}, 1, 1.0),
        ({1: 100, 2: 102}, 1, 1.0),
        ({1: 100, 2: 80, 4: 999}, 1, 1.0),
        ({1: 100, 2: 120, 4: 121, 8: 999}, 2, 1.2),
        ({1: 100, 2: 120, 4: 180, 8: 240}, 8, 2.4),
    ],
)
def test_the_most_images_win_and_ties_go_to_fewer_lanes(paces, chosen, ahead):
    found = best(list(paces), lambda more, fewer: paces[more] / paces[fewer])
    assert found == (chosen, pytest.approx(ahead))


# What auto is ----------------------------------------------------------------------------------


class FakeDesk:
    """A desk that has looked at everything."""

    lab, evaluator, calibration = None, object(), None

    def __init__(self, lanes=WHOLE):
        self.lanes = lanes

    def facts(self, task):
        """Know all of it."""

    def enter(self, lanes):
        self.lanes = lanes


@pytest.fixture
def bench(tmp_path, installed):
    return Bench(tmp_path, installed)


@pytest.fixture
def suite(bench):
    content = {"name": "try", "strategies": ["baseline"], "tasks": {"blobs": TASK}}
    return make_suite(content, bench.desk, where="test")


@pytest.fixture
def auto(bench):
    return bench.apart(device="auto").settings


@pytest.fixture
def machine(monkeypatch):
    """Have a machine of two cores, on which two lanes train a quarter more than one."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(choosing, "physical_cores", lambda: [(0,), (1,)])
    monkeypatch.setattr(choosing, "lanes_of", lambda text: TWO if text == "cpu*2" else WHOLE)
    measured = []

    def duel(desk, settings, task, counts):
        measured.append(counts)
        return 1.25

    monkeypatch.setattr(choosing, "_duel", duel)
    return measured


def test_auto_measures_and_chooses(machine, suite, auto):
    desk = FakeDesk()
    said = choose_lanes(desk, suite, auto)
    assert said == "2 lanes train 1.25 x the images of one: --devices cpu*2."
    assert (desk.lanes, machine) == (TWO, [(2, 1)])


def test_what_is_asked_for_is_not_measured(machine, suite, bench):
    desk = FakeDesk()
    assert choose_lanes(desk, suite, bench.apart(device="cpu").settings) == ""
    assert (desk.lanes, machine) == (WHOLE, [])


@pytest.mark.parametrize("why", ["a GPU", "threads are set", "one core", "in this process"])
def test_where_there_is_no_choice_nothing_is_measured(machine, suite, auto, why, monkeypatch):
    desk = FakeDesk((GPU,) if why == "a GPU" else WHOLE)
    if why == "threads are set":
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
    if why == "one core":
        monkeypatch.setattr(choosing, "physical_cores", lambda: [(0, 1)])
    if why == "in this process":
        desk.evaluator = None
    before = desk.lanes
    assert choose_lanes(desk, suite, auto) == ""
    assert (desk.lanes, machine) == (before, [])


def test_what_cannot_be_measured_is_for_the_cells_to_say(machine, suite, auto, monkeypatch):
    def fail(*given):
        raise DataeffError("it does not train")

    monkeypatch.setattr(choosing, "_duel", fail)
    desk = FakeDesk()
    assert choose_lanes(desk, suite, auto) == ""
    assert desk.lanes == WHOLE


def keep(settings, **content):
    folder = settings.results / "try"
    path, before = folder / "suite.json", {"published": [], "tasks": {}, "task_ids": {}}
    before |= {"name": "try", "reference": "baseline", "seeds": 1, "strategies": ["baseline"]}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(before | content))


def test_what_was_chosen_is_kept_if_it_can_still_be_had(machine, suite, auto, monkeypatch):
    keep(auto, devices="cpu*2")
    monkeypatch.setattr(choosing, "probe", lambda lanes: {})
    desk = FakeDesk((GPU,))
    assert choose_lanes(desk, suite, auto) == ""
    assert (desk.lanes, machine) == (TWO, [])

    def gone(lanes):
        raise DataeffError("there are no such devices any more")

    monkeypatch.setattr(choosing, "probe", gone)
    desk = FakeDesk()
    assert choose_lanes(desk, suite, auto)
    assert machine == [(2, 1)]


@pytest.mark.long
def test_devices_are_kept_in_suite_json_and_others_are_other_cells(tmp_path, monkeypatch):
    """With the processes of a real run; one lane has nothing to be calibrated."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = Path("results/try")

    def kept():
        records = [json.loads(path.read_text()) for path in folder.glob("*/run.json")]
        assert {record["lanes"] for record in records} == {1}
        return json.loads((folder / "suite.json").read_text())["devices"], len(records)

    ok(*ADHOC, "--devices", "cpu*1")
    assert kept() == ("cpu*1", 1)
    # What runs the same cells, or one of them again, does so on the same lanes.
    ok(*ADHOC)
    assert kept() == ("cpu*1", 1)
    assert "trained again: 1 cell, 1 bit-identical" in ok("verify", "try", "--repeat", 1)
    # To debug is not to choose.
    ok(*ADHOC, "--in-process", "--device", "cpu")
    assert kept() == ("cpu*1", 2)
    ok(*ADHOC, "--device", "cpu")
    assert kept() == ("cpu", 3)


# Calibration -----------------------------------------------------------------------------------


def test_the_change_of_a_ratio_and_its_standard_error():
    change, error = changed([(1.0, 1.1), (1.0, 1.0), (2.0, 2.2), (2.0, 2.0)])
    logs = torch.tensor([math.log(1.1), 0, math.log(1.1), 0], dtype=torch.double)
    assert change == pytest.approx(float(logs.mean()))
    assert error == pytest.approx(float(logs.std()) / 2)


class FakeCrew:
    """Lanes on which two loads compare otherwise while others are busy."""

    made = 0

    def __init__(self, *given):
        type(self).made += 1
        self._busy = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ratio(self, slices=1):
        return 1.2 if self._busy else 1.0

    @contextmanager
    def busy(self):
        self._busy = True
        yield
        self._busy = False


@pytest.fixture
def crews(monkeypatch):
    monkeypatch.setattr(choosing, "Crew", FakeCrew)
    monkeypatch.setattr(FakeCrew, "made", 0)
    return FakeCrew


def test_lanes_are_calibrated_once(crews, suite, auto):
    desk = FakeDesk(TWO)
    calibrate(desk, suite, auto)
    found = {"devices": "cpu*2", "change": pytest.approx(math.log(1.2)), "error": 0.0}
    assert (desk.calibration, crews.made) == (found, 1)
    keep(auto, calibration=desk.calibration)
    again = FakeDesk(TWO)
    calibrate(again, suite, auto)
    assert (again.calibration, crews.made) == (found, 1)
    calibrate(FakeDesk((GPU, GPU)), suite, auto)
    assert crews.made == 2, "other lanes are another matter"


def test_a_lane_alone_needs_no_calibration(crews, suite, auto):
    keep(auto, calibration={"devices": "cpu*2", "change": 0.1, "error": 0.1})
    desk = FakeDesk()
    calibrate(desk, suite, auto)
    assert (desk.calibration, crews.made) == (None, 0)


# Measuring -------------------------------------------------------------------------------------


def test_a_load_trains_batches_of_a_share_and_leaves_no_trace(bench):
    task = Task(**TASK)
    before = torch.get_rng_state()
    whole, half = (Load(bench.lab, task, share) for share in (1.0, 0.5))
    assert whole.pace(0.0) > 0
    assert half.pace(0.0) > 0
    assert torch.equal(torch.get_rng_state(), before)
    assert [next(load._rows) for load in (whole, half)] == [16, 8]
    # It goes on where an epoch ends.
    assert sum(next(half._rows) for _ in range(30)) > 2 * 90


def test_processes_on_lanes_train_at_once(bench):
    first = min(os.sched_getaffinity(0))
    lane = Lane("cpu one", "cpu", cpus=(first,), threads=1)
    settings = bench.apart().settings
    with (
        open_desk(settings) as desk,
        choosing.Crew(desk, settings, (lane, *WHOLE), Task(**TASK)) as crew,
    ):
        assert crew.together(0.0) > 0
        with crew.busy():
            assert crew.ratio() > 0
