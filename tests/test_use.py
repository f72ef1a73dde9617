"""What a record says of the use of samples and classes, against counts kept by hand."""

from collections import Counter

import pytest
import torch

from dataeff import hookimpl
from dataeff.testing import TASK, train_tiny


class Notes:
    """Write down which samples each epoch trained, and which of them in mixed rows."""

    def __init__(self):
        self.trained, self.mixed, self.times = {}, {}, Counter()

    @hookimpl
    def observe_batch(self, run, batch):
        ours = batch.idx.tolist()
        self.trained.setdefault(run.epoch, set()).update(ours)
        mixed = [sample for sample, is_so in zip(ours, batch.mixed.tolist(), strict=True) if is_so]
        self.mixed.setdefault(run.epoch, set()).update(mixed)
        self.times.update(ours)

    def state_dict(self):
        return {}


@pytest.mark.parametrize(
    "strategy",
    [
        "baseline",
        "random_subset[keep=0.3]",
        "random_subset[keep=0.3,redraw=epoch]",
        "mixtrain_cutmix[selection=none]",
    ],
)
def test_the_use_of_samples_and_classes(strategy, installed):
    notes = Notes()
    result = train_tiny(strategy, notes, installed=installed)
    run, record = result.run, result.record
    samples = run.split("train").tolist()
    for line in result.epochs:
        trained, mixed = notes.trained[line["epoch"]], notes.mixed[line["epoch"]]
        assert line["kept"] == pytest.approx(len(trained) / len(samples))
        assert line["mixed"] == pytest.approx(len(mixed) / len(trained))
    never = [sample for sample in samples if not notes.times[sample]]
    assert record["use"]["never_trained"] == pytest.approx(len(never) / len(samples))

    shares = []
    for label in range(len(record["classes"]["trained"])):
        ours = [sample for sample in samples if run.labels[sample] == label]
        shares.append(sum(notes.times[s] for s in ours) / len(ours) / TASK.epochs)
    assert record["classes"]["trained"] == pytest.approx(shares)
    assert record["use"]["class_balance"] == pytest.approx(min(shares) / max(shares))
    if "mixtrain" in strategy:
        assert any(line["mixed"] > 0.5 for line in result.epochs)
    if strategy == "random_subset[keep=0.3]":
        assert record["use"]["never_trained"] > 0.6


def test_classes_of_the_test_set_add_up_to_its_accuracy(installed):
    record = train_tiny("baseline", installed=installed).record
    classes = record["classes"]
    right = sum(n * a / 100 for n, a in zip(classes["test"], classes["accuracy"], strict=True))
    assert 100 * right / sum(classes["test"]) == pytest.approx(record["metrics"]["test_top1"])
    assert "test_classes" not in record["metrics"]
    assert torch.tensor(classes["test"]).gt(0).all()
