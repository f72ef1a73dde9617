"""What the fork server imports once, so that starting a cell's process is cheap."""

# ruff: noqa: F401
# pandas asks for it when it writes its first file.
import pyarrow.parquet

# Every optimizer asks for torch._dynamo, which takes as long to import as torch itself.
import torch._dynamo

import dataeff._torchvision_ops
import dataeff.bench.runner
