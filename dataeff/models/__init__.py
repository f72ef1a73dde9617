"""timm, torchvision, small-image networks and users' own behind one protocol: timm's.

Every model has `forward_features` (the last feature map, or the tokens), `forward_head` (pools and
classifies it), `forward`, which is one after the other, and `pool_kind`, what the head reads:
"avg", nothing but the mean over the cells of a (B, C, h, w) map or over the patch tokens; "token",
the class token; "other", anything else. Of a network without them, these halves are found by
tracing it; one that has none trains all the same, and says why when it is asked for them.
"""

from dataeff.models.build import build_model, model_names

__all__ = ["build_model", "model_names"]
