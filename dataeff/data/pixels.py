"""Images that others made, as uint8 (N, H, W, C): any layout and type whose meaning is plain."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dataeff.data.decode import is_grey, without_extras
from dataeff.data.images import resize
from dataeff.errors import DataeffError, one_line

Layout = Literal["NCHW", "NHWC"]
"""Where the channels of an array stand."""

Array = NDArray[Any]

CHANNELS = (1, 2, 3, 4)
"""How many channels tell by themselves that they are channels."""

# Images of an array that are changed at a time: what is in between is several times as large.
_AT_ONCE = 1024


def pixels(
    name: str, parts: Sequence[Any], layout: Layout | None, size: int | None
) -> list[Tensor]:
    """Return the images of each part (training, test) as uint8 (N, H, W, C).

    What the numbers mean is read off all parts together, so that both are scaled alike. Where the
    images of a part differ in size, they are brought to `size`.
    """
    lists = [_arrays(name, part, layout) for part in parts]
    kinds = {_kind(array) for part in lists for array in part}
    if len(kinds) > 1:
        told = " and ".join(sorted(kinds))
        raise DataeffError(f"dataset {name}: its images are {told}; make all of them one type.")
    ends = [_ends(name, array) for part in lists for array in part if array.size]
    if not ends:
        raise DataeffError(f"dataset {name}: there are no images; give at least one of each class.")
    factor = _factor(name, kinds.pop(), min(low for low, _ in ends), max(high for _, high in ends))
    return [_joined(name, [_bytes(array, factor) for array in part], size) for part in lists]


def channels_last(name: str, array: Array, layout: Layout | None) -> Array:
    """Return images (N, H, W, C) of arrays in any layout that can be told, or is said."""
    if array.ndim == 3:
        return array[..., None]
    shape = tuple(array.shape)
    if array.ndim != 4:
        raise DataeffError(
            f"dataset {name}: images are (N, H, W), (N, H, W, C) or (N, C, H, W), not of shape "
            f"{shape}; other data than images is not supported."
        )
    first, last = shape[1] in CHANNELS, shape[3] in CHANNELS
    if layout is None and first == last:
        why = "are the channels at both ends" if first else "have no end of 1 to 4 channels"
        raise DataeffError(
            f"dataset {name}: images of shape {shape} {why}; write layout=NCHW or layout=NHWC."
        )
    is_first = first if layout is None else layout == "NCHW"
    return array.transpose(0, 2, 3, 1) if is_first else array


def as_array(value: Any) -> Array:
    """Return a tensor, an array or what can be one as a numpy array."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        # numpy has no bfloat16.
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return np.asarray(value)


def picture(image: Image.Image, grey: bool) -> Array:
    """Return a PIL image as uint8 (H, W, C): one channel if `grey`, else three."""
    plain = without_extras(image)
    array = np.array(plain.convert("L" if grey else "RGB"))
    return array[..., None] if grey else array


def _arrays(name: str, images: Any, layout: Layout | None) -> list[Array]:
    """Return images as arrays (N, H, W, C): one, or one for each image of a list."""
    if isinstance(images, Tensor) or hasattr(images, "__array__"):
        array = as_array(images)
        if array.dtype != object:
            return [channels_last(name, array, layout)]
        images = list(array)
    if not isinstance(images, Sequence) or isinstance(images, str | bytes):
        raise DataeffError(
            f"dataset {name}: {type(images).__name__} is nothing that images can be read from; "
            "give arrays, tensors, a list of images, or a Dataset."
        )
    if images and all(isinstance(image, Image.Image) for image in images):
        grey = all(map(is_grey, images))
        try:
            return [picture(image, grey)[None] for image in images]
        except (OSError, ValueError) as error:
            told = one_line(str(error))
            raise DataeffError(f"dataset {name}: an image cannot be read: {told}.") from error
    single = [as_array(image) for image in images]
    if any(array.ndim not in (2, 3) or array.dtype.kind in "OUS" for array in single):
        raise DataeffError(
            f"dataset {name}: a list of images holds arrays, tensors or PIL images; of files, "
            "make a torch Dataset or folders, one per class."
        )
    return [channels_last(name, array[None], layout) for array in single]


def _kind(array: Array) -> str:
    """Return what a type has in common with others that are read alike."""
    return {"b": "truth values", "f": "fractions", "u": "whole numbers", "i": "whole numbers"}.get(
        array.dtype.kind, str(array.dtype)
    )


def _ends(name: str, array: Array) -> tuple[float, float]:
    """Return the smallest and the largest value."""
    if array.dtype.kind not in "buif":
        raise DataeffError(
            f"dataset {name}: images of type {array.dtype} are no numbers; give uint8, uint16 or "
            "float32."
        )
    low, high = float(array.min()), float(array.max())
    if not np.isfinite([low, high]).all():
        raise DataeffError(
            f"dataset {name}: some pixels are infinite or no number; clean them, as by "
            "numpy.nan_to_num."
        )
    return low, high


def _factor(name: str, kind: str, low: float, high: float) -> float:
    """Return what brings these values to 0..255; refuse those of which that is not plain."""
    if kind == "truth values":
        return 255.0
    cure = "scale them to 0..255 as uint8, or to 0..1 as floats"
    if low < 0:
        raise DataeffError(
            f"dataset {name}: pixels run from {low:.4g} to {high:.4g}; {cure} (normalising is done "
            "here)."
        )
    if kind == "fractions" and high <= 1:
        return 255.0
    if high <= 255:
        return 1.0
    # Of 16 bits the upper 8 are kept, as of files; that the range is used shows that these are.
    if kind == "whole numbers" and 2**15 <= high < 2**16:
        return 1 / 256
    raise DataeffError(
        f"dataset {name}: pixels run up to {high:.4g}, which is neither 1, 255 nor 65535; {cure}."
    )


def _bytes(array: Array, factor: float) -> Tensor:
    """Return an array as uint8."""
    if array.dtype == np.uint8 and factor == 1:
        # A copy, unless nobody else can write to it: what is trained on must not change.
        return torch.from_numpy(np.array(array, order="C"))
    made = torch.empty(array.shape, dtype=torch.uint8)
    for start in range(0, len(array), _AT_ONCE):
        part = array[start : start + _AT_ONCE]
        scaled: Array = (
            part.astype(np.int64) >> 8 if factor < 1 else (part * np.float64(factor)).round()
        )
        made[start : start + _AT_ONCE] = torch.from_numpy(scaled.astype(np.uint8))
    return made


def _joined(name: str, arrays: list[Tensor], size: int | None) -> Tensor:
    """Return the images of a list as one tensor."""
    if len(arrays) == 1:
        return arrays[0]
    shapes = {tuple(array.shape[1:]) for array in arrays}
    if len({shape[2] for shape in shapes}) > 1:
        told = " and ".join(str(count) for count in sorted({shape[2] for shape in shapes}))
        raise DataeffError(
            f"dataset {name}: its images have {told} channels; make that the same number."
        )
    if len(shapes) > 1:
        if size is None:
            raise several_sizes(name, shapes)
        arrays = [resize(array, size) for array in arrays]
    return torch.cat(arrays) if arrays else torch.empty(0, 1, 1, 1, dtype=torch.uint8)


def several_sizes(name: str, shapes: set[tuple[int, ...]]) -> DataeffError:
    """Return the error of images that differ in size."""
    told = " and ".join(f"{shape[0]} x {shape[1]}" for shape in sorted(shapes)[:2])
    return DataeffError(
        f"dataset {name}: its images differ in size ({told} pixels among them); write a size, such "
        "as size=32."
    )
