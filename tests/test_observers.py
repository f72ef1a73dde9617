"""Observers: TensorBoard, MLflow and those of others see epochs, and change nothing."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from dataeff_plugins.tensorboard import TensorBoard
from shell import call, mistake, ok

SUITE = """
strategies = ["baseline", "random_subset[keep=0.5]"]
controls = false
seeds = 1
[tasks.blobs]
dataset = "synthetic[samples=60,test_samples=20,classes=3,size=8]"
model = "tiny"
epochs = 3
batch_size = 16
"""
RUN = ("run", "few.toml", "--in-process")
FEW = Path("results/few")


@pytest.fixture(autouse=True)
def _suite():
    Path("few.toml").write_text(SUITE)


def epochs_of():
    """Return what each cell says of its epochs, by the name of its folder."""
    return {path.parent.name: pd.read_csv(path) for path in FEW.glob("*/epochs.csv")}


def numbers_of(folder):
    """Return all of the records that no clock has a say in."""
    names = ("weights", "metrics", "train_loss", "steps", "rows", "version", "conditions_id")
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*/run.json"))]
    return [{name: record[name] for name in names} for record in records]


def scalars(folder):
    """Return the curves that TensorBoard finds in a folder, by name."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard"
    )
    seen = accumulator.EventAccumulator(str(folder))
    seen.Reload()
    return {
        name: {event.step: event.value for event in seen.Scalars(name)}
        for name in seen.Tags()["scalars"]
    }


def same_curves(told, epochs):
    """Say whether curves have what epochs.csv has: NaN is no point, and the first step is 1."""
    for name in ("train_loss", "test_top1", "rows_trained", "train_seconds", "kept"):
        column = epochs[name].dropna()
        found = dict(zip(epochs.loc[column.index, "epoch"] + 1, column, strict=True))
        assert told[name] == pytest.approx(found, rel=1e-6), name


def test_tensorboard_has_the_curves_of_every_cell():
    pytest.importorskip("tensorboard", reason="no tensorboard")
    ok(*RUN, "--log", "tensorboard")
    cells = epochs_of()
    assert {path.name for path in (FEW / "tensorboard").iterdir()} == set(cells)
    for name, epochs in cells.items():
        same_curves(scalars(FEW / "tensorboard" / name), epochs)


def test_mlflow_has_a_run_for_every_cell():
    pytest.importorskip("mlflow", reason="no mlflow")
    ok(*RUN, "--log", "mlflow")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(FEW / "mlflow").absolute().as_uri())
    experiment = client.get_experiment_by_name("few").experiment_id
    runs = client.search_runs([experiment])
    cells = epochs_of()
    assert {run.data.tags["dataeff.cell"] for run in runs} == set(cells)
    for run in runs:
        name, number = run.data.tags["dataeff.cell"], run.info.run_id
        assert run.info.status == "FINISHED"
        record = json.loads((FEW / name / "run.json").read_text())
        assert run.data.params["strategy"] == record["strategy"]
        assert run.data.params["task.batch_size"] == "16"
        assert run.data.metrics["final_test_top1"] == record["metrics"]["test_top1"]
        keys = [key for key in run.data.metrics if not key.startswith("final_")]
        history = {key: client.get_metric_history(number, key) for key in keys}
        told = {key: {one.step: one.value for one in points} for key, points in history.items()}
        same_curves(told, cells[name])


def test_who_logs_changes_no_cell_and_no_command():
    ok(*RUN, "--results", "plain")
    pytest.importorskip("tensorboard", reason="no tensorboard")
    ok(*RUN, "--log", "tensorboard")
    assert numbers_of(FEW) == numbers_of(Path("plain/few"))
    assert json.loads((FEW / "suite.json").read_text())["commands"] == ["dataeff run few.toml"]


def test_epochs_that_are_told_twice_are_there_once(tmp_path):
    pytest.importorskip("tensorboard", reason="no tensorboard")
    cell = {"name": "c", "strategy": "s", "seed": 0}
    for epochs in ((0, 1), (1, 2)):
        observer = TensorBoard(tmp_path)
        observer.cell_started(cell)
        for epoch in epochs:
            observer.epoch_ended(cell, {"epoch": epoch, "train_loss": 10.0 * epochs[0] + epoch})
    assert scalars(tmp_path / "tensorboard" / "c")["train_loss"] == {1: 0, 2: 11, 3: 12}


# What goes wrong ---------------------------------------------------------------------------------

LOOSE = '''
"""Loud."""

import os

from dataeff import Observer, hookimpl


@hookimpl
def register_observers(register):
    register("loud", Loud)


class Loud(Observer):
    """Do what `how` says in the second epoch."""

    def __init__(self, folder, *, how: str = "raise"):
        super().__init__(folder)
        if how == "at once":
            raise ValueError("no")
        self.how = how

    def epoch_ended(self, cell, line):
        if line["epoch"] == 1 and self.how == "exit":
            os._exit(3)
        if line["epoch"] == 1:
            raise ValueError("too loud")
'''


@pytest.fixture
def loud():
    Path("loud").mkdir()
    Path("loud/loud.py").write_text(LOOSE)
    return "--plugins-dir", "loud"


def test_one_that_fails_is_said_and_cells_go_on(loud):
    result = call(*RUN, *loud, "--log", "loud")
    assert result.exit_code == 0
    said = "loud sees no more of this run (ValueError: too loud); cells go on without it."
    assert result.stderr.splitlines().count(said) == 1
    assert len(list(FEW.glob("*/run.json"))) == 2


def test_one_that_cannot_be_had_is_told_before_anything_is_written(loud):
    told = mistake(*RUN, *loud, "--log", "loud[how=at once]")
    assert told == "--log loud[how=at once] cannot be had: ValueError: no"
    told = mistake(*RUN, "--log", "tensorbord")
    assert told.startswith("There is no observer 'tensorbord'. Did you mean tensorboard?")
    assert not FEW.exists()


@pytest.mark.parametrize(
    ("name", "module", "told"),
    [
        ("tensorboard", "torch.utils.tensorboard", "TensorBoard is not installed; type: pip"),
        ("mlflow", "mlflow", "MLflow is not installed; type: pip install 'dataeff[mlflow]'"),
    ],
)
def test_what_is_not_installed_is_told(name, module, told, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    assert mistake(*RUN, "--log", name).startswith(told)


@pytest.mark.long
def test_observers_live_in_a_process_of_their_own(loud):
    run = ("run", "few.toml", *loud, "--device", "cpu")
    pytest.importorskip("tensorboard", reason="no tensorboard")
    result = call(*run, "--log", "tensorboard", "--log", "loud[how=raise]")
    assert "loud[how=raise] sees no more of this run" in result.stderr
    for name, epochs in epochs_of().items():
        same_curves(scalars(FEW / "tensorboard" / name), epochs)
    result = call(*run, "--log", "loud[how=exit]", "--results", "other")
    assert result.exit_code == 0
    assert "Observers see no more of this run: " in result.stderr
    assert numbers_of(FEW) == numbers_of(Path("other/few"))
