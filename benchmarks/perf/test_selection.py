"""How much of what selection saves arrives: CIFAR-10 images, ResNet-8, batch 128, one thread.

The ideal is counted work: forward 1, backward 2, per row at its resolution. Each round trains the
same number of epochs with the strategy and without, in turn.
"""

import pytest
from trainers import measured

SCORES = "models=1,epochs=1"
ALL_ALONG = "start=0,end=1,interrupt=0"
EL2N = f"el2n[keep=0.75,{SCORES}]"


@pytest.mark.parametrize(
    ("text", "least"),
    [
        pytest.param("random_backprop[keep=0.5]", 1.9, id="Random-Backprop 50%"),
        pytest.param("random_backprop[keep=0.25]", 3.5, id="Random-Backprop 75%"),
        pytest.param(EL2N, 1.30, id="EL2N 25%, without its preparation"),
        pytest.param(f"selective_backprop_batch[{ALL_ALONG}]", 1.12, id="in-batch SB 50%"),
        pytest.param(f"{EL2N}+selective_backprop_batch[{ALL_ALONG}]", 1.45, id="Diet-SB 62.5%"),
    ],
)
def test_what_the_poster_timed(ratio, text, least):
    speedup, _, realised, _ = measured(ratio, text, rounds=15)
    assert speedup >= least
    assert realised >= 0.9


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("random_subset[keep=0.5]", 1),
        ("random_backprop[keep=0.5,mode=accumulate]", 1),
        ("minibatch_skipping[skip=0.5]", 4),
        (f"{EL2N}+selective_backprop_batch[keep=0.667,{ALL_ALONG}]", 1),
        (f"{EL2N}+random_backprop[keep=0.667]", 1),
        (f"grand[{SCORES}]", 1),
        (f"forgetting[{SCORES}]", 1),
        ("selective_backprop", 1),
        ("selective_backprop[beta=2]", 1),
        ("selective_backprop[stale=3]", 3),
        (f"selective_backprop_batch[scale=0.5,{ALL_ALONG}]", 1),
        ("self_paced", 1),
        ("input_scaling[scale=0.75]", 1),
        ("rho_loss[epochs=1]", 1),
    ],
)
def test_how_much_of_the_ideal_arrives(ratio, text, period):
    _, ideal, realised, _ = measured(ratio, text, period)
    assert ideal > 1.1, "nothing was left out"
    assert realised >= 0.9


def test_what_is_learnt_is_hidden_and_saves_its_part(ratio):
    """Kakurenbo hides what the network is right about; so young, it is hardly sure of it."""
    _, ideal, realised, _ = measured(ratio, "kakurenbo[tau=0]", rounds=15, before=12)
    assert ideal > 1.1, "nothing was hidden"
    assert realised >= 0.9


def test_resolution_that_grows_arrives_over_a_whole_schedule(ratio):
    _, ideal, realised, _ = measured(ratio, "progressive_resizing", 10, rounds=3, epochs=10)
    assert ideal > 1.5
    assert realised >= 0.9


def test_infobatch_is_within_five_percent_of_its_ideal(ratio):
    _, ideal, realised, _ = measured(ratio, "infobatch", rounds=15)
    assert ideal > 1.1, "nothing was pruned"
    assert realised >= 0.95


def test_stale_losses_are_faster_than_fresh_ones(ratio):
    fresh = "selective_backprop"
    speedup, ideal, _, _ = measured(ratio, f"{fresh}[stale=3]", 3, against=fresh)
    assert speedup > 1
    assert ideal > 1


@pytest.mark.parametrize(
    "text",
    ["gradmatch", "gradmatch[by=class]", "craig", "glister", "auto_assist"],
)
def test_choosing_costs_less_than_it_saves(ratio, text):
    """The work of optimisers is in no count: what they take is told, and all is still faster."""
    every = 5 if text != "auto_assist" else 1
    speedup, _, _, job = measured(ratio, text, every)
    seconds = sum(job.meter.timed.values())
    assert seconds > 0
    print(f"choosing takes {seconds / job.meter.wall['train']:.1%} of the time")
    assert speedup > 1
