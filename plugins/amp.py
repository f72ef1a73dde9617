"""Automatic mixed precision: run the network in half precision where that is safe.

Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740
"""

from dataclasses import dataclass
from typing import Literal

import torch

from dataeff import hookimpl


@hookimpl
def register_strategies(register):
    register("amp", AMP)


@dataclass(eq=False)
class AMP:
    """Autocast the network; float16 also scales the loss, so that small gradients survive.

    `auto` is float16 on CUDA devices without bfloat16, bfloat16 elsewhere. A processor without
    bfloat16 instructions is slower with it than without; the column amp_accelerated says so.
    """

    dtype: Literal["auto", "bfloat16", "float16"] = "auto"
    precision = True

    @hookimpl
    def setup(self, run):
        self.device = run.device.type
        scales = self._torch_dtype() is torch.float16
        self.scaler = torch.amp.GradScaler(self.device, enabled=scales)

    def _torch_dtype(self):
        if self.dtype != "auto":
            return getattr(torch, self.dtype)
        old_cuda = self.device == "cuda" and not torch.cuda.is_bf16_supported(False)
        return torch.float16 if old_cuda else torch.bfloat16

    @hookimpl(wrapper=True)
    def network(self):
        with torch.autocast(self.device, dtype=self._torch_dtype()):
            return (yield)

    # First of all wrappers, so outermost: a penalty that another one adds is scaled as well.
    @hookimpl(wrapper=True, tryfirst=True)
    def reduce_loss(self):
        numerator, denominator = yield
        return self.scaler.scale(numerator), denominator

    @hookimpl(wrapper=True, tryfirst=True)
    def finish_gradients(self, run):
        self.scaler.unscale_(run.optimizer)
        return (yield)

    @hookimpl
    def optimizer_step(self, run):
        self.scaler.step(run.optimizer)
        self.scaler.update()

    @hookimpl
    def report(self):
        dtype = self._torch_dtype()
        return {
            "amp_dtype": str(dtype).removeprefix("torch."),
            "amp_accelerated": is_accelerated(self.device, dtype),
        }


def is_accelerated(device, dtype):
    """Say whether this device has instructions for the type: on a CPU, AVX512-BF16 or AMX."""
    if device != "cpu":
        return True
    if dtype is torch.float16:
        return torch.cpu._is_amx_fp16_supported()
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
