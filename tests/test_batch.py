"""Batches: samples and rows, selected, mixed and joined without losing a column."""

import copy
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dataeff import Batch
from dataeff.training.checkpoint import load_strategy_state, strategy_state


def plain(n=6, start=0):
    idx = torch.arange(start, start + n)
    batch = Batch(idx[:, None].float(), idx, idx % 3)
    batch.fields["mark"] = idx * 10
    return batch


def paired(widths=(2, 1, 2, 1)):
    row = torch.tensor([r for r, width in enumerate(widths) for _ in range(width)])
    idx = torch.arange(len(row)) + 100
    width = widths[0] if len(set(widths)) == 1 else None
    batch = Batch(idx[:, None].float(), idx, idx % 3, row, len(widths), width)
    batch.fields["mark"] = idx * 10
    return batch


def check(batch):
    """Hold every column to its sample."""
    assert torch.equal(batch.fields["mark"], batch.idx * 10)
    assert torch.equal(batch.y, batch.idx % 3)
    assert len(batch.weight) == len(batch.mixed) == len(batch.row) == batch.S
    if not batch.merged:
        assert torch.equal(batch.x[:, 0], batch.idx.float())
    assert batch.row.unique().tolist() == list(range(batch.R))
    assert batch.row.tolist() == sorted(batch.row.tolist())


def test_plain_rows_and_samples_coincide():
    batch = plain()
    batch.keep_rows(torch.tensor([4, 1]))
    assert batch.idx.tolist() == [4, 1]
    assert (batch.R, batch.S) == (2, 2)
    check(batch)


@pytest.mark.parametrize("widths", [(2, 1, 2, 1), (2, 2, 2, 2), (1, 3, 1, 3)])
def test_rows_keep_all_their_samples_in_the_order_asked(widths):
    batch = paired(widths)
    wanted = [batch.idx[batch.row == r].tolist() for r in (3, 0)]
    batch.keep_rows(torch.tensor([3, 0]))
    assert [batch.idx[batch.row == r].tolist() for r in range(2)] == wanted
    check(batch)


def test_equal_widths_read_nothing_back():
    batch = paired((2, 2, 2))
    check(batch)
    batch.fields = {}
    tensors = {name: t for name, t in vars(batch).items() if isinstance(t, torch.Tensor)}
    assert tensors.keys() == {"x", "idx", "y", "_row", "_weight", "_mixed"}
    vars(batch).update({name: tensor.to("meta") for name, tensor in tensors.items()})
    batch.keep_rows(torch.arange(2, device="meta"))
    assert (batch.R, batch.S) == (2, 4)


def test_a_row_that_loses_all_samples_goes():
    batch = paired()
    batch.keep_samples(torch.tensor([4, 0, 3]))
    assert batch.idx.tolist() == [100, 104, 103]
    assert batch.row.tolist() == [0, 1, 1]
    assert batch.R == 2
    check(batch)


def test_after_mixing_each_sample_reads_its_own_row():
    """Also where as many samples as rows are left, in whatever order they were asked for."""
    batch = paired()
    batch.keep_samples(torch.tensor([5, 1]))
    assert batch.idx.tolist() == [101, 105]
    batch.mix_rows(batch.x * 2, torch.ones(2, dtype=torch.bool))
    assert batch.per_sample(batch.x)[:, 0].tolist() == [202.0, 210.0]


def test_a_mask_is_refused():
    with pytest.raises(TypeError, match="give indices"):
        plain().keep_rows(torch.ones(6, dtype=torch.bool))


def test_a_row_scores_as_its_hardest_sample():
    values = torch.tensor([1.0, 5.0, 2.0, -4.0, -3.0, 0.5])
    assert paired().per_row(values).tolist() == [5.0, 2.0, -3.0, 0.5]
    assert plain().per_row(values) is values


def test_mixing_gives_one_image_per_row():
    batch = paired()
    mixed = torch.tensor([1, 1, 0, 1, 1, 0], dtype=torch.bool)
    batch.mix_rows(torch.arange(4)[:, None].float(), mixed)
    batch.keep_rows(torch.tensor([2, 1]))
    assert batch.x[:, 0].tolist() == [2.0, 1.0]
    assert batch.mixed.tolist() == [True, True, False]
    check(batch)
    with pytest.raises(ValueError, match="keep_rows"):
        batch.keep_samples(torch.tensor([0]))
    with pytest.raises(ValueError, match="one image per row"):
        paired().mix_rows(torch.zeros(3, 1), mixed)


def test_joining_carries_every_column():
    joined = Batch.cat([paired(), plain(start=7), paired((1, 2))])
    assert joined.R == 4 + 6 + 2
    assert joined.S == 6 + 6 + 3
    check(joined)


def test_joining_refuses_batches_in_different_states():
    other = plain()
    other.fields = {}
    with pytest.raises(ValueError, match="same state"):
        Batch.cat([plain(), other])


def test_nothing_left():
    batch = plain()
    batch.keep_rows(torch.arange(0))
    assert (batch.R, batch.S) == (0, 0)


# Columns that are made when somebody asks ---------------------------------------------------------


def keep_rows(batch, luck):
    batch.keep_rows(torch.randperm(batch.R, generator=luck)[: max(1, batch.R - 1)])
    return batch


def keep_samples(batch, luck):
    if batch.merged:
        return batch
    chosen = torch.randperm(batch.S, generator=luck)[: max(1, batch.S - 1)]
    batch.keep_samples(chosen.sort().values)
    return batch


def weigh(batch, luck):
    batch.weight = batch.weight * torch.rand(batch.S, generator=luck)
    return batch


def mix(batch, luck):
    if not batch.merged:
        first, last = batch.ends()
        batch.mix_rows((batch.x[first] + batch.x[last]) / 2, (first != last)[batch.row])
    return batch


def join(batch, luck):
    half = batch.R // 2
    if not half:
        return batch
    parts = copy.copy(batch), copy.copy(batch)
    parts[0].keep_rows(torch.arange(half))
    parts[1].keep_rows(torch.arange(half, batch.R))
    return Batch.cat(parts[::-1])


def become(batch, luck):
    other = plain(1)
    other.become(batch)
    return other


def duplicate(batch, luck):
    return copy.copy(batch)


def through_a_checkpoint(batch, luck):
    first, second = SimpleNamespace(held=[batch]), SimpleNamespace(held=[])
    load_strategy_state(second, strategy_state(first))
    return second.held[0]


STEPS = [keep_rows, keep_samples, weigh, mix, join, become, duplicate, through_a_checkpoint]


def columns(batch):
    shared = {name: getattr(batch, name).tolist() for name in ("row", "weight", "mixed")}
    marks = {name: column.tolist() for name, column in batch.fields.items()}
    whole = {name: getattr(batch, name).tolist() for name in ("x", "idx", "y")}
    return {**shared, **marks, **whole, "R": batch.R, "merged": batch.merged}


@given(st.booleans(), st.lists(st.sampled_from(STEPS), max_size=7), st.integers(0, 99))
def test_columns_are_the_same_whenever_they_are_asked_for(pairs, steps, seed):
    """Of two batches, one is asked for every column after each step, the other at the end."""
    found = []
    for eager in (True, False):
        batch, luck = paired() if pairs else plain(), torch.Generator().manual_seed(seed)
        for step in steps:
            if eager:
                columns(batch)
            batch = step(batch, luck)
        found.append(columns(batch))
    assert found[0] == found[1]


def test_a_plain_batch_makes_no_columns_of_its_own():
    batch = plain()
    batch.keep_rows(torch.tensor([3, 1]))
    assert not batch.weighted
    assert batch.weight.tolist() == [1.0, 1.0]
    assert batch.weighted
    assert batch.row.tolist() == [0, 1]
    assert batch.mixed.tolist() == [False, False]
