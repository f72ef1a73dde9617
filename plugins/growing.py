"""Growing: begin with a narrow network and find out while training which structures it needs.

Yuan, Savarese and Maire 2020, https://arxiv.org/abs/2007.15353
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from dataeff_plugins._residual import make_skippable, refuse_compiling
from dataeff_plugins._surgery import channel_layout, cut, put, recut
from pydantic import Field, PositiveFloat, PositiveInt
from torch import nn

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("growing", Growing)


@dataclass(eq=False)
class Growing(Strategy):
    """Train a part of the network in each epoch, drawn by scores that are trained with it.

    A structure is a group of up to `group` channels within a branch, or a whole branch (but the
    first of each stage). It has a score s, counts by its gate sigmoid(beta s), and takes part in an
    epoch with that chance; `seed` of the groups and none of the other branches make the first one.
    What does not take part is cut out for real and waits with its weights. While those with s > 0
    would do more or less work than `target`, a share of that of all branches, gates are pushed down
    or up by `penalty` times the distance. beta grows from 1 to `hottest`, for each structure in the
    epochs that it takes part in. The last `settle` of the epochs, one at the least, are for those
    with s > 0, with gates of 1: they are what stays, and have to get used to it.

    Masks, sampling, budget and temperatures are the paper's idea. These formulas are our reading,
    for lack of its text and code: gates act on the norm after a convolution, where they are not
    normalised away; the stream between blocks keeps its width; parts are drawn per epoch, not per
    batch; scores begin at 1 and -1; one penalty holds for channels and branches; what stays is
    settled before the end; what comes back has no momentum, and of Adam's squares the others' mean.
    """

    target: Share = 0.5
    seed: Annotated[float, Field(gt=0, le=1)] = 0.25
    group: PositiveInt = 8
    penalty: PositiveFloat = 1.0
    hottest: PositiveFloat = 200.0
    settle: Annotated[float, Field(ge=0, lt=1)] = 0.2
    reserves = ("blocks",)
    saves = "flops"

    @hookimpl
    def setup(self, run):
        refuse_compiling(run, "growing")
        self._layout = layout = channel_layout(run, "growing")
        self._places, self._branches = structures(layout, self.group)
        self._seeds = seeds(self._places, self._branches, self.seed)
        scores = torch.where(self._seeds, 1.0, -1.0)
        self._gates = Gates(scores, self.hottest).to(run.device)
        self._work_of = Work(run, layout, self._places, self._branches, len(scores)).to(run.device)
        for block in layout.blocks:
            make_skippable(block.module)
            self._install_gates(block, run.device)
        run.add_parameters([self._gates.scores], weight_decay=0.0)
        self.kept, self.skipped, self.work, self.store = layout.all(run.device), [], 1.0, {}
        self.settled = False

    def _install_gates(self, block, device):
        spaces = [self._places[space.name] for space in self._layout.inner(block)]
        if block.name in self._branches:
            branch = torch.tensor(self._branches[block.name])
            spaces.append(branch.expand(block.norm.num_features).clone())
        for number, place in enumerate(spaces, 1):
            norm = getattr(block.module, f"bn{number}")
            setattr(block.module, f"bn{number}", Gated(norm, self._gates, place.to(device)))

    @hookimpl
    def on_resume(self, run):
        sides = self._layout.sides(self.kept)
        recut(run, sides, lambda key, tensor, name: cut(tensor, *sides[name]))
        self._skip()

    # Before others look at the network.
    @hookimpl(tryfirst=True)
    def on_epoch_start(self, run, epoch):
        self._gates.span = run.epochs
        if self.settled:
            return
        last = max(1, round(self.settle * run.epochs))
        self.settled = epoch >= math.floor(run.epochs - last + 1e-6)
        luck = torch.rand(len(self._seeds), generator=run.rng("growing")).to(run.device)
        drawn = self._gates.above() if self.settled else luck < self._gates().detach()
        took_part = self._take(run, drawn.cpu() if epoch else self._seeds).to(run.device)
        self._gates.epochs += took_part
        if self.settled:
            self._gates.settle(took_part)

    @hookimpl(wrapper=True)
    def reduce_loss(self):
        numerator, denominator = yield
        if self.settled:
            return numerator, denominator
        push = self.penalty * (self._work_of(self._gates.above()) - self.target)
        return numerator + denominator * push * self._gates().sum(), denominator

    def _take(self, run, chosen):
        """Let these structures make the network; return which ones really do."""
        kept, chosen, really = dict(self.kept), chosen.clone(), torch.zeros_like(chosen)
        self.skipped = [name for name, number in self._branches.items() if not chosen[number]]
        really[list(self._branches.values())] = chosen[list(self._branches.values())]
        scores = self._gates.scores.detach().cpu()
        for block in self._layout.blocks:
            for space in self._layout.inner(block):
                place = self._places[space.name]
                # A branch that runs needs channels.
                chosen[place[scores[place].argmax()]] |= not chosen[place].any()
                kept[space.name] = chosen[place].nonzero()[:, 0].to(run.device)
                if block.name not in self.skipped:
                    really[place] = chosen[place]
        self.work = float(self._work_of(really.to(run.device)))
        self._recut(run, kept)
        self.kept = kept
        self._skip()
        return really

    def _recut(self, run, kept):
        """Put what was trained back into the full tensors, and cut the next part out of them."""
        old, new = self._layout.sides(self.kept), self._layout.sides(kept)

        def change(key, tensor, name):
            weight, _, kind = key.partition("/")
            if kind:
                # Adam's count of steps goes on: with squares of zero, what comes back would leap.
                full = torch.zeros_like(self.store[weight])
                full += tensor.mean() if kind.endswith("_sq") else 0
            else:
                full = self.store.setdefault(key, tensor.clone())
            put(full, tensor, *old[name])
            return cut(full, *new[name])

        recut(run, new, change)

    def _skip(self):
        for block in self._layout.blocks:
            block.module.skip = block.name in self.skipped

    @hookimpl
    def report(self):
        return {"branch_work": self.work, "branches_skipped": len(self.skipped)}


def structures(layout, group):
    """Return the number of the structure of each channel, by space, and of each gated branch."""
    places, branches, count = {}, {}, 0
    for block in layout.blocks:
        for space in layout.inner(block):
            size = min(group, max(1, space.size // 4))
            places[space.name] = count + torch.arange(space.size) // size
            count = int(places[space.name][-1]) + 1
    names = {block.name for block in layout.blocks}
    for space in layout.spaces:
        _, *others = [name for name in space.norms if name in names] or [""]
        for name in others:
            branches[name], count = count, count + 1
    return places, branches


def seeds(places, branches, share):
    """Return a mask over the structures: the first groups of each space, no gated branch."""
    groups_of = [place.unique() for place in places.values()]
    mask = torch.zeros(sum(map(len, groups_of)) + len(branches), dtype=torch.bool)
    for groups in groups_of:
        mask[groups[: max(1, round(share * len(groups)))]] = True
    return mask


class Gates(nn.Module):
    """Scores of all structures, and how much each counts: in the end, all or nothing."""

    def __init__(self, scores, hottest, span=1.0):
        super().__init__()
        self.scores = nn.Parameter(scores)
        self.register_buffer("epochs", torch.zeros_like(scores))
        self.register_buffer("final", torch.tensor(False))
        self.register_buffer("stay", torch.zeros_like(scores))
        self.hottest, self.span = hottest, span

    def above(self):
        """Return who has a score above zero, and would stay."""
        return self.scores.detach() > 0

    def settle(self, stay):
        """Let these count in full and no others, whatever becomes of the scores."""
        self.stay.copy_(stay)
        self.final.fill_(True)

    def forward(self):
        """Return sigmoid(beta s), or in the end who stays."""
        soft = torch.sigmoid(self.hottest ** (self.epochs / self.span) * self.scores)
        return torch.where(self.final, self.stay, soft)


class Work(nn.Module):
    """What structures cost, as a share of the work in all branches.

    The work of a convolution goes with the channels it writes times those it reads. The last line
    of `shares` is for what is always whole: the stream, and branches without a gate.
    """

    def __init__(self, run, layout, places, branches, count):
        super().__init__()
        inner = {name: line for line, name in enumerate(places)}
        shares = [place.bincount(minlength=count + 1) / len(place) for place in places.values()]
        self.register_buffer("shares", torch.stack([*shares, torch.eye(count + 1)[count]]))
        names = [name for block in layout.blocks for name in block.names("conv")]
        works = torch.tensor(run.work(names))
        self.register_buffer("works", works / works.sum())
        writes = [inner.get(name, len(inner)) for name in names]
        lines = {"writes": writes, "reads": [len(inner), *writes[:-1]]}
        gates = [branches.get(block.name, count) for block in layout.blocks]
        lines["gates"] = [
            gate for gate, b in zip(gates, layout.blocks, strict=True) for _ in b.layers
        ]
        for name, line in lines.items():
            self.register_buffer(name, torch.tensor(line))

    def forward(self, taken):
        """Return the share of those taken."""
        taken = F.pad(taken.float(), (0, 1), value=1.0)
        shares = self.shares @ taken
        return (self.works * shares[self.writes] * shares[self.reads] * taken[self.gates]).sum()


class Gated(nn.BatchNorm2d):
    """A BatchNorm, taken over with its tensors, whose channels count by the gates of structures."""

    def __init__(self, norm, gates, place):
        super().__init__(norm.num_features, norm.eps, norm.momentum)
        self._parameters.update(norm._parameters)
        self._buffers.update(norm._buffers)
        self.gates = gates
        self.register_buffer("place", place)

    def forward(self, x):
        """Normalise, with the gates multiplied into the affine weights: that costs nothing."""
        gate = self.gates().index_select(0, self.place)
        statistics = self.running_mean, self.running_var
        affine = self.weight * gate, self.bias * gate
        return F.batch_norm(x, *statistics, *affine, self.training, self.momentum, self.eps)
