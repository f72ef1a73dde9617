"""Selective mixing: which samples tolerate it, decided once per epoch from their losses.

Section 3.2 of the paper. Everything here is a function of CPU tensors of length N; a sample that is
not mixed falls into one of three regions of the loss:

    region 1   loss < L_mid                 mixed until its loss rises above L_mid
    region 2   L_mid <= loss <= L_incorr    never mixed
    region 3   loss > L_incorr              mixed for k epochs once the loss has risen k times

L_corr and L_incorr are the mean losses of the samples that were right and wrong, over all epochs
before this one and only where they were trained unmixed; L_mid lies half way between.
"""

import math
from typing import NamedTuple

import torch

NOMIX, MIX_R1, MIX_R3 = 0, 1, 2
NO_HISTORY = -1
"""The streak of a sample whose last loss cannot be compared with: mixed, or never seen."""


class Limits(NamedTuple):
    """The thresholds of one epoch."""

    corr: float
    incorr: float
    mid: float
    mean: float


class Samples(NamedTuple):
    """What the policy remembers of each sample: four bytes."""

    status: torch.Tensor
    left: torch.Tensor
    streak: torch.Tensor


class Seen(NamedTuple):
    """What an epoch showed: who was trained, its loss, the loss before, whether it was right."""

    trained: torch.Tensor
    loss: torch.Tensor
    previous: torch.Tensor
    correct: torch.Tensor


def fresh(n):
    """Return the state before training: nobody is mixed, nobody has a history."""
    return Samples(
        torch.full((n,), NOMIX, dtype=torch.int8),
        torch.zeros(n, dtype=torch.int8),
        torch.full((n,), NO_HISTORY, dtype=torch.int16),
    )


def look(ledger, times):
    """Return what the ledger shows since it stood at `times`, and where it stands now."""
    now = ledger.times_trained.cpu().clone()
    tables = (ledger.last_loss, ledger.previous_loss, ledger.last_correct)
    return Seen(now > times, *(table.cpu() for table in tables)), now


def added(sums, new, memory=1.0):
    """Return the sums of all epochs, where earlier ones weigh `memory` per epoch."""
    return [memory * old + more for old, more in zip(sums, new, strict=True)]


def observed_sums(status, seen):
    """Return [sum, count] of the losses that were right, then of those that were wrong, unmixed."""
    unmixed = seen.trained & (status == NOMIX)
    sums = []
    for right in (seen.correct, ~seen.correct):
        losses = seen.loss[unmixed & right].double()
        sums += [float(losses.sum()), float(len(losses))]
    return sums


def limits_of(sums):
    """Return the thresholds; nobody wrong leaves no region 3, nobody right leaves L_corr = 0."""
    right, rights, wrong, wrongs = sums
    corr = right / rights if rights else 0.0
    incorr = wrong / wrongs if wrongs else math.inf
    mid = (corr + incorr) / 2 if wrongs else corr
    mean = (right + wrong) / (rights + wrongs) if rights + wrongs else 0.0
    return Limits(corr, incorr, mid, mean)


def decide(samples, seen, limits, *, selection="full", k=1, rise="unmixed"):
    """Return the state for the next epoch; who was not trained keeps its own.

    Region 3 is timed: its samples return after k epochs, trained or not.
    """
    status, left, streak = samples
    loss = seen.loss.double()
    unmixed, in_r1, in_r3 = (status == kind for kind in (NOMIX, MIX_R1, MIX_R3))
    streak = torch.where(seen.trained & unmixed, _count_rise(streak, seen), streak)
    broken = NO_HISTORY if rise == "unmixed" else 0
    streak = torch.where((seen.trained & in_r1) | in_r3, broken, streak).to(torch.int16)

    easy = _is_easy(selection, loss, seen.correct, limits)
    hard = loss > limits.incorr
    if selection == "incorr":
        left = torch.where(seen.trained, hard, left > 0).to(torch.int8)
    else:
        left = (left - 1).clamp(min=0).to(torch.int8)
        hard = hard & (streak >= k) & (selection in ("full", "region3"))
    enters = seen.trained & unmixed & ~easy & hard
    left = torch.where(enters, k, torch.where(in_r3, left, 0)).to(torch.int8)

    stays = torch.where(seen.trained, easy, in_r1)
    after = torch.where(stays & ~in_r3, MIX_R1, NOMIX)
    after = torch.where(enters | (in_r3 & (left > 0)), MIX_R3, after)
    return Samples(after.to(torch.int8), left, streak)


def _count_rise(streak, seen):
    comparable = streak != NO_HISTORY
    return torch.where(comparable & (seen.loss > seen.previous), streak + 1, 0)


def _is_easy(selection, loss, correct, limits):
    if selection == "accuracy":
        return correct
    if selection == "region3":
        return torch.zeros_like(correct)
    return loss < (limits.mean if selection == "average_loss" else limits.mid)


def census(before, after, seen, limits, skips=False):
    """Return the thresholds of one epoch, and shares of its samples; skipped ones are its own."""
    there = seen.trained | ((before == MIX_R3) & skips)

    def share(mask):
        return float((mask & there).sum()) / max(1, int(there.sum()))

    return {
        "region1": share(before == MIX_R1),
        "region3": share(before == MIX_R3),
        "deflected": share((before == MIX_R1) & (after == NOMIX)),
        **limits._asdict(),
    }
