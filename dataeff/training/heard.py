"""The harness's side of a run that somebody else trains: what it hears of losses, and its state."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dataeff.errors import DataeffError
from dataeff.training import checkpoint
from dataeff.training.job import Job
from dataeff.training.ledger import Ledger
from dataeff.training.meter import Meter
from dataeff.training.plan import Plan

_OF_RUN, _OF_JOB = ("epoch", "epochs", "augment"), ("prepared", "stopped")
_OF_TASK = ("batch_size", "epochs", "validation")
_SCHEMA = 1
_PARTS = ("of", "strategies", "ledger", "streams", "run", "job", "within")


class Uncounted(Meter):
    """A meter without counts of work: who has the loop knows what a network costs."""

    def count(self, kind: str, shape: torch.Size, version: str, factor: float) -> None:
        """Count nothing."""


class Heard(Ledger):
    """A ledger that knows who was right only where it was told what the network said."""

    blind = False

    @property
    def last_correct(self) -> Tensor:
        """Whether each sample was classified correctly when it was last trained."""
        if self.blind:
            raise DataeffError(
                "who was right is not known: give drive.step(losses, logits) what the network said."
            )
        return super().last_correct

    @last_correct.setter
    def last_correct(self, value: Tensor) -> None:
        raise AttributeError("the ledger is written by the harness")

    def state_dict(self) -> dict[str, Any]:
        """Return the tables, also in the middle of an epoch."""
        blind, self.blind = self.blind, False
        losses = torch.cat(self._epoch_losses) if self._epoch_losses else torch.empty(0)
        state = super().state_dict() | {"blind": blind, "losses": losses, "before": self._before}
        self.blind = blind
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the tables back."""
        super().load_state_dict(state)
        self._before.copy_(state["before"])
        self._epoch_losses = [state["losses"]] if len(state["losses"]) else []
        self.blind = state["blind"]


class DrivenJob(Job):
    """The harness's side of a run that somebody else trains."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.meter = Uncounted(self.ground.device, None, False)
        self.run.ledger = Heard(len(self.run.labels), self.run.device)


# Its state ----------------------------------------------------------------------------------------


def state_of(
    job: Job, made: Sequence[Mapping[str, Any]], at: tuple[Plan, int, int] | None
) -> dict[str, Any]:
    """Return where a run stands as plain data; `at` are its plan and how far it is through."""
    run = job.run
    plugins = [part.plugin for part in run.strategies]
    within = None
    if at:
        plan, taken, given = at
        passing = [checkpoint.passing_state(*pair) for pair in zip(plugins, made, strict=True)]
        within = {
            "rows": plan.rows,
            "sizes": plan.sizes,
            "taken": taken,
            "given": given,
            "strategies": passing,
        }
    state = {
        "of": _identity(job),
        "strategies": [checkpoint.strategy_state(plugin) for plugin in plugins],
        "ledger": run.ledger.state_dict(),
        "streams": run.rng.state_dict(),
        "run": {name: getattr(run, name) for name in _OF_RUN},
        "job": {name: getattr(job, name) for name in _OF_JOB},
        "within": within,
    }
    # What goes on changes its tensors in place.
    return copy.deepcopy(state)


def load_state(job: Job, state: Any) -> tuple[Plan, int, int] | None:
    """Bring a run that was just set up to a state; return its plan, and how far it is through."""
    run = job.run
    if not isinstance(state, dict) or any(part not in state for part in _PARTS):
        raise DataeffError("This is no state of a drive: give what drive.state_dict returned.")
    for name, mine in _identity(job).items():
        if (theirs := state["of"].get(name)) != mine:
            raise DataeffError(
                f"The state is of another drive: its {name} is {theirs!r}, here it is {mine!r}."
            )
    state = copy.deepcopy(state)
    plugins = [part.plugin for part in run.strategies]
    for plugin, saved in zip(plugins, state["strategies"], strict=True):
        checkpoint.load_strategy_state(plugin, saved)
    run.ledger.load_state_dict(state["ledger"])
    run.rng.load_state_dict(state["streams"])
    for holder, part in ((run, "run"), (job, "job")):
        for name, value in state[part].items():
            setattr(holder, name, value)
    within = state["within"]
    if within is None:
        return None
    for plugin, saved in zip(plugins, within["strategies"], strict=True):
        checkpoint.load_passing_state(plugin, saved)
    plan = Plan(within["rows"], [len(within["rows"])])
    # As they were: a plan that is made joins its last batches.
    plan.sizes = within["sizes"]
    run.batch, run.batches = max(0, within["taken"] - 1), len(plan)
    return plan, within["taken"], within["given"]


def _identity(job: Job) -> dict[str, Any]:
    """Return what two runs must have in common for one to go on with the other's state."""
    label = "+".join(part.label for part in job.run.strategies)
    task = {name: getattr(job.task, name) for name in _OF_TASK}
    return {
        "schema": _SCHEMA,
        "strategy": label,
        "seed": job.run.seed,
        "samples": len(job.run.labels),
        **task,
    }
