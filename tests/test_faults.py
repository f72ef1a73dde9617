"""Hook x fault: whatever a hook does, its cell is a row that names it, and the others go on."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from benches import TASK, Bench, record
from conftest import drawn
from faults import ENDING, HOOKS, RETURNED, WATCHED, plugin

from dataeff.bench.blocks import Cells
from dataeff.bench.desk import open_desk
from dataeff.bench.runner import run_cells
from dataeff.errors import DataeffError
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.training.job import Place
from dataeff.training.task import Task

RAISED = ("raise", "memory")
# None is what these are to return, or may.
NOTHING = ("prune_dataset", "drain", "backward", "finish_gradients", "optimizer_step")
# Columns have no shape, no device and no type of numbers; one may be missing.
COLUMNS = ("device", "dtype", "nan", "empty")


def is_harmless(hook, fault):
    """Say whether nobody need take notice of a fault."""
    ignored = (*WATCHED, "observe_batch")
    return (
        (hook in ignored and fault not in RAISED)
        or (hook in NOTHING and fault == "nothing")
        or (hook == "report" and fault in COLUMNS)
    )


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "bad.py").write_text(plugin())
    return folder


@pytest.fixture(scope="module")
def lab(plugins):
    return Lab(load_plugins([plugins]), "cpu")


# What is returned ------------------------------------------------------------------------------

CASES = [(hook, fault) for hook in HOOKS for fault in RETURNED]


@pytest.mark.parametrize(("hook", "fault"), drawn(CASES, 16))
def test_a_wrong_value_is_told_in_the_name_of_strategy_and_hook(lab, hook, fault):
    label, place = f"bad_{hook}[fault={fault}]", Place(Path("cell"))

    def train():
        return lab.run(Task(**TASK), lab.composition(label), 0, place).record

    if hook == "on_resume":
        with pytest.raises(DataeffError, match="to be resumed"):
            train()
    if is_harmless(hook, fault):
        assert train()["status"] == "finished"
        return
    with pytest.raises(DataeffError) as told:
        train()
    # The default of a parameter is not part of a label.
    assert str(told.value).startswith(f"{lab.composition(label).text}, in {hook}: ")


# What ends, or hangs ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(plugins, tmp_path_factory):
    """Return a bench whose processes are there for all of these tests."""
    folder = tmp_path_factory.mktemp("shared")
    bench = Bench(folder, load_plugins([plugins]))
    bench.settings = replace(bench.settings, in_process=False, timeout=60, plugin_dirs=(plugins,))
    with open_desk(bench.settings) as desk:
        bench.desk = desk
        yield bench


SAYS = {
    "exit": "SystemExit",
    "os_exit": "the process ended with exit code 0 and left no result",
    "segfault": "the process was ended by SIGSEGV",
    "overflow": "RecursionError",
    "hang": "no epoch ended within 4 seconds, so it was stopped; see --timeout",
}
ENDS = [(hook, fault) for hook in HOOKS for fault in ENDING]


def run(bench, cells, timeout):
    settings = replace(bench.settings, timeout=timeout)
    run_cells(Cells(cells), bench.desk, settings, lambda event: None)
    return [record(cell) for cell in cells]


@pytest.mark.parametrize(("hook", "fault"), drawn(ENDS, 4))
def test_who_ends_or_hangs_a_process_is_named_and_the_others_go_on(shared, hook, fault):
    label = f"bad_{hook}[fault={fault}]"
    cells = shared.cells(label, "baseline")
    if hook == "on_resume":
        (stopped,) = run(shared, cells[:1], 60)
        assert "to be resumed" in stopped["error"]
    bad, other = run(shared, cells, 4 if fault == "hang" else 60)
    assert other["status"] == "finished"
    if fault in ("thread", "process"):
        assert bad["status"] == "finished"
        assert f"{label}, in {hook} left a {fault} running" in bad["machine"]["flags"]
        assert not asleep()
        return
    assert bad["status"] == "failed"
    assert f"{label}, in {hook}: " in bad["error"]
    assert SAYS[fault] in bad["error"]


def asleep():
    """Return the processes that a fault has left behind."""
    found = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True)
    lines = [line for line in found.stdout.splitlines() if line.endswith(" sleep 600")]
    # Those of other test processes are killed by these.
    return [line for line in lines if os.getcwd() in _cwd(line.split()[0])]


def _cwd(number):
    try:
        return os.readlink(f"/proc/{number}/cwd")
    except OSError:
        return ""
