"""PruneTrain: push whole channels to zero while training, and cut them out as they die.

Lym et al. 2019, https://arxiv.org/abs/1901.09290
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from dataeff_plugins._residual import make_skippable
from dataeff_plugins._surgery import channel_layout, narrow
from pydantic import Field, PositiveFloat, PositiveInt

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("prunetrain", PruneTrain)


@dataclass(eq=False)
class PruneTrain(Strategy):
    """Add a group lasso over channels to the loss; every `every` epochs cut out those that died.

    Its strength is set by the first batch, so that `ratio` of the loss is the lasso's, and stays. A
    channel of a layer is dead if all its weights are below `threshold`; it is cut where it is dead
    in every layer that writes or reads it, and all layers of a residual sum share theirs. A branch
    with a convolution that is dead altogether is taken out; the constant that it was stays (but for
    the borders of the map, where a 3x3 convolution came after the dead one).
    Weights, statistics and momentum are cut alike, and the lasso is on the clock. The paper's
    batches, which grow as memory gets free, are left out.
    """

    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.2
    every: PositiveInt = 10
    threshold: PositiveFloat = 1e-4
    reserves = ("blocks",)
    saves = "flops"

    @hookimpl
    def setup(self, run):
        self._layout = channel_layout(run, "prunetrain")
        self._blocks = {block.name: block for block in self._layout.blocks}
        for block in self._blocks.values():
            make_skippable(block.module)
        self.kept = self._layout.all(run.device)
        self.gone = []
        self.strength = None
        self._all = sum(space.size for space in self._layout.spaces)
        self._find_weights(run)

    @hookimpl
    def on_resume(self, run):
        for name in self.gone:
            # Its value comes with the weights.
            block = self._blocks[name]
            take_out(run, block, torch.zeros_like(block.norm.running_mean))
        narrow(run, self._layout, self.kept)
        self._find_weights(run)

    @hookimpl(wrapper=True)
    def reduce_loss(self):
        numerator, denominator = yield
        lasso = group_lasso([layer.weight for layer in self._layers])
        if self.strength is None:
            share = self.ratio / (1 - self.ratio)
            self.strength = share * (numerator / denominator / lasso).detach()
        return numerator + denominator * self.strength * lasso, denominator

    # Before others look at the network.
    @hookimpl(tryfirst=True)
    def on_epoch_start(self, run, epoch):
        if epoch == 0 or epoch % self.every:
            return
        for name in [name for name in self._blocks if name not in self.gone]:
            constant = constant_of(self._blocks[name], self.threshold)
            if constant is not None:
                take_out(run, self._blocks[name], constant)
                self.gone.append(name)
        live = live_channels(self._layout, run.model, self.threshold)
        if any(len(live[space.name]) < space.size for space in self._layout.spaces):
            narrow(run, self._layout, live)
            self.kept = {name: self.kept[name][live[name]] for name in live}
        self._find_weights(run)

    def _find_weights(self, run):
        modules = dict(run.model.named_modules())
        convs = [name for space in self._layout.spaces for name in space.makers]
        self._layers = [modules[name] for name in (*convs, self._layout.head) if name in modules]

    @hookimpl
    def report(self, run):
        blocks = [self._blocks[name] for name in self.gone]
        gone = [space.name for block in blocks for space in self._layout.inner(block)]
        left = sum(len(kept) for name, kept in self.kept.items() if name not in gone)
        return {
            "channels_left": left / self._all,
            "parameters": sum(p.numel() for p in run.model.parameters()),
        }


def group_lasso(weights):
    """Return the sum of the norms of all channels, those that a layer writes and those it reads.

    What the first layer reads are pixels, and what the last one writes are classes.
    """
    squares = [weight.square().reshape(*weight.shape[:2], -1).sum(2) for weight in weights]
    written = [square.sum(1) for square in squares[:-1]]
    read = [square.sum(0) for square in squares[1:]]
    return (torch.cat(written + read) + 1e-8).sqrt().sum()


def is_dead(conv, threshold):
    """Say whether a convolution has no weight that counts."""
    return bool(conv.weight.abs().max() < threshold)


@torch.no_grad()
def constant_of(block, threshold):
    """Return what the branch of a block is in tests, if one of its convolutions is dead; or None.

    That is a number per channel, which the last dead one makes zero and the layers after it change:
    exactly so where these are 1x1, and but for the borders where they are 3x3.
    """
    value = None
    for conv, norm in block.layers:
        if is_dead(conv, threshold):
            value = torch.zeros_like(norm.running_mean)
        elif value is not None:
            value = conv.weight.sum((2, 3)) @ value.relu()
        if value is not None:
            scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
            value = norm.bias + (value - norm.running_mean) * scale
    return value


def take_out(run, block, constant):
    """Leave the branch of a block out for good, and its weights out of the optimizer."""
    run.model_changed()
    block.module.constant = constant
    block.module.skip = True
    branch = [name.rpartition(".")[2] for kind in ("conv", "bn") for name in block.names(kind)]
    lost = {p for name in branch for p in getattr(block.module, name).parameters()}
    for group in run.optimizer.param_groups:
        group["params"] = [p for p in group["params"] if p not in lost]
    for parameter in lost:
        run.optimizer.state.pop(parameter, None)
    for name in branch:
        setattr(block.module, name, None)
    run.model = run.model


def live_channels(layout, model, threshold):
    """Return the channels of each space that some layer still writes or reads; one at the least.

    A shortcut that copies channels into another space reads those that live there.
    """
    modules = dict(model.named_modules())
    live = {}
    for space in reversed(layout.spaces):
        largest = torch.stack(
            [
                modules[name].weight.abs().movedim(side, 0).flatten(1).amax(1)
                for side, names in ((0, space.makers), (1, space.readers))
                for name in names
                if name in modules
            ]
            # Within a branch that was taken out.
            or [torch.ones(space.size)]
        ).amax(0)
        counts = largest >= threshold
        for name, source, target in layout.routes:
            if source is space:
                copied = modules[name].sources(space.size).to(counts.device)[live[target.name]]
                counts[copied[copied < space.size]] = True
        if not counts.any():
            counts[largest.argmax()] = True
        live[space.name] = counts.nonzero()[:, 0]
    return live
