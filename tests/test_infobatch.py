"""InfoBatch against books of its own: scores, their mean, and who may be pruned."""

import pytest
import torch
from dataeff_plugins.infobatch import draw
from hypothesis import given
from hypothesis import strategies as st
from probes import Books

from dataeff import hookimpl
from dataeff.testing import TASK, train_tiny, weights

LONG = TASK.model_copy(update={"epochs": 7})


def trained(text, task=LONG, **options):
    books = Books()
    return books.epochs, train_tiny(text, books, task=task, **options)


@pytest.mark.parametrize(("prune", "anneal"), [(0.5, 0.875), (0.3, 0.5), (0.8, 1.0)])
def test_epochs_follow_from_the_scores_before_them(prune, anneal):
    epochs, result = trained(f"infobatch[prune={prune},anneal={anneal}]")
    everyone = result.run.split("train").tolist()
    score = dict.fromkeys(everyone, 3.0)
    pruned = 0
    for number, seen in enumerate(epochs):
        mean = sum(score.values()) / len(score)
        easy = {i for i in everyone if score[i] < mean}
        if number >= anneal * 7:
            easy = set()
        stay = int((1 - prune) * len(easy) + 1e-9)
        assert set(everyone) - easy <= set(seen), "all others are kept"
        assert len(seen) == len(everyone) - len(easy) + stay
        for i, (loss, weight) in seen.items():
            assert weight == pytest.approx(1 / (1 - prune) if i in easy else 1.0)
            score[i] = loss
        pruned += len(everyone) - len(seen)
    assert pruned, "nothing was pruned: the test has shown nothing"
    assert result.record["rows"]["loaded"] == 7 * len(everyone) - pruned


def test_the_first_epoch_prunes_nothing():
    epochs, _ = trained("infobatch")
    assert len(epochs[0]) == 81
    assert len(epochs[1]) < 81


def test_annealing_takes_all_weights_back():
    # 0.5 of 7 epochs is no whole number: the reference code never resets its weights then.
    epochs, _ = trained("infobatch[anneal=0.5]")
    assert any(weight == 2 for _, weight in epochs[3].values())
    for seen in epochs[4:]:
        assert len(seen) == 81
        assert {weight for _, weight in seen.values()} == {1.0}


def test_annealing_is_a_share_of_the_epochs_that_are_run():
    epochs, _ = trained("short_schedule[share=0.5]+infobatch[anneal=0.5]", task=LONG)
    # 3.5 epochs: the last one is half, and two are past the middle.
    assert len(epochs[1]) < 81
    assert len(epochs[2]) == 81
    assert len(epochs[3]) == 40


def test_a_loss_is_summed_with_weights_and_divided_by_rows():
    class Loss:
        def __init__(self):
            self.pairs = []

        @hookimpl(wrapper=True)
        def reduce_loss(self, batch, losses):
            numerator, denominator = yield
            columns = zip(batch.weight.tolist(), losses.tolist(), strict=True)
            expected = sum(weight * loss for weight, loss in columns)
            self.pairs.append((float(numerator), expected, denominator, batch.R))
            return numerator, denominator

        def state_dict(self):
            return {}

    probe = Loss()
    train_tiny("infobatch", probe)
    for numerator, expected, denominator, rows in probe.pairs:
        assert numerator == pytest.approx(expected, rel=1e-4)
        assert denominator == rows


def test_seeds_draw_their_own():
    def second(seed):
        loss = torch.arange(40.0)
        return draw(loss, 0.5, 1, torch.Generator().manual_seed(seed))[0].tolist()

    assert second(1) == second(1)
    assert second(1) != second(2)
    epochs, _ = trained("infobatch", seed=3)
    sets = [frozenset(seen) for seen in epochs[1:6]]
    assert len(set(sets)) == 5


@given(st.lists(st.floats(0, 9, width=32), min_size=1, max_size=60), st.integers(1, 99))
def test_who_may_be_pruned(losses, percent):
    loss = torch.tensor(losses)
    kept, weight = draw(loss, percent / 100, 1, torch.Generator().manual_seed(0))
    mean = float(torch.tensor(sum(losses) / len(losses)))
    easy = [value < mean for value in losses]
    if sum(easy):
        assert all(keep or low for keep, low in zip(kept.tolist(), easy, strict=True))
        assert int(kept.sum()) == len(losses) - sum(easy) + (100 - percent) * sum(easy) // 100
    else:
        assert kept.all()
    up = [pytest.approx(100 / (100 - percent)) if low else 1.0 for low in easy]
    assert weight.tolist() == up


def test_the_expected_weight_of_every_sample_is_one():
    loss = torch.cat([torch.linspace(0, 1, 12), torch.full((6,), 9.0)])
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(18)
    for _ in range(4000):
        kept, weight = draw(loss, 0.75, 1, generator)
        total += torch.where(kept, weight, 0.0)
    assert torch.allclose(total / 4000, torch.ones(18), atol=0.12)


def test_equal_losses_have_nobody_below_their_mean():
    # Summed and divided, 81 times 0.1 may lie above 0.1.
    for value in (0.1, 0.3, 0.7, 1.1, 3.0):
        for n in (3, 7, 81):
            kept, weight = draw(torch.full((n,), value), 0.5, 1, torch.Generator())
            assert kept.all()
            assert (weight == 1).all()


def test_unknown_losses_are_kept_and_do_not_count():
    nan = float("nan")
    loss = torch.tensor([nan, 1.0, nan, 1.0, 4.0, nan, 1.0, 1.0])
    kept, weight = draw(loss, 0.5, 1, torch.Generator().manual_seed(0))
    assert kept[[0, 2, 4, 5]].all()
    assert int(kept.sum()) == 6
    assert weight.tolist() == [1, 2, 1, 2, 1, 1, 2, 2]
    kept, weight = draw(torch.full((4,), nan), 0.5, 1, torch.Generator())
    assert kept.all()
    assert (weight == 1).all()


def test_a_batch_at_least_stays():
    loss = torch.cat([torch.zeros(20), torch.ones(1)])
    generator = torch.Generator().manual_seed(0)
    assert int(draw(loss, 0.5, 11, generator)[0].sum()) == 11
    kept, weight = draw(loss, 0.5, 12, generator)
    assert kept.all()
    assert (weight == 1).all()


def test_composed_with_a_subset_it_prunes_among_those():
    epochs, _ = trained("random_subset[keep=0.6]+infobatch")
    subset = set(epochs[0])
    assert len(subset) == 48
    scores = {i: loss for i, (loss, _) in epochs[0].items()}
    mean = sum(scores.values()) / 48
    easy = [i for i in subset if scores[i] < mean]
    assert set(epochs[1]) < subset
    assert len(epochs[1]) == 48 - len(easy) + len(easy) // 2


def test_weights_are_multiplied_onto_those_of_others():
    class Triple:
        @hookimpl
        def select_batch(self, batch):
            batch.weight *= 3

        def state_dict(self):
            return {}

    books = Books()
    train_tiny(Triple(), "infobatch", books)
    seen = {weight for epoch in books.epochs for _, weight in epoch.values()}
    assert seen == {3.0, 6.0}


def test_annealing_from_the_start_is_the_baseline_to_the_bit():
    # All epochs but the first anneal, and that one knows no losses to prune by.
    never = train_tiny("infobatch[anneal=0.001]")
    assert torch.equal(weights(never), weights(train_tiny("baseline")))


def test_the_epoch_at_the_border_anneals():
    epochs, _ = trained("infobatch[anneal=0.5]", task=TASK)
    assert [len(epoch) == 81 for epoch in epochs] == [True, False, True, True]
