"""Pairs and patches against naive references."""

import math
from collections import Counter

import pytest
import torch
from dataeff_plugins.mixtrain import pairing, patches
from hypothesis import given, settings
from hypothesis import strategies as st
from mixing import KINDS, box_of, seeded
from scipy.stats import chisquare

from dataeff import Plan


def uniform(counts, kinds):
    """Say whether counts of equally likely events look it; wrong once in a million seeds."""
    assert len(counts) == kinds, f"{len(counts)} of {kinds} were met"
    return chisquare(list(counts.values())).pvalue > 1e-6


# Pairing ---------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 2**31))
def test_pairs_hold_the_mixed_samples_and_singles_the_rest(mixed, seed):
    mixed = torch.tensor(mixed)
    samples = torch.randperm(100, generator=seeded(seed))[: len(mixed)]
    pairs, singles = pairing.pair_up(samples, mixed, seeded(seed + 1))
    members, count = set(samples[mixed].tolist()), int(mixed.sum())
    paired = pairs.flatten().tolist()
    assert pairs.shape == (count // 2, 2)
    assert len(set(paired)) == len(paired)
    assert set(paired) <= members
    alone = singles.tolist()
    assert alone[: len(mixed) - count] == samples[~mixed].tolist()
    assert set(paired) | set(alone[len(mixed) - count :]) == members


def test_every_pairing_is_as_likely_as_any_other():
    generator, samples = seeded(0), torch.arange(5)
    matchings = Counter()
    for _ in range(3000):
        pairs, singles = pairing.pair_up(samples, samples >= 0, generator)
        matchings[frozenset(map(frozenset, pairs.tolist())), int(singles)] += 1
    assert uniform(matchings, 15)


def units(plan):
    return [tuple(i for i in row if i >= 0) for row in plan.rows.tolist()]


def test_units_stand_in_any_order():
    pairs, singles = torch.tensor([[0, 1], [2, 3]]), torch.tensor([4, 5])
    generator, orders = seeded(0), Counter()
    for _ in range(2400):
        orders[tuple(units(pairing.shuffled_units(pairs, singles, 16, generator)))] += 1
    assert uniform(orders, 24)
    assert all(sorted(order) == [(0, 1), (2, 3), (4,), (5,)] for order in orders)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 9), st.integers(0, 2**31))
def test_units_are_cut_by_rows(p, s, batch_size, seed):
    pairs, singles = torch.arange(2 * p).view(p, 2), torch.arange(2 * p, 2 * p + s)
    plan = pairing.shuffled_units(pairs, singles, batch_size, seeded(seed))
    expected = [(i, i + 1) for i in range(0, 2 * p, 2)] + [(i,) for i in range(2 * p, 2 * p + s)]
    assert sorted(units(plan)) == expected
    assert all(size == batch_size for size in plan.sizes[:-1])
    assert not plan.sizes or plan.sizes[-1] <= batch_size + 4


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 9), st.integers(0, 2**31))
def test_homogeneous_batches_are_of_one_kind_and_never_of_few_rows(p, s, batch_size, seed):
    pairs, singles = torch.arange(2 * p).view(p, 2), torch.arange(2 * p, 2 * p + s)
    plan = pairing.homogeneous(pairs, singles, batch_size, seeded(seed))
    rows = units(plan)
    expected = [(i, i + 1) for i in range(0, 2 * p, 2)] + [(i,) for i in range(2 * p, 2 * p + s)]
    assert sorted(rows) == expected
    assert p + s <= 1 or min(plan.sizes) > 1
    # A kind of up to four joins the other; where batches are that small, so may the last one.
    if min(p, s, batch_size) > 4:
        assert min(plan.sizes) > 4
        kinds, start = [], 0
        for size in plan.sizes:
            (kind,) = {len(row) for row in rows[start : start + size]}
            kinds.append(kind)
            start += size
        # A tail of up to four joins the batch before it.
        counts = {2: batches_of(p, batch_size), 1: batches_of(s, batch_size)}
        assert Counter(kinds) == counts
        assert len([size for size in plan.sizes if size < batch_size]) <= 2
        assert max(plan.sizes) <= batch_size + 4


def batches_of(rows, batch_size):
    return math.ceil(rows / batch_size) - (rows > batch_size and 0 < rows % batch_size <= 4)


def test_homogeneous_batches_come_in_any_order():
    pairs, singles = torch.arange(8).view(4, 2), torch.arange(8, 12)
    generator, orders = seeded(0), Counter()
    for _ in range(1200):
        rows = units(pairing.homogeneous(pairs, singles, 2, generator))
        orders["".join(str(len(row)) for row in rows[::2])] += 1
    assert uniform(orders, 6)


@pytest.mark.parametrize(
    ("sizes", "full"), [([16, 16, 17], 16), ([16, 5], 16), ([5], 5), ([8, 8, 3], 8)]
)
def test_rows_per_batch_are_those_of_the_plan(sizes, full):
    assert pairing.batch_size_of(Plan(torch.arange(sum(sizes)), sizes)) == full


# Patches ---------------------------------------------------------------------------------------

grids = st.tuples(st.integers(1, 14), st.integers(1, 14)).filter(lambda g: g[0] * g[1] > 1)


@pytest.mark.parametrize(
    ("grid", "shapes"),
    [
        ((4, 4), {(2, 4), (4, 2)}),
        ((7, 7), {(4, 6), (5, 5), (6, 4)}),
        ((2, 2), {(1, 2), (2, 1)}),
        ((1, 2), {(1, 1)}),
        ((1, 3), {(1, 1), (1, 2)}),
        ((3, 3), {(2, 2)}),
        ((8, 8), {(4, 8), (8, 4)}),
        ((5, 3), {(4, 2)}),
    ],
)
def test_every_shape_is_as_likely_then_every_place(grid, shapes):
    """Exact: evenly spaced luck meets each box as often as its share of [0, 1)."""
    h, w = grid
    places = {shape: (h - shape[0] + 1) * (w - shape[1] + 1) for shape in shapes}
    total = len(shapes) * math.lcm(*places.values())
    luck = (torch.arange(total, dtype=torch.float64) + 0.5) / total
    patch = patches.aligned_patch(luck.float(), (4 * h, 4 * w), grid)
    met = Counter(box_of(cells > 0) for cells in patch.cells)
    expected = {}
    for (a, b), count in places.items():
        for i in range(h - a + 1):
            for j in range(w - b + 1):
                expected[i, j, i + a, j + b] = total // len(shapes) // count
    assert met == expected


def test_luck_on_a_border_belongs_to_the_box_above_it():
    """Floats in [0, 1) are then divided evenly: of 1x2 cells, half of them are each one's."""
    below = 0.5 - 2**-25
    patch = patches.aligned_patch(torch.tensor([0.0, below, 0.5, 1 - 2**-24]), (2, 4), (1, 2))
    assert [box_of(cells > 0)[1] for cells in patch.cells] == [0, 0, 1, 1]


@given(grids)
def test_grid_patches_are_as_near_to_half_as_rectangles_come(grid):
    h, w = grid
    best = min(abs(a * b - h * w / 2) for a in range(1, h + 1) for b in range(1, w + 1))
    shapes = {
        (a, b)
        for a in range(1, h + 1)
        for b in range(1, w + 1)
        if abs(a * b - h * w / 2) == best and a * b < h * w
    }
    groups = patches.grid_boxes(h, w)
    found = [{(k - i, m - j) for i, j, k, m in group} for group in groups]
    assert all(len(shape) == 1 for shape in found)
    assert set().union(*found) == shapes
    assert len(found) == len(shapes)
    for group in groups:
        ((a, b),) = {(k - i, m - j) for i, j, k, m in group}
        assert len(set(group)) == len(group) == (h - a + 1) * (w - b + 1)
        assert all(0 <= i < k <= h and 0 <= j < m <= w for i, j, k, m in group)


@pytest.mark.parametrize(
    ("grid", "boxes"),
    [
        ((4, 4), {(0, 0, 4, 2), (0, 2, 4, 4), (0, 0, 2, 4), (2, 0, 4, 4)}),
        ((3, 3), {(0, 0, 3, 1), (0, 2, 3, 3), (0, 0, 1, 3), (2, 0, 3, 3)}),
        ((1, 4), {(0, 0, 1, 2), (0, 2, 1, 4)}),
        ((2, 1), {(0, 0, 1, 1), (1, 0, 2, 1)}),
    ],
)
def test_halves_are_left_right_top_and_bottom(grid, boxes):
    luck = (torch.arange(400) + 0.5) / 400
    patch = patches.aligned_patch(luck, (grid[0] * 3, grid[1] * 3), grid, "half")
    met = Counter(box_of(cells > 0) for cells in patch.cells)
    assert met == dict.fromkeys(boxes, 400 // len(boxes))


def luck_of(kind, seed, rows=40):
    """Draw as the strategy does, both ends of [0, 1) included."""
    columns = 4 if kind == "cutmix_beta" else 1
    luck = torch.rand(rows, columns, generator=seeded(seed))
    luck[0], luck[1] = 0.0, 1 - 2**-24
    return luck


def draw_patches(kind, luck, size, grid, soft=False):
    if kind == "cutmix_beta":
        return patches.free_patch(luck, size, grid, soft=soft)
    return patches.aligned_patch(luck[:, 0], size, grid, kind)


@settings(max_examples=120)
@given(
    kind=st.sampled_from(KINDS),
    soft=st.booleans(),
    grid=grids,
    stride=st.integers(1, 5),
    extra=st.tuples(st.integers(0, 13), st.integers(0, 13)),
    seed=st.integers(0, 2**31),
)
def test_no_patch_takes_all_or_nothing(kind, soft, grid, stride, extra, seed):
    """Any grid of two cells or more, strides that are not whole numbers included."""
    size = tuple(stride * n + more % n for n, more in zip(grid, extra, strict=True))
    patch = draw_patches(kind, luck_of(kind, seed), size, grid, soft)
    assert patch.pixels.shape[1:] == size
    assert patch.cells.shape[1:] == grid
    for part in patch[:2]:
        taken = part.double().flatten(1).mean(1)
        assert ((taken > 0) & (taken < 1)).all()
    assert ((patch.share > 0) & (patch.share < 1)).all()
    assert soft or set(patch.cells.unique().tolist()) <= {0.0, 1.0}
    for pixels in patch.pixels:
        box_of(pixels)


@given(
    kind=st.sampled_from(["grid", "half"]),
    grid=grids,
    stride=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 2**31),
)
def test_pixels_are_cells_times_stride_and_the_share_is_exact(kind, grid, stride, seed):
    size = (grid[0] * stride[0], grid[1] * stride[1])
    patch = draw_patches(kind, luck_of(kind, seed, rows=12), size, grid)
    for pixels, cells, share in zip(*patch, strict=True):
        top, left, bottom, right = box_of(cells > 0)
        expected = (top * stride[0], left * stride[1], bottom * stride[0], right * stride[1])
        assert box_of(pixels) == expected
        assert float(share) == pytest.approx(int(cells.sum()) / (grid[0] * grid[1]), rel=1e-6)
        assert float(share) == pytest.approx(float(pixels.double().mean()), rel=1e-6)


@given(grid=grids, extra=st.tuples(st.integers(0, 13), st.integers(0, 13)), seed=st.integers(0, 99))
def test_strides_that_are_not_whole_numbers_are_rounded_to_pixels(grid, extra, seed):
    size = tuple(2 * n + more % n for n, more in zip(grid, extra, strict=True))
    patch = draw_patches("grid", luck_of("grid", seed, rows=8), size, grid)
    scale = [n / cells for n, cells in zip(size, grid, strict=True)] * 2
    for pixels, cells in zip(patch.pixels, patch.cells, strict=True):
        for edge, cell, stride in zip(box_of(pixels), box_of(cells > 0), scale, strict=True):
            assert abs(edge - cell * stride) <= 0.5 + 1e-5


def naive_free_patch(area, y, x, size, grid):
    """CutMix in loops: sides of sqrt(area), centre anywhere, what lies outside is clipped."""
    height, width = size
    side = math.sqrt(area)
    top, bottom = round((y - side / 2) * height), round((y + side / 2) * height)
    left, right = round((x - side / 2) * width), round((x + side / 2) * width)
    pixels = [
        [top <= i < bottom and left <= j < right for j in range(width)] for i in range(height)
    ]
    bh, bw = height // grid[0], width // grid[1]
    covered = [
        [
            sum(pixels[bh * i + di][bw * j + dj] for di in range(bh) for dj in range(bw)) / bh / bw
            for j in range(grid[1])
        ]
        for i in range(grid[0])
    ]
    share = sum(map(sum, pixels)) / height / width
    return pixels, covered, share


@settings(max_examples=200)
@given(
    side=st.integers(0, 16),
    centre=st.tuples(st.integers(0, 63), st.integers(0, 63)),
    grid=st.sampled_from([(2, 2), (3, 4), (1, 2), (4, 4), (1, 5)]),
    stride=st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([2, 3, 4])),
    soft=st.booleans(),
)
def test_free_patches_are_cutmixs_own(side, centre, grid, stride, soft):
    """Sixteenths and 64ths, so that every number is exact in float32, borders of .5 included."""
    size = (grid[0] * stride[0], grid[1] * stride[1])
    numbers = ((side / 16) ** 2, centre[0] / 64, centre[1] / 64)
    luck = torch.tensor([[*numbers, 0.25]])
    (patch,) = zip(*patches.free_patch(luck, size, grid, soft), strict=True)
    patch = patches.Patch(*patch)
    pixels, covered, share = naive_free_patch(*numbers, size, grid)
    cells = covered if soft else [[float(part >= 0.5) for part in row] for row in covered]
    flat = [part for row in cells for part in row]
    if 0 < sum(flat) < len(flat):
        assert patch.pixels.tolist() == pixels
        assert torch.allclose(patch.cells, torch.tensor(cells))
        assert float(patch.share) == pytest.approx(share, rel=1e-6)
    else:
        boxes = {box for group in patches.grid_boxes(*grid) for box in group}
        assert box_of(patch.cells > 0) in boxes
        assert float(patch.share) == pytest.approx(float(patch.cells.mean()), rel=1e-6)
        assert float(patch.share) == pytest.approx(float(patch.pixels.float().mean()), rel=1e-6)


def test_half_of_a_cell_is_enough_and_less_is_not():
    """Two by two pixels at rows 1 and 2: half of two cells, or a quarter of four."""
    luck = torch.tensor([[1 / 16, 0.25, 0.375, 0], [1 / 16, 0.25, 0.25, 0]])
    patch = patches.free_patch(luck, (8, 8), (4, 4))
    assert box_of(patch.pixels[0]) == (1, 2, 3, 4)
    assert patch.cells[0].nonzero().tolist() == [[0, 1], [1, 1]]
    assert float(patch.share[0]) == 4 / 64
    assert float(patch.share[1]) == 0.5, "a patch that owns no cell is replaced"
