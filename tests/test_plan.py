"""Plans: rows on the CPU, cut into batches, moved to the device once."""

import pytest
import torch

from dataeff import Plan


def test_the_last_batch_takes_what_is_left():
    assert Plan.cut(torch.arange(10), 4).sizes == [4, 4, 2]
    assert Plan.cut(torch.arange(8), 4).sizes == [4, 4]


def test_a_last_batch_of_one_joins_the_one_before():
    assert Plan.cut(torch.arange(9), 4).sizes == [4, 5]
    assert Plan(torch.arange(5), [4, 0, 1, 0]).sizes == [5]
    assert Plan.cut(torch.arange(4), 1).sizes == [1, 1, 2], "batches of one, if one asks for them"
    assert Plan.cut(torch.arange(1), 4).sizes == [1]


def test_nothing_planned():
    assert len(Plan.cut(torch.arange(0), 4)) == 0


def test_sizes_must_add_up():
    with pytest.raises(ValueError, match="add up to 5"):
        Plan(torch.arange(6), [3, 2])


@pytest.mark.parametrize(
    ("share", "sizes"), [(1.0, [4, 4, 2]), (0.5, [5]), (0.6, [4, 2]), (0.3, [3]), (0.01, [1])]
)
def test_a_fractional_epoch_takes_the_head(share, sizes):
    plan = Plan.cut(torch.arange(10), 4).head(share)
    assert plan.sizes == sizes
    assert plan.rows[:, 0].tolist() == list(range(sum(sizes)))


def test_single_samples_need_no_row_column():
    rows = Plan.cut(torch.tensor([5, 3, 8]), 2).on(torch.device("cpu"))
    assert [(part.idx.tolist(), part.row, part.R) for part in rows] == [([5, 3, 8], None, 3)]


def test_padding_never_reaches_the_device():
    rows = torch.tensor([[5, 3], [8, -1], [1, 2], [7, 9], [4, -1]])
    parts = Plan(rows, [2, 3]).on(torch.device("cpu"))
    assert [part.idx.tolist() for part in parts] == [[5, 3, 8], [1, 2, 7, 9, 4]]
    assert [part.row.tolist() for part in parts] == [[0, 0, 1], [0, 0, 1, 1, 2]]
    assert [part.R for part in parts] == [2, 3]
    assert [part.width for part in parts] == [None, None]
    assert [part.width for part in Plan(rows[2:4], [2]).on(torch.device("cpu"))] == [2]
    assert all(torch.equal(part.samples, part.idx) for part in parts)
