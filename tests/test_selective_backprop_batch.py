"""In-batch Selective-Backprop against Composer's rule, written out sample by sample."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.selective_backprop_batch import SelectiveBackpropBatch, draw_ranks
from probes import Stateless
from selections import stream_of, watched

from dataeff import Batch, DataeffError, hookimpl, portion
from dataeff.testing import train_tiny, weights

ALWAYS = "start=0,end=1,interrupt=0"


def naive(rows, keep, luck):
    """Draw rows one after the other as their odds say; `luck` are exponential draws by rank."""
    order = sorted(range(len(rows)), key=lambda r: max(loss for _, loss in rows[r]))
    odds = [((j + 0.5) / len(rows)) ** (1 / keep - 1) for j in range(len(rows))]
    arrival = {j: clock / p for j, (clock, p) in enumerate(zip(luck, odds, strict=True))}
    count = max(2, math.floor(keep * len(rows) + 1e-9))
    first = sorted(arrival, key=arrival.get)[:count]
    return [[i for i, _ in rows[order[j]]] for j in first]


@pytest.mark.parametrize("keep", [0.5, 0.3])
@pytest.mark.parametrize("other", [(), ("mixtrain_mixup[selection=none]",)], ids=["alone", "pairs"])
def test_rows_are_those_of_the_rule(installed, keep, other):
    text = f"selective_backprop_batch[keep={keep},{ALWAYS}]"
    before, after, result = watched(text, installed, *other)
    stream = stream_of(result, "selective_backprop_batch")
    for (*_, rows), (_, kept) in zip(before.batches, after.batches, strict=True):
        luck = torch.empty(len(rows)).exponential_(generator=stream).tolist()
        assert kept == naive(rows, keep, luck)
    assert len(after.batches[0][1]) == int(16 * keep), "nothing was selected"


def test_ranks_are_drawn_as_one_after_the_other_without_replacement():
    """The reference is numpy's draw, with the odds of Composer."""
    n, count, keep, times = 8, 4, 0.4, 3000
    odds = ((np.arange(n) + 0.5) / n) ** (1 / keep - 1)
    luck = np.random.default_rng(0)
    generator = torch.Generator().manual_seed(0)
    ours, theirs = np.zeros(n), np.zeros(n)
    for _ in range(times):
        drawn = draw_ranks(n, count, keep, generator).tolist()
        assert len(set(drawn)) == count
        ours[drawn] += 1 / times
        theirs[luck.choice(n, count, replace=False, p=odds / odds.sum())] += 1 / times
    assert np.allclose(ours, theirs, atol=0.035)
    assert ours[-1] > ours[0] + 0.5


def test_odds_of_tiny_shares_do_not_vanish():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        assert sorted(draw_ranks(6, 2, 0.001, generator).tolist()) == [4, 5]


@pytest.mark.parametrize(
    ("start", "end", "interrupt"), [(0.5, 0.9, 2), (0, 1, 0), (0.25, 0.75, 3), (0.1, 1, 1)]
)
def test_only_batches_of_their_time_and_turn_are_selected_from(installed, start, end, interrupt):
    text = f"selective_backprop_batch[start={start},end={end},interrupt={interrupt}]"
    before, after, result = watched(text, installed)
    scored = 0
    for (_, progress, number, rows), (_, kept) in zip(before.batches, after.batches, strict=True):
        turn = interrupt == 0 or (number + 1) % interrupt != 0
        active = start <= progress < end and turn
        assert len(kept) == (portion(0.5, len(rows)) if active else len(rows))
        scored += active * len(rows)
    assert result.record["rows"].get("scored", 0) == scored
    assert bool(scored) == (interrupt != 1)


def test_keeping_all_is_the_baseline_and_scores_nothing(installed):
    result = train_tiny(f"selective_backprop_batch[keep=1,{ALWAYS}]", installed=installed)
    assert torch.equal(weights(result), weights(train_tiny(installed=installed)))
    assert "scored" not in result.record["rows"]


def test_two_rows_are_left_at_least_for_the_sake_of_batch_norm(installed):
    text = f"selective_backprop_batch[keep=0.01,{ALWAYS}]"
    _, after, _ = watched(text, installed, batch_size=4)
    assert {len(kept) for _, kept in after.batches} == {2}
    small = Batch(torch.zeros(1, 3, 8, 8), torch.tensor([5]), torch.tensor([0]))
    for R in (1, 0):
        small.keep_rows(torch.arange(R))
        SelectiveBackpropBatch(start=0, end=1, interrupt=0).select_batch(None, small)
        assert small.R == R


def test_an_emptied_batch_is_left_alone(installed):
    class Emptied(Stateless):
        @hookimpl
        def select_batch(self, run, batch):
            batch.keep_rows(torch.arange(0 if run.batch else batch.R))

    text = f"selective_backprop_batch[{ALWAYS}]"
    record = train_tiny(Emptied(), text, installed=installed).record
    assert record["rows"]["scored"] == 4 * 16
    assert record["steps"] == 4


class Shapes(Stateless):
    """Write down what the network is given."""

    def __init__(self):
        self.scored, self.trained = [], []

    @hookimpl(wrapper=True)
    def network(self, x):
        (self.trained if torch.is_grad_enabled() else self.scored).append(x)
        return (yield)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_scoring_may_look_at_smaller_images(installed, mode):
    look = Shapes()
    text = f"selective_backprop_batch[{ALWAYS},scale=0.5,score_mode={mode}]"
    result = train_tiny(text, look, installed=installed)
    assert {x.shape[1:] for x in look.scored} == {(3, 4, 4)}
    assert {x.shape[1:] for x in look.trained} == {(3, 8, 8)}
    plain = train_tiny(f"selective_backprop_batch[{ALWAYS}]", installed=installed)
    assert result.record["flops"] < plain.record["flops"]


def test_smaller_images_are_means_of_their_pixels(installed):
    look, x = Shapes(), []

    class Keep(Stateless):
        @hookimpl
        def select_batch(self, batch):
            x.append(batch.x)

    text = f"selective_backprop_batch[{ALWAYS},scale=0.5]"
    train_tiny(Keep(), text, look, installed=installed)
    # At one half, bilinear weights are a quarter each.
    assert torch.allclose(look.scored[0], F.avg_pool2d(x[0], 2), atol=1e-6)


def test_batch_norm_counts_what_is_scored_only_in_train_mode(installed):
    counted = {}
    for mode in ("eval", "train"):
        text = f"selective_backprop_batch[{ALWAYS},score_mode={mode}]"
        result = train_tiny(text, installed=installed)
        state = result.run.model.state_dict()
        (counted[mode],) = {int(v) for k, v in state.items() if k.endswith("num_batches_tracked")}
        assert result.record["rows"]["scored"] == 4 * 81
    assert counted == {"eval": 20, "train": 40}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("start=0.9,end=0.5", "must come before"),
        ("start=0.5,end=0.5", "must come before"),
        ("scale=0", "greater than 0"),
        ("interrupt=-1", "greater than or equal to 0"),
        ("scale=0.1", r"write 0\.125 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(installed, parameters, message):
    with pytest.raises(DataeffError, match=message):
        train_tiny(f"selective_backprop_batch[{parameters}]", installed=installed)
