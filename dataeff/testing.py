"""The conformance kit: what every strategy must hold, for our tests and for plugin authors.

from dataeff.testing import check_strategy

def test_conforms():
    check_strategy(MyIdea)
"""

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import torch

from dataeff.composition import Active, Composition, check_conflicts, watching
from dataeff.errors import DataeffError, StrategyConflict, StrategyError
from dataeff.hookspecs import HOOKS, hookimpl
from dataeff.lab import Lab
from dataeff.notation import format_part
from dataeff.plugins import Installed, load_plugins
from dataeff.registry import Entry
from dataeff.strategy import Strategy, adopted
from dataeff.training.cell import OnEpoch, Result, validated
from dataeff.training.job import NOWHERE, Job, Place
from dataeff.training.loop import batches, epoch, plan_epoch, prepare, train
from dataeff.training.rng import Streams, global_state
from dataeff.training.spying import Spy, Watch, differing, reading_forbidden
from dataeff.training.task import Task

TASK = Task(
    dataset="synthetic[samples=90,test_samples=20,classes=4,size=8,difficulty=0.3]",
    model="tiny",
    epochs=4,
    batch_size=16,
    lr=0.05,
)


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
        kit.trains_to_finite_numbers,
        kit.dataset_and_global_random_state_untouched,
        kit.trains_in_training_mode,
        kit.every_forward_is_counted,
        kit.every_step_is_counted,
        kit.same_seed_same_numbers,
        kit.order_stream_untouched,
        kit.stop_and_resume_gives_the_same_numbers,
        kit.nothing_that_matters_is_lost_in_a_checkpoint,
        kit.hot_loop_reads_nothing_back,
        kit.saves_what_it_declares,
        kit.does_something_or_says_why_not,
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
    place: Place = NOWHERE,
    on_epoch: OnEpoch | None = None,
) -> Result:
    """Train the kit's little task with strategy objects or texts, in tens of milliseconds."""
    lab = lab_of(installed or _installed())
    active: list[Active] = []
    for strategy in strategies:
        if isinstance(strategy, str):
            active += lab.composition(strategy).fresh()
        else:
            active.append(as_member(strategy))
    check_conflicts(active)
    return lab.run(task, active, seed, place, on_epoch)


def as_member(strategy: Any) -> Active:
    """Return an object with hooks as a member of a run, under the name that its class suggests."""
    if not isinstance(strategy, Strategy):
        strategy.__class__, _ = adopted(type(strategy))
    kind = type(strategy)
    return Active(Entry("object", _snake(kind), kind, "test"), {}, strategy)


@cache
def lab_of(installed: Installed) -> Lab:
    """Return the lab of what is installed: its data are loaded once."""
    return Lab(installed, "cpu")


@cache
def _trained(installed: Installed, task: Task, strategy: str = "") -> Result:
    """Train with one strategy, or with none, once: it takes part in many pairs."""
    lab = lab_of(installed)
    return lab.run(task, lab.composition(strategy) if strategy else [], 0)


# What is installed, for those who add nothing to it.
_installed = cache(load_plugins)


def _snake(kind: type) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def weights(result: Result) -> torch.Tensor:
    """Return all weights and statistics of the trained network as one vector."""
    return torch.cat([value.flatten().double() for value in result.run.model.state_dict().values()])


class _Kit:
    """The checks, over one strategy or a composition of two."""

    def __init__(
        self, *strategies: str | type, installed: Installed | None = None, model: str = TASK.model
    ) -> None:
        # A class is registered where nobody else looks.
        known = all(isinstance(strategy, str) for strategy in strategies)
        self.installed = installed or (_installed() if known else load_plugins())
        self.alone = len(strategies) == 1
        # There are many pairs, and each of the two is checked for longer when it is alone.
        epochs = TASK.epochs if self.alone else TASK.epochs - 1
        self.task = TASK.model_copy(update={"model": model, "epochs": epochs})
        self.names = [self._name(strategy) for strategy in strategies]
        # A lab of its own where one is looked at closely: it may do harm to the data.
        self.lab = Lab(self.installed, "cpu") if self.alone else lab_of(self.installed)
        self.composition = self.lab.composition("+".join(self.names))

    def _name(self, strategy: str | type) -> str:
        if isinstance(strategy, str):
            return strategy
        name = _snake(strategy)
        if name not in self.installed.strategies:
            self.installed.add_strategy(name, strategy, strategy.__module__)
        elif not issubclass(self.installed.strategies[name].factory, strategy):
            raise NotConforming(f"another strategy is called {name}: rename {strategy.__name__}.")
        return name

    def hold(self, check: Callable[[], None]) -> str:
        """Run one check; an assertion becomes one sentence that names strategy and rule."""
        rule = check.__name__.replace("_", " ")
        try:
            check()
        except (AssertionError, StrategyError) as broken:
            text = self.composition.text
            raise NotConforming(f"{text} breaks the rule '{rule}': {broken}") from broken
        return rule

    def train(self, *more: Active, task: Task | None = None, **options: Any) -> Result:
        """Train the composition, with others that look on before it."""
        return self.lab.run(task or self.task, [*more, *self.composition.fresh()], 0, **options)

    @cached_property
    def result(self) -> Result:
        """The first training of the kit, shared by the checks that only read it."""
        return self.train()

    @cached_property
    def watched(self) -> Watch:
        """What the network was asked in another training."""
        watch = Watch()
        strategies = [watching(watch), *self.composition.fresh()]
        with self.lab.started(self.task, strategies, 0) as job:
            prepare(job)
            with watch.over(job):
                train(job, validated)
        return watch

    @property
    def plain(self) -> Result:
        """The same training without a strategy."""
        return _trained(self.installed, self.task)

    # The rules --------------------------------------------------------------------------------

    def parameters_round_trip(self) -> None:
        for part in self.composition.parts:
            for label in (format_part(part.entry.name, part.values), part.label):
                (again,) = Composition.read(label, self.installed).parts
                assert again.values == part.values, f"{label} reads back as {again.values}"

    def trains_to_finite_numbers(self) -> None:
        record = self.result.record
        assert record["status"] == "finished", record["error"]
        assert record["rows"]["trained"] > 0, "no row was trained"
        assert torch.isfinite(weights(self.result)).all(), "a weight is not finite"

    def trains_in_training_mode(self) -> None:
        left = self.watched.in_eval_mode
        assert not left, (
            f"{left} trained in eval mode: whoever calls model.eval() puts each module back, or "
            "freezes it with requires_grad_(False); run.score does both"
        )

    def every_forward_is_counted(self) -> None:
        seen, asked = self.watched.rows_seen, self.watched.rows_asked
        assert seen == asked, (
            f"the network saw {seen} rows, of which {asked} were counted: call run.network, "
            "run.score or run.score_dataset, not run.model"
        )

    def every_step_is_counted(self) -> None:
        taken, counted = self.watched.steps_taken, self.watched.steps_counted
        assert taken <= counted, (
            f"the weights took {taken} steps, of which {counted} were counted: leave steps to the "
            "loop, one for each that should_step agrees to"
        )

    def same_seed_same_numbers(self) -> None:
        assert torch.equal(weights(self.train()), weights(self.result)), (
            "two runs of one seed differ: draw only from run.rng(name)"
        )

    def dataset_and_global_random_state_untouched(self) -> None:
        before = [split.clone() for split in self._tensors()]
        watcher = _Watcher()
        self.train(watching(watcher))
        for old, new in zip(before, self._tensors(), strict=True):
            assert torch.equal(old, new), "the dataset was changed in place"
        first, *rest = watcher.states
        assert not any(differing(first, state) for state in rest), (
            "global random state was used: draw only from run.rng(name)"
        )

    def _tensors(self) -> list[torch.Tensor]:
        data = self.lab.data(self.task)
        parts = [vars(split).values() for split in (data.train, data.test)]
        return [value for part in parts for value in part if isinstance(value, torch.Tensor)]

    def order_stream_untouched(self) -> None:
        run = self.result.run
        expected = Streams(run.seed)("order")
        for _ in range(run.epoch):
            torch.randperm(len(run.labels), generator=expected)
        assert torch.equal(run.rng("order").get_state(), expected.get_state()), (
            'the "order" stream belongs to the harness: draw from a stream of your own name'
        )

    def stop_and_resume_gives_the_same_numbers(self) -> None:
        whole = self.result
        # Of a pair, whose parts were stopped after every epoch when they were alone, once.
        stops = range(2, whole.run.epoch + 1)
        with tempfile.TemporaryDirectory() as name:
            place = Place(Path(name))
            for last in stops if self.alone else stops[1:2]:
                with contextlib.suppress(_Stopped):
                    self.train(place=place, on_epoch=partial(_stop_in, last))
            resumed = self.train(place=place)
        assert torch.equal(weights(resumed), weights(whole)), (
            "a run that was stopped and resumed ends with other weights: keep all state in "
            "attributes, or write state_dict and load_state_dict"
        )
        assert resumed.record["rows"] == whole.record["rows"], "a resumed run counts other rows"

    def nothing_that_matters_is_lost_in_a_checkpoint(self) -> None:
        """Look for what is read after a stop, was not written since, and is not what it was."""
        with tempfile.TemporaryDirectory() as name:
            place = Place(Path(name))
            with self.at_epoch(2, place) as before:
                old = [dict(vars(part.plugin)) for part in before.run.strategies]
            with self.lab.started(self.task, self.composition.fresh(), 0, place) as job:
                job.resume()
                plugins = [part.plugin for part in job.run.strategies]
                spies = [Spy(plugin, then) for plugin, then in zip(plugins, old, strict=True)]
                train(job, validated)
        for spy in spies:
            for name, (then, now) in spy.missed.items():
                raise AssertionError(
                    f"{name} was {then} when the run stopped, is {now} after resuming, and is "
                    "read: a name that begins with an underscore is not kept; call it "
                    f"{name.lstrip('_')}, or make it anew in setup or on_epoch_start"
                )

    @contextlib.contextmanager
    def at_epoch(self, number: int, place: Place = NOWHERE) -> Iterator[Job]:
        """Yield a run of its own that stands at the start of this epoch."""
        with self.lab.started(self.task, self.composition.fresh(), 0, place) as job:
            prepare(job)
            for _ in range(min(number, job.run.epoch_count)):
                for plan in epoch(job, validated):
                    for _ in batches(job, plan):
                        pass
            yield job

    def hot_loop_reads_nothing_back(self) -> None:
        if any(part.kind.reads_back for part in self.composition.parts):
            return
        for number in range(self.result.run.epoch):
            with self.at_epoch(number) as job:
                plan = plan_epoch(job)
                try:
                    with reading_forbidden(job):
                        for _ in batches(job, plan):
                            pass
                except (RuntimeError, NotImplementedError) as error:
                    raise AssertionError(
                        f"in epoch {number}, on a device without data, it fails ({error}): "
                        "something reads a tensor back or names a device; once per epoch is fine, "
                        "once per batch is not"
                    ) from error

    def saves_what_it_declares(self) -> None:
        plain, ours = self.plain.record, self.result.record
        for part in self.composition.fresh():
            if saved := part.plugin.saves:
                before, now = _SAVES[saved](plain), _SAVES[saved](ours)
                assert now < before, f"it says that it saves {saved}: {now} with, {before} without"

    def does_something_or_says_why_not(self) -> None:
        if self.result.record["no_effect"]:
            return
        counts = [result.record["rows"] for result in (self.result, self.plain)]
        ours, plain = weights(self.result), weights(self.plain)
        same = counts[0] == counts[1] and ours.shape == plain.shape and torch.equal(ours, plain)
        assert not same, (
            "its run is the baseline's, number by number: implement a hook that changes something, "
            "or say in setup why it can do nothing here: self.no_effect = '...'"
        )

    def both_savings_show(self) -> None:
        if {part.plugin.saves for part in self.composition.fresh()} != {"rows"}:
            return
        # Long enough that what needs a few epochs of history also saves in half of them.
        longer = self.task.model_copy(update={"epochs": 2 * TASK.epochs})
        pair = self.train(task=longer).record["rows"]["trained"]
        for name in self.names:
            alone = _trained(self.installed, longer, name).record["rows"]["trained"]
            assert pair < alone, f"together they train {pair} rows, {name} alone {alone}"

    def listed_order_matters_only_where_hooks_are_shared(self) -> None:
        first, second = (set(part.hooks()) for part in self.composition.parts)
        if any(HOOKS[hook] in ("chain", "own") for hook in first & second):
            return
        swapped = self.lab.run(self.task, self.composition.fresh()[::-1], 0)
        assert torch.equal(weights(swapped), weights(self.result)), (
            "they share no chain or own hook, yet the order in which they are written matters"
        )


_SAVES: dict[str, Callable[[dict[str, Any]], float]] = {
    "rows": lambda record: record["rows"]["trained"],
    "forward": lambda record: record["rows"]["forwarded"],
    "loading": lambda record: record["rows"]["loaded"],
    "flops": lambda record: record["flops"],
}


class _Stopped(Exception):
    """Ends a run as a kill would, between two epochs."""


def _stop_in(last: int, epoch: int, epochs: float, record: Any) -> None:
    if epoch == last:
        raise _Stopped


class _Watcher(Strategy):
    """Notes the global random state at the borders of epochs; the tiny network draws nothing."""

    def __init__(self) -> None:
        self.states: list[Any] = []

    @hookimpl
    def prepare(self, run):
        self.states.append(global_state(run.device))

    on_epoch_end = prepare
