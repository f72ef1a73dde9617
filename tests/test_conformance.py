"""Every registered strategy conforms, alone and in pairs; and the kit catches what does not."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
import torch

from dataeff import hookimpl
from dataeff.plugins import load_plugins
from dataeff.testing import NotConforming, check_pair, check_strategy

INSTALLED = load_plugins()
NAMES = [entry.name for entry in INSTALLED.strategies.entries()]
# The scoring networks need not be as many as the papers say. In four epochs hardly a weight comes
# near to zero.
CHEAP = {
    "el2n": "el2n[models=2,epochs=1]",
    "grand": "grand[models=2,epochs=1]",
    "forgetting": "forgetting[models=1,epochs=2]",
    "rho_loss": "rho_loss[epochs=1]",
    "prunetrain": "prunetrain[every=1,threshold=0.3]",
}
# What works on residual networks only.
RESIDUAL = ("fixres", "stochastic_depth", "prunetrain", "growing")
VARIANTS = [
    "random_backprop[mode=accumulate]",
    "random_subset[redraw=epoch]",
    "mixtrain_cutmix[selection=none,patch=cutmix_beta,cells=soft]",
    "mixtrain_cutmix[batching=homogeneous,bootstrap=true,patch=half]",
    "mixtrain_cutmix[selection=none,interference=off,mix_loss=sum]",
    "mixtrain_mixup[selection=none]",
]


@pytest.mark.parametrize("name", [*NAMES, *VARIANTS])
def test_strategy_conforms(name):
    assert len(check_strategy(CHEAP.get(name, name), INSTALLED, model_for(name))) == 8


def model_for(*names):
    return "resnet8[width=8]" if set(names) & set(RESIDUAL) else "tiny"


# An alias is the same strategy once more.
PAIRED = [entry.name for entry in INSTALLED.strategies.entries() if not entry.alias_of]


@pytest.mark.parametrize(("first", "second"), list(combinations(PAIRED, 2)))
def test_pair_conforms(first, second):
    model = model_for(first, second)
    assert check_pair(CHEAP.get(first, first), CHEAP.get(second, second), INSTALLED, model)


# The kit itself --------------------------------------------------------------------------------


@dataclass(eq=False)
class GlobalRandom:
    """Draw from torch's global generator."""

    @hookimpl
    def select_batch(self, batch):
        batch.weight = batch.weight * (1 + 0.01 * torch.rand(batch.S))


@dataclass(eq=False)
class NumpyRandom:
    """Draw from numpy's global generator, for nothing."""

    @hookimpl
    def select_batch(self, batch):
        np.random.rand()  # noqa: NPY002


@dataclass(eq=False)
class OrderThief:
    """Draw from the harness's own stream."""

    @hookimpl
    def on_epoch_start(self, run):
        torch.rand(1, generator=run.rng("order"))


@dataclass(eq=False)
class Vandal:
    """Change the dataset in place."""

    @hookimpl
    def on_epoch_start(self, run):
        run.train.data[0] += 1


@dataclass(eq=False)
class ReadBack:
    """Read a number back in every batch."""

    @hookimpl
    def observe_batch(self, run, batch, losses):
        losses.mean().item()


@dataclass(eq=False)
class MaskIndexing:
    """Index with a boolean mask, whose size only the data knows."""

    @hookimpl
    def select_batch(self, run, batch):
        keep = batch.y > 0
        batch.keep_rows(torch.arange(batch.R, device=run.device)[keep])


@dataclass(eq=False)
class HardCodedDevice:
    """Name a device."""

    @hookimpl
    def transform_batch(self, batch):
        batch.weight = batch.weight * torch.ones(batch.S, device="cpu")


@dataclass(eq=False)
class EmptyPromise:
    """Claim to save rows, and save none."""

    saves = "rows"


@dataclass(eq=False)
class Forgetful:
    """Keep state where a checkpoint does not find it."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

    @hookimpl
    def setup(self):
        self.epochs = 0

    @hookimpl
    def on_epoch_start(self):
        self.epochs += 1

    @hookimpl
    def lr_factor(self):
        return 0.5**self.epochs


@dataclass(eq=False)
class Exploder:
    """Blow the loss up."""

    @hookimpl(wrapper=True)
    def reduce_loss(self):
        numerator, denominator = yield
        return numerator * float("nan"), denominator


@pytest.mark.parametrize(
    ("strategy", "rule"),
    [
        (GlobalRandom, "global random state"),
        (NumpyRandom, "global random state"),
        (OrderThief, "order stream"),
        (Vandal, "dataset"),
        (ReadBack, "reads nothing back"),
        (MaskIndexing, "reads nothing back"),
        (HardCodedDevice, "reads nothing back"),
        (EmptyPromise, "saves what it claims"),
        (Forgetful, "stop and resume"),
        (Exploder, "finite"),
    ],
)
def test_the_kit_catches(strategy, rule, installed):
    with pytest.raises(NotConforming, match=rule):
        check_strategy(strategy, installed)


def test_a_strategy_that_declares_its_read_back_may(installed):
    @dataclass(eq=False)
    class Declared(ReadBack):
        """Read back, and say so."""

        reads_back = True

    assert check_strategy(Declared, installed)


def test_a_pair_that_hides_one_saving_is_caught(installed):
    @dataclass(eq=False)
    class Deaf:
        """Claim to save rows, and do so only alone."""

        saves = "rows"

        @hookimpl
        def select_batch(self, run, batch):
            if len(run.strategies) == 1:
                batch.keep_rows(torch.arange(batch.R // 2))

    check_strategy(Deaf, installed)
    with pytest.raises(NotConforming, match="both savings show"):
        check_pair("deaf", "random_subset", installed)


def test_a_conflict_is_a_clean_answer(installed):
    @dataclass(eq=False)
    class Owner:
        """Own the optimizer's step."""

        @hookimpl
        def optimizer_step(self, run):
            run.optimizer.step()

    check_strategy(Owner, installed)
    (answer,) = check_pair("owner", "amp", installed)
    assert "own the hook optimizer_step" in answer
