"""What strategies may not do: each mistake is caught and named."""

from dataclasses import dataclass

import pytest
import torch
from probes import Stateless
from torch import nn

from dataeff import DataeffError, Plan, StrategyConflict, StrategyError, hookimpl
from dataeff.plugins import compose
from dataeff.testing import TASK, train_tiny

CPU = torch.device("cpu")


def run_task(installed, *strategies, **changes):
    return train_tiny(*strategies, installed=installed, task=TASK.model_copy(update=changes))


def test_two_owners_of_one_hook_conflict(installed):
    class First(Stateless):
        @hookimpl
        def forward(self, run, batch):
            return run.network(batch.x)

    class Second(First):
        pass

    with pytest.raises(StrategyConflict, match=r"first and second .* own the hook forward"):
        train_tiny(First(), Second(), installed=installed)


def test_two_claims_conflict(installed):
    class First(Stateless):
        claims = ("rows",)

    class Second(First):
        pass

    with pytest.raises(StrategyConflict, match="both claim 'rows'"):
        train_tiny(First(), Second(), installed=installed)


def test_one_strategy_twice_conflicts(installed):
    with pytest.raises(StrategyConflict, match="both are the strategy amp"):
        compose("amp+baseline+amp", installed)


def test_the_plan_cannot_be_owned(installed):
    class Planner(Stateless):
        @hookimpl
        def plan_epoch(self, run):
            return None

    with pytest.raises(StrategyConflict, match="wrapper=True"):
        train_tiny(Planner(), installed=installed)


def test_a_misspelt_hook_is_an_error(installed):
    class Typo(Stateless):
        @hookimpl
        def select_batsh(self, run, batch):
            pass

    with pytest.raises(StrategyError, match=r"no hook 'select_batsh'\. Did you mean select_batch"):
        train_tiny(Typo(), installed=installed)


def test_a_misspelt_argument_is_an_error(installed):
    class Typo(Stateless):
        @hookimpl
        def select_batch(self, run, batsh):
            pass

    with pytest.raises(StrategyError, match="batsh"):
        train_tiny(Typo(), installed=installed)


def test_a_default_on_a_hook_argument_is_an_error(installed):
    class Default(Stateless):
        @hookimpl
        def select_batch(self, run, batch=None):
            pass

    with pytest.raises(StrategyError, match="batch must not have a default"):
        train_tiny(Default(), installed=installed)


def test_an_error_in_a_hook_names_strategy_and_hook(installed):
    class Broken(Stateless):
        @hookimpl(wrapper=True)
        def reduce_loss(self):
            yield
            return {}["missing"]

    with pytest.raises(
        StrategyError, match="broken, in reduce_loss: KeyError: 'missing'"
    ) as caught:
        train_tiny(Broken(), installed=installed)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_loss_that_is_not_finite_ends_the_run_as_diverged(installed):
    result = run_task(installed, lr=1e30)
    assert result.record["status"] == "diverged"
    assert "learning rate" in result.record["error"]
    assert result.record["epochs"] < 4


def test_pruning_takes_a_mask(installed):
    class Indices(Stateless):
        @hookimpl
        def prune_dataset(self):
            return torch.arange(40)

    with pytest.raises(DataeffError, match="boolean mask over all 90 samples"):
        train_tiny(Indices(), installed=installed)


def test_a_plan_without_a_return_is_named(installed):
    class Silent(Stateless):
        @hookimpl(wrapper=True)
        def plan_epoch(self):
            yield

    with pytest.raises(DataeffError, match="must return one"):
        train_tiny(Silent(), installed=installed)


def test_validation_samples_cannot_be_planned(installed):
    class Greedy(Stateless):
        @hookimpl(wrapper=True)
        def plan_epoch(self, run):
            yield
            return Plan.cut(torch.arange(90), 16)

    with pytest.raises(DataeffError, match="validation samples"):
        train_tiny(Greedy(), installed=installed)


def test_an_error_inside_a_wrapped_hook_is_not_the_wrappers(installed):
    class Outer(Stateless):
        @hookimpl(wrapper=True)
        def network(self):
            return (yield)

    class Inner(Stateless):
        @hookimpl
        @torch.no_grad()
        def network(self, run, x, between):
            raise MemoryError("too large")

    with pytest.raises(StrategyError, match="inner, in network: MemoryError"):
        train_tiny(Outer(), Inner(), installed=installed)


def test_a_report_that_fails_names_its_strategy(installed):
    class Broken(Stateless):
        @hookimpl
        def report(self):
            return {}["missing"]

    with pytest.raises(StrategyError, match="broken, in report: KeyError"):
        train_tiny(Broken(), installed=installed)


def test_a_dataclass_that_compares_by_value_is_refused(installed):
    @dataclass
    class Equal:
        pass

    with pytest.raises(StrategyError, match=r"write @dataclass\(eq=False\)"):
        train_tiny(Equal(), installed=installed)


def test_setup_draws_depend_on_the_seed_alone(installed):
    class Assistant(Stateless):
        @hookimpl
        def setup(self):
            self.net = nn.Linear(4, 4)

    def weight(caller, seed):
        torch.manual_seed(caller)
        assistant = Assistant()
        train_tiny(assistant, installed=installed, seed=seed)
        return assistant.net.weight

    assert torch.equal(weight(1, 0), weight(2, 0))
    assert not torch.equal(weight(1, 0), weight(1, 1))


def test_the_layout_of_the_task_reaches_the_network(installed):
    seen = []

    class Look(Stateless):
        @hookimpl
        def transform_batch(self, batch):
            seen.append(batch.x.is_contiguous(memory_format=torch.channels_last))

    for wanted in (True, False):
        seen.clear()
        task = TASK.model_copy(update={"channels_last": wanted})
        train_tiny(Look(), installed=installed, task=task)
        assert set(seen) == {wanted}
