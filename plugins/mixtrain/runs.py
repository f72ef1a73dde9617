"""The runs that the figures are drawn from: the method, its ablations and the baseline."""

from typing import Any, NamedTuple

from dataeff_plugins.mixtrain.probes import Amenability, Detection, Regions

RUNS = {
    "baseline": ("baseline", Regions),
    "naive CutMix": (
        "mixtrain_cutmix[selection=none,interference=off]",
        lambda: Detection(operators=("cutmix", "zeropatch")),
    ),
    "naive MixUp": (
        "mixtrain_mixup[selection=none,interference=off]",
        lambda: Detection(operators=("mixup",)),
    ),
    "split CutMix": ("mixtrain_cutmix[selection=none]", lambda: Detection(operators=("split",))),
    "adaptive MixUp": ("mixtrain_mixup[selection=none]", None),
    "selective CutMix": ("mixtrain_cutmix[interference=off]", None),
    "mixTrain-CutMix": ("mixtrain_cutmix", Amenability),
    "mixTrain-MixUp": ("mixtrain_mixup", None),
    "region 1": ("mixtrain_cutmix[selection=region1]", None),
    "k=2": ("mixtrain_cutmix[k=2]", None),
    "k=3": ("mixtrain_cutmix[k=3]", None),
}
"""What each run is called in the figures: its strategy, and what makes the probe that looks on."""


class Trained(NamedTuple):
    """What is left of a run: its record, a line per epoch, and what strategy and probe noted."""

    record: Any
    epochs: Any
    history: Any
    probe: Any


class Runs(dict):
    """The runs by name, each trained when it is first looked up."""

    def __init__(self, study):
        super().__init__()
        self.study = study

    def __missing__(self, name):
        strategy, make_probe = RUNS[name]
        probe = make_probe() if make_probe else None
        result = self.study.train(strategy, *([probe] if probe else []))
        history = getattr(result.run.strategies[0].plugin, "history", ())
        # Not the run itself: eleven networks with their optimizers would stay in memory.
        self[name] = Trained(result.record, result.epochs, history, probe)
        return self[name]

    def savings(self, name):
        """Return the accuracy of a run, and what it saved: counted work and measured seconds."""
        record = self[name].record
        shares = savings(record, self["baseline"].record)
        accuracy = record["metrics"]["test_top1"]
        return {"run": name, "strategy": record["strategy"], "accuracy": accuracy, **shares}


def savings(record, plain):
    """Return speed-ups over a plain run and the shares saved, by counted work and by seconds."""
    work = record["flops"] / plain["flops"]
    seconds = _seconds(record) / _seconds(plain)
    return {
        "speedup_counted": 1 / work,
        "speedup_measured": 1 / seconds,
        "saved_counted": 1 - work,
        "saved_measured": 1 - seconds,
    }


def _seconds(record):
    return record["clocks"]["prepare"] + record["clocks"]["train"]
