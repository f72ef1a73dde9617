"""Mini-batch skipping against a coin per batch of the baseline's own plan."""

import pytest
import torch
from dataeff_plugins.minibatch_skipping import kept_batches

from dataeff import DataeffError, Plan, hookimpl
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training.optimizing import schedule


class Books:
    """Write down the samples of each batch, per epoch, and the learning rate of each step."""

    def __init__(self):
        self.epochs, self.rates = [], []

    @hookimpl
    def on_epoch_start(self):
        self.epochs.append([])
        self.rates.append([])

    @hookimpl
    def observe_batch(self, batch):
        self.epochs[-1].append(batch.idx.tolist())

    @hookimpl(wrapper=True)
    def optimizer_step(self, run):
        self.rates[-1].append(run.optimizer.param_groups[0]["lr"])
        return (yield)

    def state_dict(self):
        return {}


def trained(text, **options):
    books = Books()
    return books, train_tiny(text, books, **options)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("skip", [0.25, 0.6])
def test_each_batch_of_the_baseline_is_skipped_on_its_own_coin(seed, skip):
    whole, _ = trained("baseline", seed=seed)
    some, result = trained(f"minibatch_skipping[skip={skip}]", seed=seed)
    stream = result.run.rng("minibatch_skipping").initial_seed()
    coin = torch.Generator().manual_seed(stream)
    skipped = 0
    for all_batches, batches in zip(whole.epochs, some.epochs, strict=True):
        coins = torch.rand(len(all_batches), generator=coin).tolist()
        stay = [batch for batch, luck in zip(all_batches, coins, strict=True) if luck >= skip]
        assert batches == (stay or [all_batches[coins.index(max(coins))]])
        skipped += len(all_batches) - len(batches)
    assert skipped, "nothing was skipped: the test has shown nothing"
    rows = sum(len(batch) for epoch in some.epochs for batch in epoch)
    assert result.record["rows"]["loaded"] == rows, "what is skipped is not even loaded"


def test_nothing_skipped_is_the_baseline_to_the_bit():
    never = train_tiny("minibatch_skipping[skip=0]")
    assert torch.equal(weights(never), weights(train_tiny("baseline")))


def test_the_learning_rate_follows_the_epoch_not_the_steps():
    some, _ = trained("minibatch_skipping[skip=0.5]")
    assert len({len(rates) for rates in some.rates}) > 1
    for epoch, rates in enumerate(some.rates):
        for b, rate in enumerate(rates):
            progress = (epoch + b / len(rates)) / 4
            assert rate == pytest.approx(TASK.lr * schedule(TASK, progress))


def test_one_batch_stays_and_it_is_the_luckiest():
    plan = Plan(torch.arange(9), [2, 3, 4])
    left = kept_batches(plan, torch.tensor([0.1, 0.7, 0.3]), 0.9)
    assert left.rows[:, 0].tolist() == [2, 3, 4]
    assert left.sizes == [3]
    empty = Plan(torch.arange(0), [])
    assert not len(kept_batches(empty, torch.zeros(0), 0.5))


def test_rows_of_two_samples_go_or_stay_together():
    rows = torch.tensor([[0, 1], [2, -1], [3, 4], [5, 6], [7, -1]])
    left = kept_batches(Plan(rows, [2, 1, 2]), torch.tensor([0.6, 0.1, 0.5]), 0.5)
    assert left.rows.tolist() == [[0, 1], [2, -1], [5, 6], [7, -1]]
    assert left.sizes == [2, 2]


def test_the_share_that_is_skipped_is_the_probability():
    plan = Plan(torch.arange(20_000), [2] * 10_000)
    luck = torch.rand(10_000, generator=torch.Generator().manual_seed(0))
    assert len(kept_batches(plan, luck, 0.3)) == pytest.approx(7000, abs=150)


def test_all_is_too_much_to_skip():
    with pytest.raises(DataeffError, match="skip=1"):
        train_tiny("minibatch_skipping[skip=1]")
