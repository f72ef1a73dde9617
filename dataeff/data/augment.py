"""Augmentation as a pure function of (seed, epoch, sample index).

The random numbers are not drawn from a stream but hashed from their coordinates, so pruning,
reordering or regrouping the samples leaves every sample's crop and flip as they were. All is
integer arithmetic: the same on every device.
"""

import torch
from torch import Tensor

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def hash_integers(*parts: int) -> int:
    """Mix integers into one of 64 bits (SplitMix64)."""
    state = 0
    for part in parts:
        state = (state + _STEP + part) & _MASK
        for shift, factor in zip((30, 27), _FACTORS, strict=True):
            state = ((state ^ (state >> shift)) * factor) & _MASK
        state ^= state >> 31
    return state


def draws(seed: int, epoch: int, index: Tensor, draw: int, sides: int) -> Tensor:
    """Return one number in 0..sides-1 per sample index; `draw` tells independent dice apart."""
    state = index * _signed(_STEP) + _signed(hash_integers(seed, epoch, draw))
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        state = (state ^ _shift_right(state, shift)) * _signed(factor)
    # The highest bits are the best mixed ones, and 31 of them times `sides` still fit.
    return (_shift_right(state, 33) * sides) >> 31


def crop_flip(
    data: Tensor, index: Tensor, dy: Tensor, dx: Tensor, flip: Tensor, size: tuple[int, int]
) -> Tensor:
    """Cut a window at (dy, dx) out of each padded NHWC image, mirrored where `flip` is 1."""
    samples, rows, columns, channels = data.shape
    height, width = size
    # First whole rows, then bytes within these few: several times faster on a CPU than indexing
    # the set with samples, rows and columns at once.
    y = (index * rows + dy)[:, None] + torch.arange(height, device=data.device)
    band = data.view(samples * rows, columns * channels).index_select(0, y.view(-1))
    band = band.view(len(index), height, columns * channels)
    x = torch.arange(width, device=data.device)
    x = torch.where(flip[:, None] == 1, width - 1 - x, x) + dx[:, None]
    x = x[:, :, None] * channels + torch.arange(channels, device=data.device)
    cut = band.gather(2, x.flatten(1)[:, None].expand(-1, height, -1))
    return cut.view(len(index), height, width, channels)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _shift_right(state: Tensor, bits: int) -> Tensor:
    # int64 shifts copy the sign bit; the mask drops the copies.
    return (state >> bits) & ((1 << (64 - bits)) - 1)
