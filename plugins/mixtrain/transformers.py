"""Split propagation for Vision Transformers, on the grid of their patch tokens.

Our interpretation: what the journal version says of transformers was not open to us. An
average-pooled network is read out as a convolutional one is, over each sample's own tokens. A
network that reads a class token gets a second copy of all its prefix tokens, so that every sample
of a row has its own: same parameters, same position, but eyes for one sample only. Attention
between patches is left free (`vit_split=tail`, nearest to the paper: only the read-out is split)
or kept within a sample (`block`: as if two cropped images shared a row, without interference).
"""

import math

import torch
import torch.nn.functional as F
from dataeff_plugins.mixtrain.patches import region_scale
from torch import nn

from dataeff import DataeffError


class TokenSplit:
    """Reads each sample of a row off its own tokens of timm's VisionTransformer."""

    def __init__(self, run, vit_split):
        _refuse(run)
        self.run = run
        if math.prod(self.grid(run.shape)) < 2:
            raise DataeffError(
                f"{run.task.model} has one patch token for these images, which two samples cannot "
                "share: write a smaller patch_size, take larger images, or mixtrain_mixup."
            )
        self.block = vit_split == "block"
        self.note = "" if self.block else "attention sees both samples of a row before the split"

    def grid(self, shape):
        """Return (h, w) of the patch tokens for images of this shape."""
        return tuple(self.run.model.patch_embed.dynamic_feat_size(shape[1:]))

    def between(self, row, region):
        """Return what stands between trunk and head; it also makes the tokens where it must."""
        model = self.run.model
        if model.pool_kind == "token":
            return _OwnPrefix(row, region, model.num_prefix_tokens, self.block)
        if self.block:
            return _OwnTokens(row, region, model.num_prefix_tokens, self.block)
        return _Average(row, region, model.num_prefix_tokens)


class _Average:
    """One line of tokens per sample, whose mean over the patches is the mean over its own.

    timm's head takes that mean before anything else, `fc_norm` included; `norm`, where a network
    has that one instead, acts on each token and belongs to the features.
    """

    def __init__(self, row, region, prefix):
        self.row = row
        self.scale = F.pad(region_scale(region).flatten(1), (prefix, 0), value=1.0)

    def __call__(self, tokens):
        return tokens[self.row] * self.scale[:, :, None]


class _OwnPrefix:
    """A copy of the prefix tokens for each place in a row, and attention that knows whose is whose.

    Reads the prefix of each sample: a head that reads tokens by their number needs no more.
    """

    def __init__(self, row, region, prefix, block):
        self.row, self.region, self.prefix, self.block = row, region, prefix, block
        # Rows hold one or two samples and samples are sorted by row: the second follows the first.
        self.place = F.pad((row[1:] == row[:-1]).long(), (1, 0))

    def features(self, model, x):
        """Return the tokens of each row: prefix of the first, prefix of the second, patches."""
        tokens = model._pos_embed(model.patch_embed(x))
        tokens = model.norm_pre(torch.cat([tokens[:, : self.prefix], tokens], dim=1))
        owned = torch.zeros(len(x), 2, *self.region.shape[1:], dtype=torch.bool, device=x.device)
        owned = owned.index_put((self.row, self.place), self.region > 0).flatten(2)
        mask = attention_mask(owned, self.prefix, self.block)
        for block in model.blocks:
            tokens = block(tokens, attn_mask=mask)
        return model.norm(tokens)

    def __call__(self, tokens):
        copies = tokens[:, : 2 * self.prefix].unflatten(1, (2, self.prefix))
        return copies[self.row, self.place]


class _OwnTokens(_OwnPrefix):
    """The same for a head that averages: each sample's prefix, then patches weighted for it."""

    def __call__(self, tokens):
        patches = _Average(self.row, self.region, 0)(tokens[:, 2 * self.prefix :])
        return torch.cat([super().__call__(tokens), patches], dim=1)


def attention_mask(owned, prefix, block):
    """Return who may attend to whom, (R, 1, L, L), for tokens that lie as prefix, prefix, patches.

    `owned` (R, 2, N) says which patches belong to the first and to the second sample of each row.
    Tokens see each other if they belong to one sample and, unless `block`, if both are patches. A
    patch on a border may belong to both. The second prefix of a row with one sample sees itself,
    and no one else sees it.
    """
    copies = torch.eye(2, dtype=torch.bool, device=owned.device).repeat_interleave(prefix, dim=1)
    owned = torch.cat([copies.expand(len(owned), -1, -1), owned], dim=2)
    together = (owned[:, :, :, None] & owned[:, :, None, :]).any(dim=1, keepdim=True)
    if not block:
        together[..., 2 * prefix :, 2 * prefix :] = True
    return together


def _refuse(run):
    """Say before training why these tokens cannot be split, and what to take instead."""
    # Late: slow to import, and dataeff must have prepared torchvision before.
    from timm.models.vision_transformer import VisionTransformer

    name, model = run.task.model, run.model
    instead = "mixtrain_mixup, or mixtrain_cutmix[interference=off]"
    # A subclass may change how tokens are embedded (DeiT's second one), not how blocks are called.
    forward = getattr(type(model), "forward_features", None)
    known = forward is VisionTransformer.forward_features
    if not known or model.pool_kind not in ("avg", "token"):
        raise DataeffError(
            f"{name} reads its tokens in a way that cannot be split between two samples: take one "
            f"of timm's vit_* or deit_* with global_pool=avg or token, {instead}."
        )
    for option, set_ in {
        "patch_drop_rate": not isinstance(model.patch_drop, nn.Identity),
        "pool_include_prefix": model.pool_include_prefix and model.pool_kind == "avg",
    }.items():
        if set_:
            raise DataeffError(
                f"{name} cannot be split between two samples with {option}: leave that out, or "
                f"take {instead}."
            )
