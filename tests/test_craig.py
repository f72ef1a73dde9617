"""CRAIG and facility location against naive references."""

import math
from itertools import combinations

import pytest
import torch
from dataeff_plugins._coresets import Gradients
from dataeff_plugins._facility import cluster_sizes, greedy
from dataeff_plugins.craig import CRAIG, closeness
from hypothesis import given
from hypothesis import strategies as st
from subsets import booked, by_class, vectors


def value(similarity, chosen):
    """F(S), by its definition."""
    return sum(max(row[j] for j in chosen) for row in similarity.tolist())


def naive_greedy(similarity, k, prefer=()):
    """Look at everyone anew for each pick; of equals, take the preferred, then the first.

    Equals are common: of two that stand for each other, either raises F as much.
    """
    chosen = []
    for _ in range(k):
        rest = [j for j in range(len(similarity)) if j not in chosen]
        values = {j: value(similarity, [*chosen, j]) for j in rest}
        best = max(values.values())
        equals = [j for j in rest if values[j] >= best - 1e-5]
        chosen.append(next((j for j in equals if j in prefer), equals[0]))
    return chosen


def points(n, seed, dims=3):
    """Return similarities of random points, in steps that add up without rounding."""
    luck = torch.Generator().manual_seed(seed)
    distance = torch.cdist(*[torch.rand(n, dims, generator=luck, dtype=torch.float64)] * 2)
    return ((distance.max() - distance) * 1024).round() / 1024


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_naive_greedy(seed):
    similarity = points(40, seed)
    assert greedy(similarity, 25).tolist() == naive_greedy(similarity, 25)


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 9))
def test_greedy_is_naive_greedy_where_many_are_equal(seed, n, k):
    luck = torch.Generator().manual_seed(seed)
    half = torch.randint(0, 4, (n, n), generator=luck)
    similarity = (half + half.T).float().fill_diagonal_(8)
    picks = greedy(similarity, k).tolist()
    assert picks == naive_greedy(similarity, min(k, n))


def optimum(similarity, k):
    """F of the best of all subsets."""
    return max(value(similarity, chosen) for chosen in combinations(range(len(similarity)), k))


def stars(seed):
    """Return similarities where few points stand for many: a bad pick gains next to nothing."""
    luck = torch.Generator().manual_seed(seed)
    similarity = torch.zeros(10, 10, dtype=torch.float64)
    hubs = torch.randperm(10, generator=luck)[:3]
    similarity[hubs] = 100 * torch.rand(3, 10, generator=luck, dtype=torch.float64) ** 2
    return torch.maximum(similarity, similarity.T)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_greedy_is_within_its_bound_of_the_best_of_all_subsets(k):
    for seed in range(20):
        for similarity in (points(9, seed, dims=2), stars(seed)):
            best = optimum(similarity, k)
            found = value(similarity, greedy(similarity, k).tolist())
            assert (1 - 1 / math.e) * best <= found <= best + 1e-9
            assert k > 1 or found == pytest.approx(best), "one pick has nothing to regret"


def test_greedy_finds_the_best_of_all_subsets_where_clusters_are_far_apart():
    for seed in range(20):
        luck = torch.Generator().manual_seed(seed)
        centre = torch.randperm(12, generator=luck) % 3
        at = torch.rand(12, 2, generator=luck, dtype=torch.float64)
        at[:, 0] += 10.0 * centre
        similarity = (2 - torch.cdist(at, at)).clamp(min=0)
        picks = greedy(similarity, 3)
        assert sorted(centre[picks].tolist()) == [0, 1, 2]
        assert value(similarity, picks.tolist()) == pytest.approx(optimum(similarity, 3), rel=1e-12)


def test_greedy_looks_at_blocks_of_rows_as_at_all(monkeypatch):
    similarity = points(60, 0)
    whole = greedy(similarity, 20)
    monkeypatch.setattr("dataeff_plugins._facility._BLOCK", 7)
    assert torch.equal(greedy(similarity, 20), whole)


def test_cluster_sizes_count_the_nearest():
    similarity = points(50, 1)
    picks = greedy(similarity, 8)
    sizes = dict.fromkeys(picks.tolist(), 0)
    for i in range(50):
        sizes[max(sizes, key=lambda j: similarity[i, j])] += 1
    assert cluster_sizes(similarity, picks).tolist() == list(sizes.values())


def test_whoever_is_chosen_stands_for_itself_at_least():
    alike = torch.ones(5, 5)
    picks = greedy(alike, 3)
    assert sorted(picks.tolist()) == [0, 1, 2]
    sizes = cluster_sizes(alike, picks)
    assert sizes.min() >= 1
    assert sizes.sum() == 5


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("block", [4, 1024])
def test_closeness_is_the_largest_distance_less_the_distance(monkeypatch, squared, block):
    monkeypatch.setattr("dataeff_plugins.craig._BLOCK", block)
    luck = torch.Generator().manual_seed(0)
    some = Gradients(torch.randn(11, 3, generator=luck), torch.randn(11, 4, generator=luck))
    flat = some.flat().double()
    distance = torch.tensor([[float((a - b).norm()) for b in flat] for a in flat])
    distance = distance**2 if squared else distance
    found = closeness(some, squared)
    assert torch.allclose(found, distance.max() - distance, atol=1e-5)
    assert found.min() == 0
    assert torch.equal(found, found.T)
    assert (found.diagonal() == found.max()).all()


def test_closeness_tells_points_apart_that_are_very_close():
    errors = torch.tensor([[0.5, -0.5], [0.5 + 1e-5, -0.5], [-0.5, 0.5]])
    found = closeness(Gradients(errors, torch.ones(3, 1)))
    gap = float(found[0, 0] - found[0, 1])
    assert gap == pytest.approx(float(errors[1, 0] - 0.5), rel=0.02)


@pytest.mark.parametrize(
    ("distance", "features"), [("plain", False), ("squared", False), ("plain", True)]
)
def test_it_trains_the_medoids_of_each_class_with_their_weights(distance, features):
    books, _ = booked(CRAIG(every=2, distance=distance, features=features))
    for line in books.epochs[::2]:
        weight = {}
        for samples in by_class(line).values():
            flat = vectors(line, samples, features)
            far = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist")
            far = far**2 if distance == "squared" else far
            ours = [j for j, i in enumerate(samples) if i in line.seen]
            chosen = naive_greedy(far.max() - far, math.ceil(24 * len(samples) / 81), ours)
            nearest = [min(chosen, key=lambda j: float(far[i, j])) for i in range(len(samples))]
            weight |= {samples[j]: nearest.count(j) for j in chosen}
        assert line.seen == set(weight)
        mean = sum(weight.values()) / len(weight)
        expected = torch.tensor([weight.get(i, mean) / mean for i in range(90)])
        assert torch.allclose(line.weight, expected, atol=1e-5)


def test_to_keep_everyone_is_plain_training():
    books, _ = booked(CRAIG(keep=1.0))
    assert all(len(line.seen) == 81 for line in books.epochs)
    assert (books.epochs[0].weight == 1).all()
