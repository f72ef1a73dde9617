"""Datasets read from files: missing and damaged ones are named, whole ones are read."""

import gzip
import hashlib
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from dataeff.data import datasets, load_dataset
from dataeff.errors import DataeffError
from dataeff.registry import Registry

REGISTRY = Registry("dataset")
datasets.register_datasets(REGISTRY.register)


def load(text, root):
    return load_dataset(text, REGISTRY, root=root)


def plain(split):
    return next(split.stream([torch.arange(len(split))], None))


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """Write a CIFAR-10 of forty images whose checksums torchvision accepts."""
    import torchvision.datasets

    rng = np.random.default_rng(0)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        pixels = rng.integers(0, 256, (20, 3072), dtype=np.uint8)
        batch = {"data": pixels, "labels": [i % 10 for i in range(20)]}
        (folder / name).write_bytes(pickle.dumps(batch))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    reader = torchvision.datasets.CIFAR10
    for attribute, names in (
        ("train_list", ["data_batch_1", "data_batch_2"]),
        ("test_list", ["test_batch"]),
    ):
        monkeypatch.setattr(reader, attribute, [[name, md5(folder / name)] for name in names])
    monkeypatch.setitem(reader.meta, "md5", md5(folder / "batches.meta"))
    return tmp_path


def test_cifar10_is_read(cifar):
    data = load("cifar10", cifar)
    assert (len(data.train), len(data.test), data.classes) == (40, 20, 10)
    assert data.shape == (3, 32, 32)
    assert (data.train.crop, data.train.flip) == (4, True)
    batch = pickle.loads((cifar / "cifar-10-batches-py" / "data_batch_2").read_bytes())
    expected = torch.from_numpy(batch["data"]).view(20, 3, 32, 32).permute(0, 2, 3, 1)
    assert torch.equal(data.train.data[20:, 4:-4, 4:-4], expected)
    assert data.train.labels[20:].tolist() == batch["labels"]


@pytest.mark.parametrize("name", ["data_batch_2", "test_batch", "batches.meta"])
def test_a_damaged_file_is_named(cifar, name):
    path = cifar / "cifar-10-batches-py" / name
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(DataeffError, match="checksum is wrong") as caught:
        load("cifar10", cifar)
    assert str(caught.value) == (
        f"{path} is damaged, its checksum is wrong: delete it and run: "
        f"dataeff datasets --download cifar10 --data-root {cifar}"
    )


def test_one_missing_file_is_named(cifar):
    (cifar / "cifar-10-batches-py" / "data_batch_1").unlink()
    with pytest.raises(DataeffError, match="put cifar-10-batches-py/data_batch_1 there"):
        load("cifar10", cifar)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("cifar10", "put cifar-10-batches-py there, "),
        ("cifar100", "put cifar-100-python there, "),
        ("svhn", "put train_32x32.mat there, "),
        (
            "fashion_mnist",
            "put FashionMNIST/raw with its four idx files there, "
            "install Debian's dataset-fashion-mnist, ",
        ),
    ],
)
def test_missing_data_says_what_to_put_where(name, what, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "DEBIAN_FASHION_MNIST", tmp_path / "absent")
    with pytest.raises(DataeffError) as caught:
        load(name, tmp_path)
    assert str(caught.value) == (
        f"{name} is not under {tmp_path}: {what}"
        f"or run: dataeff datasets --download {name} --data-root {tmp_path}"
    )
    with pytest.raises(DataeffError, match="pass --data-root DIR or set DATAEFF_DATA"):
        load(name, None)


def test_svhn_is_read_and_checked(tmp_path, monkeypatch):
    import scipy.io
    import torchvision.datasets

    rng = np.random.default_rng(0)
    lists = {}
    for part in ("train", "test"):
        path = tmp_path / f"{part}_32x32.mat"
        pixels = rng.integers(0, 256, (32, 32, 3, 20), dtype=np.uint8)
        scipy.io.savemat(path, {"X": pixels, "y": np.arange(20)[:, None] % 10 + 1})
        lists[part] = ["", path.name, md5(path)]
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", lists)
    data = load("svhn", tmp_path)
    assert data.shape == (3, 32, 32)
    assert data.test.labels.tolist() == [*range(1, 10), 0] * 2
    assert torch.equal(data.test.data[3, 4:-4, 4:-4], torch.from_numpy(pixels[..., 3]))
    path.write_bytes(b"damaged")
    with pytest.raises(DataeffError, match=f"{path.name} is damaged"):
        load("svhn", tmp_path)


@pytest.fixture
def fashion(tmp_path, monkeypatch):
    """Write a Fashion-MNIST of twenty images, unpacked as torchvision does it."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    sums = {}
    for name in datasets.FASHION_MNIST_FILES:
        pixels = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8)
        content = pixels if "images" in name else np.arange(20, dtype=np.uint8) % 10
        header = struct.pack(f">BBBB{content.ndim}I", 0, 0, 8, content.ndim, *content.shape)
        (folder / name).write_bytes(header + content.tobytes())
        sums[name] = md5(folder / name)
    monkeypatch.setattr(datasets, "FASHION_MNIST_FILES", sums)
    monkeypatch.setattr(datasets, "DEBIAN_FASHION_MNIST", tmp_path / "absent")
    return tmp_path


def pack(folder):
    for path in list(folder.iterdir()):
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()


def test_fashion_mnist_is_read_as_torchvision_reads_it(fashion):
    from torchvision.datasets import FashionMNIST

    data = load("fashion_mnist", fashion)
    reference = FashionMNIST(fashion, train=True)
    assert (data.shape, data.train.crop, data.train.flip) == ((1, 28, 28), 2, True)
    assert torch.equal(data.train.data[:, 2:-2, 2:-2, 0], reference.data)
    assert torch.equal(data.train.labels, reference.targets)


def test_fashion_mnist_packed_and_from_debian(fashion, monkeypatch):
    unpacked = load("fashion_mnist", fashion)
    folder = fashion / "FashionMNIST" / "raw"
    pack(folder)
    assert load("fashion_mnist", fashion).fingerprint == unpacked.fingerprint
    monkeypatch.setattr(datasets, "DEBIAN_FASHION_MNIST", folder)
    assert load("fashion_mnist", None).fingerprint == unpacked.fingerprint


@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_fashion_mnist_file_is_named(fashion, packed):
    folder = fashion / "FashionMNIST" / "raw"
    if packed:
        pack(folder)
    path = next(folder.glob("t10k-images*"))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataeffError, match=f"{path.name} is damaged"):
        load("fashion_mnist", fashion)


def test_download(monkeypatch, tmp_path):
    import torchvision.datasets

    calls = []
    for name in ("CIFAR10", "SVHN"):
        monkeypatch.setattr(
            torchvision.datasets, name, lambda root, **options: calls.append((root, options))
        )
    datasets.download("cifar10", tmp_path)
    datasets.download("svhn", tmp_path)
    assert calls == [
        (tmp_path, {"download": True}),
        (tmp_path, {"download": True, "split": "train"}),
        (tmp_path, {"download": True, "split": "test"}),
    ]


def test_download_that_cannot_work_is_explained(monkeypatch, tmp_path):
    import torchvision.datasets

    def offline(root, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(torchvision.datasets, "CIFAR100", offline)
    with pytest.raises(DataeffError, match=r"cifar100 could not be downloaded .* no route to host"):
        datasets.download("cifar100", tmp_path)
    with pytest.raises(DataeffError, match="digits is not downloadable; these are: cifar10, "):
        datasets.download("digits", tmp_path)


# Real data ---------------------------------------------------------------------------------------

real_root = Path(os.environ.get("DATAEFF_DATA", "absent"))


@pytest.mark.slow
@pytest.mark.skipif(
    not (real_root / "cifar-10-batches-py").is_dir(),
    reason="DATAEFF_DATA does not point at a folder with cifar-10-batches-py",
)
def test_real_cifar10():
    data = load("cifar10", real_root)
    assert (len(data.train), len(data.test)) == (50_000, 10_000)
    assert data.train.labels.bincount().tolist() == [5000] * 10
    x = next(data.train.stream([torch.arange(5000)], None))
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3), atol=0.03, rtol=0)


@pytest.mark.slow
@pytest.mark.skipif(
    not datasets.DEBIAN_FASHION_MNIST.is_dir(), reason="dataset-fashion-mnist is not installed"
)
def test_real_fashion_mnist():
    data = load("fashion_mnist", None)
    assert (len(data.train), len(data.test)) == (60_000, 10_000)
    assert data.test.labels.bincount().tolist() == [1000] * 10
