"""GLISTER against a naive reference that leaves the calculus to autograd."""

import math

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins._coresets import gradients
from dataeff_plugins.glister import GLISTER, helpful
from subsets import booked, gradient, trained

from dataeff import DataeffError
from dataeff.composition import Composition
from dataeff.testing import TASK


def naive_glister(grads, head, h, y, sizes, step, features, pools=None):
    """Pick by autograd: grads are matrices (bias last), one list of picks per round."""
    weight, bias = head
    chosen = []
    for number, size in enumerate(sizes):
        moved = sum((grads[j] for j in chosen), start=torch.zeros_like(grads[0]))
        w = (weight - step * moved[:, :-1] * features).detach().requires_grad_()
        b = (bias - step * moved[:, -1]).detach().requires_grad_()
        F.cross_entropy(h @ w.T + b, y).backward()
        slope = torch.cat([w.grad * features, b.grad[:, None]], 1)
        rest = pools(number, chosen) if pools else range(len(grads))
        rest = [j for j in rest if j not in chosen]
        rest.sort(key=lambda j: float((grads[j] * slope).sum()), reverse=True)
        chosen += rest[:size]
    return chosen


def problem(seed, n=40, v=30, dims=6, classes=4):
    luck = torch.Generator().manual_seed(seed)
    head = torch.nn.Linear(dims, classes)
    with torch.no_grad():
        head.weight.copy_(torch.randn(classes, dims, generator=luck))
        head.bias.copy_(torch.randn(classes, generator=luck))
    h, held = (torch.randn(m, dims, generator=luck) for m in (n, v))
    y, wanted = (torch.randint(classes, (m,), generator=luck) for m in (n, v))
    return head, h, y, held, wanted


def inputs_of(h, features):
    one = torch.ones(len(h), 1)
    return torch.cat([h, one], 1) if features else one


def ours(head, h, y, held, wanted, features, *rest):
    with torch.no_grad():
        candidates = gradients(head(h), y, inputs_of(h, features))
        validation = (head(held), wanted, inputs_of(held, features))
    return helpful(candidates, validation, *rest).tolist()


def naive(head, h, y, held, wanted, features, sizes, step, pools=None):
    grads = [gradient(head, *pair) for pair in zip(h, y, strict=True)]
    return naive_glister(
        grads, (head.weight, head.bias), held, wanted, sizes, step, features, pools
    )


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize(
    ("k", "sizes"), [(12, [1] * 12), (12, [4, 4, 4]), (11, [4, 4, 3]), (5, [5])]
)
def test_it_picks_what_autograd_says_lowers_the_validation_loss(features, k, sizes):
    for seed in range(3):
        some = problem(seed)
        found = ours(*some, features, k, len(sizes), 0.3)
        assert found == naive(*some, features, sizes, 0.3)


def test_a_step_along_those_picked_lowers_the_validation_loss():
    """The sign of the gain."""
    head, h, y, held, wanted = some = problem(0)
    grads = torch.stack([gradient(head, *pair) for pair in zip(h, y, strict=True)])

    def loss(chosen):
        moved = 0.01 * grads[chosen].sum(0)
        w, b = head.weight - moved[:, :-1], head.bias - moved[:, -1]
        return float(F.cross_entropy(held @ w.T + b, wanted).detach())

    picked = ours(*some, True, 10, 1, 0.01)
    assert loss(picked) < loss([])
    luck = torch.Generator().manual_seed(0)
    for _ in range(20):
        assert loss(picked) < loss(torch.randperm(40, generator=luck)[:10].tolist())


@pytest.mark.parametrize("k", [2, 15, 40])
def test_stochastic_picks_the_best_of_a_few_random_ones(k):
    some = problem(1)
    draws = torch.Generator().manual_seed(3)
    count = int(40 / k * math.log(100))

    def pools(number, chosen):
        rest = [j for j in range(40) if j not in chosen]
        return [rest[i] for i in torch.randperm(len(rest), generator=draws)[:count]]

    found = ours(*some, True, k, k, 0.3, torch.Generator().manual_seed(3))
    assert found == naive(*some, True, [1] * k, 0.3, pools)
    assert len(set(found)) == k


@pytest.mark.parametrize(
    ("strategy", "sizes"),
    [
        (GLISTER(every=2), [2] * 9 + [1] * 6),
        (GLISTER(every=2, rounds=2, features=True), [12, 12]),
        (GLISTER(every=2, rounds=99), [1] * 24),
        (GLISTER(every=2, mode="naive", features=True), [1] * 24),
    ],
)
def test_it_trains_what_helps_the_validation_samples(strategy, sizes):
    # Warm-up and decay change the rate of training, but not that of the choice.
    books, _ = booked(strategy, warmup=1)
    for line in books.epochs[::2]:
        samples, grads = zip(*line.train.gradient.items(), strict=True)
        held = line.validation
        # Logits as given: the head is the identity, and features are moved by what they are.
        chosen = naive_by_logits(grads, held, sizes, TASK.lr, strategy.features)
        assert line.seen == {samples[j] for j in chosen}


def naive_by_logits(grads, held, sizes, step, features):
    """Pick as the naive reference does, from the validation logits that the books hold."""
    chosen = []
    for size in sizes:
        moved = sum((grads[j] for j in chosen), start=torch.zeros_like(grads[0]))
        logits = held.logits - step * (moved[:, -1] + features * held.inputs @ moved[:, :-1].T)
        error = logits.softmax(1) - F.one_hot(held.y, logits.shape[1])
        slope = torch.zeros_like(grads[0])
        for e, h in zip(error, held.inputs, strict=True):
            slope += torch.cat([features * torch.outer(e, h), e[:, None]], 1) / len(error)
        rest = [j for j in range(len(grads)) if j not in chosen]
        rest.sort(key=lambda j: float((grads[j] * slope).sum()), reverse=True)
        chosen += rest[:size]
    return chosen


def test_stochastic_draws_anew_for_each_seed():
    def seen(seed):
        strategy = GLISTER(mode="stochastic")
        trained(strategy, seed=seed, epochs=1)
        return strategy.mask.tolist()

    assert sum(seen(0)) == 24
    assert seen(0) != seen(1)


def test_it_asks_for_validation_samples():
    with pytest.raises(DataeffError, match=r"set validation = 0\.1 in the task"):
        trained("glister", validation=0.0)


def test_rounds_are_refused_where_they_have_no_effect(installed):
    with pytest.raises(DataeffError, match="no effect with mode=naive"):
        Composition.read("glister[mode=naive,rounds=3]", installed)
