"""Batches: samples and rows, selected, mixed and joined without losing a column."""

import pytest
import torch

from dataeff import Batch


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
    for name in ("x", "idx", "y", "row", "weight", "mixed"):
        setattr(batch, name, getattr(batch, name).to("meta"))
    batch.fields = {}
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
