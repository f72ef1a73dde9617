"""Finding a value by a few noisy costs, and the epochs that stand for all."""

import math
import random

import pytest

from dataeff.errors import DataeffError
from dataeff.foretell.match import spread
from dataeff.foretell.solve import solve
from dataeff.registry import Range

KEEP = Range(0.01, 1.0, False, (0.333, 0.667))
SKIP = Range(0.0, 0.99, False, (0.333, 0.667))
MANY = Range(1, 400, True, (4, 8))
CURVES = {
    "dearer": (KEEP, lambda p: p),
    "dearer, with a fixed part": (KEEP, lambda p: 0.15 + p),
    "cheaper": (SKIP, lambda p: 1 - p),
    "squared": (KEEP, lambda p: 0.05 + 0.95 * p * p),
    "saturating": (KEEP, lambda p: p**0.6),
    "whole numbers": (MANY, lambda n: 0.05 + n / 100),
}


@pytest.mark.parametrize("target", [0.4, 0.69, 0.9])
@pytest.mark.parametrize(("within", "curve"), CURVES.values(), ids=CURVES)
def test_the_value_is_found_in_a_few_pilots(within, curve, target):
    for seed in range(20):
        luck = random.Random(seed).gauss
        found = solve(lambda p, luck=luck: curve(p) * math.exp(luck(0, 0.005)), target, within)
        # Whole numbers are no finer.
        finest = 0.005 / target if within.whole else 0.001
        assert abs(math.log(curve(found.value) / target)) < 0.025 + finest
        assert found.reached
        assert found.note(target, "baseline") == ""
        assert len(found.costs) <= 5


@pytest.mark.parametrize(
    ("within", "curve", "target", "end"),
    [
        (KEEP, lambda p: 0.5 + p / 4, 0.4, 0.01),
        (KEEP, lambda p: 0.5 + p / 4, 0.9, 1.0),
        (SKIP, lambda p: 1 - p / 2, 0.4, 0.99),
        (SKIP, lambda p: 0.9 - p / 2, 1.0, 0.0),
        (MANY, lambda n: 3 + n / 4, 0.9, 1),
    ],
)
def test_what_is_out_of_reach_ends_at_the_nearest_end(within, curve, target, end):
    found = solve(curve, target, within)
    assert found.value == end
    assert not found.reached
    assert found.note(target, "baseline") == (
        f"the nearest that was found takes {curve(end):.2f} of baseline's time, where {target:.2f} "
        "was wanted"
    )


def test_where_costs_come_in_steps_the_nearest_is_taken():
    tried = {}
    found = solve(lambda p: tried.setdefault(p, 0.5 if p < 0.8 else 0.9), 0.69, KEEP)
    assert found.costs == tried
    assert len(tried) == 5
    assert (tried[found.value], found.reached) == (0.9, False)


def test_a_value_is_not_moved_onto_another_step():
    found = solve(lambda p: 0.68 if 0.6 < p < 0.8 else p, 0.69, KEEP)
    assert found.costs == {0.333: 0.333, 0.667: 0.68}
    assert (found.value, found.reached) == (0.667, True)


def test_what_hardly_changes_is_looked_at_from_its_ends():
    found = solve(lambda p: 0.5 if p < 0.9 else 4 * p - 3.1, 0.6, KEEP)
    assert list(found.costs)[:3] == [0.333, 0.667, 1.0]
    flat = solve(lambda p: 0.5, 0.69, KEEP)
    assert list(flat.costs) == [0.333, 0.667, 1.0, 0.01]
    assert not flat.reached


def test_the_nearest_of_whole_numbers_is_taken():
    found = solve(lambda n: n / 10, 0.34, Range(1, 10, True, (4, 7)))
    assert (found.value, found.reached) == (3, False)
    assert len(found.costs) < 5


def test_what_cannot_be_run_narrows_the_range():
    def picky(p):
        if p < 0.2:
            raise DataeffError("Epoch 0 has no rows.")
        return p

    assert solve(picky, 0.25, KEEP).value == pytest.approx(0.25, rel=0.02)
    found = solve(picky, 0.05, KEEP)
    assert not found.reached
    assert 0.2 <= found.value < 0.333

    def low_only(p):
        if p > 0.5:
            raise ValueError("too much\nreally")
        return p

    assert solve(low_only, 0.45, KEEP).value == pytest.approx(0.45, rel=0.02)
    with pytest.raises(DataeffError, match=r"^ValueError: too much$"):
        solve(low_only, 0.5, Range(0.7, 1.0, False, (0.8, 0.9)))


def test_noise_is_averaged_near_the_target():
    """Near ones are read off a line; a single lucky hit would keep the noise of its pilot."""
    given = {0.333: 0.333, 0.667: 0.69, 0.648: 0.665}
    found = solve(given.get, 0.67, KEEP)
    assert found.costs == given
    slope = (0.665 - 0.333) / (0.648 - 0.333)
    said = [0.667 - (0.69 - 0.67) / slope, 0.648 + (0.67 - 0.665) / slope]
    assert found.value == pytest.approx(sum(said) / 2, abs=0.0005)


# Epochs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epochs", "picked"),
    [
        (0.4, [(0, 0.4)]),
        (2.5, [(0, 1), (1, 1), (2, 0.5)]),
        (5, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]),
        (25 * 0.2 + 1e-9, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]),
        (9, [(0, 1), (1, 2), (4, 2), (5, 2), (8, 2)]),
        (7, [(0, 1), (1, 1.5), (3, 1.5), (4, 1.5), (6, 1.5)]),
        (201, [(0, 1), (25, 50), (76, 50), (125, 50), (176, 50)]),
    ],
)
def test_a_few_epochs_stand_for_all(epochs, picked):
    assert [(epoch, pytest.approx(count)) for epoch, count in spread(epochs)] == picked
    assert sum(count for _, count in spread(epochs)) == pytest.approx(epochs)
