"""Augmentation is a pure function of (seed, epoch, sample index), the same for any batching."""

import pytest
import torch
from torch.nn.functional import pad

from dataeff.data import HostSplit, MemorySplit
from dataeff.data.augment import crop_flip, draws, hash_integers
from dataeff.data.images import Normaliser, resize, statistics

N, H, W = 50, 6, 8


def split(channels=3, crop=2, flip=True, kind=MemorySplit):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (N, H, W, channels), generator=generator).byte()
    labels = torch.arange(N) % 5
    normalise = Normaliser.of(*statistics(images), W)
    return images, kind(images, labels, normalise, crop=crop, flip=flip)


def one(part, index, augment):
    (x,) = part.stream([torch.as_tensor(index)], augment)
    return x


# The dice ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sides", [1, 2, 3, 9])
def test_draws_are_uniform(sides):
    n = 90_000
    counts = draws(3, 1, torch.arange(n), 0, sides).bincount()
    expected = n / sides
    assert len(counts) == sides
    assert ((counts - expected) ** 2 / expected).sum() < 5 * sides + 10


def coordinates():
    index = torch.arange(20_000)
    base = draws(0, 0, index, 0, 9)
    yield "next seed", base, draws(1, 0, index, 0, 9)
    yield "next epoch", base, draws(0, 1, index, 0, 9)
    yield "seed and epoch swapped", draws(0, 1, index, 0, 9), draws(1, 0, index, 0, 9)
    yield "next die", base, draws(0, 0, index, 1, 9)
    yield "next sample", base[:-1], base[1:]
    yield "sample after a power of two", base[:-1024], base[1024:]


@pytest.mark.parametrize(("what", "a", "b"), list(coordinates()), ids=lambda v: str(v)[:30])
def test_draws_are_independent(what, a, b):
    pairs = (a * 9 + b).bincount(minlength=81).double()
    expected = len(a) / 81
    # Chi-squared with 80 degrees of freedom: 150 lies more than five deviations out.
    assert ((pairs - expected) ** 2 / expected).sum() < 150, what


def test_draws_follow_splitmix64():
    index = torch.tensor([0, 1, 7, 10**12])
    for seed, epoch in ((0, 0), (2**63 + 5, 3), (-1, 90)):
        key = hash_integers(seed, epoch, 2)
        # A hash of one part is one SplitMix64 step, which begins by adding the constant.
        step = 0x9E3779B97F4A7C15
        words = [hash_integers(key + (i - 1) * step) for i in index.tolist()]
        assert draws(seed, epoch, index, 2, 5).tolist() == [(w >> 33) * 5 >> 31 for w in words]


# Crop and flip -----------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_crop_flip_equals_a_loop_over_samples(channels):
    images, _ = split(channels)
    padded = pad(images, (0, 0, 2, 2, 2, 2))
    index = torch.tensor([0, 7, 7, N - 1, 3])
    dy, dx = torch.tensor([0, 4, 1, 4, 2]), torch.tensor([0, 4, 3, 4, 2])
    flip = torch.tensor([1, 0, 1, 1, 0])
    cut = crop_flip(padded, index, dy, dx, flip, (H, W))
    for row, i in enumerate(index):
        window = padded[i, dy[row] : dy[row] + H, dx[row] : dx[row] + W]
        assert torch.equal(cut[row], window.flip(1) if flip[row] else window)


def test_augmented_view_equals_pad_crop_flip_with_the_same_draws():
    images, part = split()
    index = torch.arange(N)
    dy, dx = (draws(5, 2, index, draw, 5) for draw in (0, 1))
    flip = draws(5, 2, index, 2, 2)
    mean, std = statistics(images)
    padded = pad(images, (0, 0, 2, 2, 2, 2))
    for i, x in enumerate(one(part, index, (5, 2))):
        window = padded[i, dy[i] : dy[i] + H, dx[i] : dx[i] + W]
        window = window.flip(1) if flip[i] else window
        expected = ((window - mean) / std).permute(2, 0, 1).float()
        torch.testing.assert_close(x, expected, atol=1e-5, rtol=1e-5)


# Whole splits ------------------------------------------------------------------------------------


def test_plain_view_is_the_normalised_image():
    images, part = split()
    x = one(part, torch.arange(N), None)
    mean, std = statistics(images)
    torch.testing.assert_close(
        x, ((images - mean) / std).permute(0, 3, 1, 2).float(), atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.std((0, 2, 3)), torch.ones(3), atol=1e-2, rtol=0)
    assert torch.equal(part.normalise.undo(x), images)


@pytest.mark.parametrize("augment", [None, (0, 0), (9, 4)])
@pytest.mark.parametrize("channels", [1, 3])
def test_views_do_not_depend_on_the_batching(augment, channels):
    _, part = split(channels)
    whole = one(part, torch.arange(N), augment)
    plan = torch.randperm(N, generator=torch.Generator().manual_seed(1)).split([1, 20, 0, 3, 26])
    plan = [*plan, torch.tensor([4, 4, 0])]
    batches = list(part.stream(plan, augment))
    assert [len(x) for x in batches] == [1, 20, 0, 3, 26, 3]
    for index, x in zip(plan, batches, strict=True):
        assert torch.equal(x, whole[index])
        assert x.dtype == torch.float32
        assert x.is_contiguous(memory_format=torch.channels_last)


def test_seed_and_epoch_change_the_augmentation():
    _, part = split()
    views = [one(part, torch.arange(N), augment) for augment in ((0, 0), (0, 1), (1, 0))]
    assert not torch.equal(views[0], views[1])
    assert not torch.equal(views[0], views[2])
    assert torch.equal(views[0], one(part, torch.arange(N), (0, 0)))


def test_without_crop_and_flip_the_views_are_the_same():
    _, part = split(crop=0, flip=False)
    assert torch.equal(one(part, [3, 1], (0, 0)), one(part, [3, 1], None))


def test_flip_alone_mirrors_about_half():
    _, part = split(crop=0, flip=True)
    plain, view = (one(part, torch.arange(N), augment) for augment in (None, (0, 0)))
    mirrored = (view == plain.flip(3)).all((1, 2, 3))
    assert torch.equal(view[~mirrored], plain[~mirrored])
    assert 10 < mirrored.sum() < 40


def test_an_empty_plan_yields_nothing():
    _, part = split()
    assert list(part.stream([], (0, 0))) == []


def test_streams_do_not_disturb_each_other():
    _, part = split()
    plan = torch.arange(N).split(10)
    alone = list(part.stream(plan, (0, 0)))
    first = part.stream(plan, (0, 0))
    begun = [next(first)]
    assert len(list(part.stream(plan, None))) == 5
    assert all(torch.equal(a, b) for a, b in zip(alone, [*begun, *first], strict=True))


@pytest.mark.parametrize("augment", [None, (0, 0)])
def test_the_meta_device_needs_no_read_back(augment):
    _, part = split()
    meta = part.to("meta")
    assert meta.labels.device.type == "meta"
    shapes = [x.shape for x in meta.stream([torch.arange(4), torch.arange(3)], augment)]
    assert shapes == [(4, 3, H, W), (3, 3, H, W)]
    assert part.labels.device.type == "cpu"


# Images on the host -----------------------------------------------------------------------------


@pytest.mark.parametrize("augment", [None, (0, 0), (9, 4)])
@pytest.mark.parametrize(("crop", "flip"), [(2, True), (2, False), (0, True), (0, False)])
def test_images_on_the_host_give_the_same_batches(augment, crop, flip):
    (_, device), (_, host) = (split(3, crop, flip, kind) for kind in (MemorySplit, HostSplit))
    plan = torch.randperm(N, generator=torch.Generator().manual_seed(1)).split([1, 20, 0, 29])
    plan = [*plan, torch.tensor([4, 4, 0])]
    for a, b in zip(device.stream(plan, augment), host.stream(plan, augment), strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()


@pytest.mark.parametrize("augment", [None, (0, 0)])
def test_images_on_the_host_stay_there_and_their_batches_do_not(augment):
    _, part = split(kind=HostSplit)
    meta = part.to("meta")
    assert meta.data is part.data
    assert meta.labels.device.type == meta.normalise.scale.device.type == "meta"
    (x,) = meta.stream([torch.arange(4)], augment)
    assert (x.device.type, x.shape) == ("meta", (4, 3, H, W))


class Copies:
    """Write down how the memory of each batch is asked for, and how it is copied."""

    def __init__(self, monkeypatch):
        self.asked, self.copied = [], []
        new_empty, to = torch.Tensor.new_empty, torch.Tensor.to

        def watch_new(tensor, *shape, pin_memory=False):
            # Not passed on: without a GPU there is no page-locked memory.
            self.asked.append((new := new_empty(tensor, *shape), pin_memory))
            return new

        def watch_to(tensor, *args, non_blocking=False, **options):
            if tensor.dtype == torch.uint8:
                self.copied.append((tensor, non_blocking))
            return to(tensor, *args, non_blocking=non_blocking, **options)

        monkeypatch.setattr(torch.Tensor, "new_empty", watch_new)
        monkeypatch.setattr(torch.Tensor, "to", watch_to)


@pytest.mark.parametrize("augment", [None, (0, 0)])
def test_only_pinned_batches_are_page_locked_and_not_waited_for(augment, monkeypatch):
    images, part = split(kind=HostSplit)
    plan = torch.arange(N).split(10)
    for pin, some in ((False, part), (True, part.pinned()), (True, part.pinned().to("cpu"))):
        with monkeypatch.context() as patch:
            copies = Copies(patch)
            list(some.stream(plan, augment))
        assert [how for _, how in copies.asked] == [how for _, how in copies.copied] == [pin] * 5
        # A copy may still be under way while the next batch is gathered.
        assert len({new.data_ptr() for new, _ in copies.asked}) == 5
        for index, (new, _), (old, _) in zip(plan, copies.asked, copies.copied, strict=True):
            assert old is new
            assert torch.equal(new[:, 2:-2, 2:-2], images[index])


# Whole images ------------------------------------------------------------------------------------


def test_statistics_are_exact_and_a_constant_channel_is_no_division_by_zero():
    images, _ = split()
    images[..., 1] = 7
    mean, std = statistics(images)
    torch.testing.assert_close(mean, images.double().mean((0, 1, 2)))
    torch.testing.assert_close(std[[0, 2]], images.double().std((0, 1, 2), correction=0)[[0, 2]])
    assert (mean[1], std[1]) == (7, 1)


def test_resize_keeps_the_layout():
    images, _ = split()
    assert resize(images, None) is images
    small = resize(images, 4)
    assert small.shape == (N, 4, 4, 3)
    assert small.dtype == torch.uint8
    assert small.is_contiguous()
    flat = resize(torch.full((1, 8, 8, 3), 99, dtype=torch.uint8), 16)
    assert (flat == 99).all()
