"""Optimizers, and learning rates as a function of progress."""

import math
from typing import Any

import torch
from torch import nn

from dataeff.errors import DataeffError
from dataeff.models.heads import heads_of
from dataeff.training.task import Task

FACTOR = "lr_factor"
"""What a group of the optimizer calls its own factor on the learning rate."""

# What torch has fused kernels of all three optimizers for; elsewhere, `foreach` works.
_FUSED = {"cpu", "cuda", "mps", "xpu"}
_WARM_START = 0.01
_ONECYCLE_RISE, _ONECYCLE_START, _ONECYCLE_END = 0.3, 1 / 25, 1e-4


def build_optimizer(task: Task, model: torch.nn.Module) -> torch.optim.Optimizer:
    """Build the task's optimizer over all parameters, with the fastest kernel of the device."""
    trained = [p for p in model.parameters() if p.requires_grad]
    devices = {p.device.type for p in trained}
    parameters = trained if task.trunk_lr == 1 else _groups(task, model, trained)
    kernel = {"fused": True} if devices <= _FUSED else {"foreach": True}
    common: dict[str, Any] = {"lr": task.lr, "weight_decay": task.weight_decay, **kernel}
    if task.optimizer == "sgd":
        sgd = torch.optim.SGD(parameters, momentum=task.momentum, nesterov=task.nesterov, **common)
        begin_momentum(sgd)
        return sgd
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[task.optimizer]
    return kind(parameters, **common)


def _groups(task: Task, model: nn.Module, trained: list[nn.Parameter]) -> list[dict[str, Any]]:
    """Return the head's group first: its learning rate is the one that is shown."""
    head = {id(p) for p in head_of(task, model)}
    trunk = [p for p in trained if id(p) not in head]
    first = {"params": [p for p in trained if id(p) in head]}
    return [first, {"params": trunk, "lr": task.trunk_lr * task.lr, FACTOR: task.trunk_lr}]


def head_of(task: Task, model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of the layers that give the logits."""
    head = [p for name in heads_of(model) for p in model.get_submodule(name).parameters()]
    if not head:
        raise DataeffError(
            f"{task.model} has no layer that is known as its head: leave trunk_lr and frozen_trunk "
            "out."
        )
    return head


def freeze_trunk(task: Task, model: nn.Module) -> None:
    """Leave all but the head as it is: weights, and what BatchNorm has counted."""
    head = {id(p) for p in head_of(task, model)}
    for weight in model.parameters():
        weight.requires_grad_(weight.requires_grad and id(weight) in head)
    for module in model.modules():
        own = [id(p) for p in module.parameters(recurse=False)]
        if hasattr(module, "running_mean") and not head & set(own):
            module.eval()


def begin_momentum(optimizer: torch.optim.Optimizer) -> None:
    """Let momentum begin at zero, which gives the same first step.

    torch's fused kernel takes it for begun once any weight of the group has taken part in a step:
    it fails on one that comes later, and reads memory of nobody after a first step that a gradient
    scaler has skipped.
    """
    for group in optimizer.param_groups:
        if group.get("momentum"):
            for parameter in group["params"]:
                state = optimizer.state[parameter]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)


def schedule(task: Task, progress: float) -> float:
    """Return the factor on the learning rate at this progress in [0, 1].

    Milestones and warm-up are given in epochs of the task and scale with it, so that a run that
    is shorter than its task goes through the whole schedule.
    """
    warm = task.warmup / task.epochs
    if progress < warm:
        return _WARM_START + (1 - _WARM_START) * progress / warm
    if task.schedule == "step":
        passed = sum(progress >= milestone / task.epochs for milestone in task.milestones)
        return task.gamma**passed
    after = (progress - warm) / (1 - warm)
    if task.schedule == "cosine":
        return _cosine(1.0, 0.0, after)
    if task.schedule == "onecycle":
        if after < _ONECYCLE_RISE:
            return _cosine(_ONECYCLE_START, 1.0, after / _ONECYCLE_RISE)
        return _cosine(1.0, _ONECYCLE_END, (after - _ONECYCLE_RISE) / (1 - _ONECYCLE_RISE))
    return 1.0


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
