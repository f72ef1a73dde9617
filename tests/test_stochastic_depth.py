"""Stochastic depth against the paper's formulas, block by block."""

import copy

import pytest
import torch
import torch.nn.functional as F
from conftest import drawn
from dataeff_plugins._residual import residual_blocks
from dataeff_plugins.stochastic_depth import StochasticDepth, survivals
from probes import Stateless, fresh_run
from residuals import DEEPER, FOREIGN, STRANGE, logits_of, train_resnet
from torch import nn

from dataeff import DataeffError, hookimpl
from dataeff.testing import TASK, train_tiny


def set_up(installed, survival=0.5, model="resnet8[width=8]"):
    run = fresh_run(installed, model=model)
    strategy = StochasticDepth(survival)
    plain = copy.deepcopy(run.model)
    strategy.setup(run)
    return run, strategy, plain


@pytest.mark.parametrize("blocks", [1, 3, 54])
def test_survival_falls_linearly_to_the_last_block(blocks):
    chances = survivals(blocks, 0.5)
    assert chances == [1 - (n / blocks) * (1 - 0.5) for n in range(1, blocks + 1)]
    assert chances[-1] == 0.5
    assert sum(chances) == pytest.approx((3 * blocks - 1) / 4), "the paper's expected depth"


def naive(block, x, b):
    """H = relu(b F(H) + id(H)), the paper's equation, for our basic block."""
    branch = block.bn2(block.conv2(F.relu(block.bn1(block.conv1(x)))))
    return F.relu(b * branch + block.shortcut(x))


def naive_logits(model, x, factors):
    x = F.relu(model.bn(model.conv(x)))
    blocks = [block for stage in model.stages for block in stage]
    for block, factor in zip(blocks, factors, strict=True):
        x = naive(block, x, factor)
    return model.forward_head(x)


def test_tests_weigh_each_branch_by_its_chance(installed):
    run, _, plain = set_up(installed)
    images = torch.randn(5, *run.shape)
    expected = naive_logits(plain.eval(), images, [5 / 6, 4 / 6, 3 / 6])
    assert torch.allclose(logits_of(run.model, images), expected, atol=1e-5)


@pytest.mark.parametrize("skipped", [(), (1,), (0, 2), (0, 1, 2)])
def test_training_leaves_skipped_branches_out(installed, skipped):
    run, strategy, plain = set_up(installed)
    images = torch.randn(5, *run.shape)
    expected = naive_logits(plain.train(), images, [float(n not in skipped) for n in range(3)])
    for number in skipped:
        strategy._blocks[number].skip = True
    logits = run.model.train()(images)
    assert torch.allclose(logits, expected, atol=1e-5)
    logits.sum().backward()
    for number, block in enumerate(strategy._blocks):
        untouched = [p.grad is None for p in block.parameters()]
        assert all(untouched) if number in skipped else not any(untouched)


class Draws(Stateless):
    """Write down which branches run, and the weights after each step."""

    def __init__(self):
        self.drawn, self.trained = [], []

    @hookimpl(wrapper=True)
    def network(self, run):
        if torch.is_grad_enabled():
            blocks = [block.module for block in residual_blocks(run, "test")]
            self.drawn.append([not block.skip for block in blocks])
        return (yield)

    @hookimpl
    def optimizer_step(self, run):
        blocks = [block.module for block in residual_blocks(run, "test")]
        before = [block.conv1.weight.detach().clone() for block in blocks]
        run.optimizer.step()
        pairs = zip(before, blocks, strict=True)
        self.trained.append([not torch.equal(old, block.conv1.weight) for old, block in pairs])


def test_one_coin_per_block_and_batch_decides_who_is_trained(installed):
    task = DEEPER.model_copy(update={"epochs": 12})
    probe = Draws()
    record = train_resnet("stochastic_depth", probe, installed=installed, task=task).record
    assert probe.drawn == probe.trained, "neither momentum nor decay move what was skipped"
    ran = torch.tensor(probe.drawn).float()
    assert len(ran) == 60
    assert ran.mean(0) == pytest.approx(survivals(9, 0.5), abs=0.25)
    assert record["columns"]["blocks_run"] == pytest.approx(float(ran.mean()))
    counts = [sum(draw) for draw in probe.drawn]
    assert len(set(counts)) > 2


def test_work_falls_by_what_was_skipped(installed):
    probe = Draws()
    record = train_resnet("stochastic_depth", probe, installed=installed).record
    plain = train_resnet(installed=installed)
    names = ["stages.0.0", "stages.1.0", "stages.2.0"]
    parts = plain.run.work(names)
    assert sum(parts) < 1
    batches = [17 if n % 5 == 4 else 16 for n in range(20)]
    expected = sum(
        rows * (1 - sum(p for p, ran in zip(parts, draw, strict=True) if not ran))
        for rows, draw in zip(batches, probe.drawn, strict=True)
    )
    assert record["flops"] / plain.record["flops"] == pytest.approx(expected / sum(batches))
    assert record["rows"]["trained"] == plain.record["rows"]["trained"]


def test_scores_come_from_the_whole_network(installed):
    class Scores(Stateless):
        @hookimpl
        def end_epoch(self, run):
            run.score_dataset()

    record = train_resnet("stochastic_depth[survival=0.1]", Scores(), installed=installed).record
    alone = train_resnet("stochastic_depth[survival=0.1]", installed=installed).record
    plain = train_resnet(installed=installed).record
    per_row = plain["flops"] / 3 / plain["rows"]["trained"]
    assert record["flops"] - alone["flops"] == pytest.approx(per_row * record["rows"]["scored"])


def test_depth_and_mixing_both_show_in_the_counts(installed):
    both = train_resnet("stochastic_depth+mixtrain_mixup[selection=none]", installed=installed)
    mixed = train_resnet("mixtrain_mixup[selection=none]", installed=installed).record
    plain = train_resnet(installed=installed).record
    assert both.record["rows"]["trained"] == mixed["rows"]["trained"] < plain["rows"]["trained"]
    assert both.record["flops"] < mixed["flops"]
    assert both.record["columns"]["blocks_run"] < 1


@pytest.mark.parametrize("model", drawn(FOREIGN, 1))
def test_networks_of_timm_and_torchvision_skip_for_real(installed, model):
    run, strategy, plain = set_up(installed, model=model)
    images = torch.randn(4, *run.shape)
    for block in strategy._blocks:
        block.skip = True
    seen = []
    for module in run.model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda *call: seen.append(call[0]))
    short = run.model.train()(images)
    inside = {
        m for block in strategy._blocks for name, m in block.named_modules() if "." not in name
    }
    assert torch.isfinite(short).all()
    assert not inside & set(seen), "no convolution of a branch ran"
    for block in strategy._blocks:
        block.skip = False
    assert torch.allclose(run.model(images), plain.train()(images), atol=1e-4)


@pytest.mark.parametrize("name", ["stochastic_depth", "growing"])
def test_what_changes_all_the_time_is_not_compiled(installed, name):
    task = DEEPER.model_copy(update={"compile": "eager"})
    with pytest.raises(DataeffError, match=f"{name} changes the network too often to compile it"):
        train_resnet(name, installed=installed, task=task)


def test_a_block_with_more_to_train_in_it_is_none(installed):
    """What follows the last norm would be scaled before, not after: SE(p z) is not p SE(z)."""
    run = fresh_run(installed, model="seresnet18")
    assert {type(block.end).__name__ for block in residual_blocks(run, "test")} == {"SEModule"}
    with pytest.raises(DataeffError, match="legacy_seresnet18 is none"):
        residual_blocks(fresh_run(installed, model="legacy_seresnet18"), "test")


@pytest.mark.parametrize("model", STRANGE)
@pytest.mark.parametrize("name", ["stochastic_depth", "prunetrain", "growing", "fixres"])
def test_another_network_is_refused_before_training(installed, name, model):
    task = TASK.model_copy(
        update={
            "model": model,
            "dataset": "synthetic[samples=30,test_samples=8,size=16,channels=3]",
        }
    )
    with pytest.raises(DataeffError, match=rf"{name} .*{model[:10]}"):
        train_tiny(name, installed=installed, task=task)
