"""Own data in memory: arrays, tensors, lists and pairs become a data set, or are refused."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from dataeff.data import HostSplit, MemorySplit, dataset_of
from dataeff.data.pixels import pixels
from dataeff.data.targets import targets
from dataeff.errors import DataeffError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (40, 9, 8, 3), dtype=np.uint8)
LABELS = np.arange(40) % 4
TEST = IMAGES[:8].copy(), LABELS[:8]


def of(images, labels=LABELS, test=None, **options):
    return dataset_of("mine", (images, labels), test or (images[:8], labels[:8]), options)


def refusal(*given, **options):
    """Return the one sentence that is said."""
    with pytest.raises(DataeffError) as error:
        dataset_of("mine", *given, options=options)
    said = str(error.value)
    assert "\n" not in said
    assert said.startswith("dataset mine: ")
    return said.removeprefix("dataset mine: ")


# What is read -------------------------------------------------------------------------------------


def nchw(images):
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


SAME = {
    "uint8": IMAGES,
    "channels first": nchw(IMAGES),
    "tensor": torch.from_numpy(IMAGES),
    "tensor, channels first": torch.from_numpy(nchw(IMAGES)),
    "0..1": nchw(IMAGES).astype(np.float32) / 255,
    "0..1, float16": IMAGES.astype(np.float16) / 255,
    "0..255": IMAGES.astype(np.float64),
    "bfloat16": torch.from_numpy(IMAGES).bfloat16(),
    "int64": IMAGES.astype(np.int64),
    "uint16 of 8 bits": IMAGES.astype(np.uint16),
    "uint16": IMAGES.astype(np.uint16) * 257,
    "list": list(IMAGES),
    "objects": np.array([*map(Image.fromarray, IMAGES), None], dtype=object)[:-1],
    "pictures": [Image.fromarray(image) for image in IMAGES],
    "grad": torch.from_numpy(nchw(IMAGES)).div(255).requires_grad_(),
}


@pytest.mark.parametrize("kind", SAME)
def test_one_set_in_every_form_has_the_same_pixels(kind):
    data = of(SAME[kind])
    assert isinstance(data.train, MemorySplit)
    assert torch.equal(data.train.data, torch.from_numpy(IMAGES))
    assert torch.equal(data.test.data, torch.from_numpy(IMAGES[:8]))
    assert (data.classes, data.shape) == (4, (3, 9, 8))
    assert data.fingerprint == of(IMAGES).fingerprint


def test_what_is_trained_on_does_not_follow_its_owner():
    images = IMAGES.copy()
    data = of(images)
    images[:] = 0
    assert torch.equal(data.train.data, torch.from_numpy(IMAGES))


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_numbers_of_channels(channels):
    images = np.repeat(IMAGES[..., :1], channels, axis=3)
    assert of(images).shape == of(nchw(images)).shape == (channels, 9, 8)


def test_grey_images_need_no_channel():
    data = of(IMAGES[..., 0])
    assert data.shape == (1, 9, 8)
    assert torch.equal(data.train.data[..., 0], torch.from_numpy(IMAGES[..., 0]))


def test_truth_values_are_black_and_white():
    assert of(IMAGES > 99).train.data.unique().tolist() == [0, 255]


def test_scale_is_read_off_both_parts_together():
    train, test = pixels("mine", (IMAGES[:4] / 255 / 2, IMAGES[4:8] / 255), None, None)
    assert torch.equal(test, torch.from_numpy(IMAGES[4:8]))
    assert (train.int() - torch.from_numpy(IMAGES[:4] / 2).round().int()).abs().max() <= 1


def test_layout_is_said_where_it_cannot_be_told():
    many = RNG.integers(0, 256, (8, 7, 6, 5), dtype=np.uint8)
    labels = LABELS[:8]
    assert of(many, labels, layout="NCHW").shape == (7, 6, 5)
    assert of(many, labels, layout="NHWC").shape == (5, 7, 6)
    thin = many[..., :3]
    assert of(thin[:, :3], labels, layout="NHWC").shape == (3, 3, 6)


def test_images_of_several_sizes_are_brought_to_one():
    images = [image[: 5 + at % 3] for at, image in enumerate(IMAGES)]
    assert of(images, size=8).shape == (3, 8, 8)
    pictures = [Image.fromarray(image) for image in images]
    assert torch.equal(of(pictures, size=8).train.data, of(images, size=8).train.data)


def test_test_images_of_another_size_are_brought_to_that_of_the_training_images():
    data = of(IMAGES, test=(IMAGES[:8, :5], LABELS[:8]), size=8)
    assert data.test.data.shape == (8, 8, 8, 3)


def test_options_are_those_of_bundled_sets():
    data = of(IMAGES, crop=2, flip=True, subset=8, label_noise=0.5, memory="host")
    assert isinstance(data.train, HostSplit)
    assert (data.train.crop, data.train.flip, len(data.train)) == (2, True, 8)
    assert len(data.test) == 8


@pytest.mark.parametrize(
    "given",
    [
        ((IMAGES, LABELS), TEST),
        [(IMAGES, LABELS), TEST],
        (IMAGES, LABELS, *TEST),
        (IMAGES, LABELS, *TEST, 4),
        {"train": (IMAGES, LABELS), "test": TEST},
        {"train": (IMAGES, LABELS), "validation": TEST},
        (TensorDataset(torch.tensor(IMAGES), torch.tensor(LABELS)), TEST),
    ],
)
def test_forms_of_both_parts(given):
    assert dataset_of("mine", given).fingerprint == of(IMAGES).fingerprint


def test_a_dict_may_have_options_which_those_typed_outdo():
    given = {"train": (IMAGES, LABELS), "test": TEST, "crop": 1, "flip": True}
    data = dataset_of("mine", given, None, {"crop": 3})
    assert (data.train.crop, data.train.flip) == (3, True)


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", "a", "b", "c"], ("a", "b", "c")),
        (np.array([5, -7, 5, 100]), ("-7", "5", "100")),
        (torch.tensor([[5], [-7], [5], [100]], dtype=torch.int32), ("-7", "5", "100")),
        (np.array([6, 2, 6, 9], dtype=np.uint8), ("2", "6", "9")),
        (np.array(["b", "a", "b", "c"], dtype=object), ("a", "b", "c")),
        ([torch.tensor(1), torch.tensor(0), torch.tensor(1), torch.tensor(2)], ("0", "1", "2")),
        (np.eye(3)[[1, 0, 1, 2]], ("0", "1", "2")),
    ],
)
def test_classes_are_numbered_in_sorted_order(labels, names):
    found = targets("mine", labels, labels[:2])
    assert found.train.tolist() == [1, 0, 1, 2]
    assert found.test.tolist() == [1, 0]
    assert found.names == names
    assert found.train.dtype == torch.int64


def test_numbers_are_not_sorted_as_texts():
    assert targets("mine", [10, 9, 9], [9]).names == ("9", "10")


def test_names_of_classes_are_kept():
    data = of(IMAGES, np.array(list("dcba") * 10))
    assert data.class_names == ("a", "b", "c", "d")
    assert data.train.labels[:4].tolist() == [3, 2, 1, 0]


def test_classes_that_are_named_may_be_without_images():
    data = of(IMAGES, classes=("red", "green", "blue", "black", "white"))
    assert (data.classes, data.class_names[4]) == (5, "white")
    assert of(IMAGES, classes="red green blue black").class_names[1] == "green"
    assert targets("m", ["b", "a"], ["a"], ["b", "a"]).train.tolist() == [0, 1]


# Fingerprint --------------------------------------------------------------------------------------


def test_the_fingerprint_is_that_of_the_content():
    other, labels = IMAGES.copy(), LABELS.copy()
    other[-1, 0, 0, 0] ^= 1
    labels[-1] ^= 1
    variants = [
        of(IMAGES),
        of(other, test=TEST),
        of(IMAGES, labels, test=TEST),
        of(IMAGES, test=(other[-8:], LABELS[:8])),
        of(IMAGES, test=(TEST[0], LABELS[:8][::-1].copy())),
        of(IMAGES, size=8),
        of(IMAGES, transform=torch.fliplr),
    ]
    assert len({data.fingerprint for data in variants}) == len(variants)
    assert of(IMAGES.copy(), memory="host").fingerprint == of(IMAGES).fingerprint


# What is refused ----------------------------------------------------------------------------------

PAIR = IMAGES, LABELS


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (IMAGES[..., :3][:, :3], "are the channels at both ends; write layout=NCHW or layout=NHWC"),
        (np.zeros((40, 9, 8, 7), np.uint8), "have no end of 1 to 4 channels; write layout=NCHW"),
        (np.zeros((40, 64), np.uint8), "not of shape (40, 64); other data than images"),
        (IMAGES / 255 - 0.5, "pixels run from -0.5 to 0.5; scale them to 0..255 as uint8"),
        (IMAGES.astype(np.uint16) * 16, "pixels run up to 4080, which is neither 1, 255 nor 65535"),
        (IMAGES * 1e4, "which is neither 1, 255 nor 65535"),
        (np.where(IMAGES == 7, np.nan, 1.0), "clean them, as by numpy.nan_to_num"),
        (IMAGES.astype(complex), "are no numbers; give uint8, uint16 or float32"),
        ([image[: 5 + at % 3] for at, image in enumerate(IMAGES)], "write a size, such as size=32"),
        ([IMAGES[0], *(IMAGES[1:] / 255)], "fractions and whole numbers; make all of them one"),
        ([IMAGES[0, ..., :1], *IMAGES[1:]], "have 1 and 3 channels; make that the same number"),
        (["a.png"] * 40, "of files, make a torch Dataset or folders"),
        ([Image.new("F", (8, 8))] * 40, "32 bits per channel, of which nobody knows the range"),
        (IMAGES[:39], "39 training images have 40 labels"),
    ],
)
def test_images_that_are_refused(images, said):
    test = [Image.new("F", (8, 8))] * 8 if isinstance(images[0], Image.Image) else images[:8]
    assert said in refusal((images, LABELS), (test, LABELS[:8]))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (LABELS + 0.5, "labels are fractions (0.5 is the first), and regression is not supported"),
        (LABELS.astype(float), "one whole number or text for each, as by labels.astype(int)"),
        (np.ones((40, 3), int), "labels have the shape (40, 3); one class per image is supported"),
        ([[1], [1, 2]] * 20, "images have several labels each; one class per image is supported"),
        (np.arange(40), "no two training images have the same label, so these are no classes"),
        (np.zeros(40, int), "all training labels are 0, and there is nothing to tell apart"),
        ([None, 1] * 20, "labels are of type object ('None' is the first)"),
    ],
)
def test_labels_that_are_refused(labels, said):
    assert said in refusal((IMAGES, labels), (IMAGES[:8], labels[:8]))


def test_labels_that_do_not_fit_together():
    texts = np.array(list("abcd") * 10)
    assert "texts and those of the other are numbers" in refusal((IMAGES, texts), TEST)
    assert "the test label 9 is none of" in refusal(PAIR, (IMAGES[:8], LABELS[:8] + 9))
    assert "-1 is often an image without" in refusal((IMAGES, LABELS - 1), TEST, classes=list("ab"))
    assert "each once, not a, a" in refusal(PAIR, TEST, classes=["a", "a"])
    assert "the label 'd' is none of its" in refusal(
        (IMAGES, texts), (IMAGES, texts), classes="a b c"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (PAIR, "tuple is not a training and a test part; give ((x_train, y_train)"),
        (IMAGES, "ndarray is not a training and a test part"),
        ((IMAGES, TEST), "ndarray has no labels; give ((x_train, y_train)"),
        ((PAIR, [1, 2, 3]), "one part is a pair of arrays and the other a Dataset"),
        ((iter([]), iter([])), "has no items by number"),
        (None, "NoneType is not a training and a test part"),
        ({"train": PAIR}, "has the keys train and test, and may have options; this one has: train"),
        ({"train": PAIR, "test": TEST, "crops": 2}, "no 'crops'. Did you mean crop?"),
    ],
)
def test_parts_that_are_refused(given, said):
    assert said in refusal(given)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cropp": 1}, "has no parameter 'cropp'. Did you mean crop"),
        ({"size": 2}, "size=2 is not valid"),
        ({"transform": "flip"}, "write the place of a function, my_module:augment"),
        ({"transform": 3}, "int cannot be called; give a function of images (N, C, H, W)"),
    ],
)
def test_options_that_are_refused(options, said):
    with pytest.raises(DataeffError) as error:
        of(IMAGES, **options)
    assert said in str(error.value)
