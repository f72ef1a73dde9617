"""Self-paced learning against books of its own: last losses, their limit, soft weights."""

import pytest
import torch
from dataeff_plugins.self_paced import limit_of, pace, soft_weights
from probes import Books

from dataeff.testing import TASK, train_tiny, weights

LONG = TASK.model_copy(update={"epochs": 8})
NAN = float("nan")


def trained(text, task=LONG):
    books = Books()
    return books.epochs, train_tiny(text, books, task=task)


@pytest.mark.parametrize("text", ["start=0.25,until=0.5", "start=0.4,until=1", "weights=soft"])
def test_epochs_follow_from_the_last_known_losses(text):
    start, until = {"start=0.4,until=1": (0.4, 1.0)}.get(text, (0.25, 0.5))
    epochs, result = trained(f"self_paced[{text}]")
    everyone = result.run.split("train").tolist()
    table = dict.fromkeys(everyone, 1000.0)
    left_out = 0
    for number, seen in enumerate(epochs):
        share = min(1.0, start + (1 - start) * (number / 8) / until)
        limit = sorted(table.values())[int(share * 81 + 1e-9) - 1]
        chosen = {i for i in everyone if table[i] <= limit}
        assert set(seen) == chosen, f"epoch {number}"
        left_out += 81 - len(chosen)
        raw = {i: max(0, 1 - table[i] / (limit + 1e-6)) ** (1 / 3) + 0.01 for i in chosen}
        mean = sum(raw.values()) / len(raw)
        for i, (loss, weight) in seen.items():
            soft = raw[i] / mean if number and "soft" in text else 1.0
            assert weight == pytest.approx(soft, rel=1e-4)
            table[i] = loss
    assert left_out, "nobody was left out: the test has shown nothing"
    assert result.record["rows"]["loaded"] == 8 * 81 - left_out, "they are not even loaded"


def test_the_reference_codes_pace_can_be_written():
    """Its share is linspace(0.25, 1, 5) over the first five epochs, then all."""
    for epochs in (5, 10, 200):
        shares = [pace(epoch / epochs, 0.25, 4 / epochs) for epoch in range(epochs)]
        theirs = torch.linspace(0.25, 1, 5).tolist() + [1.0] * (epochs - 5)
        assert shares == pytest.approx(theirs)


def test_the_first_epoch_trains_everyone():
    epochs, _ = trained("self_paced[start=0.3]")
    assert len(epochs[0]) == 81
    assert len(epochs[1]) == int((0.3 + 0.7 / 4) * 81)


def test_the_limit_is_the_loss_at_that_rank():
    loss = torch.tensor([5.0, 1.0, NAN, 4.0, 2.0, 3.0])
    assert [limit_of(loss, share / 5, 1) for share in range(1, 6)] == [1, 2, 3, 4, 5]
    assert limit_of(loss, 0.01, 1) == 1
    assert limit_of(loss, 0.2, 3) == 3
    assert limit_of(loss, 0.2, 99) == 5
    assert limit_of(torch.full((3,), NAN), 0.2, 1) == float("inf")


def test_the_share_is_that_of_decimal_numbers():
    loss = torch.arange(100.0)
    for percent in range(1, 101):
        assert limit_of(loss, percent / 100, 1) == percent - 1


def test_a_batch_at_least_stays():
    epochs, _ = trained("self_paced[start=0.01,until=1]")
    assert len(epochs[1]) == TASK.batch_size


def test_soft_weights_have_mean_one_and_fall_with_the_loss():
    loss = torch.tensor([0.0, 0.5, 1.0, 2.0, NAN])
    limit = 1.0
    weight = soft_weights(loss, limit)
    raw = [1.01, 0.5 ** (1 / 3) + 0.01, 0.02]
    mean = sum(raw) / 3
    assert weight[:2].tolist() == pytest.approx([v / mean for v in raw[:2]], rel=1e-4)
    assert weight[:3].mean() == pytest.approx(1, abs=1e-6)
    assert weight[0] > weight[1] > weight[2] > weight[3] > 0
    assert weight[4] == 1


def test_soft_weights_are_one_where_losses_say_nothing():
    assert soft_weights(torch.full((3,), NAN), float("inf")).tolist() == [1, 1, 1]
    assert soft_weights(torch.zeros(3), 0.0).tolist() == [1, 1, 1]


def test_soft_weights_last_to_the_end():
    epochs, _ = trained("self_paced[weights=soft]")
    assert len(epochs[-1]) == 81
    assert len({weight for _, weight in epochs[-1].values()}) > 70
    assert {weight for _, weight in epochs[0].values()} == {1.0}


def test_composed_with_a_subset_it_paces_among_those():
    epochs, _ = trained("random_subset[keep=0.6]+self_paced")
    assert [len(seen) for seen in epochs[:2]] == [48, int(48 * 0.4375)]
    assert set(epochs[1]) < set(epochs[0]) == set(epochs[-1])


def test_everyone_from_the_start_is_the_baseline_to_the_bit():
    all_in = train_tiny("self_paced[start=1]")
    assert torch.equal(weights(all_in), weights(train_tiny("baseline")))
