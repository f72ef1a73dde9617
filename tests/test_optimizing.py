"""Schedules as functions of progress, and the optimizers."""

import math
from types import SimpleNamespace

import pytest
import torch
from pydantic import ValidationError

from dataeff.training.optimizing import build_optimizer, schedule
from dataeff.training.task import Task


def task(**options):
    return Task(dataset="digits", model="tiny", **{"epochs": 10, **options})


def curve(options, points=11):
    return [schedule(task(**options), i / (points - 1)) for i in range(points)]


def test_constant():
    assert curve({"schedule": "constant"}) == [1.0] * 11


def test_cosine_is_the_formula():
    expected = [0.5 * (1 + math.cos(math.pi * i / 10)) for i in range(11)]
    assert curve({"schedule": "cosine"}) == pytest.approx(expected)


def test_step_decays_at_its_milestones():
    values = curve({"schedule": "step", "milestones": (3, 6), "gamma": 0.2})
    assert values == pytest.approx([1, 1, 1, 0.2, 0.2, 0.2] + [0.04] * 5)


def test_onecycle_rises_and_falls_below_its_start():
    values = curve({"schedule": "onecycle"}, points=101)
    assert values[0] == pytest.approx(1 / 25)
    assert values[30] == pytest.approx(1)
    assert values[-1] == pytest.approx(1e-4)
    assert values == sorted(values[:31]) + sorted(values[31:], reverse=True)


def test_warm_up_is_linear_and_comes_first():
    values = curve({"schedule": "constant", "warmup": 2}, points=21)
    assert values[:5] == pytest.approx([0.01, 0.2575, 0.505, 0.7525, 1.0])
    assert set(values[4:]) == {1.0}
    assert curve({"schedule": "cosine", "warmup": 2})[2] == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"optimizer": "sgd", "nesterov": True}, torch.optim.SGD),
        ({"optimizer": "adam"}, torch.optim.Adam),
        ({"optimizer": "adamw"}, torch.optim.AdamW),
    ],
)
def test_optimizers(options, kind):
    model = torch.nn.Linear(2, 2)
    optimizer = build_optimizer(task(lr=0.3, weight_decay=0.1, **options), model)
    assert type(optimizer) is kind
    (group,) = optimizer.param_groups
    assert group["lr"] == 0.3
    assert group["weight_decay"] == 0.1
    assert group.get("nesterov", True) is True


@pytest.mark.parametrize(
    ("device", "kernel"),
    [("cpu", "fused"), ("cuda", "fused"), ("mps", "fused"), ("xpu", "fused"), ("hpu", "foreach")],
)
def test_optimizers_have_the_fastest_kernel_of_the_device(device, kernel, monkeypatch):
    asked = {}

    class Optimizer:
        param_groups = ()

        def __init__(self, parameters, **options):
            asked.update(options)

    monkeypatch.setattr("torch.optim.SGD", Optimizer)
    parameter = SimpleNamespace(requires_grad=True, device=torch.device(device))
    build_optimizer(task(), SimpleNamespace(parameters=lambda: [parameter]))
    assert asked.keys() & {"fused", "foreach"} == {kernel}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nesterov": True, "momentum": 0}, "nesterov"),
        ({"nesterov": True, "optimizer": "adam"}, "nesterov"),
        ({"schedule": "step"}, "milestones"),
        ({"milestones": (3,)}, "milestones"),
        ({"schedule": "step", "milestones": (30,)}, "before the end"),
        ({"warmup": 10}, "warmup"),
        ({"epochs": 0}, "epochs"),
        ({"compile_mode": "default"}, "compile = true"),
        ({"compile_mode": "reduce-overhead", "compile": "eager"}, "torch's own compiler"),
        ({"compile_mode": "fastest", "compile": True}, "reduce-overhead"),
        ({"deterministic": True, "cudnn_benchmark": True}, "exclude each other"),
    ],
)
def test_options_that_do_not_fit_together(options, message):
    with pytest.raises(ValidationError, match=message):
        task(**options)


def test_the_id_of_a_task_is_that_of_its_content():
    assert task().id == task().id
    assert task().id != task(lr=0.2).id
