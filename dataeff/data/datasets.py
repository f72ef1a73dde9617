"""The bundled datasets: embedded, synthetic, torchvision's small ones, and image folders."""

import gzip
import hashlib
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field

from dataeff.data.base import ImageSet, Padding, Raw, Side, check_memory
from dataeff.data.folder import ImageFolder
from dataeff.data.hub import hugging_face
from dataeff.data.labels import balanced
from dataeff.errors import DataeffError
from dataeff.hookspecs import hookimpl

READERS = {
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "fashion_mnist": "FashionMNIST",
    "svhn": "SVHN",
}
_SVHN_PARTS = [{"split": "train"}, {"split": "test"}]
DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")

# MD5 of the uncompressed files: Debian packs them anew, and torchvision keeps them unpacked, so
# the published sums of the .gz files fit neither.
FASHION_MNIST_FILES = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}


@hookimpl
def register_datasets(register: Any) -> None:
    """Register the bundled datasets."""
    register("digits", Digits)
    register("synthetic", Synthetic)
    register("fashion_mnist", FashionMnist)
    register("cifar10", Cifar10)
    register("cifar100", Cifar100)
    register("svhn", Svhn)
    register("image_folder", ImageFolder)
    register("hf:", hugging_face)


def download(name: str, root: Path) -> None:
    """Download a dataset that torchvision offers into `root`."""
    if name not in READERS:
        raise DataeffError(f"{name} is not downloadable; these are: {', '.join(READERS)}.")
    reader = _reader(name)
    try:
        for part in _SVHN_PARTS if name == "svhn" else [{}]:
            reader(root, download=True, **part)
    except (OSError, RuntimeError) as error:
        raise DataeffError(f"{name} could not be downloaded to {root}: {error}") from error


@dataclass(eq=False, kw_only=True)
class Digits(ImageSet):
    """Handwritten digits of scikit-learn: 1,297 + 500 grey images, 8x8; needs no download.

    `test_samples` of the 1,797 are the test set, as many of each digit.
    """

    size: Side | None = 16
    crop: Padding = 1
    test_samples: Annotated[int, Field(ge=10, le=1700)] = 500

    def read(self, root: Path | None) -> Raw:
        """Read the set inside scikit-learn, and split it."""
        from sklearn.datasets import load_digits

        digits = load_digits()
        images = torch.from_numpy(digits.images * (255 / 16)).round().byte().unsqueeze(-1)
        labels = torch.from_numpy(digits.target).long()
        test = torch.zeros(len(labels), dtype=torch.bool)
        test[balanced(labels, self.test_samples, torch.Generator().manual_seed(1797))] = True
        return Raw(images[~test], labels[~test], images[test], labels[test], 10)

    def fingerprint(self, *content: Any, without: str = "test_samples") -> str:
        """Return a digest of parameters and training images, which say how the set was split."""
        return super().fingerprint(*content, without=without)


@dataclass(eq=False, kw_only=True)
class Synthetic(ImageSet):
    """Blurred random patterns, one per class, under noise: difficulty 0 is none, 1 all noise."""

    size: Side = 32
    samples: Annotated[int, Field(ge=1, le=10**8)] = 1000
    test_samples: Annotated[int, Field(ge=1, le=10**8)] = 200
    classes: Annotated[int, Field(ge=2, le=10**6)] = 10
    channels: Annotated[int, Field(ge=1, le=1024)] = 3
    difficulty: Annotated[float, Field(ge=0, le=1)] = 0.3
    seed: Annotated[int, Field(ge=0)] = 0

    def read(self, root: Path | None) -> Raw:
        """Draw 4x4 patterns; resizing blurs them, so that noise does not average out."""
        most = max(self.samples, self.test_samples, self.classes)
        # Patterns and noise are floats, and there are about four of each at a time.
        check_memory("synthetic", 4 * 4 * 16 * self.channels * most)
        generator = torch.Generator().manual_seed(self.seed)
        prototypes = torch.randn(self.classes, 4, 4, self.channels, generator=generator)

        def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
            labels = torch.arange(count) % self.classes
            noise = torch.randn(count, 4, 4, self.channels, generator=generator)
            mixed = (1 - self.difficulty) * prototypes[labels] + self.difficulty * noise
            return (128 + 48 * mixed).clamp(0, 255).byte(), labels

        test = part(self.test_samples)
        return Raw(*part(self.samples), *test, self.classes)


@dataclass(eq=False, kw_only=True)
class FashionMnist(ImageSet):
    """Fashion-MNIST: 60,000 + 10,000 grey images of clothes, 28x28, 10 classes."""

    crop: Padding = 2
    flip: bool = True

    def read(self, root: Path | None) -> Raw:
        """Read the files that torchvision downloads, or else those of Debian's package."""
        place = next(filter(_is_whole, _fashion_mnist_places(root)), None)
        if place is None:
            what = "FashionMNIST/raw with its four idx files"
            raise _missing("fashion_mnist", root, what, " install Debian's dataset-fashion-mnist,")
        files = [_packed_or_not(place / name) for name in FASHION_MNIST_FILES]
        train, train_labels, test, test_labels = (
            _read_idx(root, file, md5)
            for file, md5 in zip(files, FASHION_MNIST_FILES.values(), strict=True)
        )
        return Raw(train.unsqueeze(-1), train_labels, test.unsqueeze(-1), test_labels, 10)


@dataclass(eq=False, kw_only=True)
class Cifar10(ImageSet):
    """CIFAR-10: 50,000 + 10,000 colour photographs, 32x32, 10 classes."""

    name: ClassVar[str] = "cifar10"
    crop: Padding = 4
    flip: bool = True

    def read(self, root: Path | None) -> Raw:
        """Read with torchvision, which verifies the checksums."""
        parts = _open(self.name, root, [{"train": True}, {"train": False}])
        train, test = (_tensors(part.data, part.targets) for part in parts)
        return Raw(*train, *test, parts[0].classes)


@dataclass(eq=False, kw_only=True)
class Cifar100(Cifar10):
    """CIFAR-100: 50,000 + 10,000 colour photographs, 32x32, 100 classes."""

    name: ClassVar[str] = "cifar100"


@dataclass(eq=False, kw_only=True)
class Svhn(ImageSet):
    """SVHN: 73,257 + 26,032 colour photographs of house numbers, 32x32, 10 classes."""

    crop: Padding = 4

    def read(self, root: Path | None) -> Raw:
        """Read with torchvision, which verifies the checksums."""
        parts = _open("svhn", root, _SVHN_PARTS)
        train, test = (_tensors(part.data.transpose(0, 2, 3, 1), part.labels) for part in parts)
        return Raw(*train, *test, 10)


def _tensors(images: Any, labels: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(images).contiguous(), torch.as_tensor(labels)


def _reader(name: str) -> Any:
    import torchvision.datasets

    return getattr(torchvision.datasets, READERS[name])


def _files(name: str) -> dict[str, str]:
    """Return the files that torchvision reads, each with its checksum."""
    reader = _reader(name)
    if name == "svhn":
        listed = [reader.split_list[part["split"]] for part in _SVHN_PARTS]
        return {file: md5 for _, file, md5 in listed}
    meta = [reader.meta["filename"], reader.meta["md5"]]
    listed = [*reader.train_list, *reader.test_list, meta]
    return {f"{reader.base_folder}/{file}": md5 for file, md5 in listed}


def found(root: Path | None) -> dict[str, bool]:
    """Say of each dataset that can be downloaded whether its files are there."""
    there = {
        name: root is not None and all((root / file).exists() for file in _files(name))
        for name in READERS
        if name != "fashion_mnist"
    }
    return there | {"fashion_mnist": any(map(_is_whole, _fashion_mnist_places(root)))}


def _fashion_mnist_places(root: Path | None) -> list[Path]:
    places = [] if root is None else [root / "FashionMNIST" / "raw"]
    return [*places, DEBIAN_FASHION_MNIST]


def _is_whole(place: Path) -> bool:
    return all(_packed_or_not(place / name).exists() for name in FASHION_MNIST_FILES)


def _open(name: str, root: Path | None, parts: list[dict]) -> list[Any]:
    """Return torchvision's reader for each part, or say which of the files is at fault."""
    if root is None:
        raise _missing(name, root, "")
    try:
        return [_reader(name)(root, **part) for part in parts]
    except RuntimeError:
        for file, md5 in _files(name).items():
            if not (root / file).exists():
                folder = file.split("/")[0]
                what = file if (root / folder).exists() else folder
                raise _missing(name, root, what) from None
            if hashlib.md5((root / file).read_bytes(), usedforsecurity=False).hexdigest() != md5:
                raise _damaged(name, root, root / file) from None
        raise


def _packed_or_not(path: Path) -> Path:
    return path if path.exists() else path.with_name(f"{path.name}.gz")


def _read_idx(root: Path | None, path: Path, md5: str) -> torch.Tensor:
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error):
        raise _damaged("fashion_mnist", root, path) from None
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise _damaged("fashion_mnist", root, path)
    header = 4 + 4 * content[3]
    shape = struct.unpack_from(f">{content[3]}I", content, 4)
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=header).view(shape)


def _missing(name: str, root: Path | None, what: str, otherwise: str = "") -> DataeffError:
    if root is None:
        return DataeffError(
            f"{name} needs a data folder:{otherwise} pass --data-root DIR or set DATAEFF_DATA."
        )
    return DataeffError(
        f"{name} is not under {root}: put {what} there,{otherwise} or run: "
        f"dataeff datasets --download {name} --data-root {root}"
    )


def _damaged(name: str, root: Path | None, path: Path) -> DataeffError:
    return DataeffError(
        f"{path} is damaged, its checksum is wrong: delete it and run: "
        f"dataeff datasets --download {name} --data-root {root or 'DIR'}"
    )
