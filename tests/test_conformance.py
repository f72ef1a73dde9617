"""Every registered strategy conforms, alone and in pairs; and the kit catches what does not."""

import re
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
import torch
from conftest import drawn

from dataeff import Strategy, hookimpl
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
    "auto_assist[target=pred,gamma=0.1,bootstrap=0]",
    "auto_assist[epoch=batches]",
    "craig[distance=squared,features=true,every=2]",
    "glister[mode=stochastic,features=true,every=1,warm=0.5]",
    "gradmatch[by=class,features=true,every=2,warm=0.5]",
    "infobatch[prune=0.8,anneal=0.5]",
    "input_scaling[scale=0.5,multiple=1]",
    "kakurenbo[hide=0.6,tau=0.3,lr_by=target]",
    "minibatch_skipping[skip=0.6]",
    "progressive_resizing[mode=crop,delay=0,finetune=0]",
    "el2n[models=2,epochs=1,choose=easiest,stratified=true]",
    "el2n[models=1,epochs=1,keep=0.5,choose=offset,offset=0.2,reuse=true]",
    "el2n[models=1,epochs=1,steps=fixed]",
    "grand[models=1,epochs=1]",
    "grand[models=1,epochs=0,layers=last]",
    "forgetting[models=1,keep=0.5]",
    "rho_loss[epochs=1,holdout=halves]",
    "rho_loss[epochs=1,keep=0.25,score_mode=train]",
    "selective_backprop[stale=2,history=40]",
    "selective_backprop[beta=3,score_mode=train]",
    "selective_backprop_batch[keep=0.25,start=0,end=1,interrupt=0,scale=0.5]",
    "selective_backprop_batch[start=0,end=1,interrupt=0,score_mode=train]",
    "self_paced[start=0.1,until=1,weights=soft]",
]


@pytest.mark.parametrize("name", [*NAMES, *drawn(VARIANTS, 4)])
def test_strategy_conforms(name):
    assert len(check_strategy(CHEAP.get(name, name), INSTALLED, model_for(name))) == 13


def model_for(*names):
    return "resnet8[width=8]" if set(names) & set(RESIDUAL) else "tiny"


# An alias is the same strategy once more.
PAIRED = [entry.name for entry in INSTALLED.strategies.entries() if not entry.alias_of]
PAIRS = [
    *combinations(PAIRED, 2),
    ("input_scaling", "mixtrain_cutmix[selection=none,patch=cutmix_beta]"),
    ("mixtrain_cutmix[selection=none,patch=half]", "progressive_resizing[delay=0]"),
]


@pytest.mark.parametrize(("first", "second"), drawn(PAIRS, 11))
def test_pair_conforms(first, second):
    model = model_for(first, second)
    assert check_pair(CHEAP.get(first, first), CHEAP.get(second, second), INSTALLED, model)


# The kit itself --------------------------------------------------------------------------------


@dataclass(eq=False)
class GlobalRandom(Strategy):
    """Draw from torch's global generator."""

    @hookimpl
    def select_batch(self, batch):
        batch.weight = batch.weight * (1 + 0.01 * torch.rand(batch.S))


@dataclass(eq=False)
class NumpyRandom(Strategy):
    """Draw from numpy's global generator, for nothing."""

    @hookimpl
    def select_batch(self, batch):
        np.random.rand()  # noqa: NPY002


@dataclass(eq=False)
class OrderThief(Strategy):
    """Draw from the harness's own stream."""

    @hookimpl
    def on_epoch_start(self, run):
        torch.rand(1, generator=run.rng("order"))


@dataclass(eq=False)
class Vandal(Strategy):
    """Change the dataset in place."""

    @hookimpl
    def on_epoch_start(self, run):
        run.train.data[0] += 1


@dataclass(eq=False)
class ReadBack(Strategy):
    """Read a number back in every batch."""

    @hookimpl
    def observe_batch(self, run, batch, losses):
        losses.mean().item()


@dataclass(eq=False)
class MaskIndexing(Strategy):
    """Index with a boolean mask, whose size only the data knows."""

    @hookimpl
    def select_batch(self, run, batch):
        keep = batch.y > 0
        batch.keep_rows(torch.arange(batch.R, device=run.device)[keep])


@dataclass(eq=False)
class HardCodedDevice(Strategy):
    """Name a device."""

    @hookimpl
    def transform_batch(self, batch):
        batch.weight = batch.weight * torch.ones(batch.S, device="cpu")


@dataclass(eq=False)
class EmptyPromise(Strategy):
    """Claim to save rows, and save none."""

    saves = "rows"


@dataclass(eq=False)
class Forgetful(Strategy):
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
class Exploder(Strategy):
    """Blow the loss up."""

    @hookimpl(wrapper=True)
    def reduce_loss(self):
        numerator, denominator = yield
        return numerator * float("nan"), denominator


@dataclass(eq=False)
class LeftInEval(Strategy):
    """Choose rows in eval mode, and stay there."""

    @hookimpl
    def select_batch(self, run, batch):
        run.model.eval()
        batch.keep_rows(run.score(batch).topk(batch.R // 2).indices)


@dataclass(eq=False)
class Liar(Strategy):
    """Say that half of the network is skipped."""

    @hookimpl
    def compute_factor(self):
        return 0.5


@dataclass(eq=False)
class Unmetered(Strategy):
    """Score past the meter."""

    @hookimpl
    def select_batch(self, run, batch):
        with torch.no_grad():
            scores = run.model(batch.x).logsumexp(1)
        batch.keep_rows(scores.topk(batch.R // 2).indices)


@dataclass(eq=False)
class Amnesiac(Strategy):
    """Keep what matters where no checkpoint looks, from the third epoch on."""

    @hookimpl
    def setup(self):
        self._seen = 0

    @hookimpl
    def on_epoch_end(self):
        self._seen += 1

    @hookimpl
    def lr_factor(self):
        return 0.5 if self._seen > 1 else 0.9


@dataclass(eq=False)
class Bookkeeper(Amnesiac):
    """Read a private count after a stop, though it makes no difference in so few epochs."""

    @hookimpl
    def lr_factor(self):
        return 0.5 if self._seen > 100 else 0.9


@dataclass(eq=False)
class DoubleStep(Strategy):
    """Step twice for one batch."""

    @hookimpl
    def optimizer_step(self, run):
        run.optimizer.step()
        run.optimizer.step()


@dataclass(eq=False)
class NightShift(Strategy):
    """Train between epochs, with an optimizer of its own."""

    @hookimpl
    def on_epoch_end(self, run):
        samples = run.split("train")[:16]
        optimizer = torch.optim.SGD(run.model.parameters(), lr=0.01)
        (x,) = run.images([samples])
        logits = run.network(x)
        torch.nn.functional.cross_entropy(logits, run.labels[samples]).backward()
        optimizer.step()
        optimizer.zero_grad()


@dataclass(eq=False)
class NightModel(Strategy):
    """Train between epochs, past the meter."""

    @hookimpl
    def on_epoch_end(self, run):
        samples = run.split("train")[:16]
        (x,) = run.images([samples])
        torch.nn.functional.cross_entropy(run.model(x), run.labels[samples]).backward()
        run.optimizer.step()
        run.optimizer.zero_grad()


@dataclass(eq=False)
class Idler(Strategy):
    """Declare nothing, and do nothing."""


@dataclass(eq=False)
class MeanLoss(Strategy):
    """Return one loss for all samples."""

    @hookimpl
    def sample_losses(self, batch, logits):
        return torch.nn.functional.cross_entropy(logits, batch.y)


@dataclass(eq=False)
class ManyNumerators(Strategy):
    """Return a numerator for each sample."""

    @hookimpl
    def reduce_loss(self, batch, losses):
        return losses * batch.weight, batch.R


@dataclass(eq=False)
class DeviceDraw(Strategy):
    """Draw by values of a device with a generator of the CPU."""

    @hookimpl
    def select_batch(self, run, batch):
        even = batch.x.flatten(1).abs().mean(1)
        batch.keep_rows(torch.multinomial(even, batch.R // 2, generator=run.rng("draw")))


@pytest.mark.parametrize(
    ("strategy", "rule", "cure"),
    [
        (LeftInEval, "trains in training mode", "puts each module back"),
        (Liar, "trains to finite numbers|dataset and global", "return what is skipped"),
        (Unmetered, "every forward is counted", "call run.network, run.score or"),
        (Amnesiac, "stop and resume gives the same", "keep all state in attributes"),
        (Bookkeeper, "nothing that matters is lost", "call it seen, or make it anew in setup"),
        (DoubleStep, "every step is counted", "leave steps to the loop"),
        (NightShift, "every step is counted", "leave steps to the loop"),
        (NightModel, "every forward is counted", "not run.model"),
        (Idler, "does something or says why not", r"say in setup why.*self.no_effect = '...'"),
        (MeanLoss, "", "in sample_losses: it must return one loss per sample"),
        (ManyNumerators, "", "in reduce_loss: its numerator must be a single number"),
        (DeviceDraw, "reads nothing back", "draw there, with run.rng.*and move the numbers"),
    ],
)
def test_the_kit_says_which_rule_is_broken_and_how_to_cure_it(strategy, rule, cure, installed):
    with pytest.raises(NotConforming) as broken:
        check_strategy(strategy, installed)
    assert re.search(f"breaks the rule '.*({rule}).*': .*{cure}", str(broken.value)), broken.value


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
        (EmptyPromise, "saves what it declares"),
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

        @hookimpl
        def lr_factor(self):
            return 0.5

    assert check_strategy(Declared, installed)


def test_a_pair_that_hides_one_saving_is_caught(installed):
    @dataclass(eq=False)
    class Deaf(Strategy):
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
    class Owner(Strategy):
        """Own the optimizer's step, a smaller one."""

        @hookimpl
        def optimizer_step(self, run):
            run.optimizer.param_groups[0]["lr"] *= 0.5
            run.optimizer.step()

    check_strategy(Owner, installed)
    (answer,) = check_pair("owner", "amp", installed)
    assert "own the hook optimizer_step" in answer
