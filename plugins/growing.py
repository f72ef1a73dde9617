"""Growing: begin with a narrow network and find out while training which structures it needs.

Yuan, Savarese and Maire 2020, https://arxiv.org/abs/2007.15353
"""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from dataeff_plugins.residual import branch_works, make_skippable
from dataeff_plugins.surgery import channel_layout, cut, put, recut
from pydantic import Field, PositiveFloat, PositiveInt
from torch import nn

from dataeff import Share, hookimpl


@hookimpl
def register_strategies(register):
    register("growing", Growing)


@dataclass(eq=False)
class Growing:
    """Train a part of the network in each epoch, drawn by scores that are trained with it.

    A structure is a group of up to `group` channels within a branch, or a whole branch (but the
    first of each stage). It has a score s, counts by its gate sigmoid(beta s), and takes part in an
    epoch with that chance; `seed` of the groups and none of the other branches make the first one.
    What does not take part is cut out for real and waits with its weights. While the branches' work
    is above or below `target`, a share of the full network's, gates are pushed down or up by
    `penalty` times the distance. beta grows from 1 to `hottest`, for each structure in the epochs
    that it takes part in. In the end those with s > 0 stay, with gates of 1.

    Masks, sampling, budget and temperatures are the paper's idea. These formulas are our reading,
    for lack of its text and code: gates act on the norm after a convolution, where they are not
    normalised away; the stream between blocks keeps its width; parts are drawn per epoch, not per
    batch; scores begin at 1 and -1; one penalty holds for channels and branches; momentum of what
    comes back begins at zero.
    """

    target: Share = 0.5
    seed: Annotated[float, Field(gt=0, le=1)] = 0.25
    group: PositiveInt = 8
    penalty: PositiveFloat = 0.1
    hottest: PositiveFloat = 200.0
    claims = ("blocks",)
    saves = "flops"

    @hookimpl
    def setup(self, run):
        self._layout = layout = channel_layout(run, "growing")
        self._places, self._branches = structures(layout, self.group)
        self._seeds = seeds(self._places, self._branches, self.seed)
        self._works = self._work_of_groups(run)
        scores = torch.where(self._seeds, 1.0, -1.0)
        self._gates = Gates(scores, self.hottest).to(run.device)
        for block in layout.blocks:
            make_skippable(block.module)
            self._install_gates(block, run.device)
        run.add_parameters([self._gates.scores], weight_decay=0.0)
        self.kept, self.skipped, self.work, self.store = layout.all(run.device), [], 1.0, {}

    def _work_of_groups(self, run):
        """Return the share of the branches' work that each structure stands for: groups only."""
        works = torch.zeros(len(self._seeds))
        blocks = self._layout.blocks
        branches = branch_works(run, blocks)
        for block, work in zip(blocks, branches, strict=True):
            mine = torch.cat([self._places[space.name] for space in self._layout.inner(block)])
            works[mine.unique()] = work / len(mine.unique())
        return works / works.sum()

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
        chances = self._gates().detach().cpu()
        luck = torch.rand(len(chances), generator=run.rng("growing"))
        took_part = self._take(run, luck < chances if epoch else self._seeds)
        self._gates.epochs += took_part.to(run.device)

    @hookimpl(wrapper=True)
    def reduce_loss(self):
        numerator, denominator = yield
        push = self.penalty * (self.work - self.target)
        return numerator + denominator * push * self._gates().sum(), denominator

    @hookimpl
    def end_epoch(self, run):
        if run.epoch + 1 == run.epoch_count:
            self._take(run, self._gates.scores.detach().cpu() > 0)
            self._gates.final.fill_(True)

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
        self.work = float(self._works[really].sum())
        self._recut(run, kept)
        self.kept = kept
        self._skip()
        return really

    def _recut(self, run, kept):
        """Put what was trained back into the full tensors, and cut the next part out of them."""
        old, new = self._layout.sides(self.kept), self._layout.sides(kept)

        def change(key, tensor, name):
            full = self.store.setdefault(key, tensor.clone())
            if "/" in key:
                full.zero_()
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
        self.hottest, self.span = hottest, span

    def forward(self):
        """Return sigmoid(beta s), or in the end whether s > 0."""
        soft = torch.sigmoid(self.hottest ** (self.epochs / self.span) * self.scores)
        return torch.where(self.final, (self.scores > 0).float(), soft)


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
