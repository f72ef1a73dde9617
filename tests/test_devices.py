"""What a device is, in words, and why it is not a GPU."""

from functools import partial

import pytest
import torch
from machines import CPU, CUDA, Nvml, put_nvml

from dataeff import DataeffError
from dataeff.lab import pick_device
from dataeff.training import devices
from dataeff.training.devices import about_device, device_line, kernel_driver, why_not

TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version from the URL: http://www.nvidia.com/"
)
ABOUT = {"name": "A GPU", "driver": None, "runtime": "", "threads": 2, "why_not": ""}


@pytest.fixture
def put(monkeypatch):
    """Return a function that puts a pynvml, and a CUDA device that torch knows, in place."""
    return partial(put_nvml, monkeypatch)


@pytest.mark.parametrize(
    ("about", "line"),
    [
        (
            {"device": "cuda:0", "driver": "535.104.05", "runtime": "CUDA 12.4"},
            "On cuda:0 (A GPU, driver 535.104.05, CUDA 12.4).",
        ),
        ({"device": "mps"}, "On mps (A GPU)."),
        (
            {"device": "cpu", "threads": 1, "why_not": "there is none"},
            "On cpu (A GPU, 1 thread): there is none.",
        ),
    ],
)
def test_a_device_is_said_in_one_line(about, line):
    assert device_line(ABOUT | about) == line


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((None, "", "Torch not compiled"), f"torch {torch.__version__} is built without CUDA"),
        (("CUDA 12.4", "", "No CUDA GPUs"), "CUDA_VISIBLE_DEVICES= hides every GPU"),
        (("CUDA 12.4", "-1", "No CUDA GPUs"), "CUDA_VISIBLE_DEVICES=-1 hides every GPU"),
        (("CUDA 12.4", "0", "Found no NVIDIA driver"), "Found no NVIDIA driver"),
        (("ROCm 6.1", None, ""), "torch finds no GPU"),
    ],
)
def test_why_there_is_no_cuda(given, why):
    assert why_not(*given) == why


def test_a_processor_says_why_it_is_not_a_gpu(monkeypatch):
    def too_old():
        raise RuntimeError(TOO_OLD)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", "12.4")
    monkeypatch.setattr("torch.cuda.init", too_old)
    monkeypatch.setattr(devices, "cpu_name", lambda: "AMD EPYC")
    said = "The NVIDIA driver on your system is too old (found version 11040)"
    assert device_line(about_device(CPU)) == f"On cpu (AMD EPYC, 1 thread): {said}."
    monkeypatch.setattr("torch.accelerator.is_available", lambda: True)
    monkeypatch.setattr("torch.accelerator.current_accelerator", lambda: torch.device("cuda"))
    assert about_device(CPU)["why_not"] == "it was asked for, although there is cuda"


@pytest.mark.parametrize(
    ("told", "model"),
    [
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n", "GenuineIntel 6 207"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "0x41 0xd40"),
        ("processor\t: 0\n", None),
        (None, None),
    ],
)
def test_processors_of_one_name_are_told_apart_by_their_model(tmp_path, monkeypatch, told, model):
    path = tmp_path / "cpuinfo"
    if told is not None:
        path.write_text(f"{told}model name\t: Some Processor\n\nprocessor\t: 1\nmodel\t\t: 1\n")
    monkeypatch.setattr(devices, "CPU_INFO", path)
    assert devices.cpu_model() == model
    assert told is None or devices.cpu_name() == "Some Processor"


def test_a_gpu_says_its_driver(put, monkeypatch):
    monkeypatch.setattr("torch.version.cuda", "12.4")
    put(Nvml())
    said = "On cuda:0 (A GPU, driver 535.104.05, CUDA 12.4)."
    assert device_line(about_device(CUDA)) == said
    assert device_line(about_device(torch.device("cuda"))) == said


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build",
    ],
)
def test_the_driver_is_known_without_nvml(tmp_path, line):
    assert kernel_driver(tmp_path) is None
    path = tmp_path / "proc/driver/nvidia/version"
    path.parent.mkdir(parents=True)
    path.write_text("")
    assert kernel_driver(tmp_path) is None
    path.write_text(f"{line}\nGCC version:  gcc version 12.2.0\n")
    assert kernel_driver(tmp_path) == "535.104.05"


@pytest.mark.parametrize("name", ["cuda:77", "meta", "nonsense"])
def test_a_device_that_cannot_be_used_is_said_so(name):
    with pytest.raises(DataeffError, match=f"Device '{name}' cannot be used here"):
        pick_device(name)


def test_torchs_own_reason_is_passed_on(monkeypatch):
    def zeros(*size, device):
        raise RuntimeError(TOO_OLD)

    monkeypatch.setattr("torch.zeros", zeros)
    with pytest.raises(DataeffError, match=r"\(The NVIDIA driver .* 11040\)\); try --device cpu"):
        pick_device("cuda")


def test_a_processor_has_one_name():
    assert pick_device("cpu:0") == pick_device("cpu") == CPU
