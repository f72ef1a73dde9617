"""Plans: rows on the CPU, cut into batches, moved to the device once."""

import pytest
import torch

from dataeff import Plan


def test_the_last_batch_takes_what_is_left():
    assert Plan.cut(torch.arange(21), 8).sizes == [8, 8, 5]
    assert Plan.cut(torch.arange(16), 8).sizes == [8, 8]


@pytest.mark.parametrize(
    ("rows", "sizes"), [(4, [4]), (9, [9]), (17, [8, 9]), (20, [8, 12]), (21, [8, 8, 5])]
)
def test_a_last_batch_of_up_to_four_rows_joins_the_one_before(rows, sizes):
    assert Plan.cut(torch.arange(rows), 8).sizes == sizes


def test_empty_batches_are_none():
    assert Plan(torch.arange(12), [8, 0, 4, 0]).sizes == [12]
    assert Plan(torch.arange(14), [8, 0, 6, 0]).sizes == [8, 6]


def test_small_batches_stay_if_one_asks_for_them():
    assert Plan.cut(torch.arange(8), 4).sizes == [4, 4]
    assert Plan.cut(torch.arange(11), 4).sizes == [4, 7], "what is left is shorter"
    assert Plan.cut(torch.arange(4), 1).sizes == [1, 1, 2], "but one row is never alone"
    assert Plan.cut(torch.arange(1), 4).sizes == [1], "unless there is no other"


def test_nothing_planned():
    assert len(Plan.cut(torch.arange(0), 4)) == 0


def test_sizes_must_add_up():
    with pytest.raises(ValueError, match="add up to 5"):
        Plan(torch.arange(6), [3, 2])


@pytest.mark.parametrize(
    ("share", "sizes"),
    [(1.0, [8, 8, 5]), (0.9, [8, 11]), (0.5, [10]), (0.6, [8, 5]), (0.3, [6]), (0.01, [1])],
)
def test_a_fractional_epoch_takes_the_head(share, sizes):
    plan = Plan.cut(torch.arange(21), 8).head(share)
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
