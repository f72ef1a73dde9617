"""Embedded datasets and what every dataset shares: parameters, subset, label noise, identity."""

import inspect
import json
import random
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from dataeff.data import Dataset, HostSplit, ImageSet, MemorySplit, Raw, load_dataset
from dataeff.data.datasets import register_datasets
from dataeff.data.labels import balanced, corrupt
from dataeff.errors import DataeffError, UnknownName
from dataeff.registry import Registry

REGISTRY = Registry("dataset")
register_datasets(REGISTRY.register)


def load(text, registry=REGISTRY):
    return load_dataset(text, registry)


def plain(split):
    return next(split.stream([torch.arange(len(split))], None))


# Digits and synthetic ----------------------------------------------------------------------------


def test_digits():
    digits = load("digits")
    assert isinstance(digits, Dataset)
    assert isinstance(digits.train, MemorySplit)
    assert (digits.name, digits.classes, digits.shape) == ("digits", 10, (1, 16, 16))
    assert (len(digits.train), len(digits.test)) == (1297, 500)
    assert digits.test.labels.bincount().tolist() == [50] * 10
    assert digits.train.labels.bincount().min() >= 120
    assert digits.train.labels.dtype == torch.int64
    assert (digits.train.crop, digits.train.flip) == (1, False)


def test_digits_split_shares_no_image_and_loses_none():
    digits = load("digits[size=none]")
    assert digits.shape == (1, 8, 8)
    data = torch.cat([part.data[:, 1:-1, 1:-1] for part in (digits.train, digits.test)])
    assert data.max() == 255
    from sklearn.datasets import load_digits

    original = (load_digits().images * 255 / 16).round().reshape(1797, -1).astype(np.uint8)
    assert sorted(map(bytes, data.reshape(1797, -1).numpy())) == sorted(map(bytes, original))


def test_canonical_name_and_parameters():
    digits = load("digits[ flip=true, crop=1,subset=100 ]")
    assert digits.name == "digits[subset=100,flip=true]"
    assert len(digits.train) == 100
    assert digits.train.flip


def test_synthetic_parameters():
    data = load("synthetic[samples=30,test_samples=8,classes=3,size=8,channels=2]")
    assert (len(data.train), len(data.test), data.classes, data.shape) == (30, 8, 3, (2, 8, 8))
    assert data.train.labels.bincount().tolist() == [10] * 3
    other = load("synthetic[samples=30,test_samples=8,classes=3,size=8,channels=2,seed=1]")
    assert not torch.equal(data.train.data, other.train.data)


def test_synthetic_test_set_does_not_depend_on_the_number_of_samples():
    a, b = (load(f"synthetic[samples={n}]").test.data for n in (100, 200))
    assert torch.equal(a, b)


def linear_accuracy(data):
    """Fit least squares on one-hot labels: a floor for what a network learns."""
    x, x_test = (plain(part).flatten(1) for part in (data.train, data.test))
    target = torch.nn.functional.one_hot(data.train.labels, data.classes).float()
    gram = x.T @ x + 10 * torch.eye(x.shape[1])
    weights = torch.linalg.solve(gram, x.T @ target)
    return ((x_test @ weights).argmax(1) == data.test.labels).float().mean().item()


def test_synthetic_difficulty():
    accuracy = [
        linear_accuracy(load(f"synthetic[size=8,difficulty={d}]")) for d in (0, 0.3, 0.8, 1)
    ]
    assert accuracy[0] == 1
    assert accuracy[1] > 0.95
    assert 0.3 < accuracy[2] < 0.9
    assert accuracy[3] < 0.25


def test_a_small_network_learns_synthetic():
    data = load("synthetic[samples=500,size=16]")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 49, 10),
        )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for epoch in range(3):
        plan = torch.arange(500).split(50)
        for index, x in zip(plan, data.train.stream(plan, (0, epoch)), strict=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x), data.train.labels[index]).backward()
            optimizer.step()
    assert (network(plain(data.test)).argmax(1) == data.test.labels).float().mean() > 0.9


# Subset and label noise --------------------------------------------------------------------------


@pytest.mark.parametrize(("subset", "count"), [(10, 10), (255, 255), (0.5, 648), (1297, 1297)])
def test_subset_is_balanced(subset, count):
    data = load(f"digits[subset={subset}]")
    counts = data.train.labels.bincount(minlength=10)
    assert counts.sum() == count
    if count < 1200:
        assert counts.max() - counts.min() <= 1
    assert len(data.test) == 500


def test_subset_of_uneven_classes_is_as_even_as_they_allow():
    labels = torch.tensor([0] * 100 + [1] * 4 + [2] * 50)
    kept = balanced(labels, 44, torch.Generator().manual_seed(0))
    assert labels[kept].bincount().tolist() == [20, 4, 20]
    assert torch.equal(kept, kept.unique())


def test_subset_images_belong_to_their_labels():
    data = load("synthetic[difficulty=0,subset=50,size=4]")
    whole = load("synthetic[difficulty=0,size=4]")
    prototypes = whole.train.data[:10]
    assert torch.equal(data.train.data, prototypes[data.train.labels])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_label_noise_share_and_other_class(share):
    clean, noisy = load("digits"), load(f"digits[label_noise={share}]")
    changed = clean.train.labels != noisy.train.labels
    assert changed.sum() == round(share * 1297)
    assert noisy.train.labels.unique().tolist() == list(range(10))
    assert torch.equal(clean.test.labels, noisy.test.labels)
    assert torch.equal(clean.train.data, noisy.train.data)


def test_label_noise_is_uniform_over_the_other_classes():
    labels = torch.full((40_000,), 2)
    noisy = corrupt(labels, 5, 1.0, torch.Generator().manual_seed(0))
    assert labels.unique().tolist() == [2]
    counts = noisy.bincount(minlength=5)
    assert counts[2] == 0
    assert (counts[[0, 1, 3, 4]] - 10_000).abs().max() < 500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digits[subset=1298]", "subset=1298 is more than the 1297 training samples"),
        ("digits[subset=nan]", "subset=nan is not valid, it should be 0, or between"),
        ("digits[subset=9]", "fewer than one per class; keep at least 10"),
        ("digits[subset=0.001]", "fewer than one per class"),
        ("digits[subset=-5]", "fewer than one per class"),
        ("digits[subset=1.5]", "a count, or a share above 0 and below 1, not 1.5"),
        ("digits[label_noise=1]", "label_noise=1 is not valid, it should be less than 1"),
        ("digits[label_noise=-0.1]", "label_noise=-0.1 is not valid"),
        ("digits[size=3]", "size=3 is not valid, it should be greater than or equal to 4"),
        ("digits[crop=-1]", "crop=-1 is not valid"),
        ("digits[memory=gpu]", "memory=gpu is not valid, it should be 'device' or 'host'"),
        ("synthetic[difficulty=2]", "difficulty=2 is not valid"),
        ("synthetic[size=none]", "size=none is not valid"),
        ("digits+synthetic", "only strategies combine"),
    ],
)
def test_mistakes_are_explained(text, message):
    with pytest.raises(DataeffError, match=message.replace("+", r"\+")):
        load(text)


def test_unknown_names_are_close_matched():
    with pytest.raises(UnknownName, match="Did you mean digits"):
        load("digit")


# Identity and side effects -----------------------------------------------------------------------


def test_fingerprint_tells_data_apart():
    parameters = ["", ",seed=1", ",label_noise=0.1", ",subset=50", ",crop=1"]
    texts = [f"synthetic[samples=100{more}]" for more in parameters]
    prints = [load(text).fingerprint for text in texts]
    assert len(set(prints)) == len(texts)
    assert prints == [load(text).fingerprint for text in texts]
    assert all(len(text) == 12 for text in prints)


def test_where_the_images_stay_does_not_change_the_fingerprint():
    device, host = load("synthetic"), load("synthetic[memory=host]")
    assert (type(device.train), type(host.train)) == (MemorySplit, HostSplit)
    assert type(host.test) is HostSplit
    assert host.name == "synthetic[memory=host]"
    assert host.fingerprint == device.fingerprint


def test_published_results_are_of_the_data_that_is_read_today():
    folder = Path(__file__).parent.parent / "results" / "published" / "quickstart"
    suite = json.loads((folder / "suite.json").read_text())
    text, fingerprint = suite["tasks"]["digits"]["dataset"], suite["data"]["digits"]
    assert load(text).fingerprint == fingerprint


def test_global_random_state_is_untouched():
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    data = load("digits[subset=0.5,label_noise=0.2]")
    load("synthetic")
    list(data.train.stream([torch.arange(64)], (0, 0)))
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


# Datasets of a plugin author ---------------------------------------------------------------------


def test_the_example_in_the_docstring_works():
    text = inspect.getdoc(ImageSet)
    example = text[text.index("    @dataclass") : text.index("`size` resizes")]
    names = {"dataclass": dataclass, "ImageSet": ImageSet, "torch": torch, "__name__": __name__}
    exec(textwrap.dedent(example), names)
    registry = Registry("dataset")
    registry.register("dots", names["Dots"], "here")
    data = load("dots[dots=5,size=8,flip=true,subset=100]", registry)
    assert (data.classes, data.shape, len(data.train), len(data.test)) == (5, (1, 8, 8), 100, 100)
    assert linear_accuracy(data) == 1


def broken(**changes):
    images, labels = torch.zeros(4, 8, 8, 1, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
    raw = Raw(images, labels, images, labels, 2)._replace(**changes)

    @dataclass(eq=False, kw_only=True)
    class Broken(ImageSet):
        def read(self, root):
            return raw

    registry = Registry("dataset")
    registry.register("broken", Broken)
    return registry


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_images": torch.zeros(4, 8, 8, 1)}, "fractions and whole numbers; make all"),
        ({"train_images": torch.zeros(4, 8, 8, dtype=torch.uint8)}, "training images are"),
        ({"test_images": torch.zeros(4, 9, 8, 1, dtype=torch.uint8)}, "alike in both parts"),
        ({"train_labels": torch.tensor([0, 1])}, "4 training images have 2 labels"),
        ({"test_labels": torch.tensor([0, 1, 2, 1])}, "run from 0 to 2 of 2"),
        ({"classes": ["cat"]}, "at least two classes"),
    ],
)
def test_what_read_returns_is_checked(changes, message):
    with pytest.raises(DataeffError, match=message):
        load("broken", broken(**changes))


def test_images_need_not_be_square():
    images = torch.arange(4 * 6 * 8).view(4, 6, 8, 1).byte()
    registry = broken(train_images=images, test_images=images)
    assert load("broken[crop=1]", registry).shape == (1, 6, 8)
    assert load("broken[size=5]", registry).shape == (1, 5, 5)


def test_digits_may_have_a_larger_test_set_and_the_usual_one_is_what_it_was():
    usual, larger = load("digits"), load("digits[test_samples=797]")
    assert (len(usual.train), len(usual.test)) == (1297, 500)
    assert (len(larger.train), len(larger.test)) == (1000, 797)
    assert larger.test.labels.bincount().min() >= 79
    assert usual.fingerprint != larger.fingerprint
    assert load("digits[test_samples=500]").fingerprint == usual.fingerprint
