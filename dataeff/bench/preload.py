"""What the fork server imports once, so that starting a cell's process is cheap."""

import dataeff._torchvision_ops
import dataeff.bench.runner  # noqa: F401
