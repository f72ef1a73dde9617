"""All strategies on two devices that refuse what a GPU refuses, or waits for.

The devices are torch's for as long as a process lives, so they are in one of their own.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
import strict_runs as runs
import torch
from conftest import drawn
from test_same_numbers import ALL

from dataeff.errors import Refused

READS_BACK = ("auto_assist", "selective_backprop")
NOT_COMPILED = ("growing", "stochastic_depth")
CHANGES_THE_NETWORK = ("prunetrain",)


@pytest.fixture(scope="module")
def there():
    """Return a function that calls another one where the devices are."""
    if not hasattr(torch._C, "_acc"):
        pytest.skip("this torch takes no backend in Python")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, runs.install) as pool:
        yield lambda function, *given: pool.submit(function, *given).result(timeout=300)


def some(count, cases=ALL):
    """Return some strategies, each with its network."""
    return pytest.mark.parametrize(
        ("text", "model"), drawn(cases, count), ids=[text for text, _ in drawn(cases, count)]
    )


def names(text):
    return {part.split("[")[0] for part in text.split("+")}


@pytest.mark.long
@some(3)
def test_training_on_a_device_gives_the_numbers_of_the_cpu(there, text, model):
    status, devices, weights = there(runs.start, text, model)
    assert (status, devices) == ("finished", {"strict:1"})
    _, _, expected = there(runs.on_cpu, text, model)
    assert torch.allclose(weights, expected, atol=1e-5)


@pytest.mark.long
@some(3)
def test_a_run_goes_on_on_the_other_device(there, text, model):
    status, devices, weights = there(runs.resume, text, model)
    assert (status, devices) == ("finished", {"strict:0"})
    assert torch.equal(weights, there(runs.start, text, model)[2])


@pytest.mark.long
@some(3, [(f"{text}+amp", model) for text, model in ALL if "amp" not in names(text)])
def test_mixed_precision_on_a_device(there, text, model):
    status, devices, weights = there(runs.start, text, model)
    assert (status, devices) == ("finished", {"strict:1"})
    plain = there(runs.start, text.removesuffix("+amp"), model)[2]
    assert plain.shape != weights.shape or not torch.equal(weights, plain), "nothing was cast"


@some(3, [case for case in ALL if not names(case[0]) & {*READS_BACK}])
def test_nothing_waits_for_the_device_within_an_epoch(there, text, model):
    assert there(runs.hot, text, model) >= 2


def test_what_reads_back_is_refused_in_its_name(there):
    with pytest.raises(Exception, match=r"selective_backprop, in select_batch: .* reads back"):
        there(runs.hot, "selective_backprop", "tiny")


@pytest.mark.long
@some(3)
def test_all_graphs_are_made_in_warm_up(there, text, model):
    if names(text) & {*NOT_COMPILED}:
        with pytest.raises(Refused, match="too often to compile"):
            there(runs.compiled, text, model)
        return
    before, on_the_clock = there(runs.compiled, text, model)
    assert before >= 3, "full and other sizes, training and scoring"
    assert (on_the_clock == 0) is not bool(names(text) & {*CHANGES_THE_NETWORK})


def test_previews_and_pilots_are_on_the_device_that_was_asked_for(there):
    assert there(runs.foretold) == ("", True, {1}, {1})
    assert there(runs.current) == 0, "which one was current before"


def test_events_are_made_once_and_stamped_on_the_device_of_the_meter(there):
    made, phases = there(runs.events, 50)
    assert made == there(runs.events, 2)[0]
    assert phases >= {"load", "forward", "backward"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("another device", "strict:1 and strict:0"),
        ("the CPU", "strict:1 and cpu"),
        ("an index of the CPU", "a copy from the CPU that waits"),
        ("a generator", "draws on the CPU alone"),
        ("item", "reads back"),
        ("if", "reads back"),
        ("a mask", "reads back"),
        ("nonzero", "reads back"),
        ("a copy", "reads back"),
        ("a slow copy", "non_blocking"),
        ("an event", "an event of strict:1 on a stream of strict:0"),
    ],
)
def test_the_device_refuses(there, name, why):
    assert why in there(runs.refused, name)


@pytest.mark.parametrize("name", ["a number", "a quick copy"])
def test_the_device_lets_pass(there, name):
    assert there(runs.refused, name) == ""


def test_between_epochs_all_can_be_read(there):
    assert there(runs.read) == (15.0, [3.0, 4.0, 5.0])
