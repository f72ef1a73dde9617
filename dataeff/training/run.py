"""The run: all that a strategy is given of the training that it takes part in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dataeff.errors import DataeffError
from dataeff.registry import portion
from dataeff.training.artefact import artefact
from dataeff.training.child import Child
from dataeff.training.ledger import Ledger
from dataeff.training.meter import flops_by_module
from dataeff.training.network import Network, Scoring, cross_entropy, eval_mode, feature_shape
from dataeff.training.optimizing import begin_momentum, build_optimizer, freeze_trunk
from dataeff.training.plan import Rows
from dataeff.training.rng import Streams, derive, forked

if TYPE_CHECKING:
    from dataeff.composition import Active
    from dataeff.data import Split
    from dataeff.strategy import Strategy
    from dataeff.training.batch import Batch
    from dataeff.training.job import Job
    from dataeff.training.task import Task


class Run:
    """One training run, as its strategies see it.

    There is no test set and no test figure here: whatever training decides, it decides on the
    training samples and on the validation samples carved from them.
    """

    task: Task
    """What every strategy of the comparison is given alike."""
    seed: int
    """The seed that all of its random streams are derived from."""
    device: torch.device
    """Where the network and its batches are."""
    shape: tuple[int, int, int]
    """The shape of an image, (C, H, W)."""
    labels: Tensor
    """The label of every sample of the training set, on the device."""
    trainable: Tensor
    """Which samples may be trained, a mask on the CPU; the others are for validation."""
    strategies: Sequence[Active]
    """The strategies of this run, in the order written; each has `label` and `plugin`."""
    rng: Streams
    """`rng(name)` is a private CPU generator: draw there, and nowhere else."""
    ledger: Ledger
    """What training has seen of each sample, as tensors on the device."""
    optimizer: torch.optim.Optimizer
    """The task's optimizer."""
    epochs: float
    """How many epochs to train; `setup` may set it, also to a fraction."""
    epoch: int
    """The number of the current epoch, from 0."""
    batch: int
    """The number of the current batch of the plan, from 0."""
    batches: int
    """How many batches the plan of this epoch has."""
    augment: bool
    """Whether images are augmented; fine-tuning may switch it off."""
    pending: bool
    """Whether gradients wait for their step."""
    denominator: float | Tensor
    """The denominators of the loss, summed over the batches of the step that is pending."""
    unit: float | Tensor
    """What the gradients gathered so far are already divided by."""

    def __init__(self, job: Job, strategies: Sequence[Active], seed: int) -> None:
        task, ground = job.task, job.ground
        self._job = job
        self.task, self.seed, self.strategies = task, seed, strategies
        self.device, self.shape = ground.device, ground.shape
        self.labels = ground.train.labels
        self.rng = Streams(seed)
        self.trainable = self._carve_validation()
        with forked(self.device, derive(seed, "init")):
            model = ground.build().to(self.device)
            self.model = model.to(memory_format=job.layout).train()  # type: ignore[call-overload]
        if task.frozen_trunk:
            freeze_trunk(task, self.model)
        self._feature_shapes: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.optimizer = build_optimizer(task, self.model)
        self.ledger = Ledger(len(self.labels), self.device)
        self.epochs = task.epochs
        self.epoch, self.batch, self.batches = 0, 0, 1
        self.augment, self.pending = True, False
        self.denominator, self.unit = 0, 1

    def _carve_validation(self) -> Tensor:
        n = len(self.labels)
        order = torch.randperm(n, generator=self.rng("validation"))
        trainable = torch.ones(n, dtype=torch.bool)
        trainable[order[: portion(self.task.validation, n)]] = False
        return trainable

    # Where it stands --------------------------------------------------------------------------

    @property
    def model(self) -> nn.Module:
        """The network; a strategy that sets another one also gives `optimizer` its parameters."""
        return self._model

    @model.setter
    def model(self, model: nn.Module) -> None:
        self._model = model
        self._job.module = self._job.compiled(Network(model))

    @property
    def train(self) -> Split:
        """The training set, to be read: it is the same for all runs of a process."""
        return self._job.train

    @property
    def epoch_count(self) -> int:
        """The number of epochs, a fractional last one included."""
        # 25 * 0.28 is a little above 7: that is no eighth epoch.
        return math.ceil(self.epochs - 1e-6)

    @property
    def span(self) -> float:
        """The part of the current epoch to train: below 1 in a fractional last one."""
        return min(1.0, self.epochs - self.epoch)

    @property
    def progress(self) -> float:
        """How much of training is done, in [0, 1], by epochs and batches of the plan."""
        done = self.epoch + self.span * min(1.0, self.batch / self.batches)
        return min(1.0, done / self.epochs)

    def split(self, name: str) -> Tensor:
        """Return the sample indices of 'train' or 'validation', on the CPU."""
        if name not in ("train", "validation"):
            raise DataeffError(
                f"A strategy asked for {name!r} samples; it may see 'train' and 'validation' only."
            )
        return (self.trainable if name == "train" else ~self.trainable).nonzero()[:, 0]

    def stop(self) -> None:
        """End training after this epoch, or before the first one."""
        self._job.stopped = True

    # The network ------------------------------------------------------------------------------

    def network(self, x: Tensor, between: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Call the network through its hook; without gradients, it counts as scoring."""
        job = self._job
        job.count("forwarded" if torch.is_grad_enabled() else "scored", x)
        logits: Tensor = job.calls.network(self, x, between)
        return logits

    def feature_shape(self, shape: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the shape of the last feature map of one image, without the batch's dimension.

        `shape` is that of the image, where it is not the dataset's own.
        """
        sides = tuple(shape or self.shape)
        key = (self._job.version, sides)
        if key not in self._feature_shapes:
            with self._job.meter.paused():
                self._feature_shapes[key] = feature_shape(self.model, sides)
        return self._feature_shapes[key]

    def work(self, names: Sequence[str], shape: Sequence[int] | None = None) -> list[float]:
        """Return the share of the network's work that lies in each module.

        `shape` is that of the image, where it is not the dataset's own.
        """
        with self._job.meter.paused():
            flops = flops_by_module(self.model, shape or self.shape)
        return [flops[name] / flops[""] for name in names]

    def add_parameters(self, parameters: Sequence[nn.Parameter], **options: Any) -> None:
        """Have the optimizer train these as well, with options of its own for them."""
        self.optimizer.add_param_group({"params": list(parameters), **options})
        begin_momentum(self.optimizer)

    def model_changed(self) -> None:
        """Count FLOPs anew from here: call it just before the network's structure changes."""
        self._job.new_version()

    # Scoring: on the clock, and counted -------------------------------------------------------

    def score(self, batch: Batch, fn: Callable[[Tensor, Tensor], Tensor] = cross_entropy) -> Tensor:
        """Return fn(logits, y), one line per sample, from an extra forward on the clock."""
        with self.scoring():
            return fn(batch.per_sample(self.network(batch.x)).float(), batch.y)

    def score_dataset(
        self,
        fn: Callable[..., Tensor] = cross_entropy,
        indices: Tensor | None = None,
        model: nn.Module | None = None,
        split: str = "train",
        augment: bool = False,
        features: bool = False,
    ) -> Tensor:
        """Return fn(logits, y) for many samples, in the order of `indices`, on the clock.

        With `features` it is fn(logits, y, h), where h is what the last linear layer reads.
        """
        samples = self.split(split) if indices is None else indices.cpu()
        return self._job.score(Scoring(fn, samples, model, augment, features))

    @contextmanager
    def scoring(self) -> Iterator[None]:
        """Call the network inside as scores do: in eval mode, without gradients."""
        module = self._job.module
        with eval_mode(module), torch.no_grad(), self._job.meter.during("score"):
            yield

    def images(self, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the images of each batch of sample indices, without augmentation."""
        return self._job.in_turns(self._job.images([batch.cpu() for batch in batches], None))

    def fetch(self, rows: Rows) -> Tensor:
        """Return the images of the next rows of the plan: what an owner of `load` begins with."""
        return next(self._job.stream)

    def count(self, kind: str, x: Tensor) -> None:
        """Count the rows of an input that is passed to a network other than by `network`.

        `kind` is 'scored' (a forward), or 'gradient' (forward and backward, for a score).
        """
        self._job.count(kind, x)

    # Time -------------------------------------------------------------------------------------

    def off_clock(self, name: str) -> AbstractContextManager[None]:
        """Charge what happens inside to a column of its own; the cell leaves the ranking."""
        return self._job.meter.clock(f"off_{name}")

    def timed(self, name: str) -> AbstractContextManager[None]:
        """Report the seconds inside as column NAME_seconds, as the device takes them.

        They stay on the clock.
        """
        return self._job.meter.stretch(name)

    def timed_share(self, name: str) -> float:
        """Return the share of the training time so far that went to `timed(name)`."""
        meter = self._job.meter
        return meter.timed[name] / max(1e-9, meter.wall["train"])

    def pin(self) -> bool:
        """Put batches from host memory into page-locked memory; say whether there are any."""
        pinned = getattr(self.train, "pinned", None)
        if pinned is not None:
            self._job.train = pinned()
        return pinned is not None

    # Nested runs and what they leave ----------------------------------------------------------

    def train_child(
        self,
        name: str,
        k: int,
        epochs: float,
        indices: Tensor | None = None,
        *,
        until: int | None = None,
        probe: Strategy | None = None,
        shared: bool = False,
    ) -> Run:
        """Train a nested run (a scoring model, a proxy) and charge it to the prepare clock.

        It has its own seed, goes through the whole schedule in its `epochs`, or only `until` one of
        them has begun, trains on `indices` of the full set (default: this run's training samples),
        keeps only strategies that change precision, and checkpoints by itself. `probe` is a
        strategy that looks on. A `shared` one is the same for every seed of this run.
        """
        return self._job.train_child(Child(name, k, epochs, indices, until, probe, shared)).run

    def artefact(
        self,
        strategy: Strategy,
        settings: Mapping[str, Any],
        make: Callable[[], Tensor],
        reuse: bool = False,
    ) -> Tensor:
        """Return what `make` returns, a score per sample, and keep it for other runs to reuse.

        It is known by the strategy's name and source, `settings`, the task, the data and which of
        them this run trains on, conditions, precision, and the seed. With `reuse` it does not hang
        on the seed (`make` must not either: see `shared` of `train_child`), and one that is there
        is taken. What making it has cost is charged in full all the same.
        """
        return artefact(self._job, strategy, settings, make, reuse)
