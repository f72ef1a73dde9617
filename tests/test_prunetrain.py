"""PruneTrain: the lasso against the paper's sum, and surgery that changes nothing but the size."""

import pytest
import torch
from conftest import drawn
from dataeff_plugins._surgery import channel_layout, cut, narrow, put
from dataeff_plugins.prunetrain import PruneTrain, group_lasso, live_channels
from hypothesis import given
from hypothesis import strategies as st
from probes import Stateless, fresh_run, train_epoch
from residuals import DEEPER, FOREIGN, RESNET, logits_of, train_resnet
from torch import nn

from dataeff import DataeffError, hookimpl
from dataeff.testing import train_tiny

SOON = "prunetrain[every=1,threshold=0.3]"
NETWORKS = ["resnet8[width=8]", "resnet20[width=8]", *FOREIGN, "resnet18d"]


def a_run(installed, model):
    """Set up a run whose weights, statistics and momentum are all different."""
    run = fresh_run(installed, model=model, dataset="synthetic[samples=40,size=16,channels=3]")
    generator = torch.Generator().manual_seed(1)
    for name, tensor in run.model.state_dict().items():
        if tensor.is_floating_point():
            noise = torch.rand(tensor.shape, generator=generator)
            # As large on the way out as on the way in.
            size = tensor[0].numel() ** 0.5
            tensor.copy_(noise + 0.5 if "var" in name else 4 * (noise - 0.5) / size)
    for state in run.optimizer.state.values():
        buffer = state["momentum_buffer"]
        buffer.copy_(1e-3 * torch.rand(buffer.shape, generator=generator))
    return run


def kill(run, space, channels):
    """Make channels dead in every layer that writes or reads them."""
    modules = dict(run.model.named_modules())
    with torch.no_grad():
        for name in space.makers:
            modules[name].weight[channels] = 0
        for name in space.readers:
            modules[name].weight[:, channels] = 0


# The lasso --------------------------------------------------------------------------------------


def naive_lasso(weights):
    total = 0.0
    for number, weight in enumerate(weights):
        for k in range(weight.shape[0]):
            if number < len(weights) - 1:
                total += float((weight[k].square().sum() + 1e-8).sqrt())
        for c in range(weight.shape[1]):
            if number > 0:
                total += float((weight[:, c].square().sum() + 1e-8).sqrt())
    return total


def test_the_lasso_is_the_sum_over_what_layers_write_and_read():
    weights = [torch.randn(4, 3, 3, 3), torch.randn(5, 4, 1, 1), torch.randn(2, 5)]
    assert float(group_lasso(weights)) == pytest.approx(naive_lasso(weights), rel=1e-5)


def test_every_convolution_and_the_head_are_in_it_once(installed):
    run = fresh_run(installed, model="resnet20[width=8]")
    strategy = PruneTrain()
    strategy.setup(run)
    layers = [m for m in run.model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(strategy._layers) == len(layers) == len(set(strategy._layers) & set(layers))
    assert strategy._layers[0] is run.model.conv
    assert strategy._layers[-1] is run.model.head


class Losses(Stateless):
    """Write down the loss without and with the lasso."""

    def __init__(self):
        self.plain, self.whole = [], []

    @hookimpl
    def sample_losses(self, batch, logits):
        losses = torch.nn.functional.cross_entropy(logits, batch.y, reduction="none")
        self.plain.append(float(losses.mean().detach()))
        return losses

    @hookimpl(wrapper=True, tryfirst=True)
    def reduce_loss(self):
        numerator, denominator = yield
        self.whole.append(float((numerator / denominator).detach()))
        return numerator, denominator


@pytest.mark.parametrize("ratio", [0.2, 0.4])
def test_the_first_batch_sets_the_share_of_the_lasso(installed, ratio):
    probe = Losses()
    task = RESNET.model_copy(update={"lr": 1e-9})
    train_resnet(probe, f"prunetrain[ratio={ratio}]", installed=installed, task=task)
    lasso = [whole - plain for plain, whole in zip(probe.plain, probe.whole, strict=True)]
    assert lasso[0] / probe.whole[0] == pytest.approx(ratio, rel=1e-4)
    assert lasso == pytest.approx([lasso[0]] * 20, rel=1e-3), (
        "its strength stays, as the weights do"
    )


# Surgery ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", drawn(NETWORKS, 2))
def test_dead_channels_are_cut_out_without_a_trace(installed, model):
    run = a_run(installed, model)
    layout = channel_layout(run, "prunetrain")
    for number, space in enumerate(layout.spaces):
        kill(run, space, [0, 2 + number % 3])
    images = torch.randn(4, *run.shape)
    expected, weights = logits_of(run.model, images), sum(p.numel() for p in run.model.parameters())
    live = live_channels(layout, run.model, 1e-4)
    remembered = {p: dict(state) for p, state in run.optimizer.state.items()}
    old = dict(run.model.named_parameters())
    narrow(run, layout, live)
    assert torch.allclose(logits_of(run.model, images), expected, atol=1e-4)
    assert sum(p.numel() for p in run.model.parameters()) < weights
    assert all(len(live[space.name]) <= space.size for space in layout.spaces)
    sides = layout.sides(live)
    for name, parameter in run.model.named_parameters():
        outputs, inputs = sides[name.rpartition(".")[0]]
        kept = cut(old[name].detach(), outputs, inputs)
        assert torch.equal(parameter, kept)
        momentum = run.optimizer.state[parameter]["momentum_buffer"]
        was = remembered[old[name]]["momentum_buffer"]
        assert torch.equal(momentum, cut(was, outputs, inputs))
    held = [p for group in run.optimizer.param_groups for p in group["params"]]
    assert set(held) == set(run.model.parameters()) == set(run.optimizer.state)
    run.model.train()
    train_epoch(run._job)
    assert torch.isfinite(logits_of(run.model, images)).all()


def test_surgery_twice_is_surgery_once(installed):
    once, twice = (a_run(installed, "resnet20[width=8]") for _ in range(2))
    layouts = [channel_layout(run, "prunetrain") for run in (once, twice)]
    for run, layout in zip((once, twice), layouts, strict=True):
        for space in layout.spaces:
            kill(run, space, [1, 3, 4])
    sizes = {space.name: space.size for space in layouts[0].spaces}
    first = {name: torch.arange(size)[torch.arange(size) != 3] for name, size in sizes.items()}
    narrow(twice, layouts[1], first)
    narrow(twice, layouts[1], live_channels(layouts[1], twice.model, 1e-4))
    narrow(once, layouts[0], live_channels(layouts[0], once.model, 1e-4))
    images = torch.randn(3, *once.shape)
    assert torch.equal(logits_of(once.model, images), logits_of(twice.model, images))
    same = zip(once.model.state_dict().items(), twice.model.state_dict().items(), strict=True)
    assert all(a[0] == b[0] and torch.equal(a[1], b[1]) for a, b in same)


def test_a_channel_stays_while_any_layer_writes_or_reads_it(installed):
    run = a_run(installed, "resnet20[width=8]")
    layout = channel_layout(run, "prunetrain")
    modules = dict(run.model.named_modules())
    inner = next(space for space in layout.spaces if space.name == "stages.0.1.conv1")
    with torch.no_grad():
        modules[inner.makers[0]].weight[5] = 0
        modules[inner.readers[0]].weight[:, 6] = 0
        modules[inner.makers[0]].weight[7] = -modules[inner.makers[0]].weight[7].abs()
        modules[inner.readers[0]].weight[:, 7] = -modules[inner.readers[0]].weight[:, 7].abs()
    kept = live_channels(layout, run.model, 1e-4)[inner.name]
    assert kept.tolist() == list(range(8)), "dead on one side, or negative, is not dead"


def test_a_channel_that_is_copied_on_stays_as_long_as_it_is_read_there(installed):
    run = a_run(installed, "resnet8[width=8]")
    layout = channel_layout(run, "prunetrain")
    stem = layout.spaces[0]
    kill(run, stem, [2])
    assert 2 in live_channels(layout, run.model, 1e-4)[stem.name].tolist()
    for _, _, target in layout.routes:
        kill(run, target, [2])
    assert 2 not in live_channels(layout, run.model, 1e-4)[stem.name].tolist()


def test_a_space_never_loses_its_last_channel(installed):
    run = a_run(installed, "torchvision:resnet18")
    layout = channel_layout(run, "prunetrain")
    for space in layout.spaces:
        kill(run, space, list(range(space.size)))
    assert all(len(kept) == 1 for kept in live_channels(layout, run.model, 1e-4).values())


@pytest.mark.parametrize(
    ("model", "dead"),
    drawn(
        [
            ("resnet20[width=8]", 2),
            ("resnet20[width=8]", 1),
            ("torchvision:resnet18", 2),
            ("torchvision:resnet18", 1),
            ("resnet26", 3),
            ("resnet26", 2),
            ("resnet26", 1),
        ],
        2,
    ),
)
def test_a_dead_branch_is_taken_out_and_its_constant_stays(installed, model, dead):
    run = a_run(installed, model)
    strategy = PruneTrain(every=1)
    strategy.setup(run)
    block = strategy._layout.blocks[3]
    block.layers[dead - 1][0].weight.data.zero_()
    everywhere = all(conv.kernel_size == (1, 1) for conv, _ in block.layers[dead:])
    images, maps = torch.randn(4, *run.shape), []
    look = block.norm.register_forward_hook(lambda *seen: maps.append(seen[-1].clone()))
    expected, flops = logits_of(run.model, images), run.work([block.name])
    look.remove()
    strategy.on_epoch_start(run, 1)
    assert strategy.gone == [block.name]
    constant = block.module.constant
    # One away from the border, where the convolutions after the dead one see nothing but it.
    assert torch.allclose(maps[0][..., 1, 1], constant.expand(4, -1), atol=1e-5)
    assert constant.abs().max() > 0.1
    if everywhere:
        assert torch.allclose(logits_of(run.model, images), expected, atol=1e-4)
    assert flops[0] > run.work([block.name])[0]
    held = [p for group in run.optimizer.param_groups for p in group["params"]]
    assert set(held) == set(run.model.parameters())
    run.model.train()
    train_epoch(run._job)
    strategy.on_epoch_start(run, 2)
    assert strategy.gone == [block.name]


@pytest.mark.parametrize("model", drawn(["resnext50_32x4d", "seresnet50", "resnetblur18"], 1))
def test_what_cannot_be_cut_is_refused_by_name(installed, model):
    data = "synthetic[samples=40,size=16,channels=3]"
    run = fresh_run(installed, model=model, dataset=data)
    with pytest.raises(DataeffError, match=f"prunetrain cannot cut channels out of {model}"):
        PruneTrain().setup(run)


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_what_is_cut_out_can_be_put_back(rows, columns, data):
    outputs = data.draw(st.none() | st.sets(st.integers(0, rows - 1), min_size=1))
    inputs = data.draw(st.none() | st.sets(st.integers(0, columns - 1), min_size=1))
    outputs, inputs = (None if s is None else torch.tensor(sorted(s)) for s in (outputs, inputs))
    for full in (torch.randn(rows, columns, 2, 2), torch.randn(rows, columns), torch.randn(rows)):
        other = full.clone()
        part = cut(full, outputs, inputs)
        put(other, part + 1, outputs, inputs)
        assert torch.equal(cut(other, outputs, inputs), part + 1)
        touched = (other != full).sum()
        assert touched == part.numel()


# In training ------------------------------------------------------------------------------------


class Sizes(Stateless):
    """Write down weights and work of the network in each epoch."""

    def __init__(self):
        self.epochs = []

    @hookimpl
    def end_epoch(self, run):
        self.epochs.append(sum(p.numel() for p in run.model.parameters()))


def test_work_and_weights_fall_and_training_goes_on(installed):
    sizes = Sizes()
    task = DEEPER.model_copy(update={"epochs": 6})
    result = train_resnet(SOON, sizes, installed=installed, task=task)
    plain = train_resnet(installed=installed, task=task)
    assert result.record["status"] == "finished"
    assert sizes.epochs[0] == sum(p.numel() for p in plain.run.model.parameters())
    assert sizes.epochs == sorted(sizes.epochs, reverse=True)
    assert sizes.epochs[-1] < sizes.epochs[0]
    assert result.record["columns"]["parameters"] == sizes.epochs[-1]
    assert result.record["columns"]["channels_left"] < 1
    assert result.record["flops"] < plain.record["flops"]
    assert result.record["rows"]["trained"] == plain.record["rows"]["trained"]
    before = train_resnet("prunetrain", installed=installed, task=task).record
    assert before["flops"] == plain.record["flops"], "nothing is cut before its tenth epoch"


def test_adam_and_the_gradient_scaler_go_on_with_what_is_left(installed):
    task = DEEPER.model_copy(update={"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1})
    result = train_tiny(f"amp+{SOON}", installed=installed, task=task)
    assert result.record["status"] == "finished"
    assert result.record["columns"]["channels_left"] < 1
    for parameter, state in result.run.optimizer.state.items():
        assert state["exp_avg"].shape == parameter.shape
