"""mixTrain: train on composites of two samples where the samples tolerate it.

Krithivasan et al. 2024, MixTrain, https://doi.org/10.3389/frai.2024.1387936 (at first InterTrain,
where CutMix was called RandPatch and MixUp LinAvg)
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from dataeff_plugins.mixtrain import pairing, patches, selection
from dataeff_plugins.mixtrain.split import splitter
from pydantic import Field

from dataeff import Strategy, hookimpl


@dataclass(eq=False)
class Mixing(Strategy):
    """What CutMix and MixUp share: who is mixed, with whom, and what the loss of a pair is.

    No parameter needs to be set: the defaults are the paper's method, the rest its ablations.
    `selection` `none` mixes all samples in every epoch (with `interference=off`, the paper's naive
    mixing); `memory` is what past epochs weigh in the thresholds (1: all alike, 0: the last one
    alone); `bootstrap` makes thresholds of the first epoch for itself, and so mixes from the second
    epoch on instead of the third; `mix_loss=sum` gives both samples of a pair full weight;
    `rise=any` also compares a loss with one from a mixed epoch.
    """

    selection: Literal[
        "full", "region1", "region3", "accuracy", "average_loss", "incorr", "none"
    ] = "full"
    interference: Literal["on", "off"] = "on"
    k: Annotated[int, Field(ge=1, le=100)] = 1
    region3: Literal["mix", "skip"] = "mix"
    rise: Literal["unmixed", "any"] = "unmixed"
    memory: Annotated[float, Field(ge=0, le=1)] = 1.0
    bootstrap: bool = False
    batching: Literal["units", "homogeneous"] = "units"
    mix_loss: Literal["ratio", "sum"] = "ratio"
    saves = "rows"
    reserves = ("rows",)

    def __post_init__(self):
        timed = self.selection in ("full", "region3")
        learns = self.selection not in ("accuracy", "none")
        self.refuse(not timed, selection=self.selection, k=1, region3="mix", rise="unmixed")
        self.refuse(not learns, selection=self.selection, bootstrap=False, memory=1.0)

    def refuse(self, idle, /, **parts):
        """Refuse what has no effect: `parts` are a setting, and the defaults that it asks for."""
        (name, value), *defaults = parts.items()
        for key, default in defaults:
            if idle and getattr(self, key) != default:
                raise ValueError(f"{key} has no effect with {name}={value}; leave one of them out")

    @hookimpl
    def setup(self, run):
        n = len(run.labels)
        self.status, self.left, self.streak = selection.fresh(n)
        self.times = torch.zeros(n, dtype=torch.int32)
        self.sums = [0.0, 0.0, 0.0, 0.0]
        self.history = []

    @hookimpl
    def prune_dataset(self):
        return self.status != selection.MIX_R3 if self.region3 == "skip" else None

    @hookimpl(wrapper=True)
    def plan_epoch(self, run):
        plan = yield
        samples = plan.rows[:, 0]
        mixed = self.status[samples] != selection.NOMIX
        if self.selection == "none":
            mixed = torch.ones_like(mixed)
        pairs, singles = pairing.pair_up(samples, mixed, run.rng("mixtrain pairs"))
        self.history.append({"mixed": 2 * len(pairs) / max(1, len(samples))})
        if not len(pairs):
            return plan
        self.draw(run)
        cut = pairing.shuffled_units if self.batching == "units" else pairing.homogeneous
        return cut(pairs, singles, pairing.batch_size_of(plan), run.rng("mixtrain rows"))

    def draw(self, run):
        """Draw what the mixing operator needs for an epoch."""

    @hookimpl
    def end_epoch(self, run):
        if self.selection == "none":
            return
        seen, self.times = selection.look(run.ledger, self.times)
        before = self.sums
        observed = selection.observed_sums(self.status, seen)
        self.sums = selection.added(before, observed, self.memory)
        own = self.bootstrap and len(self.history) == 1
        limits = selection.limits_of(self.sums if own else before)
        old = self.status
        self.status, self.left, self.streak = selection.decide(
            selection.Samples(old, self.left, self.streak),
            seen,
            limits,
            selection=self.selection,
            k=self.k,
            rise=self.rise,
        )
        skips = self.region3 == "skip"
        self.history[-1] |= selection.census(old, self.status, seen, limits, skips)

    def mix(self, batch, x, pair, share):
        """Put the composites into the batch; `share` is what each sample gets of its row."""
        mixed = pair[batch.row]
        batch.mix_rows(x, mixed)
        if self.mix_loss == "ratio":
            batch.weight *= torch.where(mixed, share, 1.0)

    @hookimpl
    def report(self):
        shares = [line["mixed"] for line in self.history]
        inverted = [line["incorr"] <= line["corr"] for line in self.history if "corr" in line]
        return {
            "mixed_share": sum(shares) / max(1, len(shares)),
            "inverted_epochs": sum(inverted),
        }


@dataclass(eq=False)
class CutMix(Mixing):
    """Paste a patch of one sample onto another, and split their features before the head.

    A pair costs one row. The patch is half of the image, along cells of the last feature map
    (`patch=half`: one of four halves; `cutmix_beta`: any size and place, with its border cells
    given to one sample or, `cells=soft`, to both). Networks must average that map; one with
    squeeze-excite works, but leaks between the samples before the split. Transformers are our
    reading of the paper: `vit_split=tail` splits the read-out, `block` attention as well. The
    counted work leaves out that the head, and a class token, runs once per sample.
    """

    patch: Literal["grid", "half", "cutmix_beta"] = "grid"
    cells: Literal["hard", "soft"] = "hard"
    vit_split: Literal["tail", "block"] = "tail"

    def __post_init__(self):
        super().__post_init__()
        self.refuse(self.patch != "cutmix_beta", patch=self.patch, cells="hard")
        off = self.interference == "off"
        self.refuse(off, interference="off", cells="hard", vit_split="tail")

    @hookimpl
    def setup(self, run):
        super().setup(run)
        self._split = splitter(run, self.interference == "on", self.vit_split)

    def draw(self, run):
        """Draw where the patches of this epoch lie, one line per sample."""
        columns = 4 if self.patch == "cutmix_beta" else 1
        luck = torch.rand(len(run.labels), columns, generator=run.rng("mixtrain patches"))
        self._luck = luck.to(run.device, non_blocking=True)
        kind = "grid" if self.patch == "cutmix_beta" else self.patch
        patches.bank(kind, run.shape[1:], self._split.grid(run.shape), run.device)

    @hookimpl
    def transform_batch(self, batch):
        if batch.width == 1:
            return
        first, last = batch.ends()
        pair = first != last
        pixels, cells, share = self._patches(batch, first)
        alone = ~pair[:, None, None]
        shown = (pixels | alone)[:, None]
        x = torch.where(shown, batch.x[first], batch.x[last])
        if self.interference == "on":
            cells = torch.where(alone, 1.0, cells)
            batch.fields["mixtrain_region"] = pairing.part_of_each(batch, first, cells)
        self.mix(batch, x, pair, pairing.part_of_each(batch, first, share))

    def _patches(self, batch, first):
        luck = self._luck[batch.idx[first]]
        size, grid = batch.x.shape[-2:], self._split.grid(batch.x.shape[1:])
        if self.patch == "cutmix_beta":
            return patches.free_patch(luck, size, grid, soft=self.cells == "soft")
        return patches.aligned_patch(luck[:, 0], size, grid, self.patch)

    @hookimpl
    def forward(self, run, batch):
        region = batch.fields.get("mixtrain_region")
        if region is None:
            return batch.per_sample(run.network(batch.x))
        return run.network(batch.x, self._split.between(batch.row, region))

    @hookimpl
    def report(self):
        return super().report() | ({"mixtrain_note": note} if (note := self._split.note) else {})


@dataclass(eq=False)
class MixUp(Mixing):
    """Average two samples, the harder one with the larger weight: l1 / (l1 + l2) of last epoch.

    A pair costs one row. The paper prints l1 / l2, which is no weight in [0, 1]; this is the one
    weight that stands in that ratio. `clip` keeps it in [clip, 1 - clip].
    """

    clip: Annotated[float, Field(ge=0, le=0.5)] = 0.0

    def __post_init__(self):
        super().__post_init__()
        self.refuse(self.interference == "off", interference="off", clip=0.0)

    def draw(self, run):
        """Draw nothing: the losses decide. Begin to note how light the lighter samples are."""
        self._lighter = []

    @hookimpl
    def transform_batch(self, run, batch):
        if batch.width == 1:
            return
        first, last = batch.ends()
        pair = first != last
        ratio = torch.full((batch.R,), 0.5, device=batch.x.device)
        if self.interference == "on":
            losses = run.ledger.last_loss[batch.idx]
            ratio = adaptive_ratio(losses[first], losses[last], self.clip)
        # A sample alone is kept as it is, to the bit.
        ratio = torch.where(pair, ratio, 1.0)
        weight = ratio[:, None, None, None]
        x = weight * batch.x[first] + (1 - weight) * batch.x[last]
        self.mix(batch, x, pair, pairing.part_of_each(batch, first, ratio))
        lighter = torch.where(pair, torch.minimum(ratio, 1 - ratio), torch.nan)
        self._lighter.append(lighter[batch.row])

    @hookimpl
    def end_epoch(self, run):
        super().end_epoch(run)
        if self.history[-1]["mixed"] and self._lighter:
            self.history[-1]["lighter"] = float(torch.cat(self._lighter).nanmedian())

    @hookimpl
    def report(self):
        weights = [line.get("lighter", math.nan) for line in self.history]
        known = [weight for weight in weights if not math.isnan(weight)]
        return super().report() | {"lighter_weight": sum(known) / max(1, len(known))}


def adaptive_ratio(first, second, clip=0.0):
    """Return l1 / (l1 + l2), and one half where the losses say nothing."""
    total = first + second
    ratio = torch.where((total > 1e-12) & total.isfinite(), first / total, 0.5)
    return ratio.clamp(clip, 1 - clip)
