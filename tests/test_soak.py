"""Runs that are killed at random moments: the judge of their numbers, and a short soak."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dataeff.files import write_json

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))
import soak  # noqa: E402


def leave(folder, accuracy=90.0, **more):
    """Leave what a run of one cell leaves."""
    cell = folder / "results" / "soak" / "blobs-baseline-s0"
    cell.mkdir(parents=True)
    times = {"clocks": {"train": 1.0}, "columns": {"sorting_seconds": 1.0, "share": 0.5}}
    record = {"strategy": "baseline", "status": "finished", "metrics": accuracy}
    write_json(cell / "run.json", record | times | more)
    epochs = {"epoch": [0], "prepare_seconds": [0.1], "train_seconds": [0.2]}
    pd.DataFrame(epochs).to_csv(cell / "epochs.csv", index=False)
    pd.DataFrame({"sample": [0, 1]}).to_parquet(cell / "samples.parquet")
    (cell / "hits.bin").write_bytes(b"7")
    return cell


@pytest.fixture
def trial(tmp_path):
    (tmp_path / "trials").mkdir()
    leave(tmp_path)
    return soak.Trial(tmp_path / "trials", 1, seed=0, kills=0)


def test_clocks_may_differ(trial, tmp_path):
    columns = {"sorting_seconds": 7.0, "share": 0.5}
    leave(trial.folder, clocks={"train": 9.0}, columns=columns)
    assert soak.wrong(trial, tmp_path) == []


def test_numbers_may_not(trial, tmp_path):
    leave(trial.folder, accuracy=90.1)
    assert soak.wrong(trial, tmp_path) == ["blobs-baseline-s0: numbers differ"]


def test_nothing_may_be_left_over_or_missing(trial, tmp_path):
    cell = leave(trial.folder)
    (cell / "run.json.partial").touch()
    assert soak.wrong(trial, tmp_path) == ["files differ: soak/blobs-baseline-s0/run.json.partial"]


def test_a_cell_that_did_not_end_and_orphans_are_said(trial, tmp_path):
    leave(trial.folder, status="failed")
    trial.trouble.append("2 processes outlived the run")
    said = soak.wrong(trial, tmp_path)
    assert said == ["2 processes outlived the run", "blobs-baseline-s0 has not ended"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="looks processes up in /proc")
def test_a_short_soak_passes():
    script = [sys.executable, ROOT / "benchmarks" / "soak.py", "6", "4"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed, 0 failed" in done.stdout
