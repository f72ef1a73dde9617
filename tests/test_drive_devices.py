"""Drives on a device that refuses what a GPU refuses, or waits for."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import driving_strict as runs
import pytest
import torch
from conftest import drawn
from driving import DRIVABLE


@pytest.fixture(scope="module")
def there():
    """Return a function that calls another one where the devices are."""
    if not hasattr(torch._C, "_acc"):
        pytest.skip("this torch takes no backend in Python")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, runs.install) as pool:
        yield lambda function, *given: pool.submit(function, *given).result(timeout=300)


@pytest.mark.long
@pytest.mark.parametrize("text", drawn(DRIVABLE, 5))
def test_a_device_chooses_as_the_cpu_does(there, text):
    assert there(runs.on_both, text) == (True, True)


@pytest.mark.parametrize("text", ["infobatch", "kakurenbo", "craig[keep=0.9]", "mixtrain_mixup"])
def test_nothing_waits_for_the_device_within_an_epoch(there, text):
    assert there(runs.nothing_waits, text) > 3


@pytest.mark.parametrize("text", ["infobatch", "self_paced[weights=soft]", "auto_assist"])
def test_batches_may_be_elsewhere_than_the_network(there, text):
    assert there(runs.batches_elsewhere, text) == ("strict:1", 1.0)


def test_batches_are_where_the_network_is(there):
    assert there(runs.where_the_network_is) == {"strict:1"}
