"""How to find out what a strategy does beside its hooks.

Calls that nobody counts, state that is lost, tensors that are read back to the host.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from dataeff.hookspecs import hookimpl
from dataeff.strategy import Strategy
from dataeff.training.batch import Batch
from dataeff.training.checkpoint import PLAIN
from dataeff.training.job import Job
from dataeff.training.optimizing import build_optimizer


class Watch(Strategy):
    """Looks at the network itself: how often it is called, in which mode, and who steps it."""

    def __init__(self) -> None:
        self.rows_seen = self.rows_asked = 0
        self.steps_taken = self.steps_counted = 0
        self.in_eval_mode = ""

    @hookimpl(wrapper=True, tryfirst=True)
    def network(self, run, x):
        self.rows_asked += len(x)
        if torch.is_grad_enabled():
            self.in_eval_mode = self.in_eval_mode or _left_in_eval(run.model)
        return (yield)

    @contextmanager
    def over(self, job: Job) -> Iterator[None]:
        """Count what passes the first layer of the network, and the steps of its weights."""
        model = job.run.model
        self.rows_asked = 0
        stem = next(m for m in model.modules() if not list(m.children()) and list(m.parameters()))

        def see(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            # Copies without data only count work, and the harness's own evaluation is nobody's.
            if inputs[0].device.type != "meta" and "evaluate" not in job.meter.running:
                self.rows_seen += len(inputs[0])

        def stepped(optimizer: torch.optim.Optimizer, *given: Any) -> None:
            ours = {id(p) for p in job.run.model.parameters()}
            groups = optimizer.param_groups
            self.steps_taken += any(id(p) in ours for group in groups for p in group["params"])

        with stem.register_forward_pre_hook(see), register_optimizer_step_post_hook(stepped):
            yield
        self.steps_counted = job.meter.steps


def _left_in_eval(model: nn.Module) -> str:
    """Return the name of a module that is to be trained, and behaves as in a test."""
    for name, module in model.named_modules():
        trained = any(p.requires_grad for p in module.parameters(recurse=False))
        if trained and not module.training:
            return name or "the network"
    return ""


class Spy:
    """Watches which private attributes of a resumed strategy are read before they are written.

    `then` is what its attributes were when the run was stopped; `missed` are those that are not
    what they were, and were read: by name, what each was and what it is.
    """

    def __init__(self, plugin: Strategy, then: Mapping[str, Any]) -> None:
        now = dict(vars(plugin))
        names = {name for name in {**then, **now} if name.startswith("_")}
        self.suspects = {
            name: (then.get(name), now.get(name))
            for name in names
            if differing(then.get(name), now.get(name))
        }
        self.missed: dict[str, tuple[Any, Any]] = {}
        spy = self

        class Spied(type(plugin)):  # type: ignore[misc]
            def __getattribute__(self, name: str) -> Any:
                if name in spy.suspects:
                    spy.missed.setdefault(name, spy.suspects[name])
                return super().__getattribute__(name)

            def __setattr__(self, name: str, value: Any) -> None:
                spy.suspects.pop(name, None)
                super().__setattr__(name, value)

        plugin.__class__ = Spied


def differing(a: Any, b: Any) -> bool:
    """Say whether two values are certainly not the same: of objects, nothing is certain."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape != b.shape or not torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() != b.keys() or any(differing(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) != len(b) or any(differing(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, PLAIN) and isinstance(b, PLAIN):
        return a != b
    return isinstance(a, PLAIN) or isinstance(b, PLAIN)


# Reading back, also without an accelerator -------------------------------------------------------


@contextmanager
def reading_forbidden(job: Job) -> Iterator[None]:
    """Make reading a tensor back fail, by a mode of CUDA or on tensors without data."""
    # The harness's own checks read back, once per epoch: that is not what is looked for.
    job.calls.checking, job.calls.silent = False, True
    if job.run.device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
    else:
        _move_to_meta(job)
        with _OneDevice():
            yield


class _OneDevice(TorchDispatchMode):
    """Refuses what a device would refuse, and tensors without data let pass: a CPU generator."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        generators = [a for a in (*args, *(kwargs or {}).values()) if isinstance(a, Generator)]
        if generators and isinstance(result, Tensor) and result.device.type == "meta":
            raise RuntimeError(
                "a generator of the CPU draws on the CPU alone: draw there, with run.rng(name), "
                "and move the numbers to run.device"
            )
        return result


def _move_to_meta(job: Job) -> None:
    run, meta = job.run, torch.device("meta")
    run.device = job.meter.device = meta
    job.train = job.train.to(meta)
    run.labels = job.train.labels
    run.model.to(meta)
    run.optimizer = build_optimizer(run.task, run.model)
    for holder in (run.ledger, *(strategy.plugin for strategy in run.strategies)):
        vars(holder).update(tree_map(_to_meta, vars(holder)))


def _to_meta(value: Any) -> Any:
    if isinstance(value, Batch):
        vars(value).update(tree_map(_to_meta, vars(value)))
    return value.to("meta") if isinstance(value, Tensor | nn.Module) else value
