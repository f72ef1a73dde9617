"""What strategies may not do: each mistake is caught and named."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from probes import Stateless
from shell import call, mistake, ok
from torch import nn

from dataeff import DataeffError, Plan, Strategy, StrategyConflict, StrategyError, hookimpl
from dataeff.foretell.pace import Site
from dataeff.report.table import stopped_name
from dataeff.testing import TASK, lab_of, train_tiny

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


def test_two_that_reserve_one_thing_conflict(installed):
    class First(Stateless):
        reserves = ("rows",)

    class Second(First):
        pass

    with pytest.raises(StrategyConflict, match="both reserve 'rows'"):
        train_tiny(First(), Second(), installed=installed)


def test_one_strategy_twice_conflicts(installed):
    with pytest.raises(StrategyConflict, match="both are the strategy amp"):
        lab_of(installed).composition("amp+baseline+amp")


def test_the_plan_cannot_be_owned(installed):
    class Planner(Stateless):
        @hookimpl
        def plan_epoch(self, run):
            return None

    with pytest.raises(StrategyConflict, match="wrapper=True"):
        train_tiny(Planner(), installed=installed)


def test_a_misspelt_hook_is_an_error_when_its_class_is_made():
    with pytest.raises(StrategyError, match=r"no hook 'select_batsh'\. Did you mean select_batch"):

        class Typo(Stateless):
            @hookimpl
            def select_batsh(self, run, batch):
                pass


def test_a_misspelt_argument_is_an_error(installed):
    class Typo(Stateless):
        @hookimpl
        def select_batch(self, run, batsh):
            pass

    with pytest.raises(StrategyError, match="batsh"):
        train_tiny(Typo(), installed=installed)


def test_a_default_on_a_hook_argument_is_an_error_when_its_class_is_made():
    with pytest.raises(StrategyError, match="batch must not have a default"):

        class Default(Stateless):
            @hookimpl
            def select_batch(self, run, batch=None):
                pass


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

    with pytest.raises(
        DataeffError, match="silent, in plan_epoch: it must return a Plan, not NoneType"
    ):
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
    class Equal(Strategy):
        pass

    @dataclass
    class Plain:
        pass

    for kind in (Equal, Plain):
        with pytest.raises(StrategyError, match=r"write @dataclass\(eq=False\)"):
            installed.add_strategy("equal", kind, "test")


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


# Tasks that a strategy refuses ------------------------------------------------------------------

BLOBS = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
ADHOC = ["run", "-d", BLOBS, "-m", "tiny", "--epochs", "1", "--in-process", "--name", "mine"]
ADHOC += ["--seeds", "1", "--set", "batch_size=16", "--plugins-dir", "loose", "-s", "baseline"]
SUITE = """
strategies = ["baseline", "choosy[least=20]"]
seeds = 1
"""
SUITE += "".join(
    f"""
[tasks.{name}]
dataset = "synthetic[samples={samples},test_samples=20,classes=4,size=8]"
model = "tiny"
epochs = 1
batch_size = 16
"""
    for name, samples in (("many", 90), ("few", 12))
)

LOOSE = '''
from dataclasses import dataclass

from dataeff import DataeffError, Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("choosy", Choosy)
    register("crashing", Crashing)


@dataclass(eq=False)
class Choosy(Strategy):
    """Refuse what it is told to refuse."""

    least: int = 0
    below: Share = 1e-9
    device: str = ""
    keep: Share = 1.0

    @hookimpl
    def setup(self, run):
        if len(run.labels) < self.least:
            raise DataeffError(f"choosy needs {self.least} samples; write least=0.")
        if self.keep < self.below:
            raise DataeffError(f"{run.task.model} is too small for that; write more.")
        if str(run.device) == self.device:
            raise DataeffError(f"choosy is not for {self.device}; write --device auto.")


@dataclass(eq=False)
class Crashing(Strategy):
    """Fail in setup."""

    @hookimpl
    def setup(self, run):
        raise ValueError("as asked")
'''


@pytest.fixture
def _loose():
    Path("loose").mkdir()
    Path("loose/loose.py").write_text(LOOSE)


@pytest.fixture
def _no_training(monkeypatch):
    monkeypatch.setattr("dataeff.door.running.run_cells", lambda *arguments: pytest.fail("trained"))


@pytest.mark.usefixtures("_loose", "_no_training")
@pytest.mark.parametrize(
    ("strategy", "sentence"),
    [
        ("choosy[least=99]", "choosy needs 99 samples; write least=0."),
        ("amp+choosy[least=99]", "choosy needs 99 samples; write least=0."),
        (
            "choosy[below=0.5,keep=0.2]",
            "choosy[below=0.5,keep=0.2]: tiny is too small for that; write more.",
        ),
        (
            "stochastic_depth",
            "stochastic_depth needs a residual network with BatchNorm and ReLU, and tiny is none; "
            "take one such as resnet20, resnet50 or torchvision:resnet18.",
        ),
    ],
)
def test_a_task_is_refused_in_one_sentence_before_anything_is_trained(strategy, sentence):
    assert mistake(*ADHOC, "-s", strategy) == sentence
    assert not Path("results").exists()


@pytest.mark.usefixtures("_loose", "_no_training")
def test_of_several_tasks_the_refused_one_is_named():
    Path("two.toml").write_text(SUITE)
    told = mistake("run", "two.toml", "--plugins-dir", "loose")
    assert told == "few: choosy needs 20 samples; write least=0."


@pytest.mark.usefixtures("_loose")
def test_a_refusal_is_told_before_anyone_is_asked(monkeypatch):
    monkeypatch.setattr("dataeff.cli.run._ask", lambda *arguments: pytest.fail("asked"))
    mistake(*ADHOC, "-s", "choosy[least=99]")


@pytest.mark.usefixtures("_loose")
def test_a_setup_that_crashes_ends_its_own_cell_alone():
    result = call(*ADHOC, "-s", "crashing", "--no-controls")
    assert result.exit_code == 1
    assert "cell 1/2: synthetic baseline seed 0: " in result.stdout
    assert "crashing, in setup: ValueError: as asked" in result.stderr


@pytest.mark.usefixtures("_loose")
def test_a_pattern_is_refused_where_its_search_could_not_begin(monkeypatch):
    ran = []
    monkeypatch.setattr("dataeff.door.running.run_cells", lambda *arguments: ran.append(arguments))
    match = ["--match", "baseline"]
    told = mistake(*ADHOC, *match, "-s", "choosy[below=0.9,keep=?]")
    assert told.endswith(": tiny is too small for that; write more.")
    assert not ran
    call(*ADHOC, *match, "-s", "choosy[below=0.5,keep=?]")
    assert ran, "the larger of the first two values can be run"


@pytest.mark.usefixtures("_loose")
def test_what_is_refused_on_the_cpu_alone_is_run_elsewhere(monkeypatch):
    ran = []
    monkeypatch.setattr("dataeff.door.running.run_cells", lambda *arguments: ran.append(arguments))
    # Another device than the CPU, to who goes by its name; it is there on every machine.
    monkeypatch.setattr("dataeff.lab.pick_device", torch.device)
    there = ["--device", "cpu:0", "--in-process"]
    mistake(*ADHOC, *there, "-s", "choosy[least=99]")
    assert not ran
    call(*ADHOC, *there, "-s", "choosy[device=cpu]")
    assert ran


@pytest.mark.usefixtures("_loose")
def test_finished_cells_are_not_set_up_again(monkeypatch):
    ok(*ADHOC, "-s", "choosy", "--no-controls")
    monkeypatch.setattr(Site, "__init__", lambda *arguments, **options: pytest.fail("set up"))
    ok(*ADHOC, "-s", "choosy", "--no-controls")


# Lines that nobody runs -------------------------------------------------------------------------


@pytest.mark.parametrize("share", ["0.25", "?"])
def test_a_line_that_is_read_off_a_curve_is_not_run(share):
    label = stopped_name(0.25).replace("0.25", share)
    said = mistake("run", "quickstart", "-s", label)
    assert said == (
        "early_termination is read off the curve of the reference, and nobody runs it; "
        f"write short_schedule[share={share.replace('?', '0.5')}] to train that long."
    )
