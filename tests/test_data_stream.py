"""Image folders: files streamed through a DataLoader that follows the plan."""

import random
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from dataeff.data import MemorySplit, StreamSplit, load_dataset
from dataeff.data.datasets import register_datasets
from dataeff.data.images import Normaliser
from dataeff.data.stream import IMAGENET_MEAN, IMAGENET_STD, centre_crop, random_box
from dataeff.errors import DataeffError
from dataeff.registry import Registry

REGISTRY = Registry("dataset")
register_datasets(REGISTRY.register)
SIZE = 24


def picture(rng, width, height):
    """Return a smooth random photograph."""
    small = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Write 3 classes of 8 training and 3 validation JPEGs of odd sizes, one of them grey."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for part, count in (("train", 8), ("val", 3)):
        for label in ("ant", "bee", "cat"):
            (folder / part / label).mkdir(parents=True)
            for i in range(count):
                image = picture(rng, 30 + 5 * i, 60 - 4 * i)
                image = image.convert("L") if i == 1 else image
                image.save(folder / part / label / f"{i}.jpg", quality=95)
    return folder


def load(tree, *params, size=SIZE, workers=0, root=None):
    text = f"image_folder[{','.join([f'path={tree}', f'size={size}', *params])}]"
    return load_dataset(text, REGISTRY, root=root, workers=workers)


def gather(split, plan, augment):
    return list(split.stream(plan, augment))


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_a_tree_is_read(tree):
    data = load(tree)
    assert isinstance(data.train, StreamSplit)
    assert (len(data.train), len(data.test), data.classes) == (24, 9, 3)
    assert data.shape == (3, SIZE, SIZE)
    assert data.train.labels.tolist() == [0] * 8 + [1] * 8 + [2] * 8
    (x,) = gather(data.test, [torch.tensor([8, 0, 0])], None)
    assert x.shape == (3, 3, SIZE, SIZE)
    assert x.dtype == torch.float32
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x[1], x[2])


def test_plain_view_equals_torchvision(tree):
    from torchvision.transforms import v2

    data = load(tree, size=224)
    reference = v2.Compose([v2.Resize(256), v2.CenterCrop(224), v2.PILToTensor()])
    mean, std = IMAGENET_MEAN.view(3, 1, 1), IMAGENET_STD.view(3, 1, 1)
    (x,) = gather(data.train, [torch.tensor([0, 1, 7])], None)
    for row, name in zip(x, ("0", "1", "7"), strict=True):
        image = Image.open(tree / "train" / "ant" / f"{name}.jpg").convert("RGB")
        torch.testing.assert_close(row, ((reference(image) - mean) / std).float())


def test_plain_view_equals_the_same_images_in_memory(tree):
    data = load(tree)
    files = sorted((tree / "train").rglob("*.jpg"))
    images = [np.array(centre_crop(Image.open(file).convert("RGB"), SIZE)) for file in files]
    normalise = Normaliser.of(IMAGENET_MEAN, IMAGENET_STD, SIZE)
    memory = MemorySplit(torch.from_numpy(np.stack(images)), data.train.labels, normalise)
    plan = [torch.tensor([3, 20, 3]), torch.arange(24)]
    assert same(gather(memory, plan, None), gather(data.train, plan, None))
    shown = data.train.normalise.undo(gather(data.train, plan, None)[1])
    assert torch.equal(shown, torch.from_numpy(np.stack(images)))


@pytest.mark.parametrize("augment", [None, (0, 0), (3, 7)])
def test_views_do_not_depend_on_the_batching(tree, augment):
    train = load(tree).train
    (whole,) = gather(train, [torch.arange(24)], augment)
    plan = torch.randperm(24, generator=torch.Generator().manual_seed(0)).split([1, 10, 0, 13])
    assert same(gather(train, plan, augment), [whole[index] for index in plan])


def test_seed_and_epoch_change_the_augmentation(tree):
    train = load(tree).train
    views = [gather(train, [torch.arange(24)], augment)[0] for augment in ((0, 0), (0, 1), (1, 0))]
    for other in views[1:]:
        assert (views[0] != other).flatten(1).any(1).float().mean() > 0.9


def test_crop_and_flip_can_be_switched_off(tree):
    plan = [torch.arange(24)]
    off = load(tree, "crop=false", "flip=false").train
    (plain,) = gather(off, plan, None)
    assert same(gather(off, plan, (0, 0)), [plain])
    (mirrored,) = gather(load(tree, "crop=false").train, plan, (0, 0))
    kept = (mirrored == plain).flatten(1).all(1)
    assert torch.equal(mirrored[~kept], plain[~kept].flip(3))
    assert 4 < kept.sum() < 20


def test_random_boxes_are_those_of_a_random_resized_crop():
    generator = torch.Generator().manual_seed(0)
    boxes = torch.tensor([random_box(400, 300, generator) for _ in range(2000)]).double()
    left, top, right, bottom = boxes.unbind(1)
    assert left.min() >= 0
    assert top.min() >= 0
    assert right.max() <= 400
    assert bottom.max() <= 300
    share = (right - left) * (bottom - top) / (400 * 300)
    aspect = (right - left) / (bottom - top)
    assert 0.079 < share.min() < 0.1
    assert share.max() > 0.95
    assert 0.72 < aspect.min() < 0.77
    assert 1.3 < aspect.max() < 1.36
    assert abs((left + right).mean() / 2 - 200) < 5


def test_a_box_in_a_narrow_image_falls_back_to_the_centre():
    assert random_box(1000, 10, torch.Generator().manual_seed(0)) == (493, 0, 506, 10)
    assert random_box(10, 1000, torch.Generator().manual_seed(0)) == (0, 493, 10, 506)


# Workers -----------------------------------------------------------------------------------------


def test_workers_persist_and_give_the_same_images(tree):
    alone, shared = load(tree).train, load(tree, workers=2).train
    plan = torch.arange(24).split(5)
    processes = []
    for epoch in range(2):
        assert same(gather(shared, plan, (0, epoch)), gather(alone, plan, (0, epoch)))
        processes.append([worker.pid for worker in shared._idle[0]._iterator._workers])
    assert processes[0] == processes[1]
    # Scoring while training: the part-consumed stream goes on as if nothing had happened.
    training = shared.stream(plan, (0, 5))
    begun = [next(training)]
    assert same(gather(shared, plan, None), gather(alone, plan, None))
    assert same([*begun, *training], gather(alone, plan, (0, 5)))
    # An abandoned stream leaves nothing behind.
    abandoned = shared.stream(plan, (0, 6))
    next(abandoned)
    abandoned.close()
    assert same(gather(shared, plan, (0, 7)), gather(alone, plan, (0, 7)))
    assert len(shared._idle) == 2


def test_interleaved_streams_without_workers(tree):
    train = load(tree).train
    plan = torch.arange(24).split(7)
    first, second = train.stream(plan, (0, 0)), train.stream(plan, None)
    pairs = list(zip(first, second, strict=True))
    assert same([a for a, _ in pairs], gather(train, plan, (0, 0)))
    assert same([b for _, b in pairs], gather(train, plan, None))


def test_global_random_state_is_untouched(tree):
    states = []
    for _ in range(2):
        numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002
        states.append((random.getstate(), numpy_state, torch.get_rng_state().tolist()))
        gather(load(tree, "subset=6", "label_noise=0.5").train, [torch.arange(6)], (0, 0))
    assert states[0] == states[1]


def test_the_meta_device(tree):
    meta = load(tree).train.to("meta")
    (x,) = gather(meta, [torch.arange(3)], (0, 0))
    assert (x.device.type, x.shape) == ("meta", (3, 3, SIZE, SIZE))
    assert meta.labels.device.type == "meta"


# Parameters and mistakes -------------------------------------------------------------------------


def test_subset_and_label_noise(tree):
    whole, part = load(tree), load(tree, "subset=0.5")
    assert part.train.labels.bincount().tolist() == [4, 4, 4]
    (everything,) = gather(whole.train, [torch.arange(24)], None)
    (images,) = gather(part.train, [torch.arange(12)], None)
    for image, label in zip(images, part.train.labels, strict=True):
        (place,) = (everything == image).flatten(1).all(1).nonzero()
        assert place // 8 == label
    noisy = load(tree, "label_noise=0.25")
    assert (noisy.train.labels != whole.train.labels).sum() == 6
    assert torch.equal(noisy.test.labels, whole.test.labels)


def test_path_may_be_relative_to_the_root(tree):
    data = load(tree.name, root=tree.parent)
    assert data.name == f"image_folder[size={SIZE},path={tree.name}]"
    assert data.fingerprint == load(tree).fingerprint
    assert data.fingerprint != load(tree, "subset=12").fingerprint
    with pytest.raises(DataeffError, match="--data-root DIR or set DATAEFF_DATA"):
        load(tree.name)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_image_is_named(tree, tmp_path, workers):
    shutil.copytree(tree, tmp_path / "copy")
    path = tmp_path / "copy" / "train" / "bee" / "2.jpg"
    path.write_bytes(path.read_bytes()[:200])
    data = load(tmp_path / "copy", workers=workers)
    with pytest.raises(DataeffError, match="cannot be read as an image") as caught:
        gather(data.train, torch.arange(24).split(6), None)
    assert str(caught.value).startswith(f"{path} ")
    assert "\n" not in str(caught.value)
    # The split is still of use for the rest.
    assert len(gather(data.train, [torch.arange(6)], None)) == 1


def test_the_test_folder_may_be_called_test(tree, tmp_path):
    shutil.copytree(tree, tmp_path / "copy")
    (tmp_path / "copy" / "val").rename(tmp_path / "copy" / "test")
    assert len(load(tmp_path / "copy").test) == 9


def test_folders_that_do_not_fit_are_explained(tree, tmp_path):
    with pytest.raises(DataeffError, match=r"needs .*train and .*val \(or test\)"):
        load(tmp_path)
    with pytest.raises(DataeffError, match="image_folder has no parameter 'memory'"):
        load(tree, "memory=device")
    with pytest.raises(DataeffError, match=r"needs path: write image_folder\[path=...\]"):
        load_dataset("image_folder", REGISTRY, root=tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(tree, copy)
    shutil.rmtree(copy / "val" / "bee")
    with pytest.raises(DataeffError, match=r"must hold the same classes; .*: bee"):
        load(copy)
    shutil.rmtree(copy / "val" / "ant")
    (copy / "val" / "ant").mkdir()
    with pytest.raises(DataeffError, match="ant"):
        load(copy)
