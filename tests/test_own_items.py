"""Own Datasets, own augmentation: how a sample looks hangs on (seed, epoch, index) alone."""

import pickle
import random
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from owned import DRAWING, IMAGES, LABELS, Drawing, Plain, images, memory, shake, streamed
from PIL import Image

import dataeff._torchvision_ops  # noqa: F401 -- before torchvision
from dataeff.data import MemorySplit, dataset_of, load_dataset
from dataeff.data.datasets import register_datasets
from dataeff.data.itemwise import ItemSplit
from dataeff.data.sharing import images_alone, publish
from dataeff.errors import DataeffError
from dataeff.registry import Registry

MANY = sorted(DRAWING)


# Seeded by sample ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MANY)
def test_neither_order_nor_batches_nor_company_change_a_sample(kind):
    split = DRAWING[kind]().train
    assert isinstance(split, ItemSplit)
    whole = images(split, [list(range(30))], (3, 2))
    shuffled = np.random.default_rng(1).permutation(30).tolist()
    assert torch.equal(images(split, [shuffled[:7], shuffled[7:8], shuffled[8:]], (3, 2)), whole)
    assert torch.equal(images(split, [[17, 4]], (3, 2)), whole[[4, 17]])
    assert torch.equal(images(DRAWING[kind]().train, [list(range(30))], (3, 2)), whole)


@pytest.mark.parametrize("kind", MANY)
def test_seeds_epochs_and_samples_differ(kind):
    split = DRAWING[kind]().train
    views = [images(split, [list(range(30))], view) for view in ((0, 0), (0, 1), (1, 0))]
    views.append(images(split, [list(range(30))], None))
    for one, other in ((0, 1), (0, 2), (1, 2), (0, 3)):
        same = (views[one] == views[other]).flatten(1).all(1).float().mean()
        assert same < 0.3


@pytest.mark.parametrize("kind", MANY)
def test_loader_processes_give_the_same(kind):
    here, elsewhere = (DRAWING[kind](workers=workers) for workers in (0, 2))
    batches = [[5, 1, 9], [2], [20, 7]]
    assert torch.equal(*(images(data.train, batches, (1, 1)) for data in (here, elsewhere)))


@pytest.mark.parametrize("kind", MANY)
def test_global_generators_are_where_they_were(kind):
    def state():
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002

    before = state()
    split = DRAWING[kind]().train
    images(split, [[1, 2]], (0, 0))
    images(split, [[1, 2]], None)
    assert state() == before


def test_generators_are_put_back_where_an_item_cannot_be_read():
    def broken(image):
        torch.rand(())
        raise KeyError("no such image")

    before = torch.get_rng_state()
    with pytest.raises(DataeffError, match="item 0 cannot be read: KeyError: 'no such image'"):
        streamed(Plain(broken))
    assert torch.equal(torch.get_rng_state(), before)


def test_transforms_of_torchvision_draw_for_each_sample_alone():
    from torchvision.transforms import v2

    change = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomRotation(30), v2.ColorJitter(0.5)])
    split = memory(transform=change).train
    whole = images(split, [list(range(30))], (0, 0))
    assert torch.equal(images(split, [[29, 3]], (0, 0)), whole[[3, 29]])
    plain = images(split, [list(range(30))], None)
    assert not (whole == plain).flatten(1).all(1).any()


def test_one_draw_is_not_shared_by_the_images_of_a_batch():
    twice = np.repeat(IMAGES[:1], 30, axis=0)
    data = dataset_of("mine", (twice, LABELS), (twice, LABELS), {"transform": shake})
    seen = images(data.train, [list(range(30))], (0, 0))
    assert len({bytes(image.numpy()) for image in seen}) > 20


# What is seen -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"crop": 2, "flip": True}, {"size": 6, "crop": 1}])
@pytest.mark.parametrize("view", [None, (0, 0), (5, 3)])
def test_streamed_items_are_seen_as_those_in_memory(options, view):
    held, drawn = memory(**options), streamed(**options)
    assert isinstance(held.train, MemorySplit)
    assert drawn.shape == held.shape
    for part in ("train", "test"):
        pair = [getattr(data, part) for data in (held, drawn)]
        seen = [split.normalise.undo(images(split, [[0, 5], [3]], view)) for split in pair]
        assert torch.equal(*seen) or (part, bool(view)) == ("test", True)
    everything = [images(data.train, [list(range(30))], view) for data in (held, drawn)]
    assert torch.equal(*everything)


def test_subset_and_label_noise_are_those_of_sets_in_memory():
    held, drawn = (make(subset=12, label_noise=0.25) for make in (memory, streamed))
    assert torch.equal(held.train.labels, drawn.train.labels)
    assert torch.equal(*(images(data.train, [list(range(12))], None) for data in (held, drawn)))


def test_the_test_set_is_not_augmented():
    split = streamed(crop=2, flip=True, transform=shake).test
    assert torch.equal(
        images(split, [list(range(6))], (0, 0)), images(split, [list(range(6))], None)
    )


def test_fractions_are_what_the_network_sees():
    data = streamed(
        *(Plain(lambda i: torch.from_numpy(i).permute(2, 0, 1) / 127.5 - 1, n) for n in (30, 6))
    )
    seen = images(data.train, [[0, 1]], None)
    assert torch.equal(seen, torch.from_numpy(IMAGES[:2]).permute(0, 3, 1, 2) / 127.5 - 1)
    shown = data.train.normalise.undo(seen).int()
    assert (shown - torch.from_numpy(IMAGES[:2])).abs().max() <= 1


def test_a_transform_may_return_fractions():
    from torchvision.transforms import v2

    halved = memory(transform=v2.ToDtype(torch.float32, scale=True)).train
    seen, plain = (images(halved, [[0, 1]], view) for view in ((0, 0), None))
    assert torch.allclose(seen, plain, atol=1e-5)


class Switched(Plain):
    """A Dataset with a transform, as torchvision's have it."""

    def __init__(self, transform, count=30):
        super().__init__(count=count)
        self.transform = transform

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return (self.transform(image) if self.transform else image), label


def test_without_augmentation_a_training_set_has_the_transforms_of_the_test_set():
    data = streamed(Switched(lambda image: 255 - image), Switched(None, 6))
    augmented, plain = (
        data.train.normalise.undo(images(data.train, [[4]], v)) for v in ((0, 0), None)
    )
    assert torch.equal(plain[0], torch.from_numpy(IMAGES[4]))
    assert torch.equal(augmented, 255 - plain)


# To other processes -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MANY)
def test_what_is_published_is_seen_alike(kind, tmp_path):
    split = DRAWING[kind]().train
    publish(split, str(tmp_path / "train"))
    other = torch.load(tmp_path / "train", mmap=True, weights_only=False)
    assert torch.equal(*(images(part, [[3, 2], [8]], (1, 4)) for part in (split, other)))
    assert torch.equal(other.labels, split.labels)
    assert images_alone(other).labels.sum() == 0


def test_what_cannot_be_pickled_is_said():
    locked = Plain()
    locked.lock = threading.Lock()
    with pytest.raises(DataeffError, match="open files and connections where an item is read"):
        pickle.dumps(streamed(locked).train)


NOTEBOOK = """
import sys, torch
from torch.utils.data import Dataset
from dataeff.data import dataset_of
from dataeff.data.sharing import publish

class Mine(Dataset):
    def __len__(self):
        return 30
    def __getitem__(self, index):
        image = torch.full((3, 8, 8), index, dtype=torch.uint8)
        return image + torch.randint(0, 9, (), dtype=torch.uint8), index % 3

data = dataset_of("mine", Mine(), Mine(), {"transform": lambda images: images * 2})
publish(data.train, sys.argv[1])
print(torch.cat(list(data.train.stream([torch.arange(30)], (0, 0)))).double().abs().sum().item())
"""
READER = """
import sys, torch
split = torch.load(sys.argv[1], mmap=True, weights_only=False)
print(torch.cat(list(split.stream([torch.arange(30)], (0, 0)))).double().abs().sum().item())
"""


@pytest.mark.long
def test_what_a_notebook_defines_is_seen_alike_in_another_process(tmp_path):
    path = str(tmp_path / "train")
    told = [
        subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True).stdout
        for code in (NOTEBOOK, READER)
    ]
    assert told[0] == told[1] != b""


def test_files_of_a_test_set_are_known_where_a_dataset_tells_of_them(tmp_path):
    from torchvision.datasets import ImageFolder

    for part, label in (("one", "cat"), ("one", "dog"), ("two", "cat"), ("two", "dog")):
        (tmp_path / part / label).mkdir(parents=True)
        Image.fromarray(IMAGES[0]).save(tmp_path / part / label / "0.png")
        Image.fromarray(IMAGES[1]).save(tmp_path / part / label / "1.png")
    data = streamed(ImageFolder(tmp_path / "one"), ImageFolder(tmp_path / "two"))
    assert data.test.paths()[0] == str(tmp_path / "two" / "cat" / "0.png")
    assert len(data.train.paths()) == 4
    assert streamed().test.paths() == []


# Fingerprint --------------------------------------------------------------------------------------


def test_the_fingerprint_of_what_is_streamed():
    darker = Plain(lambda image: torch.from_numpy(image // 2).permute(2, 0, 1))
    variants = [
        streamed(),
        streamed(darker),
        streamed(test=darker),
        streamed(Plain(count=27)),
        streamed(Drawing()),
        streamed(transform=shake),
        streamed(crop=1),
        streamed(subset=15),
    ]
    assert len({data.fingerprint for data in variants}) == len(variants)
    assert streamed().fingerprint == streamed().fingerprint


# Bundled sets and folders -------------------------------------------------------------------------


def test_bundled_sets_take_a_transform_by_its_place(tmp_path, monkeypatch):
    (tmp_path / "own_shaking.py").write_text("def darken(images):\n    return images // 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("dataset")
    register_datasets(registry.register)
    plain = load_dataset("digits[subset=20]", registry)
    changed = load_dataset("digits[subset=20,crop=0,transform=own_shaking:darken]", registry)
    assert changed.name == "digits[subset=20,crop=0,transform=own_shaking:darken]"
    assert changed.fingerprint != plain.fingerprint
    before, after = (
        changed.train.normalise.undo(images(changed.train, [[0, 1]], view))
        for view in (None, (0, 0))
    )
    assert torch.equal(after, before // 2)
    assert torch.equal(images(changed.train, [[0]], None), images(plain.train, [[0]], None))


def test_folders_and_their_transform(tmp_path):
    for part in ("one", "two"):
        for label in ("cat", "dog"):
            (tmp_path / part / label).mkdir(parents=True)
            for number in range(3):
                Image.fromarray(IMAGES[number]).save(tmp_path / part / label / f"{number}.png")
    data = dataset_of("mine", tmp_path / "one", tmp_path / "two", {"size": 8, "transform": shake})
    assert (len(data.train), len(data.test), data.class_names) == (6, 6, ("cat", "dog"))
    whole = images(data.train, [list(range(6))], (0, 0))
    assert torch.equal(images(data.train, [[5, 1]], (0, 0)), whole[[1, 5]])
    plain = dataset_of("mine", tmp_path / "one", tmp_path / "two", {"size": 8})
    assert data.fingerprint != plain.fingerprint
    assert not torch.equal(images(plain.train, [list(range(6))], (0, 0)), whole)
