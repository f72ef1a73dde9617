"""How torch computes while a task runs: what its keys say, put back afterwards."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.backends import cuda, cudnn

from dataeff.training.task import Task


@contextmanager
def numerics(task: Task) -> Iterator[None]:
    """Have torch compute as the task says inside."""
    with _deterministic(task.deterministic), _precision(task):
        yield


def in_force(task: Task) -> dict[str, Any]:
    """Return, for the conditions, how torch computes just now."""
    return flags() | {"compile_mode": task.compile_mode}


def flags() -> dict[str, Any]:
    """Return what torch's global flags say of precision."""
    conv: Any = getattr(cudnn, "conv", None)
    return {
        "matmul_precision": _read(
            torch.get_float32_matmul_precision, lambda: cuda.matmul.fp32_precision
        ),
        "cudnn_benchmark": cudnn.benchmark,
        "cudnn_tf32": _read(lambda: cudnn.allow_tf32, lambda: conv.fp32_precision == "tf32"),
    }


def expected(task: Task) -> dict[str, Any]:
    """Return what will be in force while the task runs."""
    with _precision(task):
        return in_force(task)


def _read(old: Callable[[], Any], new: Callable[[], Any]) -> Any:
    # Where somebody has used torch's newer names for a flag, asking by the older ones raises.
    try:
        return old()
    except RuntimeError:
        return new()


@contextmanager
def _precision(task: Task) -> Iterator[None]:
    with (
        _having(cuda.matmul, "allow_tf32", task.tf32),
        _having(cudnn, "allow_tf32", task.tf32),
        _having(cudnn, "benchmark", task.cudnn_benchmark),
    ):
        yield


@contextmanager
def _having(flags: Any, name: str, value: bool | None) -> Iterator[None]:
    """Set a flag inside; None leaves it alone."""
    if value is None:
        yield
        return
    before = getattr(flags, name)
    setattr(flags, name, value)
    try:
        yield
    finally:
        setattr(flags, name, before)


@contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    """Have torch use deterministic algorithms inside, where that is wanted."""
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    # cuBLAS reads this once, when its first handle is made.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
