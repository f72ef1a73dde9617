"""Half the bits: run the network in bfloat16."""

import torch

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("half_the_bits", HalfTheBits)


class HalfTheBits(Strategy):
    """Autocast each call of the network, those that score samples included."""

    precision = True

    @hookimpl
    def setup(self, run):
        self._kind = run.device.type

    @hookimpl(wrapper=True)
    def network(self):
        with torch.autocast(self._kind, dtype=torch.bfloat16):
            return (yield)
