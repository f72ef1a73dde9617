"""The doctor: what a machine is said to be, what is amiss with it, and the self-test."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import EVERYTHING
from machines import CUDA, Nvml, put_nvml
from shell import call, mistake, ok

from dataeff import Strategy, hookimpl, selftest
from dataeff.bench.checkup import amiss
from dataeff.bench.guest import Died
from dataeff.data.datasets import FASHION_MNIST_FILES, found
from dataeff.errors import DataeffError
from dataeff.lab import Lab
from dataeff.selftest import CHECKS, Outcome, Patient, outcomes

WELL = {
    "device": {"device": "cpu", "trouble": ""},
    "driver": None,
    "nvml": False,
    "threads": {"torch": 2, "cores": 2, "load_average": 0.4},
    "data": {"root": None, "is_there": True},
    "plugins": {"count": 33, "broken": {}},
    "disk": {"folder": "/here/results", "free_gib": 74.0, "may_write": True},
    "state": {"folder": "/here/state", "free_gib": 74.0, "may_write": True},
}


def test_a_machine_that_is_well():
    assert list(amiss(WELL)) == []
    assert list(amiss(WELL | {"device": {"device": "cuda:0", "trouble": ""}, "nvml": True})) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"device": {"device": "cpu", "trouble": "Device 'cuda' cannot be used here"}}, "Device"),
        ({"driver": "535.104.05"}, "There is an NVIDIA driver (535.104.05), but this torch"),
        ({"device": {"device": "cuda:0", "trouble": ""}}, "pip install nvidia-ml-py"),
        ({"threads": WELL["threads"] | {"torch": 8}}, "type: export OMP_NUM_THREADS=2"),
        ({"threads": WELL["threads"] | {"load_average": 1.3}}, "The load average is 1.3 on 2"),
        ({"data": {"root": "/nowhere", "is_there": False}}, "There is no folder /nowhere"),
        ({"plugins": {"broken": {"bad": "ImportError: no"}}}, "Plugin bad did not load (Import"),
        ({"disk": WELL["disk"] | {"may_write": False}}, "cannot be written to /here/results"),
        ({"disk": WELL["disk"] | {"free_gib": 0.2}}, "Only 0.2 GiB are free"),
        ({"state": WELL["state"] | {"may_write": False}}, "set XDG_STATE_HOME"),
    ],
    ids=str,
)
def test_what_is_amiss_is_said_with_what_to_type(monkeypatch, changed, said):
    monkeypatch.setattr("torch.version.cuda", None)
    (sentence,) = amiss(WELL | changed)
    assert said in sentence


def test_the_doctor_says_what_there_is(tmp_path):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "dying.py").write_text("import os\nos._exit(3)\n")
    options = ("--plugins-dir", "plugins", "--results", "mine", "--data-root", "nowhere")
    told = json.loads(ok("doctor", "--json", "--device", "cpu:0", *options))
    assert told["device"]["line"].startswith("On cpu (")
    assert told["disk"]["folder"] == str(tmp_path / "mine")
    assert not Path("mine").exists(), "nothing is written"
    assert told["plugins"]["broken"].keys() == {"dying"}
    assert told["data"]["found"].keys() == {"cifar10", "cifar100", "svhn", "fashion_mnist"}
    assert any("There is no folder nowhere" in sentence for sentence in told["amiss"])
    text = ok("doctor", "--device", "cpu", *options)
    lines = [line.split("  ")[0].strip() for line in text.split("\n\n")[0].splitlines()]
    assert lines == ["device", "precision", "threads", "data", "plugins", "results", "seal key"]
    assert told["device"]["line"] in text
    assert all(sentence in text for sentence in told["amiss"] if "load" not in sentence)


def test_a_device_that_is_not_there_is_amiss_and_cannot_be_tested():
    told = ok("doctor", "--device", "cuda:77")
    assert "Device 'cuda:77' cannot be used here (" in told
    assert "Device 'cuda:77' cannot be used" in mistake(
        "doctor", "--selftest", "--device", "cuda:77"
    )


def test_datasets_are_found_by_their_files(tmp_path, monkeypatch):
    monkeypatch.setattr("dataeff.data.datasets.DEBIAN_FASHION_MNIST", tmp_path / "debian")
    assert not any(found(None).values())
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name in FASHION_MNIST_FILES:
        assert not found(tmp_path)["fashion_mnist"]
        (raw / f"{name}.gz").touch()
    (tmp_path / "train_32x32.mat").touch()
    there = {name for name, is_there in found(tmp_path).items() if is_there}
    assert there == {"fashion_mnist"}, "the half of a set is none"


# The self-test -----------------------------------------------------------------------------------


@pytest.fixture
def patient(installed):
    return Patient(Lab(installed, "cpu"), ("random_backprop", "selective_backprop"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_needs_no_gpu_holds_here(patient, check):
    needed = {
        "every_strategy_resumes_on_another_device": "it needs CUDA, and this is cpu",
        "pinned_batches_are_the_same": "it needs CUDA, and this is cpu",
        "peak_memory_is_measured": "on a CPU it is that of the process",
        "nvml_knows_the_gpu": "it needs CUDA, and this is cpu",
        "the_process_that_started_this_has_no_context": "it needs CUDA, and this is cpu",
        "a_hidden_gpu_is_not_seen": "it needs CUDA, and this is cpu",
    }
    if check.__name__ != "energy_is_counted":
        assert check(patient) == needed.get(check.__name__)
    assert check.__doc__


@dataclass(eq=False)
class Troubled(Strategy):
    """Read back in every batch, or fail to go on."""

    reads: bool = True

    @hookimpl
    def select_batch(self, run, batch):
        if self.reads and batch.weight.sum().item() < 0:
            raise ValueError("never")

    @hookimpl
    def on_resume(self, run):
        raise ValueError("it does not go on")


def test_a_strategy_that_fails_on_the_device_is_named(installed):
    installed.add_strategy("troubled", Troubled, "test")
    sick = Patient(Lab(installed, "cpu"), ("troubled", "troubled[reads=false]", "baseline"))
    with pytest.raises(AssertionError, match=r"^troubled \(.*\)$"):
        selftest.no_strategy_reads_back(sick)
    with pytest.raises(AssertionError, match=r"troubled \(.*go on\); troubled\[reads=false\] \("):
        selftest.every_strategy_trains_and_resumes(sick)


def test_a_counter_that_stands_still_fails(patient, monkeypatch):
    monkeypatch.setattr(selftest, "_work", lambda device, seconds: None)
    monkeypatch.setattr(selftest, "energy_counter", lambda device: lambda: 5.0)
    with pytest.raises(AssertionError, match="took no energy"):
        selftest.energy_is_counted(patient)
    monkeypatch.setattr(selftest, "energy_counter", lambda device: None)
    assert "no counter" in selftest.energy_is_counted(patient)


def test_memory_that_is_not_seen_fails(patient, monkeypatch):
    monkeypatch.setattr(selftest, "peak_memory", lambda device: (7, "device"))
    monkeypatch.setattr(selftest, "reset_peak_memory", lambda device: None)
    blind = SimpleNamespace(device=torch.device("meta"))
    with pytest.raises(AssertionError, match="bytes were used, 0 seen"):
        selftest.peak_memory_is_measured(blind)


def test_what_nvml_says_of_a_gpu(monkeypatch):
    seen = SimpleNamespace(device=CUDA, no_gpu="")
    put_nvml(monkeypatch, None)
    assert "pip install nvidia-ml-py" in selftest.nvml_knows_the_gpu(seen)
    nvml = put_nvml(monkeypatch, Nvml())
    assert selftest.nvml_knows_the_gpu(seen) is None
    nvml.broken = {"clock"}
    with pytest.raises(AssertionError, match="no clock"):
        selftest.nvml_knows_the_gpu(seen)
    put_nvml(monkeypatch, Nvml("GPU-another"))
    with pytest.raises(AssertionError, match="does not find the GPU"):
        selftest.nvml_knows_the_gpu(seen)


def test_the_context_of_a_parent_is_seen(monkeypatch):
    seen = SimpleNamespace(device=CUDA, no_gpu="")
    monkeypatch.setattr("torch.ones", lambda *size, device: torch.zeros(1))
    nvml = put_nvml(monkeypatch, Nvml())
    check = selftest.the_process_that_started_this_has_no_context
    assert check(seen) == "nobody has started this process"
    monkeypatch.setattr("multiprocessing.parent_process", lambda: SimpleNamespace(pid=7))
    assert check(seen) is None
    nvml.pids = [os.getpid(), 7]
    with pytest.raises(AssertionError, match="it has one"):
        check(seen)
    nvml.pids = [7]
    assert "container" in check(seen)


class Fake:
    """A service whose checks end as they are told to."""

    def __init__(self, *ends):
        self._ends = iter(ends)

    def call(self, name, check, limit):
        end = next(self._ends, "")
        if isinstance(end, Exception):
            raise end
        return end


def test_each_check_has_an_outcome_whatever_becomes_of_it():
    ends = ["", "no GPU", DataeffError("AssertionError: it differs"), Died("", "it hung up")]
    words = [(one.word, one.why) for one in outcomes(Fake(*ends))]
    assert words[:4] == [
        ("ok", ""),
        ("skipped", "no GPU"),
        ("failed", "AssertionError: it differs"),
        ("failed", "it hung up"),
    ]
    assert len(words) == len(CHECKS)
    late = list(outcomes(Fake(), limit=0.0))
    assert {(one.word, one.why) for one in late} == {("skipped", "0 seconds are over")}


@pytest.mark.parametrize("word", ["ok", "failed"])
def test_the_exit_code_says_whether_a_check_failed(monkeypatch, word):
    seen = [Outcome("the device", "ok", "On cpu."), Outcome("it trains", word, "why")]
    monkeypatch.setattr(selftest, "selftest", lambda device: iter(seen))
    for options in ((), ("--json",)):
        result = call("doctor", "--selftest", *options)
        assert result.exit_code == (word == "failed")
        told = "the device  ok: On cpu.\nit trains  " + f"{word}: why\n"
        if options:
            assert json.loads(result.stdout)[1] == {
                "check": "it trains",
                "word": word,
                "why": "why",
            }
        else:
            assert result.stdout == told


@pytest.mark.skipif(not EVERYTHING, reason="it trains every strategy: make test-all")
def test_the_self_test_of_this_machine():
    lines = ok("doctor", "--selftest").splitlines()
    assert len(lines) == len(CHECKS) + 1


@pytest.mark.long
def test_a_run_says_where_it_is_before_it_begins():
    arguments = ("run", "-d", "synthetic[samples=60,test_samples=20,size=8]", "-m", "tiny")
    arguments += ("--epochs", "1", "-s", "baseline", "--seeds", "1", "--device", "cpu")
    result = call(*arguments, "--name", "mine", "--no-controls", "-y")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("On cpu (")
    record = json.loads(next(Path("results/mine").glob("*/run.json")).read_text())
    assert record["machine"]["device_line"] == result.stderr.splitlines()[0]
    again = call(*arguments, "--name", "mine", "--no-controls", "-y")
    assert "On cpu (" not in again.stderr, "nothing is run"
