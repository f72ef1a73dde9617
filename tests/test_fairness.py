"""A fair fight: same start, same order, same augmentation, same schedule for every strategy."""

import pytest
import torch

from dataeff import hookimpl
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training.optimizing import schedule
from dataeff.training.rng import Streams


class Nothing:
    """Do nothing, but draw from a stream of one's own."""

    @hookimpl
    def select_batch(self, run, batch):
        torch.rand(7, generator=run.rng("nothing"))


class Recorder:
    """Write down which samples came in which order, and what they looked like."""

    def __init__(self):
        self.order, self.images = [], {}

    @hookimpl
    def transform_batch(self, run, batch):
        self.order += batch.idx.tolist()
        for sample, image in zip(batch.idx.tolist(), batch.x, strict=True):
            self.images[run.epoch, sample] = image.clone()

    def state_dict(self):
        return {}


def augmented(installed, strategy):
    recorder = Recorder()
    task = TASK.model_copy(update={"dataset": "digits[subset=120]", "epochs": 2})
    train_tiny(strategy, recorder, installed=installed, task=task)
    return recorder


def test_a_strategy_that_does_nothing_is_bit_identical_to_the_baseline(installed):
    plain = weights(train_tiny("baseline", installed=installed))
    assert torch.equal(weights(train_tiny(Nothing(), installed=installed)), plain)
    assert not torch.equal(weights(train_tiny("baseline", installed=installed, seed=1)), plain)


def test_pruning_half_leaves_order_and_augmentation_of_the_rest(installed):
    whole = augmented(installed, "baseline")
    half = augmented(installed, "random_subset[keep=0.5]")
    kept = set(half.order)
    assert len(kept) == 54
    assert half.order == [sample for sample in whole.order if sample in kept]
    for key, image in half.images.items():
        assert torch.equal(image, whole.images[key])


def test_augmentation_changes_from_epoch_to_epoch(installed):
    seen = augmented(installed, "baseline").images
    same = [torch.equal(seen[0, sample], seen[1, sample]) for epoch, sample in seen if epoch == 0]
    assert sum(same) < len(same) / 2


def test_dropping_rows_leaves_the_augmentation_of_the_rest(installed):
    whole = augmented(installed, "baseline")
    for mode in ("shrink", "accumulate"):
        some = augmented(installed, f"random_backprop[keep=0.3,mode={mode}]")
        assert len(some.order) == 2 * int(0.3 * 108)
        for key, image in some.images.items():
            assert torch.equal(image, whole.images[key])


@pytest.mark.parametrize("keep", [0.5, 0.3])
def test_the_learning_rate_follows_progress_not_steps(installed, keep):
    rates = {}
    for text in ("baseline", f"random_backprop[keep={keep},mode=accumulate]"):
        result = train_tiny(text, installed=installed)
        steps = result.record["steps"] // 4
        # The last step of an epoch is taken at progress (e + (b - 1) / b) / E.
        expected = [TASK.lr * schedule(TASK, (e + (steps - 1) / steps) / 4) for e in range(4)]
        rates[text] = [line["lr"] for line in result.epochs]
        assert rates[text] == pytest.approx(expected)


def test_a_compressed_schedule_decays_in_full(installed):
    result = train_tiny("short_schedule[share=0.375]", installed=installed)
    assert [line["progress"] for line in result.epochs] == [pytest.approx(2 / 3), 1.0]
    assert result.record["rows"]["trained"] == 81 + 40
    assert result.epochs[-1]["lr"] < 0.2 * TASK.lr


def test_validation_samples_are_never_trained(installed):
    result = train_tiny("baseline", installed=installed)
    trained = result.samples["times_trained"] > 0
    assert torch.equal(trained, result.samples["trainable"])
    assert int((~trained).sum()) == 9


def test_a_seed_means_the_same_streams_everywhere():
    first, again = Streams(3), Streams(3)
    first("a")
    assert torch.equal(
        torch.randperm(9, generator=first("order")), torch.randperm(9, generator=again("order"))
    )
    assert not torch.equal(
        torch.randperm(9, generator=Streams(3)("b")), torch.randperm(9, generator=Streams(3)("c"))
    )
