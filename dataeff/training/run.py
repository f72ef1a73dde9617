"""The run: what a strategy is given, and what the loop keeps between hooks."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dataeff.data import Split
from dataeff.errors import DataeffError, Diverged
from dataeff.plugins import Strategy, activate
from dataeff.registry import portion
from dataeff.training import checkpoint
from dataeff.training.artefact import Shelf, artefact
from dataeff.training.batch import Batch
from dataeff.training.child import is_precision, train_child
from dataeff.training.defaults import DefaultLoop
from dataeff.training.ledger import Ledger
from dataeff.training.machine import Guard
from dataeff.training.meter import Meter, flops_by_module
from dataeff.training.network import Network, cross_entropy, eval_mode, ghost, head_inputs
from dataeff.training.optimizing import begin_momentum, build_optimizer, schedule
from dataeff.training.plan import Plan, Rows
from dataeff.training.rng import Streams, derive, forked
from dataeff.training.task import Task


class Run:
    """One training run: a task, a seed, and the strategies registered on a manager of its own.

    The test set is not reachable from here: whatever training decides, it decides on `train` and
    on the validation samples carved from it.
    """

    def __init__(
        self,
        task: Task,
        strategies: Sequence[Strategy],
        *,
        train: Split,
        shape: tuple[int, int, int],
        build: Callable[[], nn.Module],
        seed: int,
        device: torch.device,
        trainable: Tensor | None = None,
        epochs: float | None = None,
        folder: Path | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        self.task, self.seed, self.device, self.folder = task, seed, device, folder
        self.shelf = shelf
        self.artefacts: list[dict[str, Any]] = []
        self.train, self.shape = train, shape
        self.labels = train.labels
        self.rng = Streams(seed)
        self.trainable = self._carve_validation() if trainable is None else trainable
        self.build = build
        self._layout = torch.channels_last if task.channels_last else torch.contiguous_format
        with forked(device, derive(seed, "init")):
            self.model = build().to(device, memory_format=self._layout).train()
        self.model_version = 0
        self._feature_shapes: dict[tuple, tuple[int, ...]] = {}
        self.optimizer = build_optimizer(task, self.model)
        self.ledger = Ledger(len(train), device)
        self.meter = Meter(device)
        self.guard: Guard | None = None

        self.epochs = task.epochs if epochs is None else epochs
        self.epoch = 0
        self.batch, self.batches = 0, 1
        self.prepared = self.stopped = self.pending = False
        self.denominator: float | Tensor = 0
        self.unit: float | Tensor = 1
        self.train_loss = self.kept = self.mixed = math.nan
        self.history: list[dict[str, float]] = []
        self.stream: Iterator[Tensor] = iter(())
        self.augment = True

        self.strategies = list(strategies)
        self.manager = activate(self.strategies, DefaultLoop())
        self.hook = self.manager.hook
        with self.meter.clock("prepare"), forked(device, derive(seed, "setup")):
            self.hook.setup(run=self)

    def _carve_validation(self) -> Tensor:
        n = len(self.train)
        order = torch.randperm(n, generator=self.rng("validation"))
        trainable = torch.ones(n, dtype=torch.bool)
        trainable[order[: portion(self.task.validation, n)]] = False
        return trainable

    @property
    def model(self) -> nn.Module:
        """The network; a strategy that sets another one also gives `optimizer` its parameters."""
        return self._model

    @model.setter
    def model(self, model: nn.Module) -> None:
        self._model = model
        self.module = self._compiled(Network(model))

    def _compiled(self, module: nn.Module) -> Callable[..., Tensor]:
        if not self.task.compile:
            return module
        backend = "inductor" if self.task.compile is True else self.task.compile
        return torch.compile(module, backend=backend)

    # What strategies may ask ------------------------------------------------------------------

    @property
    def epoch_count(self) -> int:
        """Return the number of epochs, a fractional last one included."""
        # 25 * 0.28 is a little above 7: that is no eighth epoch.
        return math.ceil(self.epochs - 1e-6)

    @property
    def span(self) -> float:
        """Return the part of the current epoch to train: below 1 in a fractional last one."""
        return min(1.0, self.epochs - self.epoch)

    @property
    def progress(self) -> float:
        """Return how much of training is done, in [0, 1], by epochs and batches of the plan."""
        done = self.epoch + self.span * min(1.0, self.batch / self.batches)
        return min(1.0, done / self.epochs)

    def split(self, name: str) -> Tensor:
        """Return the sample indices of 'train' or 'validation', on the CPU."""
        if name not in ("train", "validation"):
            raise DataeffError(
                f"A strategy asked for {name!r} samples; it may see 'train' and 'validation' only."
            )
        return (self.trainable if name == "train" else ~self.trainable).nonzero()[:, 0]

    def feature_shape(self, shape: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the shape of the last feature map of one image, without the batch's dimension.

        `shape` is that of the image, where it is not the dataset's own.
        """
        key = (self.model_version, *(shape or self.shape))
        if key not in self._feature_shapes:
            with torch.no_grad(), self.meter.paused():
                image = torch.empty(1, *key[1:], device="meta")
                features = ghost(self.model).forward_features(image)
            self._feature_shapes[key] = tuple(features.shape[1:])
        return self._feature_shapes[key]

    def network(self, x: Tensor, between: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Call the network through its hook; without gradients, it counts as scoring."""
        self.count("forwarded" if torch.is_grad_enabled() else "scored", x)
        return self.hook.network(run=self, x=x, between=between)

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
        indices = self.split(split) if indices is None else indices.cpu()
        chunks = indices.split(self.task.batch_size)
        labels = self.labels[indices.to(self.device)].split(self.task.batch_size)
        view = (self.seed, self.epoch) if augment else None
        scores = []
        with self._using(model), self.scoring(), head_inputs(model or self.model, features) as seen:
            for x, y in zip(self._images(chunks, view), labels, strict=True):
                scores.append(fn(self.network(x).float(), y, *seen))
        return torch.cat(scores)

    @contextmanager
    def scoring(self) -> Iterator[None]:
        """Call the network inside as scores do: in eval mode, without gradients."""
        with eval_mode(self.module), torch.no_grad(), self.meter.during("score"):
            yield

    def images(self, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the images of each batch of sample indices, without augmentation."""
        return self._images([batch.cpu() for batch in batches], None)

    def off_clock(self, name: str) -> AbstractContextManager[None]:
        """Charge what happens inside to a column of its own; the cell leaves the ranking."""
        return self.meter.clock(f"off_{name}")

    def train_child(
        self,
        name: str,
        k: int,
        epochs: float,
        indices: Tensor | None = None,
        *,
        until: int | None = None,
        probe: Any = None,
        shared: bool = False,
    ) -> Run:
        """Train a nested run (a scoring model, a proxy) and charge it to the prepare clock.

        It has its own seed, goes through the whole schedule in its `epochs`, or only `until` one of
        them has begun, trains on `indices` of the full set (default: this run's training samples),
        keeps only strategies that change precision, and checkpoints by itself. `probe` is an object
        with hooks that looks on. A `shared` one is the same for every seed of this run.
        """
        return train_child(self, name, k, epochs, indices, until=until, probe=probe, shared=shared)

    def artefact(
        self,
        strategy: Any,
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
        return artefact(self, strategy, settings, make, reuse)

    def work(self, names: Sequence[str]) -> list[float]:
        """Return the share of the network's work, for a full image, that lies in each module."""
        with self.meter.paused():
            flops = flops_by_module(self.model, self.shape)
        return [flops[name] / flops[""] for name in names]

    def add_parameters(self, parameters: Sequence[nn.Parameter], **options: Any) -> None:
        """Have the optimizer train these as well, with options of its own for them."""
        self.optimizer.add_param_group({"params": list(parameters), **options})
        begin_momentum(self.optimizer)

    def model_changed(self) -> None:
        """Count FLOPs anew from here: call it just before the network's structure changes."""
        with self.meter.paused():
            self.close_work()
        self.model_version += 1
        if self.task.compile:
            # Graphs of the old shapes count against the few that a compiler makes of one function.
            torch.compiler.reset()

    # What the loop asks -----------------------------------------------------------------------

    def open(self, plan: Plan) -> list[Rows]:
        """Begin to read a plan: start the stream of its images and return its batches."""
        rows = plan.on(self.device)
        self.batch, self.batches = 0, len(rows)
        view = (self.seed, self.epoch) if self.augment else None
        self.stream = self._images([r.samples for r in rows], view)
        return rows

    def drains(self) -> Iterator[tuple[Callable, Callable]]:
        """Yield, per strategy, its `drain` and the `select_batch` of those written after it."""
        plugins = [strategy.plugin for strategy in self.strategies]
        for place, plugin in enumerate(plugins):
            others = [other for other in plugins if other is not plugin]
            yield (
                self.manager.subset_hook_caller("drain", others),
                self.manager.subset_hook_caller("select_batch", plugins[: place + 1]),
            )

    def count(self, kind: str, x: Tensor) -> None:
        """Count the rows of this input, at the share of the network's work they cost now."""
        factor = math.prod(self.hook.compute_factor(run=self))
        self.meter.count(kind, len(x), x.shape[1:], self._version, factor)

    def close_work(self) -> None:
        """Turn what was counted into FLOPs of the network as it is now."""
        self.meter.close_work(self.model, self._version)

    @property
    def _version(self) -> str:
        return str(self.model_version)

    def set_learning_rate(self) -> None:
        """Set the learning rate for this progress."""
        factor = schedule(self.task, self.progress) * math.prod(self.hook.lr_factor(run=self))
        for group in self.optimizer.param_groups:
            group["lr"] = self.task.lr * factor

    def close_epoch(self) -> None:
        """Read the epoch's mean loss and what it used, once; end the run if the loss is not finite.

        `kept` is the share of the samples that it trained, `mixed` that of those in mixed rows.
        """
        self.train_loss, trained, mixed = self.ledger.close_epoch()
        self.kept, self.mixed = trained / int(self.trainable.sum()), mixed / max(1, trained)
        self.close_work()
        if not math.isfinite(self.train_loss):
            raise Diverged(
                f"The loss of epoch {self.epoch} is {self.train_loss}: lower the learning rate."
            )

    def next_epoch(self) -> None:
        """Move on, and write a checkpoint: this is where a killed run goes on."""
        self.epoch += 1
        self.batch = 0
        self.save()

    def warm_up(self) -> None:
        """Take a few steps on throw-away copies, so that autotuning is not charged to anyone.

        The copy is called as precision strategies would have it, with full and last batch size.
        """
        model = copy.deepcopy(self.model)
        module = self._compiled(Network(model))
        optimizer = build_optimizer(self.task, model)
        precise = activate([s for s in self.strategies if is_precision(s)], DefaultLoop())
        samples = self.split("train")
        sizes = Plan.cut(samples, self.task.batch_size).sizes
        batches = [samples[: sizes[0]]] * 2 + [samples[: sizes[-1]]]
        own, self.module = self.module, module
        try:
            for part, x in zip(batches, self._images(batches, (self.seed, 0)), strict=True):
                logits = precise.hook.network(run=self, x=x, between=None).float()
                cross_entropy(logits, self.labels[part.to(self.device)]).mean().backward()
                optimizer.step()
            with eval_mode(module), torch.no_grad():
                precise.hook.network(run=self, x=x, between=None)
        finally:
            self.module = own

    def save(self) -> None:
        """Write a checkpoint, off the clock, if the run has a folder."""
        if self.folder:
            checkpoint.save(self, self.folder / "checkpoint.pt")

    def resume(self) -> None:
        """Go on from the checkpoint in the run's folder, if there is one."""
        if self.folder and (self.folder / "checkpoint.pt").exists():
            checkpoint.load(self, self.folder / "checkpoint.pt")

    def _images(self, batches: Sequence[Tensor], view: tuple[int, int] | None) -> Iterator[Tensor]:
        for x in self.train.stream(batches, view):
            yield x.contiguous(memory_format=self._layout)

    @contextmanager
    def _using(self, model: nn.Module | None) -> Iterator[None]:
        """Score with another network, at that network's cost."""
        if model is None:
            yield
            return
        own = self.module, self.model_version
        self.module, self.model_version = Network(model), "other"
        try:
            yield
            with self.meter.paused():
                self.meter.close_work(model, self._version)
        finally:
            self.module, self.model_version = own
