"""The job: the harness's side of a run, with all that no strategy needs to reach."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from dataeff.calls import Calls
from dataeff.composition import Active
from dataeff.data import Split
from dataeff.errors import Diverged
from dataeff.training import checkpoint
from dataeff.training.artefact import Shelf
from dataeff.training.checks import Checks
from dataeff.training.child import Child, child_seed, make_child
from dataeff.training.defaults import DefaultLoop
from dataeff.training.host import Host
from dataeff.training.loop import train
from dataeff.training.machine import Guard
from dataeff.training.meter import Meter
from dataeff.training.network import Network, Scoring, head_inputs
from dataeff.training.optimizing import FACTOR, schedule
from dataeff.training.plan import Plan, Rows
from dataeff.training.rng import derive, forked
from dataeff.training.run import Run
from dataeff.training.task import Task

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Ground:
    """What the runs of a task train on: its training set, its network, a device.

    Not the dataset itself: a run must not lead to the test set.
    """

    train: Split
    shape: tuple[int, int, int]
    build: Callable[[], nn.Module]
    device: torch.device


@dataclass(frozen=True)
class Place:
    """Where a run keeps things: checkpoints and nested runs in a folder, scores on a shelf.

    One that `saves` nothing keeps its nested runs there all the same; else it trains for
    `saves_every` seconds, at least, between two checkpoints. A `host` keeps what strategies must
    not reach. There is no `energy` where others use what its counter counts.
    """

    folder: Path | None = None
    shelf: Shelf | None = None
    saves: bool = True
    host: Host | None = None
    energy: bool = True
    saves_every: float = 0.0


# Graphs that a compiler may make of the network.
_GRAPHS = 64

Evaluate = Callable[["Job"], Mapping[str, float]]
"""Measures a run between two epochs; returns the validation metrics, which strategies may see."""
NOWHERE = Place()
"""The place of a run that keeps nothing."""


class Job:
    """One run with its meter, its hooks and its books; `set_up` calls the strategies' `setup`."""

    def __init__(
        self,
        task: Task,
        strategies: Sequence[Active],
        seed: int,
        ground: Ground,
        place: Place = NOWHERE,
    ) -> None:
        self.task, self.ground, self.place = task, ground, place
        self.train = ground.train
        self.layout = torch.channels_last if task.channels_last else torch.contiguous_format
        mark = place.host.mark if place.host else None
        self.meter = Meter(ground.device, mark, place.energy)
        self.guard: Guard | None = None
        self.module: nn.Module
        self.version = "0"
        self.stream: Iterator[Tensor] = iter(())
        self.prepared = self.stopped = False
        self.train_loss = self.kept = self.mixed = math.nan
        self.history: list[dict[str, Any]] = []
        self.final: dict[str, Any] = {}
        self.artefacts: list[dict[str, Any]] = []
        # How long it had trained when it wrote a checkpoint.
        self._saved = 0.0
        self.default = DefaultLoop()
        self.run = Run(self, strategies, seed)
        self.checks = Checks(self)
        self.calls = Calls(strategies, self.default, self.checks)
        self._factored = self.calls.has("compute_factor")
        # Where nobody else takes part in the loss, two hooks are one operation.
        self.plain_loss = not (self.calls.has("reduce_loss", "backward") or task.label_smoothing)

    def set_up(self) -> None:
        """Let the strategies get ready."""
        with self.meter.clock("prepare"), forked(self.run.device, derive(self.run.seed, "setup")):
            self.calls.setup(self.run)

    def compiled(self, module: nn.Module) -> nn.Module:
        """Return the module as the task wants it called."""
        if not self.task.compile:
            return module
        backend = "inductor" if self.task.compile is True else self.task.compile
        # Beyond that the compiler gives up, without a word; strategies have many shapes.
        torch._dynamo.config.recompile_limit = _GRAPHS
        mode = self.task.compile_mode
        compiled = cast(nn.Module, torch.compile(module, backend=backend, mode=mode))
        if mode in ("reduce-overhead", "max-autotune"):
            # A CUDA graph writes what it returns to the same place each time.
            compiled.register_forward_hook(lambda module, given, found: found.clone())
        return compiled

    # What the loop asks -----------------------------------------------------------------------

    def open(self, plan: Plan, start: int = 0) -> list[Rows]:
        """Begin to read a plan: start the stream of its images and return its batches.

        All from `start` on: those before have been trained.
        """
        run = self.run
        rows = plan.on(run.device)[start:]
        run.batch, run.batches = max(0, start - 1), len(plan)
        view = (run.seed, run.epoch) if run.augment else None
        self.stream = self.images([r.samples for r in rows], view)
        return rows

    def count(self, kind: str, x: Tensor) -> None:
        """Count the rows of this input, at the share of the network's work they cost now."""
        factor = math.prod(self.calls.compute_factor(self.run)) if self._factored else 1.0
        self.meter.count(kind, x.shape, self.version, factor)

    def close_work(self) -> None:
        """Turn what was counted into FLOPs of the network as it is now."""
        self.meter.close_work(self.run.model, self.version)

    def new_version(self) -> None:
        """Count FLOPs anew from here: the network's structure is about to change."""
        self.close_work()
        self.version = str(int(self.version) + 1)
        if self.task.compile:
            # Graphs of the old shapes count against the few that a compiler makes of one function.
            torch.compiler.reset()

    def set_learning_rate(self) -> None:
        """Set the learning rate for this progress."""
        factor = schedule(self.task, self.run.progress) * math.prod(self.calls.lr_factor(self.run))
        for group in self.run.optimizer.param_groups:
            group["lr"] = self.task.lr * factor * group.get(FACTOR, 1.0)

    def stepped(self) -> None:
        """Begin to gather the gradients of the next step."""
        self.run.optimizer.zero_grad(set_to_none=True)
        self.run.denominator, self.run.unit, self.run.pending = 0, 1, False
        self.meter.steps += 1

    def close_epoch(self) -> None:
        """Read the epoch's mean loss and what it used, once; end the run if the loss is not finite.

        `kept` is the share of the samples that it trained, `mixed` that of those in mixed rows.
        """
        self.train_loss, trained, mixed = self.run.ledger.close_epoch()
        self.kept, self.mixed = trained / int(self.run.trainable.sum()), mixed / max(1, trained)
        self.close_work()
        if not math.isfinite(self.train_loss):
            raise Diverged(
                f"The loss of epoch {self.run.epoch} is {self.train_loss}: lower the learning rate."
            )

    def next_epoch(self) -> None:
        """Move on, and write a checkpoint if one is due: this is where a killed run goes on."""
        self.run.epoch += 1
        self.run.batch = 0
        trained, *_ = self.meter.lived()
        if trained - self._saved >= self.place.saves_every:
            self.save()
            self._saved = trained
        self.turn(over=True)

    def turn(self, over: bool = False, passes: bool = False) -> None:
        """Let another cell of the block go on, if it is its turn; time stands still meanwhile."""
        if self.place.host:
            self.place.host.turn(self, self.meter, over, passes)

    # What a run asks --------------------------------------------------------------------------

    def images(self, batches: Sequence[Tensor], view: tuple[int, int] | None) -> Iterator[Tensor]:
        """Yield the images of each batch of sample indices: plain, or augmented for a view."""
        for x in self.train.stream(batches, view):
            yield x.contiguous(memory_format=self.layout)

    def in_turns(self, batches: Iterable[T]) -> Iterator[T]:
        """Yield batches, and let another cell go on before the next, if it is its turn."""
        for batch in batches:
            yield batch
            self.turn()

    def score(self, what: Scoring) -> Tensor:
        """Score many samples: one line for each, in their order, on the clock and counted."""
        run, size = self.run, self.task.batch_size
        labels = run.labels[what.samples.to(run.device)].split(size)
        view = (run.seed, run.epoch) if what.augment else None
        images = self.in_turns(self.images(what.samples.split(size), view))
        batches = zip(images, labels, strict=True)
        model = what.model or run.model
        with self._using(what.model), run.scoring(), head_inputs(model, what.features) as seen:
            scores = [what.fn(run.network(x).float(), y, *seen) for x, y in batches]
        return torch.cat(scores)

    @contextmanager
    def _using(self, model: nn.Module | None) -> Iterator[None]:
        """Score with another network, at that network's cost."""
        if model is None:
            yield
            return
        own = self.module, self.version
        self.module, self.version = Network(model), "other"
        try:
            yield
            self.meter.close_work(model, self.version)
        finally:
            self.module, self.version = own

    def train_child(self, what: Child) -> Self:
        """Train a nested run, and take over what it cost."""
        # The child measures itself, also across an interruption; our own clock must not add to it.
        with self.meter.paused(), forked(self.run.device, child_seed(self.run, what)):
            child = make_child(self, what)
            child.resume()
            train(child, lambda job: {})
        self.meter.absorb(child.meter)
        return child

    # Around a run -----------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint, off the clock, if the run has a folder."""
        if self.place.folder and self.place.saves:
            checkpoint.save(self, self.place.folder / "checkpoint.pt")
            if self.place.host:
                self.place.host.saved(self.run.epoch)

    def resume(self) -> None:
        """Go on from the newest whole checkpoint in the run's folder, if there is one."""
        folder, host = self.place.folder, self.place.host
        if folder and checkpoint.resume(self, folder) and host:
            host.resumed(self.run.epoch)
