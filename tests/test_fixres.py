"""FixRes: small images first, then the end of the network alone, at the size of the test."""

import copy

import pytest
import torch
from conftest import drawn
from dataeff_plugins.fixres import freeze
from probes import Stateless, fresh_run
from residuals import FOREIGN, RESNET, train_resnet

from dataeff import DataeffError, hookimpl
from dataeff.training.meter import flops_per_row

TASK = RESNET.model_copy(
    update={
        "dataset": "synthetic[samples=90,test_samples=20,classes=4,size=16,crop=2,flip=true]",
        "batch_size": 32,
    }
)


class Watch(Stateless):
    """Write down sizes, rates and weights."""

    def __init__(self):
        self.sizes, self.rates, self.models, self.images = [], [], [], []

    @hookimpl
    def on_epoch_start(self, run):
        self.sizes.append(set())
        self.models.append(copy.deepcopy(run.model.state_dict()))

    @hookimpl
    def observe_batch(self, run, batch):
        self.sizes[-1].add(tuple(batch.x.shape[-2:]))
        self.images.append((run.epoch, batch.idx, batch.x))

    @hookimpl(wrapper=True, trylast=True)
    def optimizer_step(self, run):
        self.rates.append((run.epoch, run.optimizer.param_groups[0]["lr"]))
        return (yield)


@pytest.fixture(scope="module")
def trained(shared_installed):
    watch = Watch()
    return watch, train_resnet("fixres", watch, installed=shared_installed, task=TASK)


def test_only_the_last_epoch_sees_full_images(trained):
    watch, result = trained
    assert watch.sizes == [{(10, 10)}] * 3 + [{(16, 16)}]
    assert result.record["epochs"] == 4


def test_fine_tuning_trains_the_classifier_and_the_last_norm_alone(trained):
    watch, result = trained
    before, after = watch.models[3], result.run.model.state_dict()
    changed = {name for name in after if not torch.equal(before[name], after[name])}
    last = "stages.2.0.bn2"
    statistics = {
        f"{last}.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert changed == {"head.weight", "head.bias", f"{last}.weight", f"{last}.bias"} | statistics
    assert len(watch.models[1].keys() - changed) > 10, "all others were trained before"
    assert not torch.equal(watch.models[0]["conv.weight"], watch.models[3]["conv.weight"])


def test_fine_tuning_has_its_own_rate_scaled_by_the_batch(trained):
    watch, _ = trained
    assert {rate for epoch, rate in watch.rates if epoch == 3} == {8e-3 * 32 / 512}
    assert 8e-3 * 32 / 512 not in {rate for epoch, rate in watch.rates if epoch < 3}


def test_fine_tuning_sees_images_as_tests_do(trained):
    watch, result = trained
    run = result.run
    for epoch, idx, x in watch.images:
        if epoch == 3:
            assert torch.equal(x, next(iter(run.images([idx]))))


def test_fine_tuning_costs_its_forward_pass(trained):
    _, result = trained
    rows = int(result.run.trainable.sum())
    small, full = (flops_per_row(result.run.model, [3, side, side]) for side in (10, 16))
    assert result.record["flops"] == pytest.approx(rows * (3 * 3 * small + full))


@pytest.mark.parametrize(
    ("epochs", "share", "tuned"),
    # Of 3.1 epochs the third is tuned, and the tenth after it; of 1.5 the second half alone.
    drawn([(4, 0.05, 1), (10, 0.3, 3), (2, 0.9, 1), (3.1, 0.05, 2), (1.5, 0.05, 1)], 2),
)
def test_at_least_one_epoch_is_tuned_and_never_the_first(installed, epochs, share, tuned):
    watch = Watch()
    task = TASK.model_copy(update={"epochs": epochs})
    train_resnet(f"fixres[finetune={share}]", watch, installed=installed, task=task)
    assert [(16, 16) in sizes for sizes in watch.sizes].count(True) == tuned


def test_a_run_without_an_epoch_to_tune_in_is_refused(installed):
    task = TASK.model_copy(update={"epochs": 1})
    with pytest.raises(DataeffError, match="fixres fine-tunes after the first epoch"):
        train_resnet("fixres", installed=installed, task=task)
    task = TASK.model_copy(update={"epochs": 2})
    with pytest.raises(DataeffError, match=r"this run has 0\.8 in all"):
        train_resnet("fixres+short_schedule[share=0.4]", installed=installed, task=task)


LAST = {
    "hrnet_w18_small": ("final_layer.1", "classifier"),
    "resnet10t": ("layer4.0.bn2", "fc"),
    "torchvision:resnet18": ("net.layer4.1.bn2", "net.fc"),
    "resnet26": ("layer4.1.bn3", "fc"),
}


@pytest.mark.parametrize("model", [*FOREIGN, "hrnet_w18_small"])
def test_the_end_of_other_networks_is_found(installed, model):
    run = fresh_run(installed, model=model)
    freeze(run)
    norm, head = LAST[model]
    trained = {name for name, p in run.model.named_parameters() if p.requires_grad}
    assert trained == {f"{name}.{kind}" for name in (norm, head) for kind in ("weight", "bias")}
    moving = {name for name, module in run.model.named_modules() if module.training}
    assert moving == {norm, head}
