"""Split propagation: one pass through the trunk, one through the head for each sample of a row.

Section 3.1 of the paper. Convolutions keep the two parts of a composite apart, but for their border
up to the last feature map; pooling would mix them. So the map is repeated per sample and scaled
by mask / mean(mask): the network's own average then runs over that sample's cells alone, and
autograd joins the errors of both where the map begins.
"""

from dataeff_plugins.mixtrain.patches import region_scale
from dataeff_plugins.mixtrain.transformers import TokenSplit
from torch import nn

from dataeff import DataeffError

# Modules that look beyond their neighbourhood on the way, by class name in timm and torchvision.
FAR_SIGHTED = (
    "SEModule",
    "SqueezeExcit",
    "EcaModule",
    "GatherExcite",
    "GlobalContext",
    "GlobalResponse",
    "FocalModulation",
    "Cbam",
    "Attn",
    "Attention",
)


class MapSplit:
    """Reads each sample off its own cells of a (C, h, w) feature map."""

    def __init__(self, run):
        self.run = run
        self.note = _leak(run.model)

    def grid(self, shape):
        """Return (h, w) of the last feature map for images of this shape."""
        return self.run.feature_shape(shape)[-2:]

    def between(self, row, region):
        """Return what stands between trunk and head: one map per sample."""
        return _Masked(row, region)


class _Masked:
    """One map per sample, in which its own region counts and nothing else."""

    def __init__(self, row, region):
        self.row = row
        self.scale = region_scale(region)

    def __call__(self, features):
        # In float32, under autocast too: rounded to bfloat16, 49 / 24 is off by a quarter percent.
        return features[self.row] * self.scale[:, None]


def _leak(model):
    for module in model.modules():
        name = type(module).__name__
        # These take their statistics over the whole image.
        norm = isinstance(module, nn.GroupNorm | nn.modules.instancenorm._InstanceNorm)
        if norm or any(part in name for part in FAR_SIGHTED):
            return f"{name} sees both samples of a row before the split"
    return ""


def check_grid(grid, model):
    """Refuse a map that cannot be shared by two samples."""
    if grid[0] * grid[1] < 2:
        raise DataeffError(
            f"The last feature map of {model} has one cell for these images, which two samples "
            "cannot share: write stem=small, take larger images, or mixtrain_mixup."
        )


class PooledTogether:
    """Leaves the network as it is: both samples of a row are read off the same features."""

    note = ""
    coarse = (8, 8)
    """The cells that patches follow where the network has none of its own."""

    def __init__(self, split):
        self.split = split

    def grid(self, shape):
        """Return the cells that patches would follow if the features were split."""
        return self.split.grid(shape) if self.split else self.coarse


def splitter(run, wanted, vit_split):
    """Return how this network's features are read for the samples of a row."""
    try:
        split = _splitter(run, vit_split)
    except DataeffError:
        if wanted:
            raise
        split = None
    return split if wanted else PooledTogether(split)


def _splitter(run, vit_split):
    features = run.feature_shape()
    if len(features) == 2:
        return TokenSplit(run, vit_split)
    if run.model.pool_kind != "avg" or len(features) != 3:
        raise DataeffError(
            f"{run.task.model} does not average its last feature map, so there is nothing to "
            "split: take mixtrain_mixup, or mixtrain_cutmix[interference=off]."
        )
    split = MapSplit(run)
    check_grid(split.grid(run.shape), run.task.model)
    return split
