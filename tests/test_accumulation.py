"""Gradient accumulation, pinned memory, and the gradient scaler, against what they stand for."""

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.amp import AMP
from dataeff_plugins.pin_memory import PinMemory
from probes import Stateless, fresh_job
from records import Folder
from torch import nn

from dataeff import hookimpl
from dataeff.data import load_dataset
from dataeff.data.stream import StreamSplit
from dataeff.models.small import PooledNet
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training.optimizing import build_optimizer

PLAIN = TASK.model_copy(update={"model": "unnormed", "epochs": 1, "schedule": "constant"})


class Unnormed(PooledNet):
    """A network without BatchNorm: what a batch gives is the mean of what its samples give."""

    def __init__(self, classes, shape):
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 6, 3, stride=2, padding=1)
        self.head = nn.Linear(6, classes)

    def forward_features(self, x):
        return F.relu(self.conv(x))


def unnormed(classes, shape):
    """Build it."""
    return Unnormed(classes, shape)


class Gradients(Stateless):
    """Write down the gradient of every step, just before the optimizer sees it."""

    def __init__(self):
        self.steps, self.sizes = [], []

    @hookimpl
    def observe_batch(self, batch):
        self.sizes.append(batch.R)

    @hookimpl(wrapper=True)
    def optimizer_step(self, run):
        parameters = [p for p in run.model.parameters() if p.grad is not None]
        self.steps.append(torch.cat([p.grad.flatten() for p in parameters]).clone())
        return (yield)


def gradients(*strategies, installed, **changes):
    if "unnormed" not in installed.models:
        installed.models.register("unnormed", unnormed, source="test")
    probe = Gradients()
    task = PLAIN.model_copy(update=changes)
    return probe, train_tiny(*strategies, probe, installed=installed, task=task)


def test_four_batches_of_32_give_the_gradient_of_one_of_128(installed):
    data = "synthetic[samples=143,test_samples=20,classes=4,size=8]"
    small, _ = gradients(
        "grad_accumulation[steps=4]", installed=installed, dataset=data, batch_size=32
    )
    large, _ = gradients(installed=installed, dataset=data, batch_size=128)
    assert small.sizes == [32, 32, 32, 33]
    assert large.sizes == [129]
    assert len(small.steps) == len(large.steps) == 1
    assert torch.allclose(small.steps[0], large.steps[0], rtol=1e-4, atol=1e-6)
    assert large.steps[0].abs().max() > 1e-2


def test_a_last_group_that_is_not_full_takes_its_step_too(installed):
    probe, result = gradients("grad_accumulation[steps=3]", installed=installed)
    assert probe.sizes == [16, 16, 16, 16, 17]
    assert result.record["steps"] == len(probe.steps) == 2
    naive, _ = gradients(installed=installed, batch_size=48)
    assert torch.allclose(probe.steps[0], naive.steps[0], rtol=1e-4, atol=1e-6)


def test_groups_do_not_reach_into_the_next_epoch(installed):
    _, result = gradients("grad_accumulation[steps=3]", installed=installed, epochs=3)
    assert result.record["steps"] == 3 * 2


def test_rows_and_steps_both_fall_with_selection(installed):
    alone = train_tiny("selective_backprop", installed=installed).record
    both = train_tiny("grad_accumulation[steps=2]+selective_backprop", installed=installed).record
    plain = train_tiny(installed=installed).record
    assert both["rows"]["trained"] < plain["rows"]["trained"]
    assert both["steps"] < alone["steps"] < plain["steps"]


# Gradient scaler --------------------------------------------------------------------------------


class Infinite(Stateless):
    """Make the gradient of some steps infinite."""

    def __init__(self, *steps):
        self.wrong, self.step, self.seen = steps, 0, []

    @hookimpl
    def backward(self, run, loss):
        run.denominator = run.unit = loss[1]
        (loss[0] / loss[1]).backward()
        if self.step in self.wrong:
            run.model.head.weight.grad[0, 0] = float("inf")
        self.step += 1

    @hookimpl(wrapper=True, trylast=True)
    def optimizer_step(self, run):
        before = run.model.head.weight.detach().clone()
        result = yield
        self.seen.append(not torch.equal(before, run.model.head.weight))
        return result


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_infinite_gradients_skip_their_steps_and_are_counted(installed, optimizer):
    probe = Infinite(0, 3, 4)
    task = TASK.model_copy(update={"optimizer": optimizer, "lr": 0.01})
    result = train_tiny(AMP(dtype="float16"), probe, installed=installed, task=task)
    assert probe.seen == [step not in (0, 3, 4) for step in range(20)]
    assert result.record["columns"]["amp_skipped_steps"] == 3
    scaler = result.run.strategies[0].plugin.scaler
    assert scaler.get_scale() == 2.0**16 / 2**3
    assert torch.isfinite(weights(result)).all()


def test_a_first_step_that_is_skipped_leaves_no_momentum(installed):
    """torch's fused kernel would go on from memory that nobody has written."""
    optimizer = build_optimizer(TASK, model := nn.Linear(3, 2))
    for state in optimizer.state.values():
        assert not state["momentum_buffer"].any()
    model.weight.grad, model.bias.grad = torch.ones(2, 3), torch.ones(2)
    optimizer.found_inf = torch.ones(())
    optimizer.step()
    assert all(not state["momentum_buffer"].any() for state in optimizer.state.values())


def test_weights_that_join_later_begin_with_their_own_gradient():
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    fused = build_optimizer(TASK, ours)
    plain = torch.optim.SGD(
        theirs.parameters(), lr=TASK.lr, momentum=0.9, weight_decay=TASK.weight_decay, foreach=False
    )
    for step in range(3):
        for model, optimizer in ((ours, fused), (theirs, plain)):
            model.weight.grad = torch.full((2, 3), step + 1.0)
            model.bias.grad = torch.ones(2) if step else None
            optimizer.step()
    assert torch.allclose(ours.weight, theirs.weight)
    assert torch.allclose(ours.bias, theirs.bias)


def test_gradients_are_unscaled_before_they_are_clipped(installed):
    task = TASK.model_copy(update={"clip": 0.01})
    probe = Gradients()
    train_tiny(probe, AMP(dtype="float16"), installed=installed, task=task)
    assert all(float(step.norm()) == pytest.approx(0.01, rel=1e-3) for step in probe.steps)


def test_gradients_may_be_clipped_by_value(installed):
    task = TASK.model_copy(update={"clip": 0.01, "clip_by": "value"})
    probe, free = Gradients(), Gradients()
    train_tiny(probe, installed=installed, task=task)
    train_tiny(free, installed=installed)
    assert torch.equal(probe.steps[0], free.steps[0].clamp(-0.01, 0.01))


def test_amp_and_mixing_both_show_in_the_counts(installed):
    record = train_tiny("amp+mixtrain_cutmix[selection=none]", installed=installed).record
    plain = train_tiny(installed=installed).record
    assert record["rows"]["trained"] < 0.8 * plain["rows"]["trained"]
    assert record["columns"]["amp_dtype"] == "bfloat16"


def test_smaller_images_and_fewer_samples_both_show_in_the_counts(installed):
    task = TASK.model_copy(update={"epochs": 8})
    names = ("input_scaling", "infobatch", "input_scaling+infobatch")
    scaled, pruned, both = (train_tiny(n, installed=installed, task=task).record for n in names)
    assert both["flops"] < min(scaled["flops"], pruned["flops"])
    assert both["rows"]["trained"] < scaled["rows"]["trained"]


# Pinned memory ----------------------------------------------------------------------------------


def test_pinning_says_that_it_has_no_effect_on_a_cpu(installed):
    plain, pinned = train_tiny(installed=installed), train_tiny("pin_memory", installed=installed)
    assert torch.equal(weights(plain), weights(pinned))
    assert plain.record["no_effect"] == ""
    assert pinned.record["no_effect"] == "batches stay in the memory of the CPU"
    both = train_tiny("pin_memory+random_subset[keep=0.5]", installed=installed)
    assert both.record["no_effect"] == "", "the other one has an effect"


def test_training_is_the_same_wherever_the_images_stay(installed):
    text = f"{TASK.dataset[:-1]},crop=1,flip=true%s]"
    device, host, pinned = (
        train_tiny(*strategies, installed=installed, task=TASK.model_copy(update={"dataset": data}))
        for data, *strategies in (
            (text % "",),
            (text % ",memory=host",),
            (text % ",memory=host", "pin_memory"),
        )
    )
    assert torch.equal(weights(device), weights(host))
    assert torch.equal(weights(device), weights(pinned))
    assert device.record["metrics"] == host.record["metrics"]
    assert pinned.record["no_effect"] == "batches stay in the memory of the CPU"


def elsewhere(installed, train):
    """Return a run over these samples, on a device that this machine need not have."""
    job = fresh_job(installed)
    job.train, job.run.device = train, torch.device("cuda")
    return job.run


def test_pinning_pins_what_is_streamed_and_only_that(installed):
    stream = StreamSplit(["a.png"], torch.zeros(1, dtype=torch.long))
    run, strategy = elsewhere(installed, stream), PinMemory()
    strategy.setup(run)
    assert strategy.no_effect == ""
    assert run.train is not stream, "another run may read the same dataset"
    assert run.train._new_loader().pin_memory
    assert not stream._new_loader().pin_memory


def test_pinning_pins_images_on_the_host_but_not_on_the_device(installed):
    for memory, no_effect in (
        ("host", ""),
        ("device", "the whole dataset is on the device from the start (write memory=host)"),
    ):
        text = f"{TASK.dataset[:-1]},memory={memory}]"
        data = load_dataset(text, installed.datasets)
        run, strategy = elsewhere(installed, data.train), PinMemory()
        strategy.setup(run)
        assert strategy.no_effect == no_effect
        assert getattr(run.train, "_pin", False) == (memory == "host")
        assert not getattr(data.train, "_pin", False), "another run may read the same dataset"


def test_a_row_without_effect_has_no_verdict_and_no_place(tmp_path):
    folder = Folder(tmp_path / "hand")
    folder.fill("base", [70, 71, 72], [10, 10.1, 9.9])
    folder.fill("fast", [70, 71, 72.5], [5, 5.1, 4.9])
    folder.fill("idle", [70, 71, 72], [9.1, 9.2, 9.0], no_effect="nothing is copied")
    table = folder.board().table.set_index("strategy")
    assert table.loc["idle", "verdict"] == "no effect here"
    assert table.loc["idle", "sentence"] == "no effect here: nothing is copied"
    assert table.index.tolist()[:3] == ["base", "fast", "idle"], "who does something comes first"
    assert not table.loc["idle", "pareto"]
    alone = Folder(tmp_path / "alone")
    alone.fill("base", [70, 71, 72], [10, 10.1, 9.9])
    alone.fill("fast", [70, 71, 72.5], [5, 5.1, 4.9])
    same = alone.board().table.set_index("strategy").loc["fast"]
    assert same["verdict"] == table.loc["fast", "verdict"], "it burdens no other test"
