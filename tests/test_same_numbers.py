"""The numbers of every bundled strategy are those that were recorded: no rewrite may shift them.

Run as a program, this file records them anew: that is for a change that is meant to shift numbers.
Figures hang on the torch build and on the processor, by whose model libraries choose how they add
up, and are kept by both; where these were not recorded, only choices of samples that no
floating-point number decides are compared.
"""

import hashlib
import json
import sys
from pathlib import Path

import pytest
import torch

from dataeff import hookimpl
from dataeff.plugins import load_plugins
from dataeff.testing import TASK, train_tiny
from dataeff.training.devices import cpu_model

RECORD = Path(__file__).parent / "fixtures" / "same_numbers.json"
BUILD = f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"
PLATFORM = f"{BUILD}, {cpu_model()}"
# Of the AMD EPYC whose figures were recorded first, nobody wrote the model down.
MAKER = f"{BUILD}, {(cpu_model() or '').partition(' ')[0]}"
CASES = {
    "tiny": [
        "amp",
        "auto_assist",
        "auto_assist[epoch=batches,target=pred]",
        "baseline",
        "craig",
        "el2n[models=2,epochs=1]",
        "forgetting[models=1,epochs=2]",
        "glister",
        "grad_accumulation",
        "gradmatch",
        "grand[models=2,epochs=1]",
        "infobatch",
        "input_scaling",
        "kakurenbo",
        "minibatch_skipping",
        "mixtrain_cutmix",
        "mixtrain_cutmix[selection=none,patch=cutmix_beta,cells=soft]",
        "mixtrain_cutmix[batching=homogeneous,bootstrap=true,patch=half]",
        "mixtrain_cutmix[selection=none,interference=off,mix_loss=sum]",
        "mixtrain_mixup",
        "mixtrain_mixup[selection=none]",
        "oracle_skipping",
        "pin_memory",
        "progressive_resizing",
        "random_backprop",
        "random_backprop[mode=accumulate]",
        "random_subset",
        "random_subset[redraw=epoch]",
        "rho_loss[epochs=1]",
        "selective_backprop",
        "selective_backprop_batch",
        "self_paced",
        "short_schedule",
        "el2n[models=2,epochs=1]+selective_backprop",
        "infobatch+mixtrain_cutmix",
        "grad_accumulation+amp+random_backprop",
        "auto_assist+mixtrain_mixup[selection=none]",
    ],
    "resnet8[width=8]": [
        "fixres",
        "growing",
        "prunetrain[every=1,threshold=0.3]",
        "stochastic_depth",
        "growing+selective_backprop",
    ],
}
KNOWN = json.loads(RECORD.read_text()) if RECORD.exists() else {"choices": {}, "figures": {}}


class Choices:
    """Hash the samples of every batch that is trained, row by row, in order."""

    def __init__(self):
        self.hash = hashlib.sha256()

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

    @hookimpl
    def observe_batch(self, run, batch):
        told = [run.epoch, batch.idx.tolist(), batch.row.tolist(), batch.mixed.tolist()]
        self.hash.update(json.dumps(told).encode())


def measured(strategy, model, installed, **changes):
    """Return what the strategy chose, and what came of it."""
    choices = Choices()
    task = TASK.model_copy(update={"model": model, **changes})
    result = train_tiny(strategy, choices, installed=installed, task=task)
    weights = hashlib.sha256()
    for tensor in result.run.model.state_dict().values():
        weights.update(tensor.contiguous().numpy().tobytes())
    record = result.record
    figures = {name: record[name] for name in ("metrics", "train_loss", "rows", "steps", "flops")}
    return choices.hash.hexdigest()[:16], figures | {"weights": weights.hexdigest()[:16]}


ALL = [(strategy, model) for model, strategies in CASES.items() for strategy in strategies]


@pytest.mark.parametrize(("strategy", "model"), ALL, ids=[strategy for strategy, _ in ALL])
def test_numbers_are_those_that_were_recorded(strategy, model, shared_installed):
    figures = KNOWN["figures"].get(PLATFORM) or KNOWN["figures"].get(MAKER)
    recorded = KNOWN["choices"][strategy]
    if figures is None and recorded["by_figures"]:
        pytest.skip(
            f"choices of {strategy} hang on figures, of which there are none for {PLATFORM}"
        )
    choices, found = measured(strategy, model, shared_installed)
    assert choices == recorded["hash"]
    if figures is not None:
        assert found == figures[strategy]


def test_every_bundled_strategy_is_recorded(shared_installed):
    bundled = {p.name for p in shared_installed.plugins if p.source == "bundled"}
    names = {e.name for e in shared_installed.strategies.entries() if not e.alias_of}
    ours = {n for n in names if shared_installed.strategies[n].source in bundled}
    assert ours <= {part.split("[")[0] for text in KNOWN["choices"] for part in text.split("+")}


def record_all() -> None:
    """Write the record for this platform.

    Choices are by figures where another network, or a higher learning rate, changes them.
    """
    torch.set_num_threads(1)
    installed, figures = load_plugins(), {}
    for strategy, model in ALL:
        choices, figures[strategy] = measured(strategy, model, installed)
        other, _ = measured(strategy, "resnet8[width=4]", installed)
        faster, _ = measured(strategy, model, installed, lr=10 * TASK.lr)
        KNOWN["choices"][strategy] = {
            "hash": choices,
            "by_figures": not choices == other == faster,
        }
        print(strategy, KNOWN["choices"][strategy], figures[strategy]["metrics"]["test_top1"])
    KNOWN["figures"][PLATFORM] = figures
    RECORD.write_text(json.dumps(KNOWN, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(record_all())
