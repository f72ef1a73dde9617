"""Checkpoint files: two are kept, the older serves when the newer is damaged; and full disks."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from benches import TASK
from conftest import drawn
from damages import ANY_FILE, Stop
from machines import CPU
from shell import call

from dataeff import Strategy, hookimpl
from dataeff.damage import Damaged, Newer, listening
from dataeff.errors import DataeffError, DiskFull
from dataeff.files import CHECKPOINTS, write_text
from dataeff.testing import train_tiny, weights
from dataeff.training import stored
from dataeff.training.job import Place
from dataeff.training.stored import read_state, write_state


def stop(epoch, *_):
    if epoch == 4:
        raise Stop


@pytest.fixture
def stopped(installed, tmp_path):
    """Leave a run that was killed in its fourth epoch; return its checkpoints."""
    with pytest.raises(Stop):
        train_tiny("baseline", installed=installed, place=Place(tmp_path), on_epoch=stop)
    return [tmp_path / name for name in CHECKPOINTS]


def go_on(installed, folder):
    """Go on to the end; return the result, and what was said of files."""
    heard = []
    with listening(heard.append):
        result = train_tiny("baseline", installed=installed, place=Place(folder))
    return result, heard


@pytest.fixture
def whole(installed):
    return weights(train_tiny("baseline", installed=installed))


def test_the_last_two_are_kept(stopped):
    assert [read_state(path, CPU)["run"]["epoch"] for path in stopped] == [3, 2]


@pytest.mark.parametrize("way", ANY_FILE)
def test_the_older_serves_when_the_newer_is_damaged(installed, tmp_path, stopped, whole, way):
    ANY_FILE[way](stopped[0])
    result, heard = go_on(installed, tmp_path)
    assert torch.equal(weights(result), whole)
    # What torch itself reads as whole may lack the end that we add.
    assert len(heard) == 1 or way in ("last byte lost", "a bit at 100%")
    for said in heard:
        assert said.startswith(f"{stopped[0]} is damaged (")
        assert said.endswith("set aside as checkpoint.pt.damaged; the one before it serves")


def test_where_both_are_damaged_the_run_begins_anew(installed, tmp_path, stopped, whole):
    for path in stopped:
        path.write_bytes(b"x" * 100)
    result, heard = go_on(installed, tmp_path)
    assert torch.equal(weights(result), whole)
    assert [line.rpartition("; ")[2] for line in heard] == [
        "the one before it serves",
        "its run begins anew",
    ]


def test_a_kill_between_the_two_renames_leaves_the_one_before(installed, tmp_path, stopped, whole):
    os.replace(*stopped)
    result, heard = go_on(installed, tmp_path)
    assert torch.equal(weights(result), whole)
    assert heard == []


def test_every_flipped_byte_is_seen(tmp_path):
    path = tmp_path / "checkpoint.pt"
    write_state(path, {"a": torch.arange(50)})
    content = path.read_bytes()
    end = len(content) - 28
    for place in [*range(0, end, 97), end - 1, end + 8, end + 12, len(content) - 1]:
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(Damaged):
            read_state(path, CPU)


def test_a_newer_form_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "SCHEMA", 7)
    write_state(tmp_path / "checkpoint.pt", {})
    monkeypatch.undo()
    with pytest.raises(Newer, match=r"newer version of dataeff \(schema 7, known is 1\)"):
        read_state(tmp_path / "checkpoint.pt", CPU)


def change(path, edit):
    state = read_state(path, CPU)
    edit(state)
    write_state(path, state)


@pytest.mark.parametrize(
    "edit",
    [
        lambda state: state.pop("meter"),
        lambda state: state.update(model=[1, 2]),
        lambda state: state.update(strategies=[]),
        lambda state: state.update(strategies=[3]),
        lambda state: state["run"].update(epoch="two"),
        lambda state: state["job"].update(history=None),
        lambda state: state["job"].update(place=4),
    ],
)
def test_what_does_not_fit_is_damaged(installed, tmp_path, stopped, whole, edit):
    change(stopped[0], edit)
    # What was the newest has become the one before.
    stopped[1].unlink()
    result, (said,) = go_on(installed, tmp_path)
    assert torch.equal(weights(result), whole)
    assert said.endswith("its run begins anew")


def test_weights_of_another_network_fail_once(installed, tmp_path, stopped, whole):
    change(stopped[0], lambda state: state["model"].popitem())
    with pytest.raises(DataeffError, match="is set aside: type the same command again"):
        go_on(installed, tmp_path)
    result, _ = go_on(installed, tmp_path)
    assert torch.equal(weights(result), whole)


def test_a_strategy_that_cannot_take_its_state_back_is_to_blame(installed, tmp_path):
    class Forgetful(Strategy):
        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            raise KeyError("mine")

        @hookimpl
        def on_epoch_start(self, run, epoch):
            pass

    with pytest.raises(Stop):
        train_tiny(Forgetful(), installed=installed, place=Place(tmp_path), on_epoch=stop)
    with pytest.raises(KeyError, match="mine"):
        train_tiny(Forgetful(), installed=installed, place=Place(tmp_path))
    assert not list(tmp_path.glob("*.damaged"))


def test_checkpoints_of_earlier_versions_are_read(installed, tmp_path, stopped, whole):
    for path in stopped:
        torch.save(read_state(path, CPU), path)
    result, heard = go_on(installed, tmp_path)
    assert torch.equal(weights(result), whole)
    assert heard == []


# Full disks --------------------------------------------------------------------------------------

SUITE = f"""
seeds = 1
controls = false
strategies = ["baseline", "el2n[models=1,epochs=1,keep=0.5]"]

[tasks.t]
dataset = "{TASK["dataset"]}"
model = "tiny"
epochs = 2
batch_size = 16
"""
LIMITED = """
import resource, sys
from dataeff.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv[1:] = sys.argv[2:]
main()
"""


def limited(size, *arguments):
    """Call dataeff where no file may be larger, as on a disk that is full."""
    command = [sys.executable, "-c", LIMITED, str(size), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


DATA = f"Error: There is no room to write {tempfile.gettempdir()}"


def is_told(result):
    """Say whether a full disk is one sentence and exit code 1."""
    line = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 1, result.stderr
    assert line.startswith(("Error: There is no room to write results", DATA)), result.stderr
    assert line.endswith("make room, and type the same command again; it goes on from there.")
    assert "Traceback" not in result.stderr
    return True


@pytest.mark.long
@pytest.mark.parametrize(
    ("size", "how"),
    # Nothing fits; data do not; checkpoints do not.
    drawn([(600, ["--in-process"]), (9000, []), (16000, [])], 1),
    ids=str,
)
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_later(tmp_path, size, how):
    Path("few.toml").write_text(SUITE)
    assert is_told(limited(size, "run", "few.toml", *how))
    assert not list(tmp_path.rglob("*.partial"))
    assert not list(tmp_path.rglob("run.json")), "it has not failed"
    assert not list(tmp_path.rglob("traceback.txt"))
    assert call("run", "few.toml", "--in-process").exit_code == 0
    assert not list(tmp_path.rglob("*.damaged"))


@pytest.mark.long
def test_a_full_disk_leaves_the_tables_as_they_were():
    Path("few.toml").write_text(SUITE)
    assert call("run", "few.toml", "--in-process").exit_code == 0
    before = {path: path.read_bytes() for path in Path("results").rglob("*.*") if path.is_file()}
    assert is_told(limited(100, "leaderboard", "few"))
    assert {path: path.read_bytes() for path in before} == before


def test_every_way_of_writing_knows_a_full_disk(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(DiskFull, match=r"x\.txt \(File too large\)"):
            write_text(tmp_path / "x.txt", "x" * 2000)
        with pytest.raises(DiskFull):
            write_state(tmp_path / "checkpoint.pt", {"a": torch.zeros(9000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
