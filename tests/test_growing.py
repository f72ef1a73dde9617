"""Growing: gates and budget against their formulas, and parts that are cut out for real."""

import copy

import pytest
import torch
import torch.nn.functional as F
from conftest import drawn
from dataeff_plugins.growing import Gated, Gates, Growing, seeds, structures
from probes import Stateless, fresh_job, train_epoch
from residuals import DEEPER, FOREIGN, logits_of, train_resnet
from torch import nn

from dataeff import hookimpl

MODEL = "resnet20[width=8]"


def set_up(installed, model=MODEL, target=0.5, **task):
    size = {"dataset": "synthetic[samples=60,size=16,channels=3]", "batch_size": 16}
    run = fresh_job(installed, model=model, **size, **task).run
    strategy = Growing(target)
    strategy.setup(run)
    return run, strategy


def test_gates_are_sigmoids_that_grow_hot_with_the_epochs_they_took_part_in():
    gates = Gates(torch.tensor([0.5, -0.5, 1.0]), hottest=200.0, span=10)
    gates.epochs += torch.tensor([0.0, 5.0, 10.0])
    heat = torch.tensor([1.0, 200.0**0.5, 200.0])
    assert torch.allclose(gates(), torch.sigmoid(heat * torch.tensor([0.5, -0.5, 1.0])))
    assert gates.above().tolist() == [True, False, True]
    gates.settle(torch.tensor([True, True, False]))
    gates.scores.data.neg_()
    assert gates().tolist() == [1.0, 1.0, 0.0], "whatever becomes of the scores"


@pytest.mark.parametrize("training", [True, False])
def test_a_gated_norm_is_the_norm_times_the_gates(training):
    norm = nn.BatchNorm2d(4)
    for tensor in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(tensor)
    plain = copy.deepcopy(norm).train(training)
    gates = Gates(torch.randn(3), 200.0, 10)
    place = torch.tensor([0, 0, 2, 1])
    gated = Gated(norm, gates, place).train(training)
    x = torch.randn(5, 4, 3, 3)
    expected = plain(x) * gates()[place][None, :, None, None]
    assert torch.allclose(gated(x), expected, atol=1e-5)
    assert torch.allclose(gated.running_mean, plain.running_mean)
    assert gated.weight is norm.weight, "the optimizer knows it"


def test_structures_are_groups_of_channels_and_branches_but_the_first_of_a_stage(installed):
    _, strategy = set_up(installed)
    places, branches = structures(strategy._layout, 8)
    assert len(places) == 9
    assert list(branches) == [f"stages.{s}.{b}" for s in range(3) for b in (1, 2)]
    assert places["stages.0.0.conv1"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert places["stages.2.0.conv1"].bincount().tolist()[-4:] == [8, 8, 8, 8]
    numbers = torch.cat([*places.values(), torch.tensor(list(branches.values()))]).unique()
    assert numbers.tolist() == list(range(len(numbers)))
    mask = seeds(places, branches, 0.25)
    assert [int(mask[place].sum()) for place in places.values()] == [2] * 3 + [4] * 3 + [8] * 3
    assert not mask[list(branches.values())].any()


def test_the_first_epoch_trains_the_seed(installed):
    run, strategy = set_up(installed)
    strategy.on_epoch_start(run, 0)
    assert strategy.skipped == list(strategy._branches)
    convs = {name: m for name, m in run.model.named_modules() if isinstance(m, nn.Conv2d)}
    assert convs["stages.0.0.conv1"].weight.shape == (2, 8, 3, 3)
    assert convs["stages.2.0.conv2"].weight.shape == (32, 8, 3, 3)
    assert 0 < strategy.work < 0.25


@pytest.mark.parametrize("model", drawn([MODEL, *FOREIGN], 2))
def test_what_is_cut_computes_what_the_masked_whole_would(installed, model):
    run, strategy = set_up(installed, model)
    full = copy.deepcopy(run.model)
    strategy.on_epoch_start(run, 0)
    names = dict(full.named_modules())
    gates = next(module for module in names.values() if isinstance(module, Gates))
    gates.load_state_dict(strategy._gates.state_dict())
    gates.span = strategy._gates.span
    for name, kept in strategy.kept.items():
        block, _, conv = name.rpartition(".")
        norm = names.get(f"{block}.bn{conv[-1]}")
        if isinstance(norm, Gated) and len(kept) < norm.num_features:
            out = torch.ones(norm.num_features, dtype=torch.bool)
            out[kept] = False
            norm.weight.data[out] = norm.bias.data[out] = 0
    for name in strategy.skipped:
        last = names[name]
        norm = getattr(last, "bn3", last.bn2)
        norm.weight.data.zero_(), norm.bias.data.zero_()
    images = torch.randn(4, *run.shape)
    assert torch.allclose(logits_of(run.model, images), logits_of(full, images), atol=1e-5)


@pytest.mark.parametrize("model", drawn([MODEL, "resnet26"], 1))
def test_the_work_of_a_part_is_what_its_convolutions_take(installed, model):
    run, strategy = set_up(installed, model)
    generator = torch.Generator().manual_seed(0)
    names = [name for block in strategy._layout.blocks for name in block.names("conv")]
    weights = {name: m.weight.numel() for name, m in run.model.named_modules() if name in names}
    full = dict(zip(names, run.work(names), strict=True))
    for _ in range(3):
        strategy._take(run, torch.rand(len(strategy._seeds), generator=generator) < 0.5)
        modules = dict(run.model.named_modules())
        running = [n for n in names if n.rpartition(".")[0] not in strategy.skipped]
        parts = [full[n] * modules[n].weight.numel() / weights[n] for n in running]
        assert 0 < len(running) < len(names)
        assert strategy.work == pytest.approx(sum(parts) / sum(full.values()), rel=1e-5)


@pytest.mark.parametrize("optimizer", drawn(["adam", "adamw"], 1))
def test_adam_goes_on_with_parts_that_come_back(installed, optimizer):
    task = {"optimizer": optimizer, "lr": 0.01}
    run, strategy = set_up(installed, **task)
    strategy.on_epoch_start(run, 0)
    train_epoch(run._job)
    layer = run.model.get_submodule("stages.1.0.conv1")
    squares = run.optimizer.state[layer.weight]["exp_avg_sq"].clone()
    strategy._take(run, torch.ones(len(strategy._seeds), dtype=torch.bool))
    state = run.optimizer.state[layer.weight]
    assert not state["exp_avg"][4:].any()
    assert torch.equal(state["exp_avg_sq"][:4], squares)
    assert torch.allclose(state["exp_avg_sq"][4:], squares.mean())
    train_epoch(run._job)
    assert all(torch.isfinite(p).all() for p in run.model.parameters())


def test_what_waits_keeps_its_weights_and_comes_back_without_momentum(installed):
    run, strategy = set_up(installed)
    every = torch.ones(len(strategy._seeds), dtype=torch.bool)
    strategy._take(run, every)
    train_epoch(run._job)
    start = {name: p.detach().clone() for name, p in run.model.named_parameters()}
    strategy.on_epoch_start(run, 0)
    train_epoch(run._job)
    strategy._take(run, every)
    name = "stages.1.0.conv1"
    layer = dict(run.model.named_modules())[name]
    assert layer.weight.shape == (16, 8, 3, 3)
    assert not strategy.skipped
    assert torch.equal(layer.weight[4:], start[f"{name}.weight"][4:])
    assert not torch.equal(layer.weight[:4], start[f"{name}.weight"][:4])
    momentum = run.optimizer.state[layer.weight]["momentum_buffer"]
    assert momentum[:4].any()
    assert not momentum[4:].any()
    assert strategy.work == pytest.approx(1)
    train_epoch(run._job)
    assert not torch.equal(layer.weight[4:], start[f"{name}.weight"][4:])


@pytest.mark.parametrize(("target", "sign"), [(1.0, 1), (0.01, -1)])
def test_the_budget_pushes_gates_towards_the_target(installed, target, sign):
    run, strategy = set_up(installed, target=target)
    strategy.on_epoch_start(run, 0)
    wrapper = strategy.reduce_loss()
    next(wrapper)
    with pytest.raises(StopIteration) as end:
        wrapper.send((torch.tensor(6.0), 3))
    numerator, denominator = end.value.value
    gates = torch.sigmoid(
        strategy._gates.scores.detach()
        * strategy._gates.hottest ** (strategy._gates.epochs / strategy._gates.span)
    )
    # In the first epoch those above zero are those that take part.
    expected = 6 + 3 * 1.0 * (strategy.work - target) * gates.sum()
    assert float(numerator) == pytest.approx(float(expected))
    assert denominator == 3
    numerator.backward()
    assert (torch.sign(-strategy._gates.scores.grad) == sign).all()


class Shapes(Stateless):
    """Write down the share of the branches' work in each epoch, and who takes part."""

    def __init__(self):
        self.work, self.parts, self.scores = [], [], []

    @hookimpl
    def on_epoch_start(self, run):
        strategy = next(s.plugin for s in run.strategies if s.entry.name == "growing")
        self.scores.append(strategy._gates.scores.detach().clone())

    @hookimpl
    def end_epoch(self, run):
        strategy = next(s.plugin for s in run.strategies if s.entry.name == "growing")
        self.work.append(strategy.work)
        self.parts.append({name: kept.tolist() for name, kept in strategy.kept.items()})


@pytest.mark.parametrize("target", drawn([0.3, 0.7], 1))
def test_a_network_grows_to_its_target(installed, target):
    shapes = Shapes()
    task = DEEPER.model_copy(update={"epochs": 16, "lr": 0.1})
    result = train_resnet(shapes, f"growing[target={target}]", installed=installed, task=task)
    assert shapes.work[0] < 0.1, "the seed"
    assert shapes.work[-1] == pytest.approx(target, abs=0.12)
    assert result.record["columns"]["branch_work"] == shapes.work[-1]


@pytest.mark.parametrize(
    ("epochs", "settle", "begin"), drawn([(8, 0.2, 6), (7.2, 0.2, 6), (6, 0, 5)], 1)
)
def test_the_last_epochs_train_those_above_zero(installed, epochs, settle, begin):
    shapes = Shapes()
    task = DEEPER.model_copy(update={"epochs": epochs})
    text = f"growing[settle={settle}]"
    result = train_resnet(text, shapes, installed=installed, task=task)
    strategy = next(s.plugin for s in result.run.strategies if s.entry.name == "growing")
    plain = train_resnet(installed=installed, task=task)
    assert result.record["flops"] < plain.record["flops"]
    assert len({str(part) for part in shapes.parts}) > 2, "each epoch draws its own"
    assert shapes.parts[begin] == shapes.parts[-1] != shapes.parts[begin - 1]
    scores = shapes.scores[begin]
    for name, place in strategy._places.items():
        wanted = (scores[place] > 0).nonzero()[:, 0]
        best = (place == place[scores[place].argmax()]).nonzero()[:, 0]
        assert strategy.kept[name].tolist() == (wanted if len(wanted) else best).tolist()
    assert [n for n, i in strategy._branches.items() if scores[i] <= 0] == strategy.skipped
    gates = strategy._gates()
    assert set(gates.tolist()) <= {0.0, 1.0}
    assert result.record["columns"]["branch_work"] == pytest.approx(strategy.work)


def test_scores_learn_from_the_loss_without_decay(installed):
    run, strategy = set_up(installed)
    assert run.optimizer.param_groups[-1]["weight_decay"] == 0
    strategy.on_epoch_start(run, 0)
    x, y = torch.randn(8, *run.shape), torch.zeros(8, dtype=torch.long)
    F.cross_entropy(run.model(x), y).backward()
    took_part = strategy._gates.epochs > 0
    gradient = strategy._gates.scores.grad
    assert gradient[took_part].abs().min() > 0
    assert not gradient[~took_part].any()
