"""Pinned memory: put batches into page-locked memory and do not wait for their copies.

Nokhwal et al. 2023, Accelerating Neural Network Training: A Brief Review,
https://arxiv.org/abs/2312.10024
"""

from dataclasses import dataclass

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("pin_memory", PinMemory)


@dataclass(eq=False)
class PinMemory(Strategy):
    """Pin the batches that come from files or from host memory, and do not wait for their copies.

    Where nothing is copied from host to device, it does nothing, and the row says so: on a CPU, and
    for a dataset that is on a GPU from the start, which `memory=host` changes.
    """

    @hookimpl
    def setup(self, run):
        if run.device.type == "cpu":
            self.no_effect = "batches stay in the memory of the CPU"
        elif not run.pin():
            self.no_effect = "the whole dataset is on the device from the start (write memory=host)"
