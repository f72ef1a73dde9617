"""What a hook returns is held against the contract, in the name of strategy and hook."""

import functools
import math

import pytest
import torch
from probes import Stateless

from dataeff import Batch, Plan, StrategyError, hookimpl
from dataeff.hookspecs import HOOKS
from dataeff.testing import TASK, train_tiny

ONCE = TASK.model_copy(update={"epochs": 1})
META = {"device": "meta"}


class Probe(Stateless):
    """A strategy made of one function."""

    def __init__(self, **hooks):
        for name, function in hooks.items():
            setattr(self, name, function)


def owner(function):
    return hookimpl(function)


def around(function):
    """Return a wrapper that lets the inner ones do their work, and then says what it likes."""

    @hookimpl(wrapper=True)
    @functools.wraps(function)
    def wrapper(*arguments):
        yield
        return function(*arguments)

    return wrapper


def set_to(name, make):
    """Return a hook that sets an attribute of the batch, and returns nothing."""
    return lambda run, batch: setattr(batch, name, make(batch))


def set_field(make):
    return lambda run, batch: batch.fields.update(extra=make(batch))


def plan_of(rows):
    return lambda run: Plan.cut(rows, 16)


def validation_plan(run):
    return Plan.cut(run.split("validation"), 16)


def loaded(change):
    """Return a `load` whose batch is changed before it is returned."""

    def load(run, rows):
        batch = Batch(torch.zeros(len(rows.idx), *run.shape), rows.idx, run.labels[rows.idx])
        change(batch)
        return batch

    return load


def summed(numerator=1.0, denominator=None):
    """Return a `reduce_loss` with this factor on the numerator."""

    def reduce_loss(batch, losses):
        under = batch.R if denominator is None else denominator(losses)
        return (losses * numerator).sum(), under

    return reduce_loss


ONE_PER_SAMPLE = "one line per sample, 16 of them"
MASK = "boolean mask over all 90 samples"
ON_META = "move it to run.device, cpu"
CASES = [
    ("report", lambda run: [1], "columns, a dict, not list"),
    ("report", lambda run: None, "columns, a dict, not None"),
    ("report", lambda run: {1: 2}, "name must be a text, not 1"),
    ("report", lambda run: {"a": torch.ones(2)}, "column a must be a number or a text, not a ten"),
    ("prune_dataset", lambda run: [True] * 90, MASK),
    ("prune_dataset", lambda run: torch.ones(90), MASK),
    ("prune_dataset", lambda run: torch.arange(45), MASK),
    ("prune_dataset", lambda run: torch.ones(81, dtype=torch.bool), MASK),
    ("prune_dataset", lambda run: torch.ones(90, 1, dtype=torch.bool), MASK),
    ("plan_epoch", lambda run: None, "must return a Plan, not NoneType"),
    ("plan_epoch", lambda run: torch.arange(9), "must return a Plan, not Tensor"),
    ("plan_epoch", plan_of(torch.rand(9)), "whole numbers on the CPU"),
    ("plan_epoch", plan_of(torch.arange(9, **META)), "whole numbers on the CPU"),
    ("plan_epoch", plan_of(torch.tensor([3, 90])), "samples that there are not: they are 0..89"),
    ("plan_epoch", plan_of(torch.tensor([3, -2])), "samples that there are not"),
    ("plan_epoch", validation_plan, "planned validation samples"),
    ("load", lambda run: None, "must return a Batch, not None"),
    ("load", lambda run: torch.ones(3), "must return a Batch, not a tensor of torch.float32"),
    ("load", loaded(lambda b: setattr(b, "x", b.x[1:])), "16 images to show, and x has 15"),
    ("load", loaded(lambda b: setattr(b, "x", b.x.to("meta"))), "batch.x is on meta"),
    ("load", loaded(lambda b: setattr(b, "x", b.x.to(torch.uint8))), "x must.*not torch.uint8"),
    ("load", loaded(lambda b: setattr(b, "y", b.y[1:])), f"batch.y must have {ONE_PER_SAMPLE}"),
    ("select_batch", lambda batch: batch, "must return nothing, not Batch"),
    ("select_batch", lambda batch: torch.arange(3), "must return nothing, not a tensor"),
    ("select_batch", set_to("weight", lambda b: torch.ones(3)), f"batch.weight.*{ONE_PER_SAMPLE}"),
    ("select_batch", set_to("weight", lambda b: torch.ones(b.S, 1)), "stay one float per sample"),
    ("select_batch", set_to("weight", lambda b: torch.arange(b.S)), "stay one float per sample"),
    ("select_batch", set_to("weight", lambda b: -b.weight), "weight.*is below zero"),
    ("select_batch", set_to("weight", lambda b: b.weight / 0), "weight.*not finite"),
    ("select_batch", set_to("weight", lambda b: b.weight.to("meta")), "batch.weight is on meta"),
    ("select_batch", set_to("weight", lambda b: [1.0] * b.S), f"batch.weight.*{ONE_PER_SAMPLE}"),
    ("select_batch", set_to("_row", lambda b: b.row + 1), "rows that the batch does not have"),
    ("select_batch", set_to("_row", lambda b: b.row - 1), "rows that the batch does not have"),
    ("select_batch", set_to("x", lambda b: b.x[:3]), "16 images to show, and x has 3"),
    ("select_batch", set_to("y", lambda b: b.y[:3]), f"batch.y must have {ONE_PER_SAMPLE}"),
    ("select_batch", set_field(lambda b: b.y[:3]), f"batch.extra must have {ONE_PER_SAMPLE}"),
    ("select_batch", set_field(lambda b: b.y.to("meta")), "batch.extra is on meta"),
    ("resize_batch", lambda batch: batch.x, "must return nothing"),
    ("resize_batch", set_to("x", lambda b: b.x.to("meta")), "batch.x is on meta"),
    ("resize_batch", set_to("x", lambda b: b.x.tolist()), "16 images to show, and x has list"),
    ("resize_batch", set_to("x", lambda b: b.x.long()), "x must.*not torch.int64"),
    ("transform_batch", lambda batch: batch, "must return nothing"),
    ("transform_batch", set_to("x", lambda b: b.x[::2]), "16 images to show, and x has 8"),
    ("drain", lambda run: torch.ones(3), "must return a Batch, not a tensor"),
    ("drain", lambda run: [], "must return a Batch, not list"),
    ("forward", lambda batch: None, "logits, one line per sample, not None"),
    (
        "forward",
        lambda batch: torch.ones(batch.S),
        r"\(16 of them\), not a tensor of shape \(16,\)",
    ),
    ("forward", lambda batch: torch.ones(3, 4), r"\(16 of them\), not a tensor of shape \(3, 4\)"),
    ("forward", lambda batch: torch.ones(batch.S, 4, **META), ON_META),
    ("forward", lambda batch: torch.ones(batch.S, 4).long(), "not torch.int64"),
    ("network", lambda x: None, "logits, one line per sample, not None"),
    ("network", lambda x: torch.ones(len(x)), r"not a tensor of shape \(16,\)"),
    ("network", lambda x: torch.ones(len(x), 4, **META), ON_META),
    ("network", lambda x: torch.ones(len(x), 4).bool(), "not torch.bool"),
    ("sample_losses", lambda logits: None, "one loss per sample, as floats, not None"),
    ("sample_losses", lambda logits: logits.mean(), r"\(16 of them\), not a tensor of shape \(\)"),
    ("sample_losses", lambda logits: logits[1:, 0], r"not a tensor of shape \(15,\)"),
    ("sample_losses", lambda logits: logits[:, :1], r"not a tensor of shape \(16, 1\)"),
    ("sample_losses", lambda logits: logits.argmax(1), "not torch.int64"),
    ("sample_losses", lambda logits: torch.ones(len(logits), **META), ON_META),
    ("sample_losses", lambda logits: logits[:, 0].detach(), "do not hang on the logits"),
    ("sample_losses", lambda logits: logits[:, 0] * math.nan, "losses are not finite, although"),
    ("sample_losses", lambda logits: logits[:, 0] + math.inf, "losses are not finite, although"),
    ("reduce_loss", lambda losses: None, r"\(numerator, denominator\), not None"),
    ("reduce_loss", lambda losses: losses.mean(), r"\(numerator, denominator\), not a tensor"),
    ("reduce_loss", lambda losses: (losses.sum(), 1, 2), r"\(numerator, denominator\), not tuple"),
    ("reduce_loss", lambda losses: (1.0, 16), "a numerator that is a tensor, not float"),
    ("reduce_loss", lambda losses: (losses, 16), "numerator must be a single number"),
    ("reduce_loss", lambda losses: (losses.sum().detach(), 16), "that hangs on the losses"),
    ("reduce_loss", lambda losses: (losses.sum().to("meta"), 16), ON_META),
    ("reduce_loss", summed(math.inf), "numerator is not finite, although the losses are"),
    (
        "reduce_loss",
        summed(denominator=lambda losses: "16"),
        "denominator must be a number, not str",
    ),
    (
        "reduce_loss",
        summed(denominator=lambda losses: torch.ones(2)),
        "denominator must be a single",
    ),
    ("reduce_loss", summed(denominator=lambda losses: losses.sum()), "without a gradient"),
    (
        "reduce_loss",
        summed(denominator=lambda losses: 0),
        "denominator is 0.0; it must be above zero",
    ),
    ("reduce_loss", summed(denominator=lambda losses: -2), "denominator is -2.0; it must be above"),
    ("reduce_loss", summed(denominator=lambda losses: math.nan), "denominator is nan"),
    ("reduce_loss", summed(denominator=lambda losses: torch.tensor(0.0)), "denominator is 0.0"),
    ("backward", lambda run, loss: loss, "must return nothing, not tuple"),
    ("should_step", lambda run: 1, "True or False, not int '1'"),
    ("should_step", lambda run: None, "True or False, not None"),
    ("should_step", lambda run: torch.tensor(True), "True or False, not a tensor of torch.bool"),
    ("finish_gradients", lambda run: 1.0, "must return nothing, not float"),
    ("optimizer_step", lambda run: torch.ones(1), "must return nothing, not a tensor"),
    ("lr_factor", lambda run: "1", "a number, not str"),
    ("lr_factor", lambda run: True, "a number, not bool"),
    ("lr_factor", lambda run: torch.tensor(1.0), "a number, not a tensor"),
    ("lr_factor", lambda run: math.nan, "zero or more, not nan"),
    ("lr_factor", lambda run: math.inf, "zero or more, not inf"),
    ("lr_factor", lambda run: -0.5, "zero or more, not -0.5"),
    ("compute_factor", lambda run: None, "a number, not None"),
    ("compute_factor", lambda run: -1, "zero or more, not -1"),
    ("compute_factor", lambda run: math.nan, "zero or more, not nan"),
    ("should_stop", lambda run: "no", "True or False, not str"),
    ("should_stop", lambda run: 0, "True or False, not int"),
]
SILENT = ("watch",)


def labels(cases):
    return [f"{hook}-{message}" for hook, _, message in cases]


def refused(probe, hook, message, installed):
    with pytest.raises(StrategyError, match=rf"^probe, in {hook}: .*{message}"):
        train_tiny(probe, installed=installed, task=ONCE)


# The default plans, whatever strategies do: they wrap it.
OWNED = [case for case in CASES if case[0] != "plan_epoch"]


@pytest.mark.parametrize(("hook", "function", "message"), OWNED, ids=labels(OWNED))
def test_a_wrong_return_value_names_strategy_and_hook(hook, function, message, shared_installed):
    refused(Probe(**{hook: owner(function)}), hook, message, shared_installed)


WRAPPED = [case for case in CASES if HOOKS[case[0]] == "own"]


@pytest.mark.parametrize(("hook", "function", "message"), WRAPPED, ids=labels(WRAPPED))
def test_a_wrong_return_value_of_a_wrapper_is_the_wrappers(
    hook, function, message, shared_installed
):
    refused(Probe(**{hook: around(function)}), hook, message, shared_installed)


def test_every_hook_that_returns_something_is_tried():
    returning = {name for name, kind in HOOKS.items() if kind not in SILENT}
    assert {hook for hook, _, _ in CASES} == returning


def test_what_a_watching_hook_returns_is_ignored(shared_installed):
    watching = [
        name for name, kind in HOOKS.items() if kind == "watch" and not name.startswith("register_")
    ]
    probe = Probe(**{name: hookimpl(lambda run: object()) for name in watching})
    assert train_tiny(probe, installed=shared_installed, task=ONCE).record["status"] == "finished"


def test_of_two_strategies_the_one_that_erred_is_named(shared_installed):
    class Innocent(Stateless):
        @hookimpl
        def select_batch(self, batch):
            batch.weight = batch.weight * 1

    class Culprit(Stateless):
        @hookimpl
        def select_batch(self, batch):
            return batch

    for pair in ((Innocent(), Culprit()), (Culprit(), Innocent())):
        with pytest.raises(StrategyError, match=r"^culprit, in select_batch: "):
            train_tiny(*pair, installed=shared_installed, task=ONCE)


def test_what_goes_wrong_in_a_later_epoch_is_found_there(shared_installed):
    class Late(Stateless):
        @hookimpl
        def sample_losses(self, run, logits):
            losses = logits.square().mean(1)
            return losses if run.epoch < 2 else losses.mean()

    with pytest.raises(StrategyError, match=r"^late, in sample_losses: "):
        train_tiny(Late(), installed=shared_installed)


@pytest.mark.parametrize("stated", [0.5, 2.0, 0.0])
def test_a_share_of_work_that_does_not_fit_what_ran_is_refused(stated, shared_installed):
    probe = Probe(compute_factor=hookimpl(lambda run: stated))
    message = rf"states {stated:.2f} of the network's work, and a batch that ran took 1\.0"
    refused(probe, "compute_factor", message, shared_installed)


def test_a_share_of_work_that_fits_is_taken(shared_installed):
    probe = Probe(compute_factor=hookimpl(lambda run: 1.0))
    assert train_tiny(probe, installed=shared_installed, task=ONCE).record["status"] == "finished"
