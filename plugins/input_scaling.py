"""Input scaling: train on smaller images, test on full ones.

Krithivasan et al. 2024, MixTrain, https://doi.org/10.3389/frai.2024.1387936 (a baseline of equal
runtime)
"""

from dataclasses import dataclass

from dataeff_plugins._resizing import readable_size, resized
from pydantic import PositiveInt

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("input_scaling", InputScaling)


@dataclass(eq=False)
class InputScaling(Strategy):
    """Train at `scale` of the height and width, each rounded to a multiple of `multiple`.

    Bilinear, without smoothing. An image is not made so small that the network's last feature map
    has a single cell.
    """

    scale: Share = 0.75
    multiple: PositiveInt = 2
    reserves = ("resolution",)
    saves = "flops"

    @hookimpl
    def setup(self, run):
        self._size = readable_size(run, self.scale, self.multiple)

    @hookimpl
    def resize_batch(self, batch):
        batch.x = resized(batch.x, self._size)
