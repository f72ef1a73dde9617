"""Each hook: when it is called, what it may do, and how several strategies share it."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from probes import Stateless

from dataeff import Batch, DataeffError, Observer, Plan, Strategy, hookimpl, hookspecs
from dataeff.models import build_model
from dataeff.plugins import Plugin
from dataeff.testing import TASK, lab_of, train_tiny, weights
from dataeff.training.job import Place
from dataeff.training.optimizing import build_optimizer

HOOKS = list(hookspecs.HOOKS)
KINDS = {
    "combine": [
        "report",
        "prune_dataset",
        "should_stop",
        "should_step",
        "lr_factor",
        "compute_factor",
    ],
    "chain": ["drain", "select_batch", "resize_batch", "transform_batch"],
    "own": [
        "plan_epoch",
        "load",
        "forward",
        "network",
        "sample_losses",
        "reduce_loss",
        "backward",
        "finish_gradients",
        "optimizer_step",
    ],
}
ROWS = 81  # 90 samples, of which 9 are the validation part


class Probe(Stateless):
    """A strategy made of plain functions that take a hook's arguments by name."""

    def __init__(self, **hooks):
        for name, function in hooks.items():
            marked = hasattr(function, "dataeff_impl")
            setattr(self, name, function if marked else hookimpl(function))


class Second(Probe):
    """Another one, for runs of two."""


wrapper = hookimpl(wrapper=True)


def test_every_hook_has_a_test():
    assert [name for name in HOOKS if f"test_hook_{name}" not in globals()] == []


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_names_its_kind_in_one_fixed_sentence(name):
    doc = getattr(hookspecs, name).__doc__
    (kind,) = (kind for kind, rule in hookspecs.KINDS.items() if rule in doc)
    assert kind == hookspecs.HOOKS[name]


@pytest.mark.parametrize("name", [name for name in HOOKS if not name.startswith("register_")])
def test_the_pseudocode_shows_every_loop_hook(name):
    assert f"{name}(" in hookspecs.__doc__ or name in ("lr_factor", "compute_factor")


# Registering -----------------------------------------------------------------------------------


def _register(installed, **hooks):
    module = SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})
    installed.add(Plugin("mine", "1", "test"), module)


def test_hook_register_strategies(installed):
    class Mine(Strategy):
        """Do nothing."""

    _register(installed, register_strategies=lambda register: register("mine", Mine))
    assert train_tiny("mine", installed=installed).record["strategy"] == "mine"


def test_hook_register_datasets(installed):
    from dataeff.data.datasets import Synthetic

    _register(installed, register_datasets=lambda register: register("mine", Synthetic))
    assert "mine" in installed.datasets


def test_hook_register_models(installed):
    class Net(torch.nn.Sequential):
        def forward_features(self, x):
            return self[0](x)

        def forward_head(self, z):
            return self[2](self[1](z))

    def mine(classes: int, shape: tuple[int, int, int], *, width: int = 3) -> Net:
        return Net(
            torch.nn.Conv2d(shape[0], width, 3),
            torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()),
            torch.nn.Linear(width, classes),
        )

    _register(installed, register_models=lambda register: register("mine", mine))
    model = build_model("mine[width=5]", installed.models, classes=4, shape=(3, 8, 8))
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 4)


def test_hook_register_suites(installed, tmp_path):
    from dataeff.bench.desk import Desk
    from dataeff.bench.suite import load_suite

    path = tmp_path / "mine.toml"
    path.write_text(
        'strategies = ["baseline"]\n[tasks.a]\ndataset = "digits"\nmodel = "tiny"\nepochs = 1\n'
    )
    _register(installed, register_suites=lambda register: register("mine", path))
    assert load_suite("mine", Desk.beside(lab_of(installed))).name == "mine"


def test_hook_register_analyses(installed):
    def mine(study):
        """Draw nothing."""

    _register(installed, register_analyses=lambda register: register("mine", mine))
    entry = installed.analyses["mine"]
    assert (entry.factory, entry.summary) == (mine, "Draw nothing.")


def test_hook_register_observers(installed):
    _register(installed, register_observers=lambda register: register("mine", Observer))
    assert installed.observers["mine"].factory is Observer


# Watching: all run -----------------------------------------------------------------------------


def test_hook_setup(installed):
    def setup(run):
        run.epochs = 1.5

    record = train_tiny(Probe(setup=setup), installed=installed).record
    assert record["epochs"] == 2
    assert record["rows"]["trained"] == ROWS + 40


def test_hook_prepare(installed):
    calls = []
    result = train_tiny(Probe(prepare=lambda run: calls.append(run.epoch)), installed=installed)
    assert calls == [0]
    assert result.record["clocks"]["prepare"] > 0


def test_hook_on_resume(installed, tmp_path):
    """Surgery on the network: the weights of the checkpoint fit what this hook rebuilds."""

    class Widen(Strategy):
        @hookimpl
        def setup(self):
            self.width = 8

        @hookimpl
        def on_epoch_start(self, run, epoch):
            if epoch == 2:
                self.width = 12
                self.rebuild(run)

        @hookimpl
        def on_resume(self, run):
            if self.width == 12:
                self.rebuild(run)

        def rebuild(self, run):
            run.model_changed()
            with torch.random.fork_rng():
                torch.manual_seed(0)
                run.model = build_model(
                    "tiny[width=12]", installed.models, classes=4, shape=(3, 8, 8)
                )
            run.optimizer = build_optimizer(run.task, run.model)

    class Stop(Exception):
        pass

    def stop(epoch, epochs, record):
        if epoch == 4:
            raise Stop

    whole = train_tiny(Widen(), installed=installed)
    with pytest.raises(Stop):
        train_tiny(Widen(), installed=installed, place=Place(tmp_path), on_epoch=stop)
    resumed = train_tiny(Widen(), installed=installed, place=Place(tmp_path))
    assert torch.equal(weights(resumed), weights(whole))
    assert resumed.record["flops"] == whole.record["flops"]


def test_hook_on_epoch_start(installed):
    calls = []

    def on_epoch_start(run, epoch):
        calls.append((epoch, run.progress))

    train_tiny(Probe(on_epoch_start=on_epoch_start), installed=installed)
    assert calls == [(0, 0.0), (1, 0.25), (2, 0.5), (3, 0.75)]


def test_hook_end_epoch(installed):
    calls = []
    train_tiny(Probe(end_epoch=lambda run: calls.append(run.progress)), installed=installed)
    assert calls == [0.25, 0.5, 0.75, 1.0]


def test_hook_on_epoch_end(installed):
    calls = []

    def on_epoch_end(run, epoch, metrics):
        calls.append((epoch, sorted(metrics)))

    result = train_tiny(Probe(on_epoch_end=on_epoch_end), installed=installed)
    assert calls == [(epoch, ["loss", "macro_f1", "top1", "top5"]) for epoch in range(4)]
    assert "validation_top1" in result.record["metrics"]


def test_hook_observe_batch(installed):
    seen = []

    def observe_batch(run, batch, logits, losses):
        assert not logits.requires_grad
        assert not losses.requires_grad
        seen.append(batch.idx[losses.argmax()])

    train_tiny(Probe(observe_batch=observe_batch), installed=installed)
    assert len(seen) == 4 * 5


# Combining: order-free -------------------------------------------------------------------------


def test_hook_prune_dataset(installed):
    first = Probe(prune_dataset=lambda run, epoch: torch.arange(90) < 60)
    second = Second(prune_dataset=lambda run, epoch: torch.arange(90) >= 30)
    result = train_tiny(first, second, installed=installed)
    trained = result.samples["times_trained"] > 0
    between = (torch.arange(90) >= 30) & (torch.arange(90) < 60)
    assert torch.equal(trained, between & result.run.trainable)


def test_hook_should_step(installed):
    batches = []

    def should_step(run):
        batches.append(run.batch)
        return run.batch % 2 == 1

    result = train_tiny(Probe(should_step=should_step), installed=installed)
    assert len(batches) == 20
    assert result.record["steps"] == 4 * 3, "five batches make two steps and a pending one"


def test_hook_should_stop(installed):
    result = train_tiny(Probe(should_stop=lambda run, metrics: run.epoch == 1), installed=installed)
    assert result.record["epochs"] == 2


def test_hook_lr_factor(installed):
    rates = []

    def lr_factor(run):
        return 0.5

    def observe_batch(run):
        rates.append(run.optimizer.param_groups[0]["lr"])

    one = Probe(lr_factor=lr_factor, observe_batch=observe_batch)
    train_tiny(one, Second(lr_factor=lr_factor), installed=installed)
    assert rates[1] == pytest.approx(TASK.lr * 0.25)


def test_hook_compute_factor(installed):
    def network(run, x, between):
        """Skip half of the rows, and answer for them with the others."""
        half = run._job.module(x[: (len(x) + 1) // 2], between)
        return half.repeat(2, 1)[: len(x)]

    plain = train_tiny(installed=installed).record
    skipping = Probe(network=network, compute_factor=lambda run: 0.5)
    half = train_tiny(skipping, installed=installed).record
    assert half["flops"] == pytest.approx(plain["flops"] / 2)
    assert half["rows"] == plain["rows"]


def test_hook_report(installed):
    one = Probe(report=lambda run: {"colour": "red"})
    assert train_tiny(one, installed=installed).record["columns"] == {"colour": "red"}
    other = Second(report=lambda run: {"colour": "blue"})
    with pytest.raises(DataeffError, match="'colour'"):
        train_tiny(one, other, installed=installed)


# Chaining: in the order the user wrote ----------------------------------------------------------


def _chain(installed, hook):
    calls = []

    def first(run, batch):
        calls.append("first")

    def second(run, batch):
        calls.append("second")

    train_tiny(Probe(**{hook: first}), Second(**{hook: second}), installed=installed)
    return calls[:4]


def test_hook_select_batch(installed):
    assert _chain(installed, "select_batch") == ["first", "second"] * 2

    def select_batch(run, batch):
        batch.keep_rows(torch.arange(batch.R // 2))

    assert train_tiny(Probe(select_batch=select_batch), installed=installed).record["rows"] == {
        "loaded": 4 * ROWS,
        "forwarded": 4 * 40,
        "trained": 4 * 40,
    }


def test_a_batch_that_is_emptied_takes_no_step(installed):
    def select_batch(run, batch):
        batch.keep_rows(torch.arange(0 if run.batch else batch.R))

    record = train_tiny(Probe(select_batch=select_batch), installed=installed).record
    assert record["steps"] == 4
    assert record["rows"]["trained"] == 4 * 16


def test_hook_resize_batch(installed):
    assert _chain(installed, "resize_batch") == ["first", "second"] * 2

    def resize_batch(run, batch):
        batch.x = torch.nn.functional.interpolate(batch.x, scale_factor=0.5)

    plain = train_tiny(installed=installed).record
    small = train_tiny(Probe(resize_batch=resize_batch), installed=installed).record
    assert small["rows"] == plain["rows"]
    assert small["flops"] < 0.5 * plain["flops"]


def test_hook_transform_batch(installed):
    assert _chain(installed, "transform_batch") == ["first", "second"] * 2


def test_hook_drain(installed):
    class Holder(Strategy):
        """Hold every batch back, and give them up at the end of the epoch, two at a time."""

        def __init__(self):
            self.held = []

        @hookimpl
        def select_batch(self, batch):
            if batch.R:
                copy = Batch.cat([batch])
                self.held.append(copy)
                batch.keep_rows(torch.arange(0))

        @hookimpl
        def drain(self):
            now, self.held = self.held[:2], self.held[2:]
            return Batch.cat(now) if now else None

    later = []
    after = Probe(select_batch=lambda run, batch: later.append(batch.R))
    record = train_tiny(Holder(), after, installed=installed).record
    assert record["rows"]["trained"] == 4 * ROWS
    assert record["steps"] == 4 * 3
    assert later[:8] == [0, 0, 0, 0, 0, 32, 32, 17], "what was held back passes those after it"


# Owning: one owner, any number of wrappers -------------------------------------------------------


def test_hook_plan_epoch(installed):
    @wrapper
    def plan_epoch(run, epoch, kept):
        plan = yield
        return Plan.cut(plan.rows[:21], 8)

    record = train_tiny(Probe(plan_epoch=plan_epoch), installed=installed).record
    assert record["rows"]["trained"] == 84
    assert record["steps"] == 12


def test_hook_load(installed):
    @wrapper
    def load(run, rows):
        batch = yield
        batch.x = torch.zeros_like(batch.x)
        return batch

    assert train_tiny(Probe(load=load), installed=installed).record["rows"]["loaded"] == 4 * ROWS


def test_hook_forward(installed):
    def forward(run, batch):
        return run.network(batch.x).float()[batch.row]

    result = train_tiny(Probe(forward=forward), installed=installed)
    assert torch.equal(weights(result), weights(train_tiny(installed=installed)))


def test_hook_network(installed):
    def forward(run, batch):
        return run.network(batch.x, between=lambda z: z.mean((2, 3), keepdim=True)).float()

    result = train_tiny(Probe(forward=forward), installed=installed)
    plain = weights(train_tiny(installed=installed))
    assert torch.allclose(weights(result), plain, atol=1e-4), "pooling twice changes nothing"

    @wrapper
    def network(run, x, between):
        return 0 * (yield)

    flat = train_tiny(Probe(network=network), installed=installed)
    assert flat.job.train_loss == pytest.approx(torch.tensor(4.0).log().item())


def test_hook_sample_losses(installed):
    def sample_losses(run, batch, logits):
        return logits.square().mean(1)

    result = train_tiny(Probe(sample_losses=sample_losses), installed=installed)
    assert result.job.train_loss < 0.5


def test_hook_reduce_loss(installed):
    def reduce_loss(run, batch, logits, losses):
        return losses.sum() * 10, batch.R * 10

    result = train_tiny(Probe(reduce_loss=reduce_loss), installed=installed)
    plain = weights(train_tiny(installed=installed))
    assert torch.allclose(weights(result), plain, atol=1e-4), "the denominator undoes the factor"


def test_hook_backward(installed):
    def backward(run, loss):
        numerator, denominator = loss
        (numerator / denominator).backward()
        run.denominator = 1

    result = train_tiny(Probe(backward=backward), installed=installed)
    assert torch.allclose(weights(result), weights(train_tiny(installed=installed)), atol=1e-4)


def test_hook_finish_gradients(installed):
    ratios = []

    def norm(run):
        return sum(p.grad.square().sum() for p in run.model.parameters()).sqrt()

    @wrapper
    def finish_gradients(run):
        before, rows = norm(run), run.denominator / run.unit
        result = yield
        ratios.append((float(before / norm(run)), rows))
        return result

    def should_step(run):
        return run.batch % 2 == 1

    pairs = Probe(finish_gradients=finish_gradients, should_step=should_step)
    train_tiny(pairs, installed=installed)
    assert [rows for _, rows in ratios[:3]] == [2, 2, 1], "in units of the first batch"
    assert [ratio for ratio, _ in ratios] == pytest.approx([rows for _, rows in ratios])


def test_hook_optimizer_step(installed):
    """An owner that returns None has done its work: the default does not step as well."""
    result = train_tiny(Probe(optimizer_step=lambda run: None), installed=installed)
    start = []
    train_tiny(Probe(prepare=lambda run: start.append(deepcopy(run.model))), installed=installed)
    after = dict(result.run.model.named_parameters())
    for name, before in start[0].named_parameters():
        assert torch.equal(before, after[name]), "without a step the weights stay as they were"
    assert result.record["steps"] == 20


def test_hook_kinds_are_those_of_the_design():
    kinds = {kind: [name for name in HOOKS if hookspecs.HOOKS[name] == kind] for kind in KINDS}
    assert kinds == KINDS
