"""A run whose loop is somebody else's: it gives batches, takes losses, and calls the hooks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor, nn

from dataeff.calls import blaming
from dataeff.errors import DataeffError
from dataeff.lab import current
from dataeff.training.batch import Batch
from dataeff.training.cell import validated, why_no_effect
from dataeff.training.demands import demands
from dataeff.training.heard import Heard, load_state, state_of
from dataeff.training.job import Job
from dataeff.training.loop import begin_epoch, finish_epoch, prepare
from dataeff.training.offering import offered, settled
from dataeff.training.plan import Plan


class Given(NamedTuple):
    """A batch as the loop is given it."""

    x: Tensor
    """The inputs, chosen and changed by the strategy."""
    y: Tensor
    """The label of each sample."""
    weight: Tensor
    """What each sample counts so far; `drive.step` multiplies by it, so nobody else has to."""
    indices: Tensor
    """The index of each sample in the data set."""


class Epoch:
    """The batches of one epoch, once; `len` is how many its plan has, and strategies may drop."""

    def __init__(self, drive: Drive, plan: Plan, taken: int = 0, given: int = 0) -> None:
        self._drive, self.plan = drive, plan
        # How far its plan is through, and how many batches came of that.
        self.taken, self.given = taken, given
        self.flow = offered(drive._job, plan, taken)

    def __len__(self) -> int:
        return len(self.plan)

    def __iter__(self) -> Iterator[Given]:
        return self

    def __next__(self) -> Given:
        return self._drive._next(self)


class Loader:
    """A loader as trainers want one: each time it is gone through, it gives one epoch."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive

    def __len__(self) -> int:
        epoch = self._epoch()
        return len(epoch) if epoch else 0

    def __iter__(self) -> Iterator[Given]:
        return iter(self._epoch() or ())

    def _epoch(self) -> Epoch | None:
        """Return the epoch to give: trainers that count do not ask whether the last was all."""
        drive, last = self._drive, self._drive._epoch
        if last and last.given >= len(last) and drive._batch is None:
            drive._finish(last)
        return drive._current()


class Drive:
    """A strategy in a loop that its user owns; made by `dataeff.drive`.

    It gives all batches of all epochs; `epochs` gives them epoch by epoch, `loader` to a trainer.
    Each batch wants one `step`.
    """

    def __init__(self, job: Job, has_model: bool) -> None:
        self._job, self._has_model = job, has_model
        self._needs = {part.entry.name: demands(part.kind) for part in job.run.strategies}
        self._changing = [name for name, needs in self._needs.items() if needs.rate]
        self._epoch: Epoch | None = None
        self._batch: Batch | None = None
        self._steps, self._asked_rate = 0, False
        with self._working():
            job.set_up()
        self._made = [dict(vars(part.plugin)) for part in job.run.strategies]

    # Where it stands --------------------------------------------------------------------------

    @property
    def progress(self) -> float:
        """How much of training is done, in [0, 1]: what schedules of the learning rate follow."""
        return self._job.run.progress

    @property
    def epoch(self) -> int:
        """The number of the current epoch, from 0."""
        return self._job.run.epoch

    @property
    def epoch_count(self) -> int:
        """The number of epochs, a fractional last one included; strategies may have changed it."""
        return self._job.run.epoch_count

    @property
    def lr_factor(self) -> float:
        """The strategy's factor on the learning rate of this batch's step, mostly 1."""
        self._asked_rate = True
        if self._changing and self._epoch is None:
            raise DataeffError(
                f"{self._changing[0]} knows its factor on the learning rate within an epoch: ask "
                "for drive.lr_factor after a batch."
            )
        with self._working():
            return math.prod(self._job.calls.lr_factor(self._job.run))

    @property
    def model(self) -> nn.Module:
        """The network that was given or built."""
        if not self._has_model:
            raise DataeffError("There is no network here: give model= to dataeff.drive.")
        return self._job.run.model

    @property
    def no_effect(self) -> str:
        """Why the strategy can do nothing here; nothing where it can."""
        return why_no_effect(self._job.run.strategies)

    # Batches ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Given]:
        for epoch in self.epochs():
            yield from epoch

    def epochs(self) -> Iterator[Epoch]:
        """Yield the epochs that are left; one that is left early ends where it is."""
        while (epoch := self._current()) is not None:
            yield epoch
            self._finish(epoch)

    @property
    def loader(self) -> Loader:
        """What to give to a trainer that goes through its loader once per epoch."""
        return Loader(self)

    def _current(self) -> Epoch | None:
        """Return the epoch that is under way, or begin the next, if there is one."""
        run = self._job.run
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            raise DataeffError(
                f"{dist.get_world_size()} processes share this loop, and each would be given the "
                "same batches: drive a strategy in a single one."
            )
        if self._epoch is None and run.epoch < run.epoch_count and not self._job.stopped:
            with self._working():
                prepare(self._job)
                if not self._job.stopped:
                    self._epoch = Epoch(self, begin_epoch(self._job))
        return self._epoch

    def _next(self, epoch: Epoch) -> Given:
        if epoch is not self._epoch:
            raise StopIteration
        self._check_settled("the next one is asked for")
        if self._changing and self._steps and not self._asked_rate:
            raise DataeffError(
                f"{self._changing[0]} changes the learning rate, and nobody has asked by how much: "
                "multiply yours by drive.lr_factor before each step of the optimizer."
            )
        with self._working(), self._job.meter.clock("train"):
            batch = next(epoch.flow, None)
        if batch is None:
            self._finish(epoch)
            raise StopIteration
        self._batch, epoch.taken, epoch.given = batch, self._job.run.batch + 1, epoch.given + 1
        return Given(batch.x, batch.y, batch.weight, batch.idx)

    def _finish(self, epoch: Epoch) -> None:
        if epoch is self._epoch:
            self._check_settled("its epoch ends")
            with self._working():
                finish_epoch(self._job, self._evaluate)
            self._epoch = None

    def _evaluate(self, job: Job) -> Mapping[str, float]:
        asked = job.calls.has("on_epoch_end", "should_stop") and not job.run.trainable.all()
        return validated(job) if asked else {}

    def _check_settled(self, when: str) -> None:
        if self._batch is not None:
            raise DataeffError(
                f"A batch has no losses yet, and {when}: call drive.step(losses) once for each."
            )

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Let strategies work: what they do wrong is told in their name."""
        run = self._job.run
        with current(run.device), blaming(run.strategies):
            yield

    # Losses -----------------------------------------------------------------------------------

    def per_sample(self, lines: Tensor) -> Tensor:
        """Return one line per sample of what the network said, where samples share inputs."""
        if self._batch is None:
            raise DataeffError("There is no batch: call per_sample between a batch and its step.")
        return self._batch.per_sample(lines)

    def step(self, losses: Tensor, logits: Tensor | None = None) -> Tensor:
        """Take one loss for each sample of the batch; return the loss to go backward with.

        Some strategies want the `logits` as well, one line per sample.
        """
        batch = self._batch
        if batch is None:
            raise DataeffError(
                "drive.step takes the losses of a batch once, and no batch waits for any: take "
                "the next batch first."
            )
        self._check_lines(batch, losses, logits)
        run = self._job.run
        here = losses.to(run.device).float()
        said = here.new_zeros(batch.S, 1) if logits is None else logits.to(run.device).float()
        assert isinstance(run.ledger, Heard)
        run.ledger.blind |= logits is None
        with self._working(), self._job.meter.clock("train"):
            loss = settled(self._job, batch, said, here)
        self._batch = None
        self._steps += 1
        return loss.to(losses.device)

    def _check_lines(self, batch: Batch, losses: Any, logits: Any) -> None:
        if not isinstance(losses, Tensor) or losses.ndim == 0:
            what = "a single number" if isinstance(losses, Tensor) else type(losses).__name__
            raise DataeffError(
                f"drive.step was given {what}: give one loss per sample, a tensor such as "
                "cross_entropy(logits, y, reduction='none')."
            )
        wrong = next((t for t in (losses, logits) if t is not None and len(t) != batch.S), None)
        if wrong is not None or losses.ndim != 1:
            shape = tuple((losses if wrong is None else wrong).shape)
            rows = f" in {batch.R} rows: call drive.per_sample on what the network said"
            raise DataeffError(
                f"drive.step was given a tensor of shape {shape} for a batch of {batch.S} samples"
                f"{rows if batch.merged else ': give one loss, and one line of logits, for each'}."
            )
        if not losses.requires_grad:
            raise DataeffError(
                "The losses have no gradient, so nothing could be trained by them: give them as "
                "they come from the network, not detached, outside of torch.no_grad."
            )
        asking = [name for name, needs in self._needs.items() if needs.logits]
        asking += ["label_smoothing"] * bool(self._job.task.label_smoothing)
        if logits is None and asking:
            raise DataeffError(
                f"{asking[0]} looks at what the network said: write drive.step(losses, logits)."
            )

    # State ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return where it stands, as plain data for torch.save; network and optimizer are yours."""
        self._check_settled("its state is asked for")
        epoch = self._epoch
        at = (epoch.plan, epoch.taken, epoch.given) if epoch else None
        return state_of(self._job, self._made, at)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state, with the same choices; for a drive that has not begun."""
        if self._epoch is not None or self._job.prepared:
            raise DataeffError("This drive has begun: load a state into a new one.")
        with self._working():
            at = load_state(self._job, state)
        self._epoch = Epoch(self, *at) if at else None
