"""One image file as people see it: opened with care, in three channels of 8 bits, upright."""

import stat
import warnings
from os import stat_result

import numpy as np
from PIL import ExifTags, Image, ImageOps

from dataeff.errors import DataeffError, one_line
from dataeff.printable import printable

# Pillow gives 16 bits in a mode of 32 where it reads these.
_WIDE = ("PNG", "PPM")
# Times that an image may be longer than wide.
_LONGEST = 1000


def check_file(path: str, found: stat_result) -> None:
    """Refuse what cannot be an image by what a listing tells: all that is known without reading.

    Opening a FIFO would wait for ever. What else is wrong with a file is found when it is decoded.
    """
    if not stat.S_ISREG(found.st_mode):
        why = "is no file"
    elif found.st_size == 0:
        why = "is empty"
    else:
        return
    raise DataeffError(f"{printable(path)} {why}, so it is no image; replace or delete it.")


def check_shape(path: str, width: int, height: int) -> None:
    """Refuse what is hardly more than a line: resized to a picture, it would take gigabytes."""
    if max(width, height) > _LONGEST * min(width, height):
        raise DataeffError(
            f"{printable(path)} is {width} x {height} pixels, more than {_LONGEST} times as long "
            "as it is wide; replace or delete it."
        )


def read_rgb(path: str) -> Image.Image:
    """Decode an image file; say in one sentence why that cannot be done.

    Of 16 bits the upper 8 are kept, as Pillow does for colours; transparency is left out.
    """
    try:
        with warnings.catch_warnings():
            # Pillow only warns of what would take gigabytes, and refuses what would take more.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                return without_extras(image).convert("RGB")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        why = f"has more than {Image.MAX_IMAGE_PIXELS} pixels; make it smaller or delete it"
    # A decoder may raise anything at all for a file that is damaged.
    except Exception as error:
        told = one_line(str(error)) or type(error).__name__
        why = f"cannot be read as an image ({told}); replace or delete it"
    raise DataeffError(f"{printable(path)} {why}.")


def is_grey(image: Image.Image) -> bool:
    """Say whether an image has no colours."""
    return image.mode in ("1", "L", "LA", "La", "I") or image.mode.startswith("I;16")


def without_extras(image: Image.Image) -> Image.Image:
    """Return an image upright, of 8 bits per channel, in a mode that converts without a warning."""
    kind = image.format
    if image.getexif().get(ExifTags.Base.Orientation, 1) != 1:
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16") or (image.mode == "I" and kind in _WIDE):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError("it has 32 bits per channel, of which nobody knows the range")
    elif image.mode == "P" and "transparency" in image.info:
        # Straight to RGB, Pillow warns that something is lost.
        image = image.convert("RGBA")
    return image
