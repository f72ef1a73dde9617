"""How to find out that a run reads tensors back to the host, also without an accelerator."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from dataeff.training.batch import Batch
from dataeff.training.optimizing import build_optimizer
from dataeff.training.run import Run


@contextmanager
def reading_forbidden(run: Run) -> Iterator[None]:
    """Make reading a tensor back fail, by a mode of CUDA or on tensors without data."""
    if run.device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
    else:
        _move_to_meta(run)
        yield


def _move_to_meta(run: Run) -> None:
    meta = torch.device("meta")
    run.device = run.meter.device = meta
    run.train = run.train.to(meta)
    run.labels = run.train.labels
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
