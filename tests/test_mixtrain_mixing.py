"""Pairs, patches, the split head and MixUp's ratio against naive references."""

import math
from collections import Counter
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.mixtrain import pairing, patches
from dataeff_plugins.mixtrain.selection import MIX_R1
from dataeff_plugins.mixtrain.strategies import adaptive_ratio
from hypothesis import given, settings
from hypothesis import strategies as st
from probes import CPU
from scipy.stats import chisquare

from dataeff import Plan
from dataeff.data import load_dataset
from dataeff.plugins import compose, load_plugins
from dataeff.testing import TASK
from dataeff.training.cell import make_run
from dataeff.training.loop import plan_epoch

INSTALLED = load_plugins()


def seeded(seed):
    return torch.Generator().manual_seed(seed)


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
    assert not plan.sizes or plan.sizes[-1] <= batch_size + 1


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 9), st.integers(0, 2**31))
def test_homogeneous_batches_are_of_one_kind_and_never_of_one_row(p, s, batch_size, seed):
    pairs, singles = torch.arange(2 * p).view(p, 2), torch.arange(2 * p, 2 * p + s)
    plan = pairing.homogeneous(pairs, singles, batch_size, seeded(seed))
    rows = units(plan)
    expected = [(i, i + 1) for i in range(0, 2 * p, 2)] + [(i,) for i in range(2 * p, 2 * p + s)]
    assert sorted(rows) == expected
    assert p + s <= 1 or min(plan.sizes) > 1
    if min(p, s) > 1:
        kinds, start = [], 0
        for size in plan.sizes:
            (kind,) = {len(row) for row in rows[start : start + size]}
            kinds.append(kind)
            start += size
        # A tail of one joins the batch before it.
        counts = {2: batches_of(p, batch_size), 1: batches_of(s, batch_size)}
        assert Counter(kinds) == counts
        assert len([size for size in plan.sizes if size < batch_size]) <= 2
        assert max(plan.sizes) <= batch_size + 1


def batches_of(rows, batch_size):
    return math.ceil(rows / batch_size) - (rows > batch_size and rows % batch_size == 1)


def test_homogeneous_batches_come_in_any_order():
    pairs, singles = torch.arange(8).view(4, 2), torch.arange(8, 12)
    generator, orders = seeded(0), Counter()
    for _ in range(1200):
        rows = units(pairing.homogeneous(pairs, singles, 2, generator))
        orders["".join(str(len(row)) for row in rows[::2])] += 1
    assert uniform(orders, 6)


@pytest.mark.parametrize(
    ("sizes", "full"), [([16, 16, 17], 16), ([16, 4], 16), ([5], 5), ([8, 8, 3], 8)]
)
def test_rows_per_batch_are_those_of_the_plan(sizes, full):
    assert pairing.batch_size_of(Plan(torch.arange(sum(sizes)), sizes)) == full


# Patches ---------------------------------------------------------------------------------------

KINDS = ("grid", "half", "cutmix_beta")
grids = st.tuples(st.integers(1, 14), st.integers(1, 14)).filter(lambda g: g[0] * g[1] > 1)


def box_of(mask):
    """Return (top, left, bottom, right) of a mask that is one full rectangle."""
    places = mask.nonzero()
    (top, left), (bottom, right) = places.min(0).values.tolist(), places.max(0).values.tolist()
    box = (top, left, bottom + 1, right + 1)
    assert mask[top : bottom + 1, left : right + 1].all(), "a rectangle has no holes"
    return box


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


# The strategies' batches -----------------------------------------------------------------------


def pairs_and_singles(text, *, size=16, samples=16, mixed=9, model="tiny", seed=0):
    """Return (run, strategy, batch) of an epoch that mixes the first `mixed` samples."""
    data = f"synthetic[samples={samples},test_samples=4,classes=4,size={size}]"
    changes = {"dataset": data, "validation": 0.0, "batch_size": 64, "model": model}
    task = TASK.model_copy(update=changes)
    dataset = load_dataset(data, INSTALLED.datasets, root=None, device=CPU)
    run = make_run(dataset, task, compose(text, INSTALLED), seed, INSTALLED, CPU)
    strategy = run.strategies[0].plugin
    strategy.status[:mixed] = MIX_R1
    run.ledger.last_loss[:] = torch.rand(samples, generator=seeded(seed)) * 3
    (rows,) = run.open(plan_epoch(run))
    return run, strategy, run.hook.load(run=run, rows=rows)


def transformed(run, batch):
    """Mix a batch; return it, the images that went in, and its rows as lists of positions."""
    images = batch.x.clone()
    run.hook.transform_batch(run=run, batch=batch)
    rows = [[] for _ in range(batch.R)]
    for position, row in enumerate(batch.row.tolist()):
        rows[row].append(position)
    return images, rows


def shown_of(composite, first, second):
    """Return which pixels a composite takes from its first sample; every one is from either."""
    from_first = (composite == first).all(0)
    from_second = (composite == second).all(0)
    assert (from_first | from_second).all()
    assert not (from_first & from_second).any(), "the images differ in every pixel"
    return from_first


@pytest.mark.parametrize("patch", ["grid", "half", "cutmix_beta"])
@pytest.mark.parametrize("size", [16, 28])
def test_cutmix_pastes_in_place_and_gives_each_sample_its_cells_and_its_share(patch, size):
    """From the images alone: what a row shows of whom decides regions and weights."""
    text = f"mixtrain_cutmix[patch={patch}]"
    run, _, batch = pairs_and_singles(text, size=size, samples=21, mixed=19)
    batch.x = torch.rand(batch.x.shape, generator=seeded(3))
    images, rows = transformed(run, batch)
    region, places = batch.fields["mixtrain_region"], set()
    assert sorted(map(len, rows)) == [1] * 3 + [2] * 9
    for number, row in enumerate(rows):
        if len(row) == 1:
            assert torch.equal(batch.x[number], images[row[0]])
            assert float(batch.weight[row[0]]) == 1
            assert (region[row[0]] == 1).all()
            assert not batch.mixed[row[0]]
            continue
        one, two = row
        shown = shown_of(batch.x[number], images[one], images[two])
        share = float(shown.double().mean())
        assert float(batch.weight[one]) == pytest.approx(share, rel=1e-6)
        assert float(batch.weight[two]) == pytest.approx(1 - share, rel=1e-6)
        blocks = F.avg_pool2d(shown[None].float(), 4)[0]
        expected = (blocks >= 0.5).float()
        assert torch.equal(region[one], expected)
        assert torch.equal(region[two], 1 - expected)
        assert batch.mixed[one]
        assert batch.mixed[two]
        places.add(box_of(shown))
    assert len(places) > 2, "patches are drawn for each row"


def test_cutmix_draws_patches_anew_in_each_epoch():
    run, strategy, _ = pairs_and_singles("mixtrain_cutmix[patch=cutmix_beta]")
    luck = strategy._luck.clone()
    plan_epoch(run)
    assert (luck != strategy._luck).all()


@pytest.mark.parametrize("size", [8, 24])
def test_patches_follow_the_map_of_images_that_were_resized(size):
    run, _, batch = pairs_and_singles("mixtrain_cutmix", size=16)
    batch.x = torch.rand(batch.S, 3, size, size, generator=seeded(3))
    transformed(run, batch)
    assert batch.fields["mixtrain_region"].shape[1:] == (size // 4, size // 4)
    assert run.hook.forward(run=run, batch=batch).isfinite().all()


def test_soft_cells_belong_to_both_in_part():
    text = "mixtrain_cutmix[patch=cutmix_beta,cells=soft]"
    run, _, batch = pairs_and_singles(text, samples=21, mixed=20)
    batch.x = torch.rand(batch.x.shape, generator=seeded(3))
    images, rows = transformed(run, batch)
    region, parts = batch.fields["mixtrain_region"], set()
    for number, row in enumerate(rows):
        if len(row) == 2:
            one, two = row
            shown = shown_of(batch.x[number], images[one], images[two])
            blocks = F.avg_pool2d(shown[None].float(), 4)[0]
            assert torch.allclose(region[one], blocks)
            assert torch.allclose(region[two], 1 - blocks)
            parts |= set(blocks.flatten().tolist())
    assert len(parts) > 4


def naive_logits(model, x, rows, region):
    """Pool each sample over its own cells, in loops; one feature map for the whole batch."""
    features = model.forward_features(x)
    lines = {}
    for number, row in enumerate(rows):
        for position in row:
            h, w = region.shape[1:]
            own = [(i, j) for i in range(h) for j in range(w) if region[position, i, j] == 1]
            z = sum(features[number, :, i, j] for i, j in own) / len(own)
            lines[position] = model.head(z)
    return torch.stack([lines[position] for position in range(len(lines))])


@pytest.mark.parametrize("patch", KINDS)
@pytest.mark.parametrize("model", ["tiny", "resnet8[width=4]"])
def test_the_split_head_is_two_pools_over_disjoint_cells(patch, model):
    run, _, batch = pairs_and_singles(f"mixtrain_cutmix[patch={patch}]", model=model)
    _, rows = transformed(run, batch)
    reference = deepcopy(run.model)
    logits = run.hook.forward(run=run, batch=batch)
    assert logits.shape == (16, 4)
    expected = naive_logits(reference, batch.x, rows, batch.fields["mixtrain_region"])
    assert torch.allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize("mix_loss", ["ratio", "sum"])
def test_the_gradient_is_that_of_two_separate_masked_passes(mix_loss):
    """First all first samples of the rows, then all second ones: the errors simply add up."""
    run, _, batch = pairs_and_singles(f"mixtrain_cutmix[mix_loss={mix_loss},patch=cutmix_beta]")
    batch.x = torch.rand(batch.x.shape, generator=seeded(3))
    images, rows = transformed(run, batch)
    reference = deepcopy(run.model)
    logits = run.hook.forward(run=run, batch=batch)
    losses = run.hook.sample_losses(run=run, batch=batch, logits=logits)
    numerator, rows_counted = run.hook.reduce_loss(
        run=run, batch=batch, logits=logits, losses=losses
    )
    (numerator / rows_counted).backward()

    total = 0.0
    for turn in (0, 1):
        features = reference.forward_features(batch.x)
        loss = 0.0
        for number, row in enumerate(rows):
            if turn >= len(row):
                continue
            share, mask = 1.0, torch.ones(4, 4)
            if len(row) == 2:
                shown = shown_of(batch.x[number], images[row[0]], images[row[1]])
                share = float(shown.double().mean())
                mask = (F.avg_pool2d(shown[None].float(), 4)[0] >= 0.5).float()
                if turn:
                    share, mask = 1 - share, 1 - mask
                share = 1.0 if mix_loss == "sum" else share
            z = (features[number] * mask).sum((1, 2)) / mask.sum()
            y = batch.y[row[turn]]
            loss = loss + share * F.cross_entropy(reference.head(z)[None], y[None])
        (loss / len(rows)).backward()
        total += float(loss.detach()) / len(rows)
    assert float(numerator.detach()) / rows_counted == pytest.approx(total, rel=1e-5)
    for ours, theirs in zip(run.model.parameters(), reference.parameters(), strict=True):
        assert ours.grad.abs().sum() > 0
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-6, rtol=1e-4)


def test_a_rectangle_over_all_cells_gives_the_ordinary_logits(monkeypatch):
    def everything(luck, size, grid, kind="grid"):
        ones = torch.ones(len(luck))
        pixels = torch.ones(len(luck), *size, dtype=torch.bool)
        return patches.Patch(pixels, torch.ones(len(luck), *grid), ones)

    monkeypatch.setattr(patches, "aligned_patch", everything)
    run, _, batch = pairs_and_singles("mixtrain_cutmix")
    images, rows = transformed(run, batch)
    run.model.eval()
    logits = run.hook.forward(run=run, batch=batch)
    first = [row[0] for row in rows]
    assert torch.equal(batch.x, images[first])
    assert torch.allclose(logits[first], run.model(images[first]), atol=1e-6)
    seconds = [row[1] for row in rows if len(row) == 2]
    assert not logits[seconds].isfinite().all(), "the other sample has no cell: patches avoid it"


def test_without_interference_reduction_both_are_read_off_the_same_features():
    run, _, batch = pairs_and_singles("mixtrain_cutmix[interference=off]")
    _, rows = transformed(run, batch)
    reference = deepcopy(run.model)
    logits = run.hook.forward(run=run, batch=batch)
    ordinary = reference(batch.x)
    for number, row in enumerate(rows):
        for position in row:
            assert torch.allclose(logits[position], ordinary[number], atol=1e-6)


def naive_ratio(first, second, clip=0.0):
    total = first + second
    ratio = 0.5 if not math.isfinite(total) or total < 1e-12 else first / total
    return min(max(ratio, clip), 1 - clip)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 50),
    clip=st.sampled_from([0.0, 0.1, 0.5]),
    odd=st.sampled_from([None, 0.0, math.nan, math.inf, 1e-30]),
    mix_loss=st.sampled_from(["ratio", "sum"]),
)
def test_mixup_weighs_images_and_losses_by_the_last_losses(seed, clip, odd, mix_loss):
    text = f"mixtrain_mixup[clip={clip},mix_loss={mix_loss}]"
    run, _, batch = pairs_and_singles(text, size=8, seed=seed)
    if odd is not None:
        run.ledger.last_loss[:4] = odd
    images, rows = transformed(run, batch)
    assert sorted(map(len, rows)) == [1] * 8 + [2] * 4
    total = 0.0
    logits = run.hook.forward(run=run, batch=batch)
    losses = run.hook.sample_losses(run=run, batch=batch, logits=logits).detach()
    for number, row in enumerate(rows):
        if len(row) == 1:
            assert torch.equal(batch.x[number], images[row[0]]), "to the bit"
            assert float(batch.weight[row[0]]) == 1
            total += float(losses[row[0]])
            continue
        one, two = row
        past = [float(run.ledger.last_loss[batch.idx[position]]) for position in row]
        ratio = naive_ratio(*past, clip)
        expected = ratio * images[one] + (1 - ratio) * images[two]
        assert torch.allclose(batch.x[number], expected, atol=1e-6)
        assert torch.equal(logits[one], logits[two]), "one forward, no split"
        shares = (ratio, 1 - ratio) if mix_loss == "ratio" else (1.0, 1.0)
        assert batch.weight[row].tolist() == pytest.approx(shares, abs=1e-6)
        total += shares[0] * float(losses[one]) + shares[1] * float(losses[two])
    numerator, count = run.hook.reduce_loss(run=run, batch=batch, logits=logits, losses=losses)
    assert count == len(rows)
    assert float(numerator.detach()) == pytest.approx(total, rel=1e-5)


def test_naive_mixup_is_one_half_whatever_the_losses():
    run, _, batch = pairs_and_singles("mixtrain_mixup[interference=off]")
    images, rows = transformed(run, batch)
    for number, row in enumerate(rows):
        if len(row) == 2:
            assert torch.allclose(batch.x[number], images[row].mean(0), atol=1e-6)
            assert batch.weight[row].tolist() == [0.5, 0.5]


def test_constituent_losses_are_unweighted():
    """What the ledger is told is each sample's own cross-entropy, not its part of the row's."""
    for name in ("mixtrain_cutmix", "mixtrain_mixup"):
        run, _, batch = pairs_and_singles(name)
        transformed(run, batch)
        logits = run.hook.forward(run=run, batch=batch)
        losses = run.hook.sample_losses(run=run, batch=batch, logits=logits)
        assert float(batch.weight.min()) < 1
        assert torch.allclose(losses, F.cross_entropy(logits, batch.y, reduction="none"))


numbers = st.floats(0, 2.0**100, width=32)


@given(numbers, numbers, st.sampled_from([0.0, 0.2, 0.5]))
def test_the_ratio_is_l1_to_l2_and_antisymmetric(one, two, clip):
    first, second = torch.tensor([one]), torch.tensor([two])
    ratio, swapped = adaptive_ratio(first, second, clip), adaptive_ratio(second, first, clip)
    assert clip - 1e-6 <= float(ratio) <= 1 - clip + 1e-6
    assert float(ratio + swapped) == pytest.approx(1, abs=1e-6)
    if not math.isclose(one + two, 1e-12, rel_tol=1e-3):
        assert float(ratio) == pytest.approx(naive_ratio(one, two, clip), abs=1e-6)


@pytest.mark.parametrize(
    ("one", "two", "ratio"),
    [
        (0.0, 0.0, 0.5),
        (1e-13, 2e-13, 0.5),
        (math.nan, 1.0, 0.5),
        (1.0, math.nan, 0.5),
        (math.inf, 1.0, 0.5),
        (1.0, math.inf, 0.5),
        (math.inf, math.inf, 0.5),
        (3e38, 3e38, 0.5),
        (0.0, 1.0, 0.0),
        (1.0, 0.0, 1.0),
        (3.0, 1.0, 0.75),
        (2e-12, 6e-12, 0.25),
    ],
)
def test_the_ratio_at_its_edges(one, two, ratio):
    assert float(adaptive_ratio(torch.tensor(one), torch.tensor(two))) == pytest.approx(ratio)


def test_the_ratio_is_clipped_on_both_sides():
    losses = torch.tensor([0.0, 1.0, 9.0])
    clipped = adaptive_ratio(losses, torch.tensor([1.0, 1.0, 1.0]), 0.25)
    assert clipped.tolist() == pytest.approx([0.25, 0.5, 0.75])


def test_rows_that_lost_a_sample_are_left_alone():
    """A strategy before the mixing may drop one sample of a pair: the other is not mixed."""
    for name in ("mixtrain_cutmix", "mixtrain_mixup"):
        run, _, batch = pairs_and_singles(name)
        rows = batch.row.tolist()
        last = [p for p in range(batch.S) if rows[p] not in rows[p + 1 :]]
        batch.keep_samples(torch.tensor(last))
        images, _ = transformed(run, batch)
        assert torch.equal(batch.x, images)
        assert batch.weight.tolist() == [1.0] * batch.S
        assert not batch.mixed.any()
