"""Pinned memory: load batches into page-locked memory and copy them while others compute.

Nokhwal et al. 2023, Accelerating Neural Network Training: A Brief Review,
https://arxiv.org/abs/2312.10024
"""

from dataclasses import dataclass

from dataeff import hookimpl


@hookimpl
def register_strategies(register):
    register("pin_memory", PinMemory)


@dataclass(eq=False)
class PinMemory:
    """Pin the batches that are streamed from files, and do not wait for their copies.

    Where nothing is copied from host to device, it does nothing, and the row says so.
    """

    @hookimpl
    def setup(self, run):
        self.no_effect = ""
        if run.device.type == "cpu":
            self.no_effect = "batches stay in the memory of the CPU"
        elif not hasattr(run.train, "pinned"):
            self.no_effect = "the whole dataset is on the device from the start"
        else:
            run.train = run.train.pinned()
