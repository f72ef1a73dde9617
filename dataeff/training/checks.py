"""What hooks return, held against the contract: each check says what is wrong, or nothing.

They read tensors back, so they are for a few batches: the first one of each epoch. A share of work
that a strategy states is held against the FLOPs of a batch that ran.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from dataeff.errors import StrategyError
from dataeff.strategy import hooks_of
from dataeff.training.batch import Batch
from dataeff.training.checkpoint import PLAIN
from dataeff.training.network import cross_entropy, ghost
from dataeff.training.plan import trouble_of_mask, trouble_of_plan

if TYPE_CHECKING:
    from dataeff.training.job import Job

# What is counted and what is stated may differ by this factor: heads that see a row twice, layers
# without a way back. Where little is left of a network, such a layer is much of it: there the
# difference may be this share of the whole.
_ALIKE, _LITTLE = 1.2, 0.05
_NOTHING = nullcontext()


class Checks:
    """The checks of one run: called with a hook, its arguments and what came of it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._whole: dict[tuple[str, torch.Size], float] = {}
        # The batch whose work is counted in an epoch.
        self._drawn = (-1, 0)
        strategies = job.run.strategies
        self._stating = [s.label for s in strategies if "compute_factor" in hooks_of(s.plugin)]
        self._of: dict[str, Callable[[dict[str, Any], Any], str]] = {
            "report": self._report,
            "prune_dataset": lambda given, mask: trouble_of_mask(mask, job.run.trainable),
            "plan_epoch": lambda given, plan: trouble_of_plan(plan, job.run.trainable),
            "drain": lambda given, held: "" if held is None else self._batch(held),
            "load": lambda given, batch: self._batch(batch),
            **dict.fromkeys(("select_batch", "resize_batch", "transform_batch"), self._changed),
            "forward": lambda given, logits: self._lines(logits, given["batch"].S, 2),
            "network": lambda given, logits: self._lines(logits, None, 2),
            "sample_losses": self._losses,
            "reduce_loss": self._loss,
            **dict.fromkeys(("should_step", "should_stop"), _is_bool),
            **dict.fromkeys(("lr_factor", "compute_factor"), _is_factor),
            **dict.fromkeys(("backward", "finish_gradients", "optimizer_step"), _is_nothing),
        }

    def __call__(self, hook: str, given: dict[str, Any], result: Any) -> str:
        """Say what is wrong with what a hook returned; nothing where it is right."""
        check = self._of.get(hook)
        return check(given, result) if check else ""

    def _tensor(self, value: Any, what: str) -> str:
        device = self._job.run.device
        if not isinstance(value, Tensor):
            return f"it must return {what}, not {_kind(value)}."
        if value.device.type != device.type:
            return f"it returned a tensor on {value.device}; move it to run.device, {device}."
        if not value.is_floating_point():
            return f"it must return {what}, not {value.dtype}."
        return ""

    def _lines(self, value: Any, count: int | None, dims: int) -> str:
        what = "logits, one line per sample" if dims == 2 else "one loss per sample, as floats"
        if trouble := self._tensor(value, what):
            return trouble
        if value.ndim != dims or (count is not None and len(value) != count):
            lines = "" if count is None else f" ({count} of them)"
            return f"it must return {what}{lines}, not a tensor of shape {tuple(value.shape)}."
        job = self._job
        if dims == 2 and not (job.run.epoch or job.meter.steps or _finite(value)):
            return "its logits are not finite, before anything was trained."
        return ""

    def _losses(self, given: dict[str, Any], losses: Any) -> str:
        if trouble := self._lines(losses, given["batch"].S, 1):
            return trouble
        if given["logits"].requires_grad and not losses.requires_grad:
            return "its losses do not hang on the logits: nothing could be trained by them."
        if _finite(given["logits"]) and not _finite(losses):
            return "its losses are not finite, although the logits are."
        return ""

    def _loss(self, given: dict[str, Any], loss: Any) -> str:
        if not (isinstance(loss, tuple) and len(loss) == 2):
            return f"it must return (numerator, denominator), not {_kind(loss)}."
        numerator, denominator = loss
        if trouble := self._tensor(numerator, "a numerator that is a tensor"):
            return trouble
        if numerator.ndim or not numerator.requires_grad:
            return "its numerator must be a single number that hangs on the losses."
        if isinstance(denominator, Tensor) and (denominator.ndim or denominator.requires_grad):
            return "its denominator must be a single number, without a gradient."
        if not isinstance(denominator, int | float | Tensor):
            return f"its denominator must be a number, not {_kind(denominator)}."
        if _on_meta(numerator):
            return ""
        if not (math.isfinite(denominator) and denominator > 0):
            return f"its denominator is {float(denominator)}; it must be above zero."
        if _finite(given["losses"]) and not _finite(numerator):
            return "its numerator is not finite, although the losses are."
        return ""

    def _batch(self, batch: Any) -> str:
        if not isinstance(batch, Batch):
            return f"it must return a Batch, not {_kind(batch)}."
        return self._trouble(batch)

    def _changed(self, given: dict[str, Any], result: Any) -> str:
        if result is not None:
            return f"it changes the batch in place and must return nothing, not {_kind(result)}."
        return self._trouble(given["batch"])

    def _trouble(self, batch: Batch) -> str:
        """Say what is wrong with a batch: its columns, its rows, its weights."""
        images = batch.R if batch.merged else batch.S
        if not isinstance(batch.x, Tensor) or len(batch.x) != images:
            have = len(batch.x) if isinstance(batch.x, Tensor) else _kind(batch.x)
            return f"the batch has {images} images to show, and x has {have}."
        if trouble := self._tensor(batch.x, "images that are floats"):
            return trouble.replace("it returned a tensor", "batch.x is").replace(
                "it must", "x must"
            )
        columns = {"y": batch.y, "row": batch.row, "weight": batch.weight, **batch.fields}
        for name, column in columns.items():
            if not isinstance(column, Tensor) or len(column) != batch.S:
                return f"batch.{name} must have one line per sample, {batch.S} of them."
            if column.device.type != batch.x.device.type:
                return f"batch.{name} is on {column.device}; move it to run.device."
        if batch.weight.shape != (batch.S,) or not batch.weight.is_floating_point():
            return "batch.weight must stay one float per sample: multiply it, never assign another."
        if batch.S and not _on_meta(batch.x):
            if not _finite(batch.weight) or bool((batch.weight < 0).any()):
                return "a weight of the batch is below zero or not finite."
            if int(batch.row.min()) < 0 or int(batch.row.max()) >= batch.R:
                return "batch.row names rows that the batch does not have: use keep_rows."
        return ""

    @staticmethod
    def _report(given: dict[str, Any], columns: Any) -> str:
        if not isinstance(columns, Mapping):
            return f"it must return columns, a dict, not {_kind(columns)}."
        for name, value in columns.items():
            if not isinstance(name, str):
                return f"a column's name must be a text, not {name!r}."
            # A number may be numpy's or torch's: such have no dimensions.
            if not (isinstance(value, PLAIN) or getattr(value, "ndim", None) == 0):
                return f"column {name} must be a number or a text, not {_kind(value)}."
        return ""

    # A share of work that is stated ------------------------------------------------------------

    def held(self, batch: Batch) -> AbstractContextManager[None]:
        """Return what the forward and the backward of a batch are to be done in.

        It counts the FLOPs of one batch per epoch, for runs with a strategy that states its share.
        Which one is drawn, and by no stream that a strategy could look at. Counting takes a few
        milliseconds of the batch, on the clock: nobody else pays for it.
        """
        if not self._stating or self._job.task.compile:
            return _NOTHING
        run = self._job.run
        if self._drawn[0] != run.epoch:
            self._drawn = run.epoch, secrets.randbelow(max(1, run.batches))
        return self._counting(batch) if run.batch == self._drawn[1] else _NOTHING

    @contextmanager
    def _counting(self, batch: Batch) -> Iterator[None]:
        job, x = self._job, batch.x
        with FlopCounterMode(display=False) as counter:
            yield
        stated = math.prod(job.calls.compute_factor(job.run))
        with job.meter.paused():
            key = job.version, x.shape[1:]
            if key not in self._whole:
                self._whole[key] = _whole(job.run.model, x.shape[1:])
        counted = counter.get_total_flops() / (len(x) * self._whole[key])
        low, high = sorted((counted, stated))
        if stated <= 0 or (high > _ALIKE * low and high - low > _LITTLE):
            raise StrategyError(
                f"{' and '.join(self._stating)}, in compute_factor: it states {stated:.2f} of the "
                f"network's work, and a batch that ran took {counted:.2f}; return what is skipped."
            )


def _is_bool(given: dict[str, Any], value: Any) -> str:
    return "" if isinstance(value, bool) else f"it must return True or False, not {_kind(value)}."


def _is_factor(given: dict[str, Any], value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"it must return a number, not {_kind(value)}."
    if not (math.isfinite(value) and value >= 0):
        return f"it must return a number of zero or more, not {value}."
    return ""


def _is_nothing(given: dict[str, Any], value: Any) -> str:
    return "" if value is None else f"it must return nothing, not {_kind(value)}."


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype} and shape {tuple(value.shape)}"
    return "None" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


def _finite(value: Tensor) -> bool:
    return _on_meta(value) or bool(torch.isfinite(value).all())


def _on_meta(value: Tensor) -> bool:
    return value.device.type == "meta"


def _whole(model: nn.Module, shape: torch.Size) -> float:
    """Count forward and backward of one row through the whole network, on a copy without data."""
    copy = ghost(model).train().requires_grad_(True)
    # Two rows: BatchNorm has no variance of one.
    x, y = torch.empty(2, *shape, device="meta"), torch.zeros(2, dtype=torch.long, device="meta")
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        cross_entropy(copy(x), y).sum().backward()
    return counter.get_total_flops() / 2
