"""Let torchvision import beside a torch build that its compiled operators do not fit.

A torchvision wheel built for CUDA cannot load its extension beside a CPU torch, and then fails on
import because it registers shape functions for operators nobody defined. Defining the two schemas
first is enough: detection operators stay unusable, everything this project needs works. Import
this module before anything that imports torchvision or timm.
"""

import importlib.util
from pathlib import Path

import torch


def _extension_loads() -> bool:
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    package = Path(spec.origin).parent
    try:
        for library in [*package.glob("_C*.so"), *package.glob("_C*.pyd")]:
            torch.ops.load_library(library)
    except OSError:
        return False
    return True


# The definitions live as long as this object.
_schemas = None
if not _extension_loads():
    _schemas = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _schemas.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
