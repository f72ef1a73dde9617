"""Final weights as safetensors: of each cell, loadable into the network that its task names."""

import json
from pathlib import Path

import pytest
import torch
from benches import Bench, rewrite
from safetensors.torch import load_file
from shell import call, ok

from dataeff.bench.keeping import NAME, keep_weights
from dataeff.models import build_model
from dataeff.training.evaluate import evaluate, merits


@pytest.fixture
def bench(tmp_path, installed):
    return Bench(tmp_path, installed)


def network(bench, cell):
    data = bench.lab.data(cell.task)
    models = bench.lab.installed.models
    return data, build_model(cell.task.model, models, classes=data.classes, shape=data.shape)


def accuracy(model, test):
    model.eval()
    return merits(evaluate(model, test, torch.arange(len(test)), 16))["top1"]


def record(cell):
    return json.loads((cell.folder / "run.json").read_text())


@pytest.mark.parametrize("strategy", ["baseline", "random_subset[keep=0.5]+amp"])
def test_they_reach_in_the_tasks_network_what_the_cell_reached(bench, strategy):
    (cell,) = bench.cells(strategy, epochs=5)
    bench.run([cell])
    assert keep_weights([cell]) == []
    data, model = network(bench, cell)
    state = load_file(cell.folder / NAME)
    assert model.load_state_dict(state).missing_keys == []
    assert accuracy(model, data.test) == record(cell)["metrics"]["test_top1"]
    theirs = torch.load(cell.folder / "weights.pt", weights_only=True)
    assert all(torch.equal(state[name], theirs[name]) for name in theirs)


def test_records_are_the_same_whether_weights_are_kept_or_not(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    before = (cell.folder / "run.json").read_bytes()
    keep_weights([cell])
    assert (cell.folder / "run.json").read_bytes() == before
    assert record(cell)["version"] == cell.version


def test_they_are_made_once_and_anew_when_the_cell_was(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    keep_weights([cell])
    when = (cell.folder / NAME).stat().st_mtime_ns
    keep_weights([cell])
    assert (cell.folder / NAME).stat().st_mtime_ns == when
    bench.run([cell], fresh=True)
    assert not (cell.folder / NAME).exists()
    keep_weights([cell])
    assert (cell.folder / NAME).exists()


def test_weights_that_are_gone_or_changed_are_told(bench):
    cells = bench.cells(seeds=2)
    bench.run(cells)
    (cells[0].folder / "weights.pt").unlink()
    (cells[1].folder / "weights.pt").write_bytes(b"torn")
    assert keep_weights(cells) == [
        "The weights of 2 finished cells are no longer there; --fresh trains them again."
    ]
    assert not list(cells[0].root.glob(f"*/{NAME}"))


def test_another_network_stays_in_its_own_form(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    (cell.folder / "weights.pt").rename(cell.folder / "weights.pt2")
    rewrite(cell, network_form="program")
    (said,) = keep_weights([cell])
    assert said.startswith("1 cell has another network than the task's by its strategy")
    assert not (cell.folder / NAME).exists()


@pytest.mark.long
def test_run_keeps_them_also_of_cells_that_have_ended():
    Path("few.toml").write_text(
        'strategies = ["baseline"]\nseeds = 1\ncontrols = false\n[tasks.blobs]\n'
        'dataset = "synthetic[samples=60,test_samples=20,classes=3,size=8]"\n'
        'model = "tiny"\nepochs = 2\n'
    )
    ok("run", "few.toml", "--in-process")
    assert not list(Path("results").glob(f"*/*/{NAME}"))
    ok("run", "few.toml", "--in-process", "--keep-weights")
    (kept,) = Path("results").glob(f"*/*/{NAME}")
    asked = json.loads(Path("results/few/suite.json").read_text())
    assert asked["commands"] == ["dataeff run few.toml"]
    kept.unlink()
    kept.with_name("weights.pt").unlink()
    result = call("run", "few.toml", "--in-process", "--keep-weights")
    assert "The weights of 1 finished cell are no longer there; --fresh" in result.stderr
