"""Lanes: how they are named, entered, probed and locked."""

import os
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from benches import TASK, Bench, record
from machines import Nvml, put_nvml
from shell import mistake

from dataeff.bench import lanes as naming
from dataeff.bench import probing
from dataeff.bench.blocks import Cells
from dataeff.bench.desk import open_desk
from dataeff.bench.lanes import Accelerator, Lane, as_typed, dealt, read_lanes, share_energy
from dataeff.bench.locks import locked
from dataeff.bench.probing import Probing, probe
from dataeff.bench.runner import run_cells
from dataeff.bench.schedule import Schedule
from dataeff.bench.service import Service
from dataeff.bench.suite import make_suite
from dataeff.errors import DataeffError
from dataeff.training import system
from dataeff.training.task import Task

FIRST = min(os.sched_getaffinity(0))
PINNED = Lane(f"cpu {FIRST}", "cpu", cpus=(FIRST,), threads=1)
GPUS = [
    Accelerator("cuda:0", "A GPU", "GPU-a"),
    Accelerator("cuda:1", "Another", "GPU-b"),
    Accelerator("cuda:2", "A GPU", "GPU-c", exclusive=True),
]


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    """Locks of other tests are none of ours."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


# Names -----------------------------------------------------------------------------------------


@pytest.fixture
def four(monkeypatch):
    """Have four cores of two hyper-threads each."""
    cores = [(0, 4), (1, 5), (2, 6), (3, 7)]
    monkeypatch.setattr(naming.system, "physical_cores", lambda: cores)


@pytest.mark.parametrize(
    ("text", "names", "typed"),
    [
        ("auto", ["cuda:0", "cuda:2"], "cuda:0,cuda:2"),
        ("cuda", ["cuda:0"], "cuda:0"),
        ("cuda:1", ["cuda:1"], "cuda:1"),
        ("cuda:0,cuda:1", ["cuda:0", "cuda:1"], "cuda:0,cuda:1"),
        ("cuda:2, 0", ["cuda:2", "cuda:0"], "cuda:2,cuda:0"),
        ("cuda,1", ["cuda:0", "cuda:1"], "cuda:0,cuda:1"),
        ("cpu", ["cpu"], "cpu"),
        ("cpu:0", ["cpu:0"], "cpu:0"),
        ("cpu*1", ["cpu 0-7"], "cpu*1"),
        ("cpu*2", ["cpu 0-1,4-5", "cpu 2-3,6-7"], "cpu*2"),
        ("cpu*3", ["cpu 0,4", "cpu 1,5", "cpu 2,6"], "cpu*3"),
        ("mps", ["mps"], "mps"),
        ("xpu:0", ["xpu:0"], "xpu:0"),
    ],
)
def test_what_can_be_typed(four, text, names, typed):
    lanes = read_lanes(text, lambda: GPUS)
    assert [lane.name for lane in lanes] == names
    assert as_typed(lanes) == typed
    assert read_lanes(typed, lambda: GPUS) == lanes
    assert pickle.loads(pickle.dumps(lanes)) == lanes


def test_a_gpu_is_known_by_its_uuid_and_is_the_only_one_that_its_processes_see():
    one, two = read_lanes("cuda:1,2", lambda: GPUS)
    assert one == Lane("cuda:1", "cuda:0", "GPU-b")
    assert two == Lane("cuda:2", "cuda:0", "GPU-c", exclusive=True)
    assert (one.own, two.own) == (["GPU-b"], ["GPU-c"])
    (other,) = read_lanes("xpu:1", lambda: [Accelerator("xpu:1", "xpu")])
    assert (other.device, other.own) == ("xpu:1", ["xpu:1"])


def test_a_group_of_cores_has_a_thread_for_each_of_them(four):
    one, two = read_lanes("cpu*2", list)
    assert one == Lane("cpu 0-1,4-5", "cpu", cpus=(0, 1, 4, 5), threads=2)
    assert not set(one.own) & set(two.own)
    (whole,) = read_lanes("cpu", list)
    assert (whole.cpus, whole.threads, whole.own) == (None, None, [])
    assert read_lanes("auto", list) == (whole,)


def test_groups_of_cores_share_their_energy_counter_and_gpus_do_not(four):
    shared = [share_energy(read_lanes(text, lambda: GPUS)) for text in ("cpu*2", "cpu*1", "cpu")]
    assert shared == [True, False, False]
    assert not share_energy(read_lanes("cuda:0,1", lambda: GPUS))


def test_where_the_system_cannot_pin_threads_are_counted_all_the_same(four, monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    assert [(lane.cpus, lane.threads) for lane in read_lanes("cpu*2", list)] == [(None, 2)] * 2


MISTAKES = {
    "": "--devices takes auto, cpu, cpu*2, cuda:0 or cuda:0,cuda:1, not ''.",
    "cuda:0,": "not 'cuda:0,'.",
    "1": "not '1'.",
    "cuda:-1": "not 'cuda:-1'.",
    "cuda:²": "not 'cuda:²'.",
    "cpu*": "not 'cpu*'.",
    "2*cpu": "not '2*cpu'.",
    "cpu*2,cuda:0": "not 'cpu*2,cuda:0'.",
    "cpu*0": "cpu*0 cannot be had",
    "cpu*5": "each lane takes a core at least, and there are 4 cores to use; type --devices cpu*4.",
    "cuda:0,cuda:0": "cuda:0 is there twice in --devices; name each one once.",
    "cuda,cuda:0": "cuda:0 is there twice",
    "cuda:1,1": "cuda:1 is there twice",
    "cuda:0,xpu:0": "write --devices cuda:0,cuda:1 or cpu*2, not 'cuda:0,xpu:0'.",
    "cpu,cuda:0": "Lanes are GPUs of one kind or groups of cores",
    "cpu:0,cpu:1": "Lanes are GPUs of one kind or groups of cores",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_what_cannot_be_typed(four, text):
    with pytest.raises(DataeffError) as raised:
        read_lanes(text, lambda: GPUS)
    assert MISTAKES[text] in str(raised.value)


def test_mistakes_get_one_sentence_on_the_command_line():
    task = ("run", "-d", TASK["dataset"], "-m", "tiny", "--epochs", 1, "-s", "baseline")
    assert "cpu*99999 cannot be had" in mistake(*task, "--devices", "cpu*99999")
    assert "Device 'cuda:7' cannot be used here" in mistake(*task, "--devices", "cuda:7")
    for text in ("cpu*2", "cuda:0,1"):
        said = mistake(*task, "--in-process", "--devices", text)
        assert said == "--in-process runs on one device, such as --device cpu; name one."


@pytest.mark.parametrize(
    ("siblings", "expected"),
    [
        ({}, [(0,), (1,), (2,), (3,)]),
        ({0: "0,2", 2: "0,2", 1: "1,3", 3: "1,3"}, [(0, 2), (1, 3)]),
        ({0: "0-1\n", 1: "0-1\n", 2: "2-3\n", 3: "2-3\n"}, [(0, 1), (2, 3)]),
        ({0: "0,9", 1: "nonsense", 2: "", 3: "3"}, [(0,), (1,), (2,), (3,)]),
    ],
)
def test_hyper_threads_of_a_core_stay_together(tmp_path, monkeypatch, siblings, expected):
    monkeypatch.setattr(system, "_usable", lambda: {0, 1, 2, 3})
    for number, text in siblings.items():
        folder = tmp_path / f"sys/devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text)
    assert system.physical_cores(tmp_path) == expected


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_groups_are_as_large_as_one_another(count):
    groups = dealt([(number,) for number in range(5)], count)
    assert len(groups) == count
    assert {len(group) for group in groups} == {5 // count}
    assert len({core for group in groups for core in group}) == 5 // count * count


# Entering --------------------------------------------------------------------------------------


class Here:
    """Tells where it is, and with whom."""

    def __init__(self, tell):
        pass

    def told(self):
        code = "import os; print(os.sched_getaffinity(0), os.environ['OMP_NUM_THREADS'])"
        started = subprocess.check_output([sys.executable, "-c", code], text=True)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        kin = {"self": "own cores", str(os.getppid()): "all cores"}[system.family()]
        usable = list(os.sched_getaffinity(0))
        return [kin, usable, torch.get_num_threads(), visible, started.strip()]


def told(lane):
    with Service(Here, limit=60, lane=lane) as service:
        return service.call("told")


def test_a_process_enters_its_lane_first_and_so_does_what_it_starts():
    lane = Lane("cuda:1", "cuda:0", uuid="GPU-b", cpus=(FIRST,), threads=3)
    assert told(lane) == ["own cores", [FIRST], 3, "GPU-b", f"{{{FIRST}}} 3"]


def test_a_process_that_nobody_of_ours_has_started_is_alone():
    assert system.family() == "self"


def test_the_lane_of_all_cores_changes_nothing(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    usable = os.sched_getaffinity(0)
    assert told(Lane("cpu", "cpu")) == ["all cores", [*usable], 1, "7", f"{usable} 1"]


def test_a_lane_that_cannot_be_entered_is_told():
    with pytest.raises(DataeffError, match="OSError"):
        told(Lane("cpu 4095", "cpu", cpus=(4095,)))


@pytest.mark.long
def test_nothing_that_the_fork_server_imports_wakes_a_gpu():
    code = """
import torch

def awake(*given, **named):
    raise SystemExit("someone has asked for a GPU")

for name in ("is_available", "device_count", "init", "_lazy_init", "current_device"):
    setattr(torch.cuda, name, awake)
for name in ("is_available", "current_accelerator", "device_count"):
    setattr(torch.accelerator, name, awake)
import dataeff.bench.preload, sklearn.datasets, torchvision, timm
print(torch.cuda.is_initialized())
"""
    asked = [sys.executable, "-c", code]
    assert subprocess.run(asked, capture_output=True, text=True).stdout == "False\n"


# Probes ----------------------------------------------------------------------------------------


def test_a_cell_finds_what_the_probe_of_its_lane_has_found(tmp_path, installed):
    bench = Bench(tmp_path, installed).apart()
    with open_desk(bench.settings) as desk:
        whole = desk.conditions
        desk.enter((PINNED,))
        assert desk.conditions == whole | {"cores": 1, "threads": 1}
        bench.desk = desk
        (cell,) = bench.cells()
        run_cells(Cells([cell]), desk, bench.settings, lambda event: None)
    assert record(cell)["status"] == "finished", record(cell)["error"]
    found = record(cell)["conditions"]
    assert found.items() >= (whole | {"cores": 1, "threads": 1, "timing": "turns"}).items()
    assert record(cell)["machine"]["cores"] == 1


def test_cells_take_turns_unless_there_is_a_single_process_at_a_time(tmp_path, installed):
    bench = Bench(tmp_path, installed)
    content = {"name": "try", "strategies": ["baseline"], "tasks": {"blobs": TASK}}

    def timing(desk, **more):
        suite = make_suite(content | more, desk, where="test")
        return Schedule(suite, desk, tmp_path).scenes["blobs"].conditions["timing"]

    assert timing(bench.desk) == "whole"
    with open_desk(bench.apart().settings) as desk:
        assert timing(desk) == "turns"
        assert timing(desk, timing="whole") == "whole"
        desk.enter((Lane("cpu", "cpu", exclusive=True),))
        assert timing(desk) == "whole"


@pytest.mark.long
def test_a_gpu_that_lets_one_process_in_is_left_to_the_cell(tmp_path, installed):
    bench, task = Bench(tmp_path, installed).apart(), Task(**TASK)
    missing = {"name": "cuda:9", "device": "cuda:9"}
    with open_desk(bench.settings) as desk:
        desk.enter((Lane(**missing),))
        with pytest.raises(DataeffError, match="cannot be used here"):
            desk.evaluator.shared(task)
        desk.enter((Lane(**missing, exclusive=True),))
        assert desk.evaluator.shared(task).classes == 4, "tests are made on the CPU"
        for exclusive in (False, True):
            desk.enter((Lane("cpu", "cpu", exclusive=exclusive),))
            desk.let_go()
            assert desk._asked.service.begun is not exclusive
            assert desk.composition(f"random_subset[keep=0.{1 + exclusive}]")


def test_a_cell_that_is_elsewhere_fails_and_names_the_key(tmp_path, installed):
    bench = Bench(tmp_path, installed).apart()
    with open_desk(bench.settings) as desk:
        bench.desk = desk
        (cell,) = bench.cells()
        desk.enter((Lane("cpu", "cpu", threads=2),))
        run_cells(Cells([cell]), desk, bench.settings, lambda event: None)
    assert record(cell)["error"] == "the cell ran under other conditions: threads 2 instead of 1"


def test_lanes_that_differ_are_refused(monkeypatch):
    monkeypatch.setattr(probing, "_probed", lambda lane: {"device_name": lane.uuid, "cores": 4})
    lanes = read_lanes("cuda:0,1", lambda: GPUS)
    with pytest.raises(DataeffError) as raised:
        probe(lanes)
    assert str(raised.value) == (
        "cuda:1 is not as cuda:0 (device_name GPU-b instead of GPU-a), so their times cannot be "
        "compared; name --devices that are alike."
    )
    assert probe(lanes[:1]) == {"device_name": "GPU-a", "cores": 4}


def test_the_runner_itself_wakes_no_device(tmp_path, installed, monkeypatch):
    def awake(*given):
        raise AssertionError("the runner has asked for a device")

    bench = Bench(tmp_path, installed).apart()
    monkeypatch.setattr("dataeff.lab.pick_device", awake)
    monkeypatch.setattr("dataeff.bench.desk.conditions", awake)
    with open_desk(bench.settings) as desk:
        bench.desk = desk
        assert bench.cells()[0].scene.conditions["device"] == "cpu"


@pytest.fixture
def gpus(monkeypatch):
    """Have torch know two GPUs, the first by NVML too."""
    nvml = put_nvml(monkeypatch, Nvml())
    uuids = ["1234-abcd", "5678-abcd"]
    known = [SimpleNamespace(uuid=uuid) for uuid in uuids]
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: known[device.index])
    monkeypatch.setattr("torch.accelerator.is_available", lambda: True)
    monkeypatch.setattr("torch.accelerator.device_count", lambda: 2)
    kind = torch.device("cuda")
    monkeypatch.setattr("torch.accelerator.current_accelerator", lambda: kind)
    return nvml


@pytest.mark.parametrize(("mode", "exclusive"), [(0, False), (1, True), (2, False), (3, True)])
def test_gpus_are_listed_by_what_they_are(gpus, mode, exclusive):
    gpus.mode = mode
    assert Probing(print).accelerators() == [
        Accelerator("cuda:0", "A GPU", "GPU-1234-abcd", exclusive),
        Accelerator("cuda:1", "A GPU", "GPU-5678-abcd", False),
    ]


def test_gpus_are_listed_without_nvml_too(gpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1234-abcd")
    assert [one.uuid for one in Probing(print).accelerators()] == [
        *("MIG-1234-abcd", "MIG-5678-abcd")
    ]
    monkeypatch.setattr("torch.version.hip", "6.0")
    assert [one.uuid for one in Probing(print).accelerators()] == [None, None]


def test_other_accelerators_have_no_uuid(monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: True)
    monkeypatch.setattr("torch.accelerator.device_count", lambda: 1)
    for kind, name in (("mps", "mps"), ("xpu", "xpu:0")):
        device = torch.device(kind)
        monkeypatch.setattr("torch.accelerator.current_accelerator", lambda device=device: device)
        assert Probing(print).accelerators() == [Accelerator(name, kind)]


def test_this_machine_is_asked_in_another_process():
    probing.accelerators.cache_clear()
    available = torch.accelerator.is_available()
    assert bool(probing.accelerators()) == available


# Locks -----------------------------------------------------------------------------------------

HOLDING = """
import sys, time
from dataeff.bench.lanes import Lane
from dataeff.bench.locks import locked
with locked([Lane("cuda:0", "cuda:0", uuid="GPU-a"), Lane("cpu 1-2", "cpu", cpus=(1, 2))]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.long
def test_two_commands_never_share_a_lane():
    gpu, other = Lane("cuda:3", "cuda:0", uuid="GPU-a"), Lane("cuda:0", "cuda:0", uuid="GPU-b")
    cores, whole = Lane("cpu 2-3", "cpu", cpus=(2, 3)), Lane("cpu", "cpu")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, text=True
    ) as command:
        try:
            assert command.stdout.readline() == "held\n"
            for lane in (gpu, cores):
                with pytest.raises(DataeffError) as raised, locked([other, lane]):
                    pass
                assert str(raised.value).startswith(
                    f"{lane.name} is in use by another command (process {command.pid}); wait until"
                )
            with locked([other, whole]):
                pass
        finally:
            command.kill()
        command.wait()
    # A lock goes with its process, and what was refused holds nothing.
    with locked([gpu, other, cores]), locked([whole]):
        pass


def test_without_a_place_for_locks_there_are_none(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with locked([PINNED]), locked([PINNED]):
        pass
