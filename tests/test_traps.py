"""What the design warns of, each tried: how trainers of this kind go wrong quietly."""

import gc
from types import FunctionType, ModuleType

import pytest
import torch
import torch.nn.functional as F
from conftest import drawn
from probes import Stateless, fresh_job, fresh_run
from torch import nn

from dataeff import DataeffError, StrategyError, hookimpl
from dataeff.models import build_model
from dataeff.testing import TASK, lab_of, train_tiny, weights


def run_task(installed, *strategies, **changes):
    return train_tiny(*strategies, installed=installed, task=TASK.model_copy(update=changes))


# Gradients -------------------------------------------------------------------------------------


def test_unequal_micro_batches_give_the_gradient_of_one_big_batch(installed):
    """Averaging averages would weigh the short last micro-batch too much."""

    class Whole(Stateless):
        @hookimpl
        def should_step(self, run):
            return False

        @hookimpl(wrapper=True)
        def finish_gradients(self, run):
            result = yield
            self.gradient = [p.grad.clone() for p in run.model.parameters()]
            self.model = run.model
            return result

        @hookimpl
        def optimizer_step(self):
            return None

    installed.models.register("plain_net", PlainNet)
    probe = Whole()
    task = TASK.model_copy(update={"model": "plain_net", "epochs": 1, "batch_size": 32})
    result = train_tiny(probe, installed=installed, task=task)
    run = result.run
    assert result.record["steps"] == 1
    samples = run.split("train")
    (x,) = run.train.stream([samples], (0, 0))
    loss = F.cross_entropy(run.model(x), run.labels[samples])
    expected = torch.autograd.grad(loss, list(run.model.parameters()))
    for ours, theirs in zip(probe.gradient, expected, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


class PlainNet(nn.Module):
    """A network without BatchNorm, with dropout if asked for."""

    def __init__(self, classes: int, shape: tuple[int, int, int], *, dropout: float = 0.0):
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 6, 3, stride=2)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(6, classes)

    def forward_features(self, x):
        return self.dropout(F.relu(self.conv(x)))

    def forward_head(self, z):
        return self.head(z.mean((2, 3)))

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


def test_clipping_bounds_the_norm_of_the_divided_gradient(installed):
    norms = []

    class Look(Stateless):
        @hookimpl(wrapper=True)
        def finish_gradients(self, run):
            result = yield
            norms.append(float(torch.stack([p.grad.norm() for p in run.model.parameters()]).norm()))
            return result

    task = TASK.model_copy(update={"clip": 0.01})
    train_tiny(Look(), installed=installed, task=task)
    assert max(norms) == pytest.approx(0.01, rel=1e-3)


def test_label_smoothing_is_in_the_gradient_and_never_in_recorded_losses(installed):
    batch_losses = []

    class Look(Stateless):
        @hookimpl(wrapper=True)
        def reduce_loss(self, run, batch, logits, losses):
            numerator, denominator = yield
            smooth = F.cross_entropy(logits, batch.y, label_smoothing=0.2, reduction="sum")
            batch_losses.append((numerator.item(), smooth.item(), denominator == batch.R))
            plain = F.cross_entropy(logits, batch.y, reduction="none")
            assert torch.equal(losses, plain)
            assert torch.equal(run.ledger.last_loss[batch.idx], plain.detach())
            return numerator, denominator

    task = TASK.model_copy(update={"label_smoothing": 0.2})
    train_tiny(Look(), installed=installed, task=task)
    assert batch_losses
    for numerator, smooth, whole in batch_losses:
        assert numerator == pytest.approx(smooth, rel=1e-4)
        assert whole


# Modes and statistics --------------------------------------------------------------------------


def test_scoring_leaves_batch_norm_alone_and_a_frozen_one_frozen(installed):
    run = fresh_run(installed)
    frozen, other = [m for m in run.model.modules() if isinstance(m, nn.BatchNorm2d)]
    frozen.eval()
    before = [frozen.running_mean.clone(), other.running_mean.clone()]
    scores = run.score_dataset()
    assert len(scores) == 81
    assert (frozen.training, other.training) == (False, True)
    assert torch.equal(frozen.running_mean, before[0])
    assert torch.equal(other.running_mean, before[1])


def test_scores_come_in_the_order_asked_and_from_the_plain_view(installed):
    job = fresh_job(installed)
    run = job.run
    indices = torch.tensor([70, 3, 3, 12])
    scores = run.score_dataset(indices=indices)
    (x,) = run.train.stream([indices], None)
    expected = F.cross_entropy(run.model.eval()(x), run.labels[indices], reduction="none")
    assert torch.allclose(scores, expected, atol=1e-5)
    assert job.meter.rows["scored"] == 4


def test_another_model_can_be_scored(installed):
    run = fresh_run(installed)
    other = build_model("tiny[width=4]", installed.models, classes=4, shape=(3, 8, 8))
    mine = run.score_dataset()
    theirs = run.score_dataset(model=other)
    assert not torch.equal(mine, theirs)
    assert torch.equal(run.score_dataset(), mine)


# Pruned, emptied, one left ---------------------------------------------------------------------


def test_everything_pruned_fails_with_one_sentence(installed):
    class All(Stateless):
        @hookimpl
        def prune_dataset(self, run):
            return torch.zeros(90, dtype=torch.bool)

    with pytest.raises(DataeffError, match="every sample was pruned"):
        train_tiny(All(), installed=installed)


def test_one_row_left_trains(installed):
    class AllButOne(Stateless):
        @hookimpl
        def prune_dataset(self, run):
            mask = torch.zeros(90, dtype=torch.bool)
            mask[run.split("train")[5]] = True
            return mask

    record = train_tiny(AllButOne(), installed=installed).record
    assert record["status"] == "finished"
    assert record["rows"]["trained"] == 4


# The test set ----------------------------------------------------------------------------------


def test_a_strategy_that_peeks_at_test_data_is_refused_by_name(installed):
    class Peek(Stateless):
        @hookimpl
        def prepare(self, run):
            run.score_dataset(split="test")

    with pytest.raises(StrategyError, match=r"peek, in prepare: .*'test'"):
        train_tiny(Peek(), installed=installed)


def test_nothing_that_hangs_on_a_run_leads_to_the_test_set(installed):
    data = lab_of(installed).data(TASK)
    run = fresh_run(installed)
    seen, queue = set(), [run]
    while queue:
        value = queue.pop()
        if id(value) in seen or isinstance(value, type | ModuleType):
            continue
        seen.add(id(value))
        assert value is not data
        assert value is not data.test
        # Functions lead everywhere through their globals; what they close over is their own.
        inside = getattr(value, "__closure__", None) or ()
        queue += inside if isinstance(value, FunctionType) else gc.get_referents(value)
    assert id(data.train) in seen


# Options of the task ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    drawn(
        [
            {"optimizer": "adam", "lr": 0.01},
            {"optimizer": "adamw", "lr": 0.01},
            {"nesterov": True},
            {"channels_last": False},
            {"compile": "aot_eager"},
            {"deterministic": True},
            {"schedule": "onecycle", "warmup": 1},
            {"schedule": "step", "milestones": (2, 3)},
            {"validation": 0},
            {"batch_size": 81, "epochs": 16},
        ],
        4,
    ),
)
def test_options_of_a_task_train(installed, changes):
    record = run_task(installed, **changes).record
    assert record["status"] == "finished"
    assert record["train_loss"] < 1.1, "an untrained network has 1.3"


def test_compiling_does_not_change_the_numbers(installed):
    plain, compiled = run_task(installed), run_task(installed, compile="aot_eager")
    assert torch.allclose(weights(plain), weights(compiled), atol=1e-3)


def test_training_leaves_the_callers_random_state_alone(installed):
    before = torch.get_rng_state()
    train_tiny("baseline", installed=installed)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled()


# Progress --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epochs", "share"), [(25, 0.28), (50, 0.28), (100, 0.07), (10, 0.101)])
def test_float_residue_is_no_epoch(installed, epochs, share):
    job = fresh_job(installed, f"short_schedule[share={share}]", epochs=epochs)
    assert job.run.epoch_count == -(-round(epochs * share * 1000) // 1000)


def test_a_sliver_of_an_epoch_trains_a_row(installed):
    record = train_tiny("short_schedule[share=0.2501]", installed=installed).record
    assert record["rows"]["trained"] == 82


def test_a_pending_step_keeps_the_learning_rate_of_its_batches(installed):
    rates = []

    class Whole(Stateless):
        @hookimpl
        def should_step(self):
            return False

        @hookimpl
        def end_epoch(self, run):
            rates.append(run.optimizer.param_groups[0]["lr"])

    task = TASK.model_copy(update={"schedule": "step", "milestones": (1, 3), "gamma": 0.5})
    train_tiny(Whole(), installed=installed, task=task)
    assert rates == [TASK.lr, TASK.lr / 2, TASK.lr / 2, TASK.lr / 4]
