"""How to find out that a run reads tensors back to the host, also without an accelerator."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dataeff.training.batch import Batch
from dataeff.training.job import Job
from dataeff.training.optimizing import build_optimizer


@contextmanager
def reading_forbidden(job: Job) -> Iterator[None]:
    """Make reading a tensor back fail, by a mode of CUDA or on tensors without data."""
    # The harness's own checks read back, once per epoch: that is not what is looked for.
    job.calls.checking, job.calls.silent = False, True
    if job.run.device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
    else:
        _move_to_meta(job)
        with _OneDevice():
            yield


class _OneDevice(TorchDispatchMode):
    """Refuses what a device would refuse, and tensors without data let pass: a CPU generator."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        generators = [a for a in (*args, *(kwargs or {}).values()) if isinstance(a, Generator)]
        if generators and isinstance(result, Tensor) and result.device.type == "meta":
            raise RuntimeError(
                "a generator of the CPU draws on the CPU alone: draw there, with run.rng(name), "
                "and move the numbers to run.device"
            )
        return result


def _move_to_meta(job: Job) -> None:
    run, meta = job.run, torch.device("meta")
    run.device = job.meter.device = meta
    job.train = job.train.to(meta)
    run.labels = job.train.labels
    run.model.to(meta)
    run.optimizer = build_optimizer(run.task, run.model)
    for holder in (run.ledger, *(strategy.plugin for strategy in run.strategies)):
        vars(holder).update(_to_meta(vars(holder)))


def _to_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor | nn.Module):
        return value.to("meta")
    if isinstance(value, Batch):
        vars(value).update(_to_meta(vars(value)))
    if isinstance(value, dict):
        return {key: _to_meta(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_to_meta(item) for item in value)
    if isinstance(value, deque):
        return deque((_to_meta(item) for item in value), value.maxlen)
    return value
