"""Probes: what the figures need to see while a network trains, off the clock.

They change nothing: eval mode, no gradients, random streams of their own. To bound their cost they
mix `samples` training samples, drawn once, in `epochs` epochs spread evenly, `pairings` times each.
"""

from collections import Counter
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from dataeff_plugins.mixtrain import analysis, selection
from dataeff_plugins.mixtrain.patches import aligned_patch
from dataeff_plugins.mixtrain.split import splitter
from dataeff_plugins.mixtrain.strategies import Mixing

from dataeff import Strategy, hookimpl


@dataclass(eq=False)
class Mixer(Strategy):
    """What the probes that mix share: which samples, when, in which pairs."""

    samples: int = 5000
    epochs: int = 12
    pairings: int = 5

    @hookimpl
    def setup(self, run):
        known = run.split("train")
        order = torch.randperm(len(known), generator=run.rng("mixtrain probe samples"))
        self._chosen = known[order[: self.samples]]
        self.lines = []

    def is_due(self, run, epoch):
        """Say whether this epoch is one of those to look at."""
        return epoch in analysis.spread(run.epoch_count, self.epochs)

    def batches(self, run):
        """Yield indices, images and labels, in a new random order.

        So pairs may be drawn within a batch: each image is read once, whatever `pairings` is.
        """
        order = torch.randperm(len(self._chosen), generator=run.rng("mixtrain probe order"))
        chunks = self._chosen[order].split(run.task.batch_size)
        for idx, x in zip(chunks, run.images(chunks), strict=True):
            idx = idx.to(run.device)
            yield idx, x, run.labels[idx]

    def pairings_of(self, run, n):
        """Yield n samples paired at random (P, 2), `pairings` times; an odd one is left out."""
        for _ in range(self.pairings if n > 1 else 0):
            order = torch.randperm(n, generator=run.rng("mixtrain probe pairs"))
            yield order[: n // 2 * 2].view(-1, 2).to(run.device)


# Composites --------------------------------------------------------------------------------------


def halves(run, parts, n, shape):
    """Draw n patches of half the image, along the cells of the last feature map."""
    luck = torch.rand(n, generator=run.rng("mixtrain probe patches")).to(run.device)
    return aligned_patch(luck, shape[1:], parts.grid(shape))


def cutmix(run, parts, x, pairs):
    """Return composites of two halves, and the cells of the first one."""
    patch = halves(run, parts, len(pairs), x.shape[1:])
    return torch.where(patch.pixels[:, None], x[pairs[:, 0]], x[pairs[:, 1]]), patch.cells


def read_split(run, parts, images, cells):
    """Return logits (P, 2, K): each sample is read off its own cells."""
    row = torch.arange(len(images), device=images.device).repeat_interleave(2)
    region = torch.stack([cells, 1 - cells], dim=1).flatten(0, 1)
    return run.network(images, parts.between(row, region)).float().unflatten(0, (-1, 2))


# Probes ------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Detection(Mixer):
    """Which of the samples that the network knows does it find in a composite? (2b, 12)"""

    operators: tuple = ("cutmix",)

    @hookimpl
    def on_epoch_end(self, run, epoch):
        if self.is_due(run, epoch):
            with run.off_clock("diagnostics"), run.scoring():
                self.lines += [{"epoch": epoch, **line} for line in self._measure(run)]

    def _measure(self, run):
        counts = {operator: Counter() for operator in self.operators}
        parts = splitter(run, "split" in self.operators, "tail")
        for _, x, y in self.batches(run):
            known = run.network(x).argmax(1) == y
            x, y = x[known], y[known]
            for operator, count in counts.items():
                for pairs in self.pairings_of(run, len(y)):
                    count.update(self._found(run, parts, operator, x, y, pairs))
        return [{"operator": name, **analysis.shares(count)} for name, count in counts.items()]

    def _found(self, run, parts, operator, x, y, pairs):
        if operator == "zeropatch":
            # No second sample interferes; a blank pixel is zero after normalisation.
            shown = halves(run, parts, len(y), x.shape[1:]).pixels[:, None]
            found = run.network(torch.where(shown, x, 0.0)).argmax(1) == y
            return {"samples": len(y), "right": int(found.sum())}
        if operator == "mixup":
            logits = run.network((x[pairs[:, 0]] + x[pairs[:, 1]]) / 2).float()
            return analysis.tally(logits, y[pairs])
        images, cells = cutmix(run, parts, x, pairs)
        if operator == "split":
            return analysis.tally(read_split(run, parts, images, cells), y[pairs])
        return analysis.tally(run.network(images).float(), y[pairs])


@dataclass(eq=False)
class Amenability(Mixer):
    """Do losses tell who tolerates mixing? Looks at a run of selective CutMix. (5, 6, 9a)"""

    @hookimpl
    def setup(self, run):
        super().setup(run)
        self.gaps, self.kept, self.shown = [], [], {}

    @hookimpl
    def on_epoch_end(self, run, epoch):
        with run.off_clock("diagnostics"):
            (strategy,) = (s.plugin for s in run.strategies if isinstance(s.plugin, Mixing))
            limits = strategy.history[-1]
            self._look(run, epoch, limits, strategy.status)
            if self.is_due(run, epoch):
                with run.scoring():
                    self._mix(run, epoch, limits)

    def _look(self, run, epoch, limits, status):
        """Note what the losses of this epoch's training say."""
        ledger = run.ledger
        seen = (ledger.times_trained > 0).cpu()
        tables = (ledger.last_loss, ledger.last_correct, ledger.last_mixed)
        loss, right, mixed = (table.cpu()[seen] for table in tables)
        if epoch == shown_epoch(run.epoch_count):
            self.shown = {"epoch": epoch, "loss": loss, "right": right}
            self.shown |= {name: limits[name] for name in ("mid", "incorr")}
        if has_limits(limits):
            easy, hard = loss < limits["mid"], (loss > limits["incorr"]) & ~mixed
            line = {
                "right_below": analysis.share_of(easy, right),
                "wrong_below": analysis.share_of(easy, ~right),
                "in_region3": float(hard.float().mean()),
                "chosen_of_region3": analysis.share_of(status[seen] == selection.MIX_R3, hard),
            }
            self.lines.append({"epoch": epoch, "mid": limits["mid"], **line})

    def _mix(self, run, epoch, limits):
        """Mix samples anew, and note their losses and whether they are found."""
        parts, table = splitter(run, True, "tail"), []
        counts = {"pooled": Counter(), "split": Counter()}
        for idx, x, y in self.batches(run):
            logits = run.network(x).float()
            right = logits.argmax(1) == y
            loss = F.cross_entropy(logits, y, reduction="none")
            mixed = self._mixed_losses(run, parts, x, y)
            table.append(torch.stack([loss, right.float(), *(mixed - loss).abs()]).cpu())
            # Regions are a matter of the loss in training, as the thresholds are.
            easy = right & (run.ledger.last_loss[idx] < limits["mid"])
            x, y = x[easy], y[easy]
            for pairs in self.pairings_of(run, len(y)):
                logits = self._read(run, parts, x, pairs)
                for count, lines in zip(counts.values(), logits, strict=True):
                    count.update(analysis.tally(lines, y[pairs]))
        table = torch.cat(table, dim=1)
        # An odd sample that was left out of every pairing has no loss.
        loss, right, pooled, split = table[:, table.isfinite().all(0)]
        most = analysis.loss_below_which(loss, right > 0)
        for line in analysis.by_loss(loss, {"gap": pooled, "gap_split": split}):
            self.gaps.append({"epoch": epoch, **line, "right_95": most})
        if has_limits(limits):
            found = {name: analysis.shares(count)["right"] for name, count in counts.items()}
            self.kept.append({"epoch": epoch, "samples": counts["split"]["samples"], **found})

    def _mixed_losses(self, run, parts, x, y):
        """Return (2, S): the mean loss of each sample over its composites, pooled and split."""
        sums, times = x.new_zeros(2, len(y)), x.new_zeros(len(y))
        for pairs in self.pairings_of(run, len(y)):
            for total, logits in zip(sums, self._read(run, parts, x, pairs), strict=True):
                total[pairs] += analysis.constituent_losses(logits, y[pairs])
            times[pairs] += 1
        return sums / times

    def _read(self, run, parts, x, pairs):
        images, cells = cutmix(run, parts, x, pairs)
        return run.network(images).float(), read_split(run, parts, images, cells)


class Regions(Strategy):
    """How long does each sample stay in region 3 where nothing is mixed? (8)"""

    @hookimpl
    def setup(self, run):
        n = len(run.labels)
        self.sums = [0.0, 0.0, 0.0, 0.0]
        self.epochs = 0
        self.hard = torch.zeros(n, dtype=torch.int32)
        self.trained = torch.zeros(n, dtype=torch.int32)
        self.right = torch.zeros(n, dtype=torch.bool)

    @hookimpl
    def on_epoch_end(self, run):
        with run.off_clock("diagnostics"):
            seen, self.trained = selection.look(run.ledger, self.trained)
            self.right = seen.correct.clone()
            if any(self.sums):
                limits = selection.limits_of(self.sums)
                self.hard += seen.trained & (seen.loss.double() > limits.incorr)
                self.epochs += 1
            nobody = torch.full_like(self.trained, selection.NOMIX)
            self.sums = selection.added(self.sums, selection.observed_sums(nobody, seen))


def shown_epoch(count):
    """Return the epoch whose losses are shown: 30, or the middle of a shorter training."""
    return 30 if count > 30 else count // 2


def has_limits(limits):
    """Say whether thresholds exist: before the first epoch has ended there are none."""
    return limits["mid"] > 0
