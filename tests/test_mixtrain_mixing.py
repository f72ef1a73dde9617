"""Batches of mixTrain: the split head and MixUp's ratio against naive references."""

import math
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.mixtrain import patches
from dataeff_plugins.mixtrain.selection import MIX_R1
from dataeff_plugins.mixtrain.strategies import adaptive_ratio
from hypothesis import given, settings
from hypothesis import strategies as st
from mixing import KINDS, box_of, seeded
from probes import fresh_job

from dataeff.plugins import load_plugins
from dataeff.training.loop import plan_epoch

INSTALLED = load_plugins()


def pairs_and_singles(text, *, size=16, samples=16, mixed=9, model="tiny", seed=0):
    """Return (job, strategy, batch) of an epoch that mixes the first `mixed` samples."""
    data = f"synthetic[samples={samples},test_samples=4,classes=4,size={size}]"
    changes = {"dataset": data, "validation": 0.0, "batch_size": 64, "model": model}
    job = fresh_job(INSTALLED, text, seed=seed, **changes)
    run = job.run
    strategy = run.strategies[0].plugin
    strategy.status[:mixed] = MIX_R1
    run.ledger.last_loss[:] = torch.rand(samples, generator=seeded(seed)) * 3
    (rows,) = job.open(plan_epoch(job))
    return job, strategy, job.calls.load(run, rows)


def transformed(job, batch):
    """Mix a batch; return it, the images that went in, and its rows as lists of positions."""
    images = batch.x.clone()
    job.calls.transform_batch(job.run, batch)
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
    job, _, batch = pairs_and_singles(text, size=size, samples=21, mixed=19)
    batch.x = torch.rand(batch.x.shape, generator=seeded(3))
    images, rows = transformed(job, batch)
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
    job, strategy, _ = pairs_and_singles("mixtrain_cutmix[patch=cutmix_beta]")
    luck = strategy._luck.clone()
    plan_epoch(job)
    assert (luck != strategy._luck).all()


@pytest.mark.parametrize("size", [8, 24])
def test_patches_follow_the_map_of_images_that_were_resized(size):
    job, _, batch = pairs_and_singles("mixtrain_cutmix", size=16)
    batch.x = torch.rand(batch.S, 3, size, size, generator=seeded(3))
    transformed(job, batch)
    assert batch.fields["mixtrain_region"].shape[1:] == (size // 4, size // 4)
    assert job.calls.forward(job.run, batch).isfinite().all()


def test_soft_cells_belong_to_both_in_part():
    text = "mixtrain_cutmix[patch=cutmix_beta,cells=soft]"
    job, _, batch = pairs_and_singles(text, samples=21, mixed=20)
    batch.x = torch.rand(batch.x.shape, generator=seeded(3))
    images, rows = transformed(job, batch)
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
    job, _, batch = pairs_and_singles(f"mixtrain_cutmix[patch={patch}]", model=model)
    _, rows = transformed(job, batch)
    reference = deepcopy(job.run.model)
    logits = job.calls.forward(job.run, batch)
    assert logits.shape == (16, 4)
    expected = naive_logits(reference, batch.x, rows, batch.fields["mixtrain_region"])
    assert torch.allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize("mix_loss", ["ratio", "sum"])
def test_the_gradient_is_that_of_two_separate_masked_passes(mix_loss):
    """First all first samples of the rows, then all second ones: the errors simply add up."""
    job, _, batch = pairs_and_singles(f"mixtrain_cutmix[mix_loss={mix_loss},patch=cutmix_beta]")
    batch.x = torch.rand(batch.x.shape, generator=seeded(3))
    images, rows = transformed(job, batch)
    reference = deepcopy(job.run.model)
    logits = job.calls.forward(job.run, batch)
    losses = job.calls.sample_losses(job.run, batch, logits)
    numerator, rows_counted = job.calls.reduce_loss(job.run, batch, logits, losses)
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
    for ours, theirs in zip(job.run.model.parameters(), reference.parameters(), strict=True):
        assert ours.grad.abs().sum() > 0
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-6, rtol=1e-4)


def test_a_rectangle_over_all_cells_gives_the_ordinary_logits(monkeypatch):
    def everything(luck, size, grid, kind="grid"):
        ones = torch.ones(len(luck))
        pixels = torch.ones(len(luck), *size, dtype=torch.bool)
        return patches.Patch(pixels, torch.ones(len(luck), *grid), ones)

    monkeypatch.setattr(patches, "aligned_patch", everything)
    job, _, batch = pairs_and_singles("mixtrain_cutmix")
    images, rows = transformed(job, batch)
    job.run.model.eval()
    # No strategy may return what this one does.
    job.calls.checking = False
    logits = job.calls.forward(job.run, batch)
    first = [row[0] for row in rows]
    assert torch.equal(batch.x, images[first])
    assert torch.allclose(logits[first], job.run.model(images[first]), atol=1e-6)
    seconds = [row[1] for row in rows if len(row) == 2]
    assert not logits[seconds].isfinite().all(), "the other sample has no cell: patches avoid it"


def test_without_interference_reduction_both_are_read_off_the_same_features():
    job, _, batch = pairs_and_singles("mixtrain_cutmix[interference=off]")
    _, rows = transformed(job, batch)
    reference = deepcopy(job.run.model)
    logits = job.calls.forward(job.run, batch)
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
    job, _, batch = pairs_and_singles(text, size=8, seed=seed)
    if odd is not None:
        job.run.ledger.last_loss[:4] = odd
    images, rows = transformed(job, batch)
    assert sorted(map(len, rows)) == [1] * 8 + [2] * 4
    total = 0.0
    logits = job.calls.forward(job.run, batch)
    losses = job.calls.sample_losses(job.run, batch, logits).detach()
    for number, row in enumerate(rows):
        if len(row) == 1:
            assert torch.equal(batch.x[number], images[row[0]]), "to the bit"
            assert float(batch.weight[row[0]]) == 1
            total += float(losses[row[0]])
            continue
        one, two = row
        past = [float(job.run.ledger.last_loss[batch.idx[position]]) for position in row]
        ratio = naive_ratio(*past, clip)
        expected = ratio * images[one] + (1 - ratio) * images[two]
        assert torch.allclose(batch.x[number], expected, atol=1e-6)
        assert torch.equal(logits[one], logits[two]), "one forward, no split"
        shares = (ratio, 1 - ratio) if mix_loss == "ratio" else (1.0, 1.0)
        assert batch.weight[row].tolist() == pytest.approx(shares, abs=1e-6)
        total += shares[0] * float(losses[one]) + shares[1] * float(losses[two])
    numerator, count = job.calls.reduce_loss(job.run, batch, logits, losses)
    assert count == len(rows)
    assert float(numerator.detach()) == pytest.approx(total, rel=1e-5)


def test_naive_mixup_is_one_half_whatever_the_losses():
    job, _, batch = pairs_and_singles("mixtrain_mixup[interference=off]")
    images, rows = transformed(job, batch)
    for number, row in enumerate(rows):
        if len(row) == 2:
            assert torch.allclose(batch.x[number], images[row].mean(0), atol=1e-6)
            assert batch.weight[row].tolist() == [0.5, 0.5]


def test_constituent_losses_are_unweighted():
    """What the ledger is told is each sample's own cross-entropy, not its part of the row's."""
    for name in ("mixtrain_cutmix", "mixtrain_mixup"):
        job, _, batch = pairs_and_singles(name)
        transformed(job, batch)
        logits = job.calls.forward(job.run, batch)
        losses = job.calls.sample_losses(job.run, batch, logits)
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
        job, _, batch = pairs_and_singles(name)
        rows = batch.row.tolist()
        last = [p for p in range(batch.S) if rows[p] not in rows[p + 1 :]]
        batch.keep_samples(torch.tensor(last))
        images, _ = transformed(job, batch)
        assert torch.equal(batch.x, images)
        assert batch.weight.tolist() == [1.0] * batch.S
        assert not batch.mixed.any()
