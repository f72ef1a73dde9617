"""The Python door: comparing, reading and training, by names of ours and with a program's own."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from shell import mistake, ok

import dataeff
from dataeff.errors import DataeffError
from dataeff.lab import Lab
from dataeff.models import build_model
from dataeff.plugins import load_plugins
from dataeff.report.price import with_seeds
from dataeff.training.evaluate import evaluate, merits

BLOBS = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
TASK = {"model": "tiny", "epochs": 2, "batch_size": 16, "lr": 0.05, "device": "cpu"}
PUBLISHED = Path(__file__).parent.parent / "results" / "published"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return what came of a small comparison, made once."""
    results = tmp_path_factory.mktemp("results")
    more = {"seeds": 2, "name": "small", "results": results, "controls": False}
    return dataeff.compare(BLOBS, strategies=["infobatch"], in_process=True, **TASK, **more)


# Comparing ---------------------------------------------------------------------------------------


def test_a_comparison_answers_and_has_its_tables(compared):
    assert compared.answer.headline in str(compared.answer)
    assert list(compared.leaderboard()["strategy"]) == ["infobatch", "baseline"] or list(
        compared.leaderboard()["strategy"]
    ) == ["baseline", "infobatch"]
    assert len(compared.runs()) == 4
    assert set(compared.epochs()["epoch"]) == {1, 2}
    samples = compared.samples()
    assert set(samples["seed"]) == {0, 1}
    assert len(samples) == 4 * 90
    for name in ("leaderboard.csv", "runs.csv", "report.html", "suite.json"):
        assert (compared.folder / name).exists()


def test_what_is_given_away_cannot_change_what_is_kept(compared):
    table, runs = compared.leaderboard(), compared.runs()
    table["strategy"], runs["seed"] = "mine", -1
    assert "infobatch" in set(compared.leaderboard()["strategy"])
    assert set(compared.runs()["seed"]) == {0, 1}


def test_it_shows_itself_in_terminals_and_notebooks(compared):
    assert compared.answer.headline in " ".join(repr(compared).split())
    shown = compared._repr_html_()
    assert shown.startswith("<iframe ")
    assert "sandbox" in shown
    assert "<script" not in shown.replace("&lt;", "<")


def test_figures_and_the_page_are_there(compared):
    assert compared.page().read_text().startswith("<!doctype html>")
    assert compared.plot("time").axes
    with pytest.raises(DataeffError, match="no figure 'tim'"):
        compared.plot("tim")


def test_what_is_finished_is_not_run_again_and_more_can_be_had(compared, capsys):
    more = {"seeds": 2, "name": "small", "results": compared.folder.parent, "controls": False}
    again = dataeff.compare(BLOBS, strategies=["infobatch"], in_process=True, **TASK, **more)
    assert "4 finished cells were skipped" in capsys.readouterr().out
    pd.testing.assert_frame_equal(again.runs(), compared.runs())
    with_more = {**more, "strategies": "random_subset[keep=0.5]"}
    wider = dataeff.compare(BLOBS, in_process=True, **TASK, **with_more)
    assert "random_subset[keep=0.5]" in set(wider.leaderboard()["strategy"])
    assert "infobatch" in set(wider.leaderboard()["strategy"])


def test_what_to_type_for_more_is_python():
    assert (
        with_seeds("dataeff.compare(..., name='x')", 9) == "dataeff.compare(..., name='x', seeds=9)"
    )
    assert with_seeds("dataeff run x --seeds 3", 9) == "dataeff run x --seeds 9"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"train": "digits", "learning_rate": 0.1}, "There is no option 'learning_rate'."),
        ({"train": "digits", "lrr": 0.1}, "There is no option 'lrr'. Did you mean lr?"),
        ({"train": "digits", "lr": "fast"}, "lr"),
        ({"train": "digits", "size": 8}, "size is for own data"),
        ({}, "There is nothing to train on"),
        ({"train": "digits", "strategies": []}, "Name what to compare: strategies=[...]"),
        ({"train": "digit"}, "Did you mean digits"),
        ({"train": "digits", "model": "resnet9"}, "There is no model 'resnet9'"),
        ({"train": "digits", "strategies": ["infobach"]}, "Did you mean infobatch"),
        ({"train": "digits", "seeds": "many"}, "seeds"),
        ({"train": "digits", "name": "../out"}, "would be another place"),
    ],
)
def test_mistakes_teach(given, said):
    with pytest.raises(DataeffError) as caught:
        dataeff.compare(
            **({"strategies": ["infobatch"], "in_process": True, "device": "cpu"} | given)
        )
    assert said in str(caught.value)
    assert not Path("results").exists()


# A program of one's own --------------------------------------------------------------------------

SCRIPT = """
import dataeff

print("begun")
result = dataeff.compare(
    {data!r}, model="tiny", strategies=["infobatch"], epochs=2, batch_size=16, lr=0.05,
    seeds=1, name="small", controls=False, device="cpu",
)
print(result.answer.kind)
"""


@pytest.mark.long
def test_a_script_needs_no_guard_and_is_not_run_in_its_processes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(data=BLOBS))
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "begun"
    assert ran.stdout.count("begun") == 1
    assert ran.stdout.splitlines()[-1] == "one seed"
    assert len(list((tmp_path / "results" / "small").glob("*/run.json"))) == 2


# Reading -----------------------------------------------------------------------------------------


def test_published_results_are_read_and_judged_by_another_margin():
    result = dataeff.read(PUBLISHED / "quickstart")
    assert result.answer.strategy == "infobatch"
    assert dataeff.read(str(PUBLISHED / "quickstart"), margin=20.0).board.margin == 20.0
    with pytest.raises(DataeffError, match="There are no samples"):
        result.samples()
    with pytest.raises(DataeffError, match="There is no single answer"):
        _ = dataeff.read(PUBLISHED / "mixtrain-mini").answer
    assert len(dataeff.read(PUBLISHED / "mixtrain-mini").answers) == 2
    with pytest.raises(DataeffError, match="There are no results in"):
        dataeff.read("nowhere/at-all")


@pytest.mark.long
def test_reading_needs_no_torch():
    program = f"""
        import sys
        sys.modules["torch"] = None
        import dataeff
        result = dataeff.read({str(PUBLISHED / "quickstart")!r})
        print(result.answer.strategy, len(result.leaderboard()), len(result._repr_html_()) > 1000)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["infobatch", "14", "True"]


# Training ----------------------------------------------------------------------------------------


def accuracy_of(path):
    """Return the test accuracy of weights in a file, by the network of the task alone."""
    lab = Lab(load_plugins(only=()), "cpu")
    from dataeff.training.task import Task

    data = lab.data(Task(dataset=BLOBS, model="tiny", epochs=2.0))
    net = build_model("tiny", lab.installed.models, classes=data.classes, shape=data.shape)
    net.load_state_dict(load_file(path))
    everything = torch.arange(len(data.test))
    return merits(evaluate(net.eval(), data.test, everything, 16))["top1"]


def test_a_network_is_trained_on_all_samples_and_its_weights_are_as_good(tmp_path, capsys):
    path = tmp_path / "deep" / "net.safetensors"
    net = dataeff.train(BLOBS, strategy="infobatch", weights=path, **TASK)
    assert not net.training
    assert net.trained["strategy"] == "infobatch"
    assert json.loads(net.trained["task"])["validation"] == 0.0
    assert accuracy_of(path) == net.trained["test_top1"]
    assert "epoch 2 of 2: loss" in capsys.readouterr().out
    with safe_open(path, "pt") as file:
        assert float(file.metadata()["test_top1"]) == net.trained["test_top1"]
    assert [one.name for one in path.parent.iterdir()] == ["net.safetensors"]


def test_the_command_trains_the_same(tmp_path):
    net = dataeff.train(BLOBS, strategy="infobatch", **TASK)
    options = [
        "-d",
        BLOBS,
        "-m",
        "tiny",
        "--epochs",
        2,
        "--set",
        "batch_size=16",
        "--set",
        "lr=0.05",
    ]
    path = tmp_path / "net.safetensors"
    said = ok("train", "-s", "infobatch", *options, "--device", "cpu", "--weights", path)
    assert f"Test accuracy {net.trained['test_top1']:.2f}% after 2 epochs" in said
    for name, value in net.state_dict().items():
        assert torch.equal(load_file(path)[name], value)
    carved = ok("train", "-s", "infobatch", *options, "--set", "validation=0.2", "--weights", path)
    assert "Written" in carved


STOPPED = """
import os, sys
import dataeff, dataeff.door.train
from dataeff.training.job import Job
from dataeff.training import checkpoint
whole = checkpoint.save
def save(job, path):
    whole(job, path)
    if job.run.epoch == 1:
        os._exit(9)
dataeff.door.train.SAVES_EVERY = 0.0
if sys.argv[1] == "stops":
    checkpoint.save = save
net = dataeff.train({data!r}, model="tiny", strategy="infobatch", epochs=3, batch_size=16, lr=0.05,
                    device="cpu", weights="net.safetensors")
"""


@pytest.mark.long
def test_a_training_that_was_stopped_goes_on_to_the_same_weights(tmp_path):
    (tmp_path / "script.py").write_text(STOPPED.format(data=BLOBS))

    def ran(how, folder):
        (tmp_path / folder).mkdir(exist_ok=True)
        command = [sys.executable, tmp_path / "script.py", how]
        return subprocess.run(command, cwd=tmp_path / folder, capture_output=True, text=True)

    assert ran("whole", "one").returncode == 0
    assert ran("stops", "two").returncode == 9
    partial = tmp_path / "two" / "net.safetensors.training"
    assert (partial / "checkpoint.pt").exists()
    again = ran("whole", "two")
    assert again.returncode == 0, again.stderr
    assert "epoch 1 of 3" not in again.stdout
    files = [tmp_path / folder / "net.safetensors" for folder in ("one", "two")]
    one, two = map(load_file, files)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not partial.exists()


def test_checkpoints_of_another_training_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(STOPPED.format(data=BLOBS))
    subprocess.run([sys.executable, "script.py", "stops"], check=False)
    given = {**TASK, "epochs": 3, "weights": "net.safetensors"}
    with pytest.raises(DataeffError, match="is of another training that was stopped; add --fresh"):
        dataeff.train(BLOBS, strategy="baseline", **given)
    assert Path("net.safetensors.training/checkpoint.pt").exists()
    dataeff.train(BLOBS, strategy="baseline", fresh=True, **given)
    assert Path("net.safetensors").exists()


def test_mistakes_of_training_teach(tmp_path):
    assert "-s infobatch --weights" in mistake("train", "-d", "digits")
    weights = ["-s", "baseline", "--weights", tmp_path / "x"]
    assert "add --model, --epochs" in mistake("train", "-d", "digits", *weights)
    some = ["-d", "digits", "-m", "tiny", "--epochs", "2"]
    assert "no key 'lrr'. Did you mean lr?" in mistake("train", *weights, *some, "--set", "lrr=1")
    with pytest.raises(DataeffError, match="no option 'margin'"):
        dataeff.train("digits", model="tiny", margin=1.0)
    assert os.listdir(tmp_path) == []
