"""Fine-tuning: a learning rate of its own for all but the head, and a trunk that stays as it is."""

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import nn

from dataeff import hookimpl
from dataeff.errors import DataeffError
from dataeff.testing import TASK, train_tiny
from dataeff.training.optimizing import build_optimizer
from dataeff.training.task import Task

ONE_STEP = {"epochs": 1, "batch_size": 128, "validation": 0.0}
PLAIN = {"momentum": 0.0, "weight_decay": 0.0, "schedule": "constant"}


class Steps:
    """Keep what each step began with, and the gradients that it took."""

    def __init__(self):
        self.before, self.gradients, self.rates = [], [], []

    @hookimpl(wrapper=True)
    def optimizer_step(self, run):
        weights = dict(run.model.named_parameters())
        self.before.append({key: value.detach().clone() for key, value in weights.items()})
        self.gradients.append({k: v.grad.clone() for k, v in weights.items() if v.grad is not None})
        self.rates.append([group["lr"] for group in run.optimizer.param_groups])
        return (yield)


def trained(installed, **changes):
    """Train a few steps; return what they were, and the weights at the end."""
    steps = Steps()
    task = Task(**(TASK.model_dump() | changes))
    result = train_tiny(steps, installed=installed, task=task)
    return steps, result.run, dict(result.run.model.state_dict())


def test_a_step_of_the_trunk_is_a_tenth_and_that_of_the_head_whole(installed):
    changes = ONE_STEP | PLAIN
    (plain,), (tuned,) = (
        [trained(installed, **changes, **more)] for more in ({}, {"trunk_lr": 0.1})
    )
    for (steps, _, after), factor in ((plain, 1.0), (tuned, 0.1)):
        assert len(steps.before) == 1
        for key, gradient in steps.gradients[0].items():
            rate = TASK.lr * (1.0 if key.startswith("head.") else factor)
            torch.testing.assert_close(after[key], steps.before[0][key] - rate * gradient)
    assert plain[0].before[0].keys() == tuned[0].before[0].keys()
    assert all(torch.equal(value, tuned[0].before[0][key])
               for key, value in plain[0].before[0].items())  # fmt: skip


def test_both_rates_follow_the_schedule_and_the_heads_is_shown(installed):
    steps, run, _ = trained(installed, trunk_lr=0.25, schedule="cosine")
    assert len(steps.rates) > 10
    assert all(trunk == pytest.approx(0.25 * head) for head, trunk in steps.rates)
    assert steps.rates[0][0] == pytest.approx(TASK.lr)
    assert steps.rates[-1][0] < 0.1 * TASK.lr
    head = {id(p) for p in run.optimizer.param_groups[0]["params"]}
    assert head == {id(p) for p in run.model.head.parameters()}


def test_a_factor_of_one_is_training_as_ever(installed):
    _, run, after = trained(installed)
    _, other, same = trained(installed, trunk_lr=1.0, frozen_trunk=False)
    assert all(torch.equal(value, same[key]) for key, value in after.items())
    assert len(run.optimizer.param_groups) == len(other.optimizer.param_groups) == 1
    assert run.task.id == other.task.id


def test_a_frozen_trunk_is_logistic_regression_on_its_features(installed):
    """By hand: the same batches, features in evaluation, one linear layer."""

    class Batches:
        def __init__(self):
            self.seen = []

        @hookimpl
        def observe_batch(self, run, batch):
            with torch.no_grad():
                model = run.model
                norms = [m.training for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
                assert not any(norms)
                assert model.training
                z = model.forward_features(batch.x).mean((2, 3))
            self.seen.append((z.clone(), batch.y.clone()))

    batches, steps = Batches(), Steps()
    task = Task(**(TASK.model_dump() | PLAIN | {"frozen_trunk": True}))
    result = train_tiny(batches, steps, installed=installed, task=task)
    after = result.run.model.state_dict()
    begin = steps.before[0]
    for key, value in begin.items():
        assert torch.equal(value, after[key]) != key.startswith("head."), key
    assert after["layers.1.num_batches_tracked"] == 0

    head = nn.Linear(16, 4)
    head.load_state_dict({key[5:]: value for key, value in begin.items() if "head." in key})
    for z, y in batches.seen:
        F.cross_entropy(head(z), y).backward()
        with torch.no_grad():
            for weight in head.parameters():
                weight -= TASK.lr * weight.grad
                weight.grad = None
    torch.testing.assert_close(head.weight.detach(), after["head.weight"])
    torch.testing.assert_close(head.bias.detach(), after["head.bias"])


@pytest.mark.parametrize("strategy", ["mixtrain_cutmix", "gradmatch[warm=0]", "amp",
                                      "grad_accumulation", "el2n[models=1,epochs=1]"])  # fmt: skip
def test_strategies_fine_tune(installed, strategy):
    for changes in ({"trunk_lr": 0.1}, {"frozen_trunk": True, "optimizer": "adamw", "lr": 0.01}):
        steps = Steps()
        task = Task(**(TASK.model_dump() | {"epochs": 2} | changes))
        result = train_tiny(strategy, steps, installed=installed, task=task)
        assert result.record["status"] == "finished"
        kept = [key for key, value in result.run.model.named_parameters()
                if torch.equal(value, steps.before[0][key])]  # fmt: skip
        frozen = "frozen_trunk" in changes
        assert bool(kept) == frozen
        assert not any(key.startswith("head.") for key in kept)


def test_an_interrupted_run_goes_on_with_its_rates(installed, tmp_path):
    from dataeff.training.job import Place

    task = Task(**(TASK.model_dump() | {"trunk_lr": 0.1}))
    whole = train_tiny(installed=installed, task=task)

    def stop(number, epochs, line):
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_tiny(installed=installed, task=task, place=Place(tmp_path), on_epoch=stop)
    rest = train_tiny(installed=installed, task=task, place=Place(tmp_path))
    first, second = (r.run.model.state_dict() for r in (whole, rest))
    assert all(torch.equal(value, second[key]) for key, value in first.items())
    assert [g["lr_factor"] for g in rest.run.optimizer.param_groups[1:]] == [0.1]


def test_fine_tuning_makes_another_task_and_leaves_the_names_of_all_others():
    plain = Task(dataset="digits", model="resnet8", epochs=10)
    others = [plain.model_copy(update=change) for change in
              ({"trunk_lr": 0.1}, {"trunk_lr": 0.2}, {"frozen_trunk": True})]  # fmt: skip
    assert len({plain.id, *(other.id for other in others)}) == 4
    # As they were before there were these keys.
    import hashlib
    import json

    known = plain.model_dump(mode="json")
    del known["trunk_lr"], known["frozen_trunk"]
    text = json.dumps(known, separators=(",", ":"))
    assert plain.id == hashlib.sha256(text.encode()).hexdigest()[:8]


def test_what_excludes_itself_or_has_no_head_is_refused(installed):
    with pytest.raises(ValidationError, match="exclude each other"):
        Task(dataset="digits", model="tiny", epochs=1, frozen_trunk=True, trunk_lr=0.5)
    with pytest.raises(ValidationError):
        Task(dataset="digits", model="tiny", epochs=1, trunk_lr=0.0)
    task = Task(dataset="digits", model="odd", epochs=1, trunk_lr=0.5)
    with pytest.raises(DataeffError, match="odd has no layer that is known as its head: leave"):
        build_optimizer(task, nn.BatchNorm2d(3))
