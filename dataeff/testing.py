"""The conformance kit: what every strategy must hold, for our tests and for plugin authors.

from dataeff.testing import check_strategy

def test_conforms():
    check_strategy(MyIdea)
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch

from dataeff.data import Dataset, load_dataset
from dataeff.errors import DataeffError, StrategyConflict
from dataeff.hookspecs import hookimpl
from dataeff.plugins import (
    Installed,
    Strategy,
    check_conflicts,
    compose,
    hook_kind,
    load_plugins,
)
from dataeff.registry import Entry, format_part
from dataeff.training.cell import Result, make_run, train_on
from dataeff.training.evaluate import evaluate
from dataeff.training.loop import plan_epoch, train_epoch, train_plan
from dataeff.training.readback import reading_forbidden
from dataeff.training.rng import Streams, global_state
from dataeff.training.run import Run
from dataeff.training.task import Task

TASK = Task(
    dataset="synthetic[samples=90,test_samples=20,classes=4,size=8,difficulty=0.3]",
    model="tiny",
    epochs=4,
    batch_size=16,
    lr=0.05,
)
_CPU = torch.device("cpu")


class NotConforming(DataeffError):
    """A strategy breaks a rule of the harness; the message says which and why."""


def check_strategy(
    strategy: str | type, installed: Installed | None = None, model: str = TASK.model
) -> list[str]:
    """Check one strategy (a class, or `name[key=value]`); return the rules it was held to.

    `model` is the network to train, where a strategy is not for any: a small one.
    """
    kit = _Kit(strategy, installed=installed, model=model)
    checks = (
        kit.parameters_round_trip,
        kit.dataset_and_global_random_state_untouched,
        kit.trains_to_finite_numbers,
        kit.same_seed_same_numbers,
        kit.order_stream_untouched,
        kit.stop_and_resume_gives_the_same_numbers,
        kit.hot_loop_reads_nothing_back,
        kit.saves_what_it_claims,
    )
    return [kit.hold(check) for check in checks]


def check_pair(
    first: str | type,
    second: str | type,
    installed: Installed | None = None,
    model: str = TASK.model,
) -> list[str]:
    """Check two strategies together: they train, both effects show, or they conflict cleanly."""
    try:
        kit = _Kit(first, second, installed=installed, model=model)
    except StrategyConflict as conflict:
        return [f"conflict is clean: {conflict}"]
    checks = (
        kit.trains_to_finite_numbers,
        kit.stop_and_resume_gives_the_same_numbers,
        kit.both_savings_show,
        kit.listed_order_matters_only_where_hooks_are_shared,
    )
    return [kit.hold(check) for check in checks]


def train_tiny(
    *strategies: Any,
    installed: Installed | None = None,
    seed: int = 0,
    task: Task = TASK,
    **options: Any,
) -> Result:
    """Train the kit's little task with strategy objects or texts, in tens of milliseconds."""
    installed = installed or load_plugins()
    active: list[Strategy] = []
    for strategy in strategies:
        if isinstance(strategy, str):
            active += compose(strategy, installed)
        else:
            kind = type(strategy)
            active.append(Strategy(Entry("strategy", _snake(kind), kind, "test"), {}, strategy))
    check_conflicts(active)
    return _train(active, installed, _load(installed, task), seed, task, **options)


def _snake(kind: type) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def _load(installed: Installed, task: Task = TASK, device: torch.device = _CPU) -> Dataset:
    return load_dataset(task.dataset, installed.datasets, root=None, device=device)


def _train(
    strategies: list[Strategy],
    installed: Installed,
    data: Dataset,
    seed: int = 0,
    task: Task = TASK,
    **options: Any,
) -> Result:
    return train_on(data, task, strategies, seed, installed=installed, device=_CPU, **options)


def weights(result: Result) -> torch.Tensor:
    """Return all weights and statistics of the trained network as one vector."""
    return torch.cat([value.flatten().double() for value in result.run.model.state_dict().values()])


class _Kit:
    """The checks, over one strategy or a composition of two."""

    def __init__(
        self, *strategies: str | type, installed: Installed | None = None, model: str = TASK.model
    ) -> None:
        self.installed = installed or load_plugins()
        # There are many pairs, and each of the two is checked for longer when it is alone.
        epochs = TASK.epochs if len(strategies) == 1 else TASK.epochs - 1
        self.task = TASK.model_copy(update={"model": model, "epochs": epochs})
        self.names = [self._name(strategy) for strategy in strategies]
        self.text = "+".join(self.names)
        self.strategies = compose(self.text, self.installed)
        self.data = _load(self.installed)
        self.first = None

    def _name(self, strategy: str | type) -> str:
        if isinstance(strategy, str):
            return strategy
        name = _snake(strategy)
        if name not in self.installed.strategies:
            self.installed.strategies.register(name, strategy, source=strategy.__module__)
        elif self.installed.strategies[name].factory is not strategy:
            raise NotConforming(f"another strategy is called {name}: rename {strategy.__name__}.")
        return name

    def hold(self, check: Callable[[], None]) -> str:
        """Run one check; an assertion becomes one sentence that names strategy and rule."""
        rule = check.__name__.replace("_", " ")
        try:
            check()
        except AssertionError as broken:
            raise NotConforming(f"{self.text} breaks the rule '{rule}': {broken}") from broken
        return rule

    def again(self) -> list[Strategy]:
        return [strategy.again() for strategy in self.strategies]

    def train(self, strategies: list[Strategy] | None = None, **options: Any) -> Result:
        options = {"task": self.task, **options}
        return _train(strategies or self.again(), self.installed, self.data, **options)

    def result(self) -> Result:
        """Return the first training of the kit, shared by the checks that only read it."""
        if self.first is None:
            self.first = self.train()
        return self.first

    # The rules --------------------------------------------------------------------------------

    def parameters_round_trip(self) -> None:
        for strategy in self.strategies:
            label = format_part(strategy.entry.name, strategy.values)
            (again,) = compose(label, self.installed)
            assert again.values == strategy.values, f"{label} reads back as {again.values}"
            (short,) = compose(strategy.label, self.installed)
            assert short.values == strategy.values, f"{strategy.label} is not canonical"

    def trains_to_finite_numbers(self) -> None:
        record = self.result().record
        assert record["status"] == "finished", record["error"]
        assert record["rows"]["trained"] > 0, "no row was trained"
        assert torch.isfinite(weights(self.result())).all(), "a weight is not finite"

    def same_seed_same_numbers(self) -> None:
        assert torch.equal(weights(self.train()), weights(self.result())), (
            "two runs of one seed differ: draw only from run.rng(name)"
        )

    def dataset_and_global_random_state_untouched(self) -> None:
        before = [split.clone() for split in self._tensors()]
        watcher = _Watcher()
        entry = Entry("strategy", "watcher", _Watcher, "kit")
        self.train([Strategy(entry, {}, watcher), *self.again()])
        for old, new in zip(before, self._tensors(), strict=True):
            assert torch.equal(old, new), "the dataset was changed in place"
        first, *rest = watcher.states
        for state in rest:
            assert _same(first, state), "global random state was used: draw only from run.rng(name)"

    def _tensors(self) -> list[torch.Tensor]:
        parts = [vars(split).values() for split in (self.data.train, self.data.test)]
        return [value for part in parts for value in part if isinstance(value, torch.Tensor)]

    def order_stream_untouched(self) -> None:
        run = self.result().run
        expected = Streams(run.seed)("order")
        for _ in range(run.epoch):
            torch.randperm(len(run.labels), generator=expected)
        assert torch.equal(run.rng("order").get_state(), expected.get_state()), (
            'the "order" stream belongs to the harness: draw from a stream of your own name'
        )

    def stop_and_resume_gives_the_same_numbers(self) -> None:
        whole = self.result()
        # Of a pair, whose parts were stopped after every epoch when they were alone, once.
        stops = range(2, whole.run.epoch + 1)
        with tempfile.TemporaryDirectory() as name:
            for last in stops if len(self.names) == 1 else stops[1:2]:
                with contextlib.suppress(_Stopped):
                    self.train(folder=Path(name), on_epoch=_stop_in(last))
            resumed = self.train(folder=Path(name))
        assert torch.equal(weights(resumed), weights(whole)), (
            "a run that was stopped and resumed ends with other weights: keep all state in "
            "attributes, or write state_dict and load_state_dict"
        )
        assert resumed.record["rows"] == whole.record["rows"], "a resumed run counts other rows"

    def hot_loop_reads_nothing_back(self) -> None:
        if any(getattr(s.plugin, "reads_back", False) for s in self.strategies):
            return
        for epoch in range(self.result().run.epoch):
            run = self.trained_until(epoch)
            plan = plan_epoch(run)
            try:
                with reading_forbidden(run):
                    train_plan(run, plan)
            except (RuntimeError, NotImplementedError) as error:
                raise AssertionError(
                    f"in epoch {epoch}, on a device without data, it fails ({error}): something "
                    "reads a tensor back or names a device; once per epoch is fine, once per "
                    "batch is not"
                ) from error

    def trained_until(self, epoch: int) -> Run:
        """Return a run of its own that stands at the start of this epoch."""
        device = torch.device("cuda") if torch.cuda.is_available() else _CPU
        data = _load(self.installed, device=device)
        run = make_run(data, self.task, self.again(), 0, self.installed, device)
        run.hook.prepare(run=run)
        for _ in range(epoch):
            train_epoch(run)
            run.close_epoch()
            metrics = evaluate(run.model, run.train, run.split("validation"), TASK.batch_size)
            run.hook.on_epoch_end(run=run, epoch=run.epoch, metrics=metrics)
            run.next_epoch()
        return run

    def saves_what_it_claims(self) -> None:
        plain = _train([], self.installed, self.data, task=self.task).record
        ours = self.result().record
        for strategy in self.strategies:
            claim = getattr(strategy.plugin, "saves", None)
            if claim:
                assert claim in _SAVES, f"saves = {claim!r} is not one of {', '.join(_SAVES)}"
                before, now = _SAVES[claim](plain), _SAVES[claim](ours)
                assert now < before, f"it claims to save {claim}: {now} with it, {before} without"

    def both_savings_show(self) -> None:
        claims = {getattr(strategy.plugin, "saves", None) for strategy in self.strategies}
        if claims != {"rows"}:
            return
        # Long enough that what needs a few epochs of history also saves in half of them.
        longer = {"task": self.task.model_copy(update={"epochs": 2 * TASK.epochs})}
        pair = self.train(**longer).record["rows"]["trained"]
        known = _ROWS_ALONE.setdefault(self.installed, {})
        for name in self.names:
            if (key := (name, self.task.model)) not in known:
                alone = self.train(compose(name, self.installed), **longer).record
                known[key] = alone["rows"]["trained"]
            assert pair < known[key], f"together they train {pair} rows, {name} alone {known[key]}"

    def listed_order_matters_only_where_hooks_are_shared(self) -> None:
        first, second = (set(strategy.hooks()) for strategy in self.strategies)
        if any(hook_kind(hook) in ("chain", "own") for hook in first & second):
            return
        swapped = self.train(self.again()[::-1])
        assert torch.equal(weights(swapped), weights(self.result())), (
            "they share no chain or own hook, yet the order in which they are written matters"
        )


# A strategy takes part in many pairs, and trains the same rows alone before each.
_ROWS_ALONE: WeakKeyDictionary[Installed, dict[tuple[str, str], int]] = WeakKeyDictionary()
_SAVES: dict[str, Callable[[dict[str, Any]], float]] = {
    "rows": lambda record: record["rows"]["trained"],
    "forward": lambda record: record["rows"]["forwarded"],
    "loading": lambda record: record["rows"]["loaded"],
    "flops": lambda record: record["flops"],
}


class _Stopped(Exception):
    """Ends a run as a kill would, between two epochs."""


def _stop_in(last: int) -> Callable[..., None]:
    def on_epoch(epoch: int, epochs: float, record: Any) -> None:
        if epoch == last:
            raise _Stopped

    return on_epoch


class _Watcher:
    """Notes the global random state at the borders of epochs; the tiny network draws nothing."""

    def __init__(self) -> None:
        self.states: list[Any] = []

    @hookimpl
    def prepare(self, run):
        self.states.append(global_state(run.device))

    @hookimpl
    def on_epoch_end(self, run):
        self.states.append(global_state(run.device))

    def state_dict(self) -> dict:
        return {}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return all(_same(a[key], b[key]) for key in a)
    if isinstance(a, tuple) and any(isinstance(item, torch.Tensor) for item in a):
        return all(_same(x, y) for x, y in zip(a, b, strict=True))
    return a == b
