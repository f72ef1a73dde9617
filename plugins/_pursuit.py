"""Orthogonal matching pursuit: a few vectors, with weights, whose sum comes near a target.

Killamsetty et al. 2021, GradMatch, https://arxiv.org/abs/2103.00123

Our own, because scikit-learn's has neither weights that stay positive nor a ridge.
"""

from typing import NamedTuple

import torch

# The share of the target that may be missed, and of a candidate's square that is no ridge.
_NEAR = 1e-6
_RIDGE = 1e-8


class Pursuit(NamedTuple):
    """The picks, ascending, their weights, and |weighted sum - target| / |target|."""

    picks: torch.Tensor
    weights: torch.Tensor
    residual: float


def pursue(candidates, target, k, lam=0.0):
    """Minimise |sum_j w_j g_j - target|^2 + lam |w|^2 over at most k of the candidates, w > 0.

    In each of k rounds the candidate along which this falls most steeply joins, the weights of all
    that have joined are solved for anew, and while one is negative the lowest leaves. It ends early
    where it falls along none, or the target is met.

    With M = lam + sum of g g' over those that have joined and v = M^-1 target, their weights are
    g.v, the residual is lam v, and g.v is also how steeply it falls along the others. So a round
    takes one product with all candidates and one with M^-1, which is updated, not solved for.
    """
    g, b = candidates.double(), target.double()
    if len(g) < g.shape[1]:
        # Few long vectors are as many short ones in the space that they span.
        basis, rest = torch.linalg.qr(g.T)
        g, b = rest.T, basis.T @ b
    joined = torch.zeros(len(g), dtype=torch.bool)
    if not (g @ b).any():
        return Pursuit(joined.nonzero()[:, 0], g.new_zeros(0), float(target.any()))
    # Without a ridge M has no inverse until all directions are taken: a negligible one will do.
    ridge = max(lam, _RIDGE * float(g.square().sum(1).mean()))
    size = b.norm()
    inverse = inverted(g[joined], ridge)
    rounds = 0
    while True:
        v = inverse @ b
        slope = g @ v
        lowest, worst = slope.masked_fill(~joined, torch.inf).min(0)
        if lowest < 0:
            joined[worst] = False
            inverse = inverted(g[joined], ridge)
            continue
        steepest, best = slope.masked_fill(joined, -torch.inf).max(0)
        if rounds == k or steepest <= 0 or ridge * v.norm() <= _NEAR * size:
            break
        rounds += 1
        joined[best] = True
        side = inverse @ g[best]
        inverse -= torch.outer(side, side) / (1 + g[best] @ side)
    picks = joined.nonzero()[:, 0]
    weights = slope[picks]
    error = candidates[picks].double().T @ weights - target.double()
    return Pursuit(picks, weights, float(error.norm() / target.double().norm()))


def inverted(a, ridge):
    """Return (ridge + a'a)^-1; a'a of few vectors is singular but for the ridge, aa' is not."""
    count, dims = a.shape
    eye = torch.eye(dims, dtype=a.dtype)
    if count >= dims:
        return torch.linalg.inv(ridge * eye + a.T @ a)
    small = ridge * torch.eye(count, dtype=a.dtype) + a @ a.T
    return (eye - a.T @ torch.linalg.solve(small, a)) / ridge
