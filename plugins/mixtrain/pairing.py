"""Pairing: from the samples of an epoch, in order, to rows of one or two.

Sections 3.2 and 4 of the paper. Batch size counts rows: a pair costs what one sample costs.
"""

import torch

from dataeff import Plan


def pair_up(samples, mixed, generator):
    """Return (pairs, singles): the mixed samples paired at random, an odd one left single."""
    members = samples[mixed]
    members = members[torch.randperm(len(members), generator=generator)]
    even = len(members) // 2 * 2
    return members[:even].view(-1, 2), torch.cat([samples[~mixed], members[even:]])


def shuffled_units(pairs, singles, batch_size, generator):
    """Return a plan in which pairs and singles stand in any order."""
    rows = torch.cat([pairs, _padded(singles)])
    return Plan.cut(rows[torch.randperm(len(rows), generator=generator)], batch_size)


def homogeneous(pairs, singles, batch_size, generator):
    """Return a plan whose batches hold only pairs or only singles, in random order of batches.

    A kind of few rows joins a batch of the other, as a last few of any plan join the one before.
    """
    kinds = sorted((pairs, _padded(singles)), key=len)
    if Plan.joins(len(kinds[0]), batch_size):
        return Plan.cut(torch.cat(kinds[::-1]), batch_size)
    batches = []
    for rows in kinds:
        batches += rows.split(Plan.cut(rows, batch_size).sizes)
    order = torch.randperm(len(batches), generator=generator).tolist()
    return Plan(torch.cat([batches[i] for i in order]), [len(batches[i]) for i in order])


def batch_size_of(plan):
    """Return how many rows a full batch of this plan takes; the last one may hold less or more."""
    return max(plan.sizes[:-1] or plan.sizes)


def part_of_each(batch, first, part):
    """Return what each sample has of its row: `part` for the first, the rest for the other."""
    part = part[batch.row]
    other = torch.arange(batch.S, device=part.device) != first[batch.row]
    return torch.where(other.view(-1, *[1] * (part.ndim - 1)), 1 - part, part)


def _padded(singles):
    return torch.stack([singles, torch.full_like(singles, -1)], dim=1)
