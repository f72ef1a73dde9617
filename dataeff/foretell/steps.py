"""A trial: a few steps of a run, timed, and short stand-ins for what would take long."""

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import NamedTuple, Self, TypeVar

import pandas as pd
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from dataeff.calls import blaming
from dataeff.data import Split
from dataeff.errors import DataeffError, one_line
from dataeff.training.cell import sample_columns
from dataeff.training.checkpoint import strategy_state
from dataeff.training.child import Child, child_seed, make_child
from dataeff.training.evaluate import evaluate
from dataeff.training.job import Job
from dataeff.training.loop import batches, epoch, prepare
from dataeff.training.network import Scoring
from dataeff.training.rng import forked
from dataeff.training.run import Run
from dataeff.training.task import Task

T = TypeVar("T")

# Seconds of steps at least: of short ones it takes more to tell the pace.
_ENOUGH = 0.3
# Lines of samples.parquet that are written, to memory, to learn what one takes.
_TABLE = 20_000


class Epoch(NamedTuple):
    """What one epoch holds, and the seconds of its plan and of each row."""

    rows: float
    steps: float
    plan: float
    row: float

    def seconds(self, epochs: float, epoch_count: int) -> float:
        """Return what so many epochs take: each is planned, a fractional one trains fewer rows."""
        return epoch_count * self.plan + epochs * self.rows * self.row


class Trial:
    """Times a run by a clock that is put forward by what was not really done."""

    def __init__(self, task: Task, device: torch.device, steps: int) -> None:
        self.device, self.steps = device, steps
        # Loader processes deliver together: only whole rounds of their batches tell the pace.
        self.round = max(1, task.workers)
        self.batch_size = task.batch_size
        self.few = steps * self.round * task.batch_size
        self.children: list[int] = []
        self.child_row = 0.0
        self._ahead = 0.0
        self.put_to(0.0)

    def now(self) -> float:
        """Return the seconds since the beginning, once the device has done what it was asked."""
        if self.device.type not in ("cpu", "meta"):
            torch.accelerator.synchronize(self.device)
        return perf_counter() + self._ahead

    def put_to(self, time: float) -> None:
        """Set the clock."""
        self._ahead += time - self.now()

    # Timing -----------------------------------------------------------------------------------

    def prepare(self, job: Job) -> tuple[float, str]:
        """Return the seconds of `prepare`, or NaN and why they are not known."""
        begin = self.now()
        try:
            with blaming(job.run.strategies):
                prepare(job)
        except Exception as error:
            return math.nan, f"prepare failed on made-up scores: {reason(error)}"
        return self.now() - begin, ""

    def epoch(self, job: Job, steps: int | None = None) -> Epoch:
        """Plan an epoch and take a few of its steps, of which the first does not count.

        A step ends with the optimizer's: a batch that is held back, or only adds to the gradients,
        belongs to the next step. Rows are those of the plan, whatever strategies leave of them.
        """
        least, seconds = (self.steps, _ENOUGH) if steps is None else (steps, 0.0)
        begin, meter = self.now(), job.meter
        plan = next(epoch(job, lambda job: {}))
        planned = since = self.now()
        first = stepped = meter.steps
        rows = counted = 0
        # Seconds per row, step by step.
        paces: list[float] = []
        for number, (size, _) in enumerate(zip(plan.sizes, batches(job, plan), strict=False), 1):
            rows += size
            whole = meter.steps > stepped and number - counted >= self.round
            # The last batch may be a small one: it counts only where there are no others.
            if whole if number < len(plan) else len(paces) < 2:
                now = self.now()
                paces.append((now - since) / rows)
                since, rows, counted, stepped = now, 0, number, meter.steps
            if len(paces) > least and since - planned >= seconds:
                break
        # With the stream goes what its loader has read ahead.
        job.stream = iter(())
        taken, span = max(1, stepped - first) / counted, job.run.span
        rows_and_steps = len(plan.rows) / span, taken * len(plan) / span
        return Epoch(*rows_and_steps, planned - begin, median(paces[1:] or paces))

    def test(self, run: Run, split: Split, samples: Tensor) -> float:
        """Return the seconds of one evaluation on these samples."""
        if not len(samples):
            return 0.0
        model, size = run.model, self.batch_size
        return self.part(samples, lambda some: evaluate(model, split, some, size))[1]

    def part(self, samples: Tensor, work: Callable[[Tensor], T]) -> tuple[T, float]:
        """Do the work for a few batches of the samples; return it and the seconds of them all."""
        some = samples[_spread(min(self.few, len(samples)), len(samples))]
        work(some[: self.round * self.batch_size])
        begin = self.now()
        result = work(some)
        return result, (self.now() - begin) * len(samples) / len(some)


class ShortJob(Job):
    """A run that scores a few batches only, and whose children take a few steps.

    All else looks as if it had been done: each sample has a score, and the clock of its trial says
    so.
    """

    trial: Trial

    def score(self, what: Scoring) -> Tensor:
        """Score some of the samples, and give the others what these have."""
        trial = self.trial
        begin = trial.now()
        scores, seconds = trial.part(
            what.samples, lambda some: super(ShortJob, self).score(replace(what, samples=some))
        )
        trial.put_to(begin + seconds)
        return scores[_spread(len(what.samples), len(scores)).to(scores.device)]

    def train_child(self, what: Child) -> Self:
        """Take a few steps of a nested run."""
        trial = self.trial
        with self.meter.paused(), forked(self.run.device, child_seed(self.run, what)):
            child = make_child(self, what)
            child.trial = trial
            prepare(child)
            begin = trial.now()
            # All children have one pace, so that the first is measured for all of them.
            measured = trial.epoch(child, 1 if trial.children else None)
        trial.child_row = trial.child_row or measured.row
        measured = measured._replace(row=trial.child_row)
        _pretend_trained(child)
        trial.children.append(state_bytes(child.run))
        epochs = what.epochs if what.until is None else min(what.epochs, what.until)
        trial.put_to(begin + measured.seconds(epochs, math.ceil(epochs)))
        return child


def _spread(count: int, n: int) -> Tensor:
    """Return `count` places spread over n; where there are more of them, places repeat."""
    return torch.arange(count) * n // count


def _pretend_trained(job: Job) -> None:
    """Give every sample of a run the figures of those that it has trained."""
    run = job.run
    ledger, samples = run.ledger, run.split("train").to(run.device)
    seen = samples[ledger.times_trained[samples] > 0]
    alike = seen[_spread(len(samples), len(seen)).to(run.device)]
    for table in (ledger.last_loss, ledger.last_correct, ledger.last_mixed):
        table[samples] = table[alike]
    ledger.previous_loss[samples] = ledger.last_loss[samples]
    ledger.times_trained[samples] = run.epoch_count
    job.close_epoch()
    run.epoch = run.epoch_count


# Bytes -----------------------------------------------------------------------------------------


def state_bytes(run: Run) -> int:
    """Return the bytes of all tensors in the run's checkpoint."""
    strategies = [strategy_state(strategy.plugin) for strategy in run.strategies]
    states = (run.model, run.optimizer, run.ledger)
    leaves = tree_leaves([strategies, *(state.state_dict() for state in states)])
    return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, Tensor))


def table_bytes(run: Run) -> int:
    """Return the bytes of the run's samples.parquet, from a table with made-up losses."""
    columns = {name: column[:_TABLE] for name, column in sample_columns(run).items()}
    luck = torch.Generator().manual_seed(0)
    for name, column in columns.items():
        if column.is_floating_point():
            columns[name] = torch.rand(len(column), generator=luck)
    table = pd.DataFrame({name: column.numpy() for name, column in columns.items()})
    return len(table.to_parquet(index=False)) * len(run.labels) // len(table)


def reason(error: Exception) -> str:
    """Say in one line what went wrong."""
    named = isinstance(error, DataeffError)
    return one_line(str(error) if named else f"{type(error).__name__}: {error}")
