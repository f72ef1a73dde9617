"""Input scaling against bilinear reading in loops, and sizes worked out by hand."""

import math

import pytest
import torch
from dataeff_plugins._resizing import resized, scaled

from dataeff import DataeffError, hookimpl
from dataeff.testing import TASK, train_tiny, weights

WIDE = TASK.model_copy(
    update={"dataset": "synthetic[samples=60,test_samples=20,classes=4,size=16,channels=3]"}
)


class Sizes:
    """Note the images before and after they are resized, and what the network was given."""

    def __init__(self):
        self.before, self.after, self.trained, self.tested = [], [], set(), set()

    @hookimpl
    def prepare(self, run):
        def note(module, inputs):
            sizes = self.trained if module.training else self.tested
            # Copies without data count the work; they are no test.
            if inputs[0].device.type != "meta":
                sizes.add(tuple(inputs[0].shape[-2:]))

        run.model.register_forward_pre_hook(note)

    @hookimpl
    def select_batch(self, batch):
        self.before.append(batch.x)

    @hookimpl
    def transform_batch(self, batch):
        self.after.append(batch.x)

    def state_dict(self):
        return {}


def line_at(signal, n):
    """Read n numbers off the line through the old ones, each at the centre of its new pixel."""
    read = []
    for i in range(n):
        place = (i + 0.5) * len(signal) / n - 0.5
        left = math.floor(place)
        after = place - left
        first, second = (signal[min(max(k, 0), len(signal) - 1)] for k in (left, left + 1))
        read.append((1 - after) * first + after * second)
    return read


def naive(image, h, w):
    """Read off the rows, then off the columns."""
    lines = [line_at(line, w) for line in image.tolist()]
    columns = [line_at(column, h) for column in zip(*lines, strict=True)]
    return torch.tensor(columns).T


@pytest.mark.parametrize("size", [(6, 6), (4, 6), (8, 2), (5, 7)])
def test_images_are_read_off_as_in_loops(size):
    x = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    small = resized(x, size)
    for image, plane in ((0, 0), (1, 2)):
        assert torch.allclose(small[image, plane], naive(x[image, plane], *size), atol=1e-5)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_the_layout_stays_and_full_images_are_left_alone(layout):
    x = torch.rand(2, 3, 8, 8).contiguous(memory_format=layout)
    assert resized(x, (6, 6)).is_contiguous(memory_format=layout)
    assert resized(x, (8, 8)) is x


def test_a_run_trains_on_small_images_and_tests_on_full_ones():
    sizes = Sizes()
    result = train_tiny("input_scaling[scale=0.75]", sizes, task=WIDE)
    assert sizes.trained == {(12, 12)}
    assert sizes.tested == {(16, 16)}
    assert len(sizes.after) == result.record["steps"]
    for before, after in zip(sizes.before, sizes.after, strict=True):
        assert torch.allclose(after[0, 1], naive(before[0, 1], 12, 12), atol=1e-5)
        assert after.is_contiguous(memory_format=torch.channels_last)


def test_sizes_by_hand():
    by_hand = {
        ((32, 32), 0.75, 4): (24, 24),
        ((32, 32), 0.7, 4): (24, 24),
        ((32, 32), 0.6, 4): (20, 20),
        ((224, 224), 0.57, 32): (128, 128),
        ((28, 20), 0.5, 4): (16, 8),
        ((8, 8), 0.75, 2): (6, 6),
        ((8, 8), 0.01, 4): (4, 4),
        ((3, 3), 0.5, 4): (3, 3),
        ((30, 30), 0.98, 8): (30, 30),
        ((26, 26), 1.0, 8): (26, 26),
    }
    assert {key: scaled(*key) for key in by_hand} == by_hand


@pytest.mark.parametrize(("scale", "multiple", "side"), [(0.5, 4, 8), (0.25, 4, 8), (0.25, 2, 6)])
def test_two_cells_of_the_last_map_stay(scale, multiple, side):
    # The tiny net turns 4x4 images into one cell, 6x6 and 8x8 ones into 2x2.
    sizes = Sizes()
    train_tiny(f"input_scaling[scale={scale},multiple={multiple}]", sizes, task=WIDE)
    assert sizes.trained == {(side, side)}


def test_a_network_that_never_has_two_cells_may_have_one():
    task = TASK.model_copy(update={"dataset": WIDE.dataset.replace("size=16", "size=4")})
    sizes = Sizes()
    train_tiny("input_scaling[scale=0.5]", sizes, task=task)
    assert sizes.trained == {(2, 2)}


def test_a_network_for_one_size_is_refused_before_training():
    vit = "vit_tiny_patch16_224[patch_size=4,depth=1,embed_dim=16,num_heads=2]"
    with pytest.raises(DataeffError, match=r"cannot read images of 8x8: write .*dynamic_img_size"):
        train_tiny("input_scaling[scale=0.5]", task=WIDE.model_copy(update={"model": vit}))


def test_full_size_is_the_baseline_to_the_bit():
    full = train_tiny("input_scaling[scale=1]", task=WIDE)
    assert torch.equal(weights(full), weights(train_tiny("baseline", task=WIDE)))
