"""Facility location: the few points that stand for all, each point by the chosen one most like it.

Mirzasoleiman et al. 2020, CRAIG, https://arxiv.org/abs/1906.01827

Our own, because apricot-select has had no release since 2021, and submodlib-py has wheels for few.
"""

import torch

# Rows of the similarity matrix that are looked at together: a few megabytes.
_BLOCK = 64


def greedy(similarity, k):
    """Return k points, each the one that raises F(S) = sum_i max_{j in S} s_ij the most.

    `similarity` is symmetric and not negative; F of nobody is 0. All gains are kept and put right
    after each pick, exactly: only points that the pick covers better than anyone before change
    them, and these get fewer from pick to pick. So k picks take about n^2 log k operations, where
    looking at everyone anew takes k n^2. Of equals, the first is taken.
    """
    covered = similarity.new_zeros(len(similarity))
    gains = similarity.sum(0, dtype=torch.float64)
    picks = []
    for _ in range(min(k, len(similarity))):
        pick = int(gains.argmax())
        picks.append(pick)
        now = torch.maximum(covered, similarity[pick])
        for rows in (now > covered).nonzero()[:, 0].split(_BLOCK):
            low, high = covered[rows, None], now[rows, None]
            lost = similarity[rows].clamp(low, high).sum(0, dtype=torch.float64)
            gains -= lost - low.double().sum()
        gains[pick] = -torch.inf
        covered = now
    return torch.tensor(picks)


def cluster_sizes(similarity, picks):
    """Return for how many points each pick stands: those to whom no other pick is more similar."""
    nearest = similarity[:, picks].argmax(1)
    # A pick stands for itself, whoever else is equal to it.
    nearest[picks] = torch.arange(len(picks))
    return nearest.bincount(minlength=len(picks))
