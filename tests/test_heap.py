"""The heap of a cell's process: kept, and begun at a place that is drawn."""

import subprocess
import sys

import pytest

from dataeff.bench.conditions import conditions
from dataeff.lab import pick_device
from dataeff.training import heap

FAULTS = """
import resource
import sys
from contextlib import nullcontext

from dataeff.training.heap import steady_heap


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


with steady_heap() if sys.argv[1] == "steady" else nullcontext():
    bytearray(2**24)
    before = faults()
    for _ in range(8):
        bytearray(2**24)
    print(faults() - before)
"""


def faults(kind):
    command = [sys.executable, "-c", FAULTS, kind]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not heap.keeps_heap(), reason="no glibc: nothing can be kept")
def test_what_was_freed_is_not_fetched_again():
    # Four thousand pages each time, or none.
    assert faults("steady") < 2000 < faults("plain")


def test_a_heap_begins_at_another_place_each_time(monkeypatch):
    drawn = []
    monkeypatch.setattr(heap.secrets, "randbelow", lambda most: drawn.append(most) or 1000)
    for _ in range(2):
        with heap.steady_heap():
            pass
    assert drawn == [2**22, 2**22]


def test_where_nothing_can_be_kept_cells_run_all_the_same(monkeypatch):
    def gone(name):
        raise OSError(name)

    monkeypatch.setattr(heap.ctypes, "CDLL", gone)
    assert not heap.keeps_heap()
    with heap.steady_heap():
        pass


def test_cells_with_and_without_are_not_compared(monkeypatch):
    device = pick_device("cpu")
    here = conditions(device)
    monkeypatch.setattr("dataeff.bench.conditions.keeps_heap", lambda: not here["keeps_heap"])
    assert conditions(device) != here
