"""Images: those of every kind are read as they look, and of the others the file is named."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import EVERYTHING
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nonsense import Trained, _no_training, adhoc, refused
from PIL import Image
from shell import call

from dataeff.data.decode import read_rgb
from dataeff.data.stream import StreamSplit
from dataeff.errors import DataeffError


@pytest.fixture
def tree():
    """Write two classes of four training and two validation images."""
    for part, count in (("train", 4), ("val", 2)):
        for label in ("ant", "bee"):
            folder = Path("photos", part, label)
            folder.mkdir(parents=True)
            for i in range(count):
                Image.new("RGB", (12, 12), (40 * i, 90, 7)).save(folder / f"{i}.png")
    return Path("photos")


def photos(*more):
    dataset = f"image_folder[path={Path('photos').resolve()},size=8]"
    return adhoc("--set", "batch_size=4", "--set", "validation=0", *more, dataset=dataset)


def empty(path):
    path.write_bytes(b"")


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def broken_link(path):
    path.unlink()
    path.symlink_to("gone")


@pytest.mark.usefixtures(_no_training.__name__)
@pytest.mark.parametrize("part", ["train", "val"])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (empty, "is empty, so it is no image; replace or delete it."),
        (fifo, "is no file, so it is no image; replace or delete it."),
        (broken_link, "No such file or directory"),
    ],
)
def test_what_a_listing_tells_is_refused_before_training(tree, part, spoil, said):
    path = tree / part / "bee" / "1.png"
    spoil(path)
    told = refused(*photos())
    assert said in told
    assert str(path.resolve().parent) in told


@pytest.mark.usefixtures(_no_training.__name__)
def test_trees_that_are_no_classes_are_refused_before_training(tree):
    assert "photos/train has one class" in _without(tree, "ant")
    for path in (tree / "train" / "bee").iterdir():
        path.unlink()
    (tree / "train" / "bee" / "folder.png").mkdir()
    assert "put at least one image into each." in refused(*photos())


def _without(tree, label):
    for part in ("train", "val"):
        (tree / part / label).rename(f"{part}-{label}")
    told = refused(*photos())
    for part in ("train", "val"):
        Path(f"{part}-{label}").rename(tree / part / label)
    return told


@pytest.mark.usefixtures(_no_training.__name__)
def test_one_training_image_is_refused_before_training(tree):
    told = refused(*photos("--set", "validation=0.9"))
    assert "8 samples, less the share validation=0.9, leave 1 to train" in told


@pytest.mark.usefixtures(_no_training.__name__)
def test_names_that_are_no_utf8_are_read(tree):
    os.rename(tree / "train" / "ant" / "0.png", os.fsencode(tree / "train" / "ant") + b"/\xff.png")
    for part in ("train", "val"):
        os.rename(tree / part / "bee", os.fsencode(tree / part) + b"/b\xff")
    with pytest.raises(Trained):
        call(*photos())
    os.rename(os.fsencode(tree / "val") + b"/b\xff", tree / "val" / "bee")
    assert r"only one of them has: bee, b\udcff." in refused(*photos())


def test_an_image_that_cannot_be_decoded_fails_its_cell(tree):
    path = tree / "train" / "ant" / "2.png"
    path.write_bytes(b"no image")
    result = call(*photos("--in-process", "--no-controls"))
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()[-1:]
    assert line.startswith("Failed: image_folder baseline seed 0: DataeffError: ")
    assert f"{path.resolve()} cannot be read as an image" in line


WIDE = np.array([[0, 255, 256], [4660, 32768, 65535]], np.uint16)
HIGH = (WIDE >> 8).astype(np.uint8)


def test_sixteen_bits_are_scaled_and_not_clipped():
    for name in ("a.png", "a.tif"):
        Image.fromarray(WIDE).save(name)
        assert np.array_equal(np.asarray(read_rgb(name))[..., 1], HIGH)
    Path("a.pgm").write_bytes(b"P5 3 2 65535\n" + WIDE.astype(">u2").tobytes())
    assert np.array_equal(np.asarray(read_rgb("a.pgm"))[..., 2], HIGH)


def palette():
    image = Image.new("P", (2, 2), 1)
    image.putpalette([0, 0, 0, 250, 10, 20])
    return image


ODD = {
    "CMYK.jpg": (Image.new("CMYK", (8, 8), (0, 255, 255, 0)), {}, (255, 0, 0)),
    "CMYK.tif": (Image.new("CMYK", (8, 8), (255, 0, 0, 0)), {}, (0, 255, 255)),
    "black.png": (Image.new("1", (2, 2), 0), {}, (0, 0, 0)),
    "white.png": (Image.new("1", (2, 2), 1), {}, (255, 255, 255)),
    "grey.png": (Image.new("L", (2, 2), 77), {}, (77, 77, 77)),
    "clear.png": (Image.new("LA", (2, 2), (77, 0)), {}, (77, 77, 77)),
    "colour.png": (Image.new("RGBA", (2, 2), (1, 2, 3, 0)), {}, (1, 2, 3)),
    "palette.png": (palette(), {}, (250, 10, 20)),
    "half.png": (palette(), {"transparency": bytes([0, 128])}, (250, 10, 20)),
    "one.png": (palette(), {"transparency": 1}, (250, 10, 20)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ODD)
def test_images_of_every_kind_have_the_pixels_that_they_show(name):
    image, options, colour = ODD[name]
    image.save(name, **options)
    pixels = np.asarray(read_rgb(name)).reshape(-1, 3)
    assert (pixels == colour).all()


def test_photographs_stand_upright():
    turned = Image.Exif()
    turned[0x0112] = 6
    image = Image.fromarray(np.arange(18, dtype=np.uint8).reshape(2, 3, 3))
    image.save("a.png", exif=turned)
    upright = torch.rot90(torch.from_numpy(np.array(image)), -1).numpy()
    assert np.array_equal(np.asarray(read_rgb("a.png")), upright)


def floats():
    Image.new("F", (4, 4)).save("a.tif")
    return "a.tif"


def huge(side):
    Image.new("1", (side, side)).save("a.png")
    return "a.png"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (floats, "32 bits per channel"),
        (lambda: huge(9500), "has more than 89478485 pixels; make it smaller or delete it."),
        (lambda: huge(13_400), "has more than 89478485 pixels; make it smaller or delete it."),
        (lambda: "gone.png", "cannot be read as an image"),
        (lambda: "/", "cannot be read as an image"),
    ],
)
def test_images_of_which_nothing_can_be_made_are_named(make, said):
    with pytest.raises(DataeffError) as caught:
        read_rgb(make())
    assert said in str(caught.value)


def test_lines_of_pixels_are_no_pictures(tree):
    Image.new("RGB", (5000, 2)).save("line.png")
    with pytest.raises(DataeffError, match="is 5000 x 2 pixels, more than 1000 times"):
        list(StreamSplit(["line.png"], torch.zeros(1), size=8).stream([torch.arange(1)], None))


@settings(max_examples=1000 if EVERYTHING else 25, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["png", "jpg", "gif", "tif", "bmp", "webp", "ppm"]), st.data())
@pytest.mark.filterwarnings("ignore")
def test_any_damage_to_an_image(kind, data):
    path = Path(f"a.{kind}")
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(path)
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)):
        content[place : place + 1] = data.draw(st.binary(max_size=2))
    path.write_bytes(content)
    with suppress(DataeffError):
        assert read_rgb(str(path)).mode == "RGB"
