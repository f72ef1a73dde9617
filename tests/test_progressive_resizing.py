"""Progressive resizing against its schedule, worked out by hand, and crops found by search."""

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.progressive_resizing import cropped, scale_at

from dataeff import DataeffError, StrategyConflict, hookimpl
from dataeff.testing import TASK, train_tiny, weights

WIDE = TASK.model_copy(
    update={
        "dataset": "synthetic[samples=60,test_samples=20,classes=4,size=16,channels=3]",
        "epochs": 10,
    }
)


class Sizes:
    """Note the progress, and the images before and after they are resized."""

    def __init__(self):
        self.progress, self.before, self.after = [], [], []

    @hookimpl
    def select_batch(self, run, batch):
        self.progress.append(run.progress)
        self.before.append(batch.x)

    @hookimpl
    def transform_batch(self, batch):
        self.after.append(batch.x)

    def state_dict(self):
        return {}

    def sides(self):
        return [x.shape[-1] for x in self.after]


def sized(text, task=WIDE, **options):
    sizes = Sizes()
    return sizes, train_tiny(text, sizes, task=task, **options)


def by_hand(progress):
    """Return the default scale: points on a line from (0.5, 0.5) to (0.8, 1)."""
    if progress < 0.5:
        return 0.5
    return min(1.0, 0.5 + (progress - 0.5) * 5 / 3)


def test_the_scale_waits_grows_and_is_full():
    for step in range(1001):
        ours = scale_at(step / 1000, 0.5, 0.5, 0.2)
        assert ours == pytest.approx(by_hand(step / 1000))
    work = sum(scale_at(u / 10_000, 0.5, 0.5, 0.2) ** 2 for u in range(10_000)) / 10_000
    assert work == pytest.approx(0.5, abs=1e-3)


def test_the_scale_at_its_borders():
    assert scale_at(0.0, 0.25, 0.0, 0.0) == 0.25
    assert scale_at(0.5, 0.25, 0.0, 0.0) == pytest.approx(0.625)
    assert scale_at(1.0, 0.25, 0.0, 0.0) == 1.0
    assert scale_at(0.79, 0.25, 0.8, 0.2) == 0.25
    assert scale_at(0.8, 0.25, 0.8, 0.2) == 1.0
    assert scale_at(0.0, 0.25, 0.0, 1.0) == 1.0


@pytest.mark.parametrize("mode", ["resize", "crop"])
@pytest.mark.parametrize("multiple", [2, 3])
def test_sizes_of_a_run_follow_its_progress(mode, multiple):
    sizes, result = sized(f"progressive_resizing[mode={mode},multiple={multiple}]")
    scales = [by_hand(u) for u in sizes.progress]
    expected = [16 if s == 1 else round(16 * s / multiple) * multiple for s in scales]
    assert sizes.sides() == expected
    assert set(expected) == {2: {8, 10, 12, 14, 16}, 3: {9, 12, 15, 16}}[multiple]
    assert expected[-1] == 16
    assert result.record["rows"]["trained"] == 10 * 54
    assert all(x.is_contiguous(memory_format=torch.channels_last) for x in sizes.after)


def places(whole, part):
    """Search every place at which one image holds the other."""
    h, w = part.shape[-2:]
    return {
        (i, j)
        for i in range(whole.shape[-2] - h + 1)
        for j in range(whole.shape[-1] - w + 1)
        if torch.equal(whole[:, i : i + h, j : j + w], part)
    }


def test_a_crop_is_one_box_of_all_images_of_a_batch():
    sizes, _ = sized("progressive_resizing[mode=crop]")
    boxes = []
    for before, after in zip(sizes.before, sizes.after, strict=True):
        common = set.intersection(*(places(a, b) for a, b in zip(before, after, strict=True)))
        assert len(common) == 1
        boxes += common if after.shape[-1] == 8 else []
    assert len(boxes) >= 5 * 4
    assert len(set(boxes)) > 10, "a new box for each batch"
    assert len({i for i, _ in boxes}) > 4
    assert len({j for _, j in boxes}) > 4


def test_crops_reach_every_border_and_go_no_further():
    x = torch.arange(36.0).view(1, 1, 6, 6)
    assert cropped(x, (4, 2), [0.0, 0.0])[0, 0, 0, 0] == 0
    assert cropped(x, (4, 2), [0.999, 0.999])[0, 0, -1, -1] == 35
    assert cropped(x, (4, 2), [0.34, 0.0])[0, 0, 0, 0] == 6
    assert cropped(x, (4, 2), [0.0, 0.21])[0, 0, 0, 0] == 1


def test_crops_are_of_the_seed():
    def first(seed):
        sizes, _ = sized("progressive_resizing[mode=crop]", seed=seed)
        pairs = list(zip(sizes.before, sizes.after, strict=True))[:8]
        return [places(before[0], after[0]) for before, after in pairs]

    assert first(0) == first(0)
    assert first(0) != first(1)


def test_shrunk_images_are_those_of_the_whole():
    sizes, _ = sized("progressive_resizing[initial=0.5]")
    before, after = sizes.before[0], sizes.after[0]
    # Between two old pixels lies the centre of a new one, so that it is the mean of four.
    assert torch.allclose(after, F.avg_pool2d(before, 2), atol=1e-6)


def test_two_cells_of_the_last_map_stay():
    # The tiny net turns 4x4 images into one cell.
    sizes, _ = sized("progressive_resizing", TASK)
    assert set(sizes.sides()) == {6, 8}


def test_always_full_is_the_baseline_to_the_bit():
    plain = weights(train_tiny("baseline", task=WIDE))
    for text in ("initial=1", "initial=1,mode=crop", "finetune=1,delay=0"):
        assert torch.equal(weights(sized(f"progressive_resizing[{text}]")[1]), plain)


def test_mistakes_are_told():
    with pytest.raises(DataeffError, match="delay and finetune must add up to 1 or less"):
        train_tiny("progressive_resizing[delay=0.7,finetune=0.4]")
    vit = (
        "vit_tiny_patch16_224[patch_size=4,depth=1,embed_dim=16,num_heads=2,dynamic_img_size=true]"
    )
    task = WIDE.model_copy(update={"model": vit, "epochs": 1})
    # 8x8 it could read; training would end half way, at 10x10.
    with pytest.raises(DataeffError, match="cannot read images of 10x10"):
        train_tiny("progressive_resizing", task=task)
    train_tiny("progressive_resizing[multiple=4]", task=task)
    with pytest.raises(StrategyConflict, match="resolution"):
        train_tiny("progressive_resizing+input_scaling")
