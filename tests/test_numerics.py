"""How torch computes while a task runs: set, stamped, and put back."""

import contextlib

import pytest
import torch
from probes import fresh_job
from torch import nn
from torch.backends import cuda, cudnn

from dataeff import Strategy, hookimpl
from dataeff.testing import TASK, train_tiny
from dataeff.training.numerics import expected, in_force, numerics

PLAIN = {
    "matmul_precision": "highest",
    "cudnn_benchmark": False,
    "cudnn_tf32": True,
    "compile_mode": None,
}


def task(**options):
    return TASK.model_copy(update=options)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({}, {}),
        ({"deterministic": True}, {}),
        ({"tf32": True}, {"matmul_precision": "high"}),
        ({"tf32": False}, {"cudnn_tf32": False}),
        ({"cudnn_benchmark": True}, {"cudnn_benchmark": True}),
        ({"compile": True, "compile_mode": "max-autotune"}, {"compile_mode": "max-autotune"}),
    ],
)
def test_a_task_is_computed_as_it_says_and_leaves_no_trace(options, changed):
    assert in_force(task()) == PLAIN
    assert expected(task(**options)) == PLAIN | changed
    with contextlib.suppress(KeyError), numerics(task(**options)):
        assert in_force(task(**options)) == PLAIN | changed
        assert torch.are_deterministic_algorithms_enabled() == bool(options.get("deterministic"))
        raise KeyError("a run that fails")
    assert in_force(task()) == PLAIN
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.skipif(not hasattr(cuda.matmul, "fp32_precision"), reason="torch has one name only")
def test_flags_that_somebody_set_by_their_newer_names_are_read():
    conv = cudnn.conv.fp32_precision
    cuda.matmul.fp32_precision, cudnn.conv.fp32_precision = "tf32", "ieee"
    try:
        told = in_force(task())
    finally:
        cuda.matmul.fp32_precision, cudnn.conv.fp32_precision = "none", conv
    assert (told["matmul_precision"], told["cudnn_tf32"]) == ("tf32", False)
    assert in_force(task()) == PLAIN


class Benchmarking(Strategy):
    """Change what is a condition."""

    @hookimpl
    def setup(self):
        cudnn.benchmark = True


def test_what_is_stamped_was_in_force_at_the_end_of_the_run(installed):
    result = train_tiny(Benchmarking(), installed=installed, task=task(epochs=1))
    assert result.in_force == PLAIN | {"cudnn_benchmark": True}
    assert in_force(task()) == PLAIN


@pytest.mark.parametrize("mode", [None, "default", "reduce-overhead", "max-autotune-no-cudagraphs"])
def test_the_mode_reaches_the_compiler_and_graphs_keep_nothing(installed, monkeypatch, mode):
    asked = {}

    def compile_module(module, **options):
        asked.update(options)
        return nn.Sequential(module)

    monkeypatch.setattr("torch.compile", compile_module)
    job = fresh_job(installed, compile=True, compile_mode=mode)
    same = torch.ones(2, 3)
    found = job.compiled(nn.Identity())(same)
    assert asked == {"backend": "inductor", "mode": mode}
    assert torch.equal(found, same)
    assert (found is same) == (mode != "reduce-overhead"), "its memory is overwritten by the next"
