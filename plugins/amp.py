"""Automatic mixed precision: run the network in half precision where that is safe.

Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch.utils.benchmark import Timer

from dataeff import Strategy, hookimpl, is_accelerated


@hookimpl
def register_strategies(register):
    register("amp", AMP)


@dataclass(eq=False)
class AMP(Strategy):
    """Autocast the network; float16 also scales the loss, so that small gradients survive.

    `auto` is float16 on CUDA devices without bfloat16, bfloat16 elsewhere. Gradients are unscaled
    before they are clipped; a step whose gradients are not finite is skipped and counted. A device
    without instructions for the type is slower with it than without: the row says so, and by how
    much a probe was.
    """

    dtype: Literal["auto", "bfloat16", "float16"] = "auto"
    precision = True

    @hookimpl
    def setup(self, run):
        self.device = run.device.type
        scales = self._torch_dtype() is torch.float16
        self.scaler = torch.amp.GradScaler(self.device, enabled=scales)
        self.skipped = torch.zeros((), device=run.device)

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
        if not self.scaler.is_enabled():
            return
        scale = self.scaler._get_scale_async().clone()
        self.scaler.update()
        # Only a skipped step lowers the scale; counted on the device, where it is known.
        self.skipped += self.scaler._get_scale_async() < scale

    @hookimpl
    def report(self):
        dtype = self._torch_dtype()
        name, fast = str(dtype).removeprefix("torch."), is_accelerated(self.device, dtype)
        slow = f"no {name} instructions here, so it is emulated (see amp_probed_speedup)"
        return {
            "amp_dtype": name,
            "amp_accelerated": fast,
            "amp_probed_speedup": probed_speedup(self.device, dtype),
            "amp_skipped_steps": int(self.skipped),
            "amp_note": "" if fast else slow,
        }


def probed_speedup(device, dtype):
    """Time a small convolution in this type and in float32, off the clock; return the ratio."""
    seconds = []
    for kind in (torch.float32, dtype):
        x = torch.ones(16, 16, 32, 32, device=device, dtype=kind)
        names = {"conv2d": F.conv2d, "x": x, "w": x[:, :, :3, :3]}
        convolve = Timer("conv2d(x, w)", globals=names, num_threads=torch.get_num_threads())
        seconds.append(convolve.blocked_autorange(min_run_time=0.1).median)
    return seconds[0] / seconds[1]
