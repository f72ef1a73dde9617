"""Images and labels of own Datasets: every kind is read as it is meant, or refused."""

import numpy as np
import pytest
import torch
from owned import IMAGES, Plain, images, memory, streamed
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset

from dataeff.data import dataset_of
from dataeff.data.decode import read_rgb
from dataeff.errors import DataeffError

# Kinds of images ----------------------------------------------------------------------------------


def saved(path, mode):
    """Save an image of this mode as a file, and return it as it is read."""
    image = Image.fromarray(IMAGES[0])
    kind = "TIFF" if mode in ("CMYK", "LA") else "PNG"
    if mode == "I;16":
        wide = IMAGES[0, ..., 0].astype(np.uint16) * 256 + 9
        Image.fromarray(wide).save(path, "PNG")
    elif mode == "CMYK jpeg":
        image.convert("CMYK").save(path, "JPEG")
    elif mode == "P, transparent":
        image.convert("P").save(path, "PNG", transparency=0)
    else:
        image.convert(mode).save(path, kind)
    return Image.open(path)


@pytest.mark.parametrize(
    "mode", ["L", "1", "LA", "I;16", "RGB", "RGBA", "P", "P, transparent", "CMYK", "CMYK jpeg"]
)
def test_images_of_every_mode(tmp_path, mode):
    """Each is seen as a file of it would be, grey ones in one channel."""
    path = tmp_path / "image"
    saved(path, mode)
    parts = [Plain(lambda _: Image.open(path), count) for count in (30, 6)]
    data = streamed(*parts)
    seen = data.train.normalise.undo(images(data.train, [[0]], None))[0]
    channels = 1 if mode in ("L", "1", "LA", "I;16") else 3
    assert data.shape == (channels, 8, 8)
    expected = torch.from_numpy(np.array(read_rgb(str(path))))
    assert torch.equal(seen, expected[..., :channels])
    listed = [Image.open(path)] * 4, [0, 1, 0, 1]
    held = dataset_of("mine", listed, listed)
    assert torch.equal(held.train.data[0], seen)


def test_upper_bits_of_sixteen_are_kept_and_colours_of_cmyk_are_right(tmp_path):
    deep = saved(tmp_path / "deep", "I;16")
    listed = [deep] * 4, [0, 1, 0, 1]
    assert torch.equal(
        dataset_of("m", listed, listed).train.data[0, ..., 0], torch.tensor(IMAGES[0, ..., 0])
    )
    red = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    listed = [red] * 4, [0, 1, 0, 1]
    assert dataset_of("m", listed, listed).train.data[0, 0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda image: image, IMAGES),
        (lambda image: image[..., 0], IMAGES[..., :1]),
        (lambda image: torch.from_numpy(image[..., 0]), IMAGES[..., :1]),
        (lambda image: image[..., :1].astype(np.int64), IMAGES[..., :1]),
        (lambda image: image[..., :1] > 99, (IMAGES[..., :1] > 99) * np.uint8(255)),
    ],
)
def test_items_of_every_type(make, expected):
    data = streamed(Plain(make), Plain(make, 6))
    seen = data.train.normalise.undo(images(data.train, [[3]], None))
    assert torch.equal(seen[0], torch.from_numpy(expected[3]))


def test_items_may_be_dicts():
    class Named(Plain):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return {"number": index, "scan": image, "label": label}

    data = dataset_of("mine", Named(), Named(count=6), {"image_column": "scan"})
    assert torch.equal(images(data.train, [[0, 1]], None), images(streamed().train, [[0, 1]], None))
    with pytest.raises(DataeffError, match="no column is the image for sure; write image_column="):
        dataset_of("mine", Named(), Named(count=6))
    with pytest.raises(DataeffError, match="there is no column 'scam'; write image_column="):
        dataset_of("mine", Named(), Named(count=6), {"image_column": "scam"})


# Labels -------------------------------------------------------------------------------------------


class Told(Plain):
    """Tells of its labels, and counts how many images were read."""

    def __init__(self, targets, count=30):
        super().__init__(count=count)
        self.targets, self.reads = targets, 0

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index % 30)


def test_labels_that_a_dataset_tells_of_are_taken_without_reading_all():
    many = Told([index % 3 for index in range(3000)], 3000)
    data = streamed(many, many)
    assert data.train.labels.bincount().tolist() == [1000] * 3
    assert many.reads < 1000


def test_names_that_a_dataset_has_are_kept_where_they_fit():
    parts = Plain(), Plain(count=6)
    parts[0].classes = ["owl", "cat", "dog", "never seen"]
    data = streamed(*parts)
    assert (data.classes, data.class_names) == (4, ("owl", "cat", "dog", "never seen"))
    parts[0].classes = ["owl", "cat"]
    assert streamed(*parts).class_names == ("0", "1", "2")


def test_labels_that_are_not_those_of_the_items_are_read():
    data = streamed(Told([0, 1] * 15))
    assert data.train.labels.tolist() == [index % 3 for index in range(30)]


def test_labels_of_parts_and_of_several_together():
    told = Told([index % 3 for index in range(30)])
    both = ConcatDataset([Subset(told, [2, 4, 9]), told])
    assert streamed(both).train.labels.tolist() == [2, 1, 0, *(index % 3 for index in range(30))]


# What is refused ----------------------------------------------------------------------------------


class Endless(IterableDataset):
    def __iter__(self):
        return iter(())


def several(image):
    return torch.zeros(3, 8 + int(image[0, 0, 0]) % 2, 8, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("train", "options", "said"),
    [
        (Endless(), {}, "Endless has no items by number; give"),
        (DataLoader(Plain()), {}, "give its Dataset, loader.dataset"),
        (Plain(count=0), {}, "a part is empty; give at least one image"),
        (Plain(several), {}, "differ in size (8 x 8 and 9 x 8 pixels among them); write a size"),
        (Plain(lambda image: "a.png"), {}, "let it be a PIL image, or a tensor (C, H, W)"),
        (Plain(lambda image: image.astype(np.uint16) * 256), {}, "let it be uint8, or fractions"),
        (Plain(lambda image: image / 255), {}, "others are torch.float32; let all be of one type"),
        (Plain(lambda image: image[..., :1]), {}, "item 0 has 3 channels and others have 1"),
        (Plain(lambda _: image_of_noise()), {}, "draw from the global generators of torch, numpy"),
        (Plain(lambda _: Image.new("F", (8, 8))), {}, "of which nobody knows the range"),
    ],
)
def test_datasets_that_are_refused(train, options, said):
    def read():
        data = streamed(train, **options)
        images(data.train, [list(range(len(data.train)))], None)
        images(data.test, [[0]], None)

    with pytest.raises(DataeffError) as error:
        read()
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def image_of_noise():
    """Return what no seed of a global generator repeats."""
    return np.random.default_rng().integers(0, 256, (8, 8, 3), dtype=np.uint8)


def test_items_that_are_no_pairs_and_several_labels():
    class Bare(Plain):
        def __getitem__(self, index):
            return torch.zeros(3, 8, 8)

    class Several(Plain):
        def __getitem__(self, index):
            return super().__getitem__(index)[0], torch.tensor([1, 0, 1])

    with pytest.raises(DataeffError, match=r"an item is Tensor; let it be \(image, label\)"):
        streamed(Bare())

    class Ragged(Plain):
        classes = ("one", "two")

        def __getitem__(self, index):
            return super().__getitem__(index)[0], [0] * (1 + index % 2)

    for kind in (Several, Ragged):
        with pytest.raises(DataeffError, match="one class per image is supported"):
            streamed(kind())


def test_coloured_items_among_grey_ones():
    def mixed(image):
        grey = image.tobytes() != IMAGES[2].tobytes()
        return Image.fromarray(image).convert("L" if grey else "RGB")

    with pytest.raises(DataeffError, match="item 2 has colours and others are grey; convert"):
        streamed(Plain(mixed), Plain(mixed, 1))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: x[..., :4], "3 x 8 x 4 of one of 3 x 8 x 8, which other views keep"),
        (lambda x: None, "The transform cannot be used: it returns NoneType, no tensor"),
        (lambda x: x.float() - 9, "leave Normalize out, since normalising is done here"),
        (lambda x: x.int(), "torch.int32 of torch.uint8"),
        (
            lambda x: torch.from_numpy(image_of_noise())[None].permute(0, 3, 1, 2),
            "otherwise each time",
        ),
        (
            lambda x: x.nope(),
            "The transform cannot be used: AttributeError: 'Tensor' object has no attribute",
        ),
    ],
)
def test_transforms_that_are_refused(change, said):
    with pytest.raises(DataeffError) as error:
        memory(transform=change)
    assert said in str(error.value)
