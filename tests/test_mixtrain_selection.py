"""Selective mixing against a plain-Python reading of the method, on made-up losses."""

import math
import random

import pytest
import torch
from dataeff_plugins.mixtrain import selection as policy
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, Rehearsal

from dataeff import DataeffError, Plan
from dataeff.composition import Composition

KINDS = ("full", "region1", "region3", "accuracy", "average_loss", "incorr")


def made_up_losses(rng, n, epochs):
    """Yield {sample: (loss, correct)} per epoch: walks on quarters, so that sums are exact."""
    loss = [rng.randint(0, 16) for _ in range(n)]
    drift = [rng.choice((-1, -1, 0, 1, 1)) for _ in range(n)]
    trusting = rng.random() < 0.8
    for _ in range(epochs):
        for i in range(n):
            step = drift[i] if rng.random() < 0.8 else rng.randint(-6, 6)
            loss[i] = min(24, max(0, loss[i] + step))
        likely = [0.9 - 0.05 * loss[i] if trusting else 0.5 for i in range(n)]
        yield {i: (loss[i] / 4, rng.random() < likely[i]) for i in range(n)}


def rehearse(seed, n, epochs, *, region3="mix", present=1.0, **options):
    """Hold the strategy to the oracle in every epoch; return the statuses that were met."""
    rng = random.Random(seed)
    rehearsal = Rehearsal(n, region3=region3, **options)
    oracle = Oracle(range(n), **options)
    met = set()
    for epoch, losses in enumerate(made_up_losses(rng, n, epochs)):
        offered = [i for i in range(n) if rng.random() < present] or [0]
        skipped = {i for i in offered if region3 == "skip" and oracle.status[i] == "region3"}
        if len(skipped) == len(offered):
            break  # an epoch without samples is the harness's to refuse
        planned = rehearsal.plan(offered)
        assert_planned(planned, offered, oracle.mixed(), skipped)
        trained = [i for row in planned for i in row if rng.random() < 0.5 + present / 2]
        seen = {i: losses[i] for i in trained or planned[0]}
        rehearsal.train(seen)
        oracle.end_epoch(seen)
        assert rehearsal.limits() == oracle.limits, f"thresholds after epoch {epoch}"
        assert rehearsal.status() == oracle.status, f"statuses after epoch {epoch}"
        met |= set(oracle.status.values())
    return met


def assert_planned(planned, offered, mixed, skipped):
    samples = [i for row in planned for i in row]
    assert sorted(samples) == sorted(set(offered) - skipped), "each sample once, none left out"
    paired = {i for row in planned if len(row) == 2 for i in row}
    due = (mixed & set(offered)) - skipped
    assert paired <= due
    assert len(due - paired) == len(due) % 2, "all are paired but an odd one"


# Made-up losses --------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 9),
    epochs=st.integers(5, 9),
    selection=st.sampled_from(KINDS),
    k=st.integers(1, 3),
    rise=st.sampled_from(["unmixed", "any"]),
    memory=st.sampled_from([1.0, 1.0, 0.5, 0.0]),
    bootstrap=st.booleans(),
    present=st.sampled_from([1.0, 1.0, 0.7]),
)
def test_statuses_and_thresholds_are_the_oracles_in_every_epoch(
    seed, n, epochs, selection, k, rise, memory, bootstrap, present
):
    options = {"selection": selection}
    # What has no effect is refused.
    options |= {"k": k, "rise": rise} if selection in ("full", "region3") else {}
    options |= {"memory": memory, "bootstrap": bootstrap} if selection != "accuracy" else {}
    rehearse(seed, n, epochs, present=present, **options)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 9),
    selection=st.sampled_from(["full", "region3"]),
    k=st.integers(1, 3),
    rise=st.sampled_from(["unmixed", "any"]),
    present=st.sampled_from([1.0, 0.7]),
)
def test_skipped_samples_are_the_oracles_in_every_epoch(seed, n, selection, k, rise, present):
    options = {"selection": selection, "k": k, "rise": rise, "present": present}
    rehearse(seed, n, 9, region3="skip", **options)


TIMED = [{"k": k, "rise": rise} for k in (1, 2, 3) for rise in ("unmixed", "any")]


@pytest.mark.parametrize(
    ("selection", "options"),
    [(kind, more) for kind in KINDS for more in (TIMED if kind in ("full", "region3") else [{}])],
)
def test_the_histories_reach_what_they_are_to_test(selection, options):
    """Larger sets, fixed seeds: and none of the comparisons above is empty."""
    met = set()
    for seed in range(3):
        met |= rehearse(seed, 40, 9, selection=selection, present=0.9, **options)
    reached = {"region1"} if selection != "region3" else set()
    reached |= {"region3"} if selection in ("full", "region3", "incorr") else set()
    assert met == {"single"} | reached


@pytest.mark.parametrize("selection", ["full", "region3"])
def test_skipping_leaves_region_1_to_be_mixed(selection):
    met = set()
    for seed in range(3):
        met |= rehearse(seed, 40, 9, region3="skip", selection=selection, present=0.9)
    assert met == {"single", "region3"} | ({"region1"} if selection == "full" else set())


def follow(losses, **options):
    """Return the words of sample 0 after each epoch, while L_corr is 1, L_mid 1.5, L_incorr 2."""
    n = 3
    rehearsal = Rehearsal(n, **options)
    words = []
    for loss in losses:
        rehearsal.plan(range(n))
        rehearsal.strategy.sums = [1000.0, 1000.0, 2000.0, 1000.0]
        rehearsal.train({0: (loss, False), 1: (1.75, True), 2: (2.0, False)})
        words.append(rehearsal.status()[0])
    return words


@pytest.mark.parametrize(
    ("losses", "options", "words"),
    [
        # Region 1: in below L_mid, out at L_mid; never from region 1 to region 3 at once.
        ([1.5, 1.25, 1.25, 1.5], {}, "single region1 region1 single"),
        ([1.25, 9.0, 10.0, 11.0], {}, "region1 single single region3"),
        # Region 3: above L_incorr and a rise; at L_incorr it is region 2.
        ([1.75, 2.0, 2.25], {}, "single single region3"),
        ([2.5, 2.25, 2.25], {}, "single single single"),
        # It returns after one epoch, whatever its mixed loss; then it needs two unmixed ones.
        ([2.5, 3, 0.5, 3.5, 4.0], {}, "single region3 single single region3"),
        ([2.5, 3, 3, 3.5, 4.0], {"rise": "any"}, "single region3 single region3 single"),
        # k rises, then k epochs.
        ([3, 4, 5, 6, 7, 8, 9], {"k": 2}, "single single region3 region3 single single single"),
        ([3, 4, 3, 4, 5, 4, 3], {"k": 2}, "single single single single region3 region3 single"),
        ([3, 4, 5, 6, 9, 9, 9], {"k": 3}, "single single single region3 region3 region3 single"),
        ([3, 4, 4, 5, 6, 7, 0], {"k": 3}, "single single single single single region3 region3"),
        # L_incorr alone: no rise needed, and it leaves at L_incorr, not into region 1.
        (
            [3, 3, 2, 3, 1, 1],
            {"selection": "incorr"},
            "region3 region3 single region3 single region1",
        ),
        ([1.0, 1.0, 3, 4], {"selection": "region3"}, "single single region3 single"),
        ([1.0, 1.0, 3, 4, 5], {"selection": "region1"}, "region1 region1 single single single"),
        ([1.25, 1.5, 3, 4], {"selection": "average_loss"}, "region1 single single single"),
        ([0.0, 0.0, 3, 4], {"selection": "accuracy"}, "single single single single"),
    ],
)
def test_one_sample_at_fixed_thresholds(losses, options, words):
    assert follow(losses, **options) == words.split()


def test_accuracy_mixes_whoever_was_right_and_lets_go_of_whoever_was_not():
    rehearsal = Rehearsal(2, selection="accuracy")
    words = []
    for right in (True, True, False, True):
        rehearsal.plan([0, 1])
        rehearsal.train({0: (50.0, right), 1: (0.0, False)})
        words.append(rehearsal.status())
    assert [word[0] for word in words] == ["region1", "region1", "single", "region1"]
    assert {word[1] for word in words} == {"single"}


def test_thresholds_stay_those_of_earlier_epochs_and_of_singles():
    """By hand: two samples right, one wrong; sample 0 is mixed in the third epoch."""
    rehearsal = Rehearsal(3)
    epochs = [
        {0: (1.0, True), 1: (3.0, True), 2: (6.0, False)},
        {0: (1.0, True), 1: (5.0, True), 2: (8.0, False)},
        {0: (99.0, False), 1: (5.0, True), 2: (4.5, True)},
    ]
    limits = []
    for seen in [*epochs, epochs[-1]]:
        rehearsal.plan(range(3))
        rehearsal.train(seen)
        limits.append(rehearsal.limits())
    assert limits[0] == {"corr": 0.0, "incorr": math.inf, "mid": 0.0, "mean": 0.0}
    assert limits[1] == {"corr": 2.0, "incorr": 6.0, "mid": 4.0, "mean": 10 / 3}
    assert limits[2] == {"corr": 10 / 4, "incorr": 7.0, "mid": 4.75, "mean": 24 / 6}
    # In the third epoch samples 0 and 2 were mixed (2 in region 3), so 5.0 is all that was added.
    assert limits[3] == {"corr": 15 / 5, "incorr": 7.0, "mid": 5.0, "mean": 29 / 7}


@pytest.mark.parametrize(
    ("memory", "corr"),
    [
        (1.0, [0.0, 1.0, 3 / 2, 9 / 3]),
        (0.5, [0.0, 1.0, (0.5 + 2) / 1.5, (0.25 + 1 + 6) / 1.75]),
        (0.0, [0.0, 1.0, 2.0, 6.0]),
    ],
)
def test_memory_is_what_earlier_epochs_weigh(memory, corr):
    rehearsal = Rehearsal(1, selection="region3", memory=memory)
    found = []
    for loss in (1.0, 2.0, 6.0, 0.0):
        rehearsal.plan([0])
        rehearsal.train({0: (loss, True)})
        found.append(rehearsal.limits()["corr"])
    assert found == pytest.approx(corr)


def test_nobody_is_mixed_before_the_third_epoch_or_with_bootstrap_the_second():
    seen = {0: (0.0, True), 1: (4.0, True), 2: (8.0, False)}
    for bootstrap, expected in ((False, [set(), {0, 1}]), (True, [{0, 1}, {0, 1}])):
        rehearsal = Rehearsal(3, bootstrap=bootstrap)
        mixed = []
        for _ in range(2):
            rehearsal.plan(range(3))
            rehearsal.train(seen)
            mixed.append({i for i, word in rehearsal.status().items() if word != "single"})
        assert mixed == expected


def test_bootstrap_uses_an_epochs_own_losses_in_the_first_epoch_only():
    """With no memory, an epoch in which all were mixed leaves no thresholds to the next."""
    rehearsal = Rehearsal(2, memory=0.0, bootstrap=True, selection="average_loss")
    oracle = Oracle(range(2), memory=0.0, bootstrap=True, selection="average_loss")
    for losses in ((1.0, 3.0), (0.5, 0.5), (0.25, 0.25), (9.0, 9.0), (1.0, 3.0), (1.0, 3.0)):
        seen = {i: (loss, True) for i, loss in enumerate(losses)}
        rehearsal.plan(range(2))
        rehearsal.train(seen)
        oracle.end_epoch(seen)
        assert rehearsal.limits() == oracle.limits
        assert rehearsal.status() == oracle.status


# Edges -----------------------------------------------------------------------------------------


def test_nobody_right():
    limits = policy.limits_of([0.0, 0.0, 12.0, 3.0])
    assert limits == (0.0, 4.0, 2.0, 4.0)


def test_nobody_wrong_leaves_no_region_3():
    limits = policy.limits_of([12.0, 3.0, 0.0, 0.0])
    assert limits == (4.0, math.inf, 4.0, 4.0)


@pytest.mark.parametrize("right", [True, False])
def test_all_right_or_all_wrong_goes_on_as_the_oracle_says(right):
    rehearsal, oracle, ever = Rehearsal(5), Oracle(range(5)), set()
    for epoch in range(6):
        seen = {i: (float((3 * i + 2 * epoch) % 7), right) for i in range(5)}
        rehearsal.plan(range(5))
        rehearsal.train(seen)
        oracle.end_epoch(seen)
        assert rehearsal.status() == oracle.status
        ever |= oracle.mixed()
    assert ever, "the case is not empty"


def test_incorr_below_corr_keeps_the_formulas():
    """Easy comes first: a loss between L_incorr and L_mid is region 1."""
    assert policy.limits_of([8.0, 1.0, 4.0, 1.0]) == (8.0, 4.0, 6.0, 6.0)
    rehearsal = Rehearsal(2)
    for losses in ((8.0, 4.0), (5.0, 4.0)):
        rehearsal.plan(range(2))
        rehearsal.train({0: (losses[0], True), 1: (losses[1], False)})
    assert rehearsal.status() == {0: "region1", 1: "region1"}


def test_all_mixed_and_then_none():
    rehearsal = Rehearsal(4)
    for losses in ((4.0, 4.0, 4.0, 8.0), (1.0, 1.0, 1.0, 1.0)):
        rehearsal.plan(range(4))
        rehearsal.train({i: (loss, loss < 8) for i, loss in enumerate(losses)})
    assert set(rehearsal.status().values()) == {"region1"}
    assert {len(row) for row in rehearsal.plan(range(4))} == {2}
    rehearsal.train(dict.fromkeys(range(4), (99.0, False)))
    assert set(rehearsal.status().values()) == {"single"}
    assert {len(row) for row in rehearsal.plan(range(4))} == {1}


def test_a_lone_mixed_sample_leaves_the_plan_as_it_was():
    rehearsal = Rehearsal(5)
    rehearsal.strategy.status[3] = policy.MIX_R1
    plan = Plan.cut(torch.tensor([4, 2, 3, 1, 0]), 4)
    wrapper = rehearsal.strategy.plan_epoch(rehearsal.run)
    next(wrapper)
    with pytest.raises(StopIteration) as done:
        wrapper.send(plan)
    assert done.value.value is plan


@pytest.mark.parametrize("n", [2, 3, 8, 9])
def test_selection_none_pairs_everybody_in_every_epoch(n):
    rehearsal = Rehearsal(n, selection="none")
    for _ in range(4):
        rows = rehearsal.plan(range(n))
        assert sorted(i for row in rows for i in row) == list(range(n))
        assert sorted(map(len, rows)) == [1] * (n % 2) + [2] * (n // 2)
        rehearsal.train(dict.fromkeys(range(n), (9.0, False)))


def test_skipping_is_for_k_epochs_and_then_the_sample_is_back():
    rehearsal = Rehearsal(3, region3="skip", selection="region3", k=2)
    present = []
    for epoch in range(9):
        rows = rehearsal.plan(range(3))
        present.append(any(0 in row for row in rows))
        assert all(len(row) == 1 for row in rows)
        losses = {0: (4.0 + epoch, False), 1: (0.0, True), 2: (0.5, False)}
        rehearsal.train({row[0]: losses[row[0]] for row in rows})
    # Rises at epochs 1 and 2, skipped in 3 and 4, unmixed in 5, rises in 6 and 7, skipped in 8.
    assert present == [True, True, True, False, False, True, True, True, False]


@pytest.mark.parametrize("selection", ["region1", "accuracy", "average_loss", "incorr", "none"])
def test_skipping_is_refused_where_nothing_says_for_how_long(selection, installed):
    """Who is omitted has no loss to leave region 3 by: only a count of epochs brings it back."""
    with pytest.raises(DataeffError, match="region3 has no effect with selection="):
        Composition.read(f"mixtrain_cutmix[selection={selection},region3=skip]", installed)


def test_an_epoch_of_nothing_but_skipped_samples_is_left_to_the_harness():
    """The harness has a sentence for an empty plan; the strategy must let it get there."""
    rehearsal = Rehearsal(2, region3="skip", selection="region3")
    rehearsal.strategy.status[:] = policy.MIX_R3
    assert rehearsal.plan(range(2)) == []


def test_an_odd_one_is_trained_unmixed_and_keeps_its_status():
    """Of 9 samples, all mixed by hand, the odd one is not the same in every epoch."""
    rehearsal, alone = Rehearsal(9), set()
    rehearsal.strategy.sums = [40.0, 10.0, 80.0, 10.0]
    rehearsal.strategy.status[:] = policy.MIX_R1
    for _ in range(6):
        rows = rehearsal.plan(range(9))
        assert sorted(map(len, rows)) == [1, 2, 2, 2, 2]
        (odd,) = (row[0] for row in rows if len(row) == 1)
        alone.add(odd)
        rehearsal.train(dict.fromkeys(range(9), (5.0, False)))
        assert set(rehearsal.status().values()) == {"region1"}
        assert rehearsal.strategy.sums == [40.0, 10.0, 80.0, 10.0], "nor does it feed thresholds"
    assert len(alone) > 1
    rehearsal.train(dict.fromkeys(range(9), (9.0, False)))
    assert set(rehearsal.status().values()) == {"single"}, "above L_incorr: out, not region 3"
