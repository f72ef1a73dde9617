"""Nobody is fooled: each way to cheat is prevented, or reported by the run or by verify."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from benches import TASK, Bench, record
from cheats import PLUGIN
from shell import call, ok

from dataeff.bench.asked import write_suite
from dataeff.bench.desk import open_desk
from dataeff.bench.runner import run_cells
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.checked import write_checked
from dataeff.damage import listening
from dataeff.forms import RECORD
from dataeff.plugins import load_plugins
from dataeff.report.board import read_board
from dataeff.seals import key_file, seal
from dataeff.training.task import Task

FILED = TASK | {"dataset": "filed", "epochs": 3}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Return a bench with the plugin, the honest baseline trained, and processes for all tests."""
    folder = tmp_path_factory.mktemp("cheats")
    (folder / "plugins").mkdir()
    (folder / "plugins" / "cheats.py").write_text(PLUGIN % str(key_file()))
    (folder / "data").mkdir()
    luck = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (114, 8, 8, 1), dtype=torch.uint8, generator=luck)
    labels = torch.arange(114) % 4
    parts = (images[:90], labels[:90], images[90:], labels[90:])
    torch.save(parts, folder / "data" / "filed.pt")
    bench = Bench(folder, load_plugins([folder / "plugins"]))
    bench.settings = replace(
        bench.settings,
        in_process=False,
        timeout=60,
        plugin_dirs=(folder / "plugins",),
        data_root=folder / "data",
    )
    with pytest.MonkeyPatch.context() as patch, open_desk(bench.settings) as desk:
        patch.chdir(folder)
        bench.desk = desk
        bench.honest = train(bench, "baseline")
        yield bench


@pytest.fixture(autouse=True)
def _there(bench, monkeypatch):
    monkeypatch.chdir(bench.folder)


def train(bench, *strategies):
    """Run strategies; return the record of the last one, and its cell."""
    content = {"name": "try", "seeds": 1, "controls": False, "tasks": {"blobs": FILED}}
    content["strategies"] = list(dict.fromkeys(["baseline", *strategies]))
    suite = make_suite(content, bench.desk, where="test")
    schedule = Schedule(suite, bench.desk, bench.settings.results)
    write_suite(schedule, bench.root, "dataeff run try")
    run_cells(schedule, bench.desk, bench.settings, lambda event: None)
    cell = next(cell for cell in schedule.cells if cell.strategy == strategies[-1])
    return record(cell)


def accuracy(told):
    return told["metrics"]["test_top1"]


# Prevented -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cheat", ["collector", "frames", "peeper"])
def test_what_is_not_there_cannot_be_found(bench, cheat):
    told = train(bench, cheat)
    assert told["columns"]["seen"] == 0
    assert accuracy(told) == accuracy(bench.honest)
    assert told["epochs"] == 3


def test_the_search_would_find_a_test_set_that_is_there(bench):
    """In one process, for debugging, it is."""
    lab = bench.lab
    lab.data_root = bench.folder / "data"
    result = lab.run(Task(**FILED), lab.composition("collector"), 0)
    assert result.record["columns"]["seen"] == 1


@pytest.mark.parametrize("cheat", ["forger", "patcher", "sender"])
def test_figures_of_ones_own_do_not_count(bench, cheat):
    told = train(bench, cheat)
    assert accuracy(told) == accuracy(bench.honest)
    assert told["classes"]["accuracy"] == bench.honest["classes"]["accuracy"]


@pytest.mark.parametrize(
    ("cheat", "why"),
    [
        ("early", "it ended without a test of its network"),
        ("early[says=2]", "makes no sense (ValueError: a test after epoch 2, when 1 have ended)"),
    ],
)
def test_the_network_that_is_tested_is_the_last_one(bench, cheat, why):
    told = train(bench, cheat)
    assert told["status"] == "failed"
    assert told["error"].endswith(why)


def test_what_a_cell_is_is_not_for_its_process_to_say(bench):
    told = train(bench, "sender")
    assert (told["strategy"], told["seed"], told["version"]) != ("baseline", 7, "other")
    assert (told["strategy"], told["seed"]) == ("sender", 0)


def test_a_process_that_babbles_ends_nobody_but_its_own_cell(bench):
    told = train(bench, "babbler")
    assert told["status"] == "failed"
    assert "what its process said makes no sense" in told["error"]


@pytest.mark.parametrize(
    ("cheat", "hook", "what"),
    [
        ("files", "on_epoch_start", "the test set"),
        ("rewriter", "on_epoch_start", "results"),
        ("burglar", "setup", "keys"),
    ],
)
def test_who_opens_what_is_closed_fails(bench, cheat, hook, what):
    told = train(bench, cheat)
    assert told["status"] == "failed"
    assert f"{cheat}, in {hook}: it opened " in told["error"]
    assert told["error"].endswith(f"which holds {what}")


def test_other_conditions_fail(bench):
    told = train(bench, "threads")
    assert told["status"] == "failed"
    assert "other conditions: matmul_precision medium instead of highest" in told["error"]


@pytest.mark.long
def test_work_in_a_state_is_on_the_clock(bench):
    told = train(bench, "saver")
    assert told["clocks"]["train"] > bench.honest["clocks"]["train"] + 0.8


# Reported by the run ---------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("cheat", ["divider", "slower"])
def test_a_clock_that_was_changed_is_seen_by_the_runners(bench, cheat):
    flags = train(bench, cheat)["machine"]["flags"]
    assert any(flag.startswith("its own clock says 0.") for flag in flags)


@pytest.mark.long
def test_work_while_the_clock_stands_still_is_told(bench):
    train(bench, "pauser")
    runs = read_board(bench.root).runs.set_index("strategy")
    assert "off the clock, where baseline spent" in runs.loc["pauser", "contended"]
    assert "off the clock" not in runs.loc["baseline", "contended"]


def test_less_work_than_was_done_is_found_in_a_batch_that_is_drawn(bench):
    told = train(bench, "stater")
    assert told["status"] == "failed"
    assert "stater, in compute_factor: it states 0.10 of the network's work" in told["error"]


def test_a_process_that_works_on_is_told_and_ended(bench):
    assert "leaver, in setup left a process running" in train(bench, "leaver")["machine"]["flags"]


# Reported by reading, and by verify ------------------------------------------------------------


WHERE = ("--results", "results", "--plugins-dir", "plugins", "--data-root", "data")


def baseline(bench):
    (path,) = bench.root.glob("*baseline*/run.json")
    return path


def test_a_record_that_another_program_has_changed_is_set_aside(bench):
    train(bench, "shell")
    with listening([].append):
        runs = read_board(bench.root).runs
    (aside,) = bench.root.glob("*baseline*/run.json.damaged")
    assert '"test_top1": 1.0' in aside.read_text()
    assert 1.0 not in runs["test_top1"].tolist()
    aside.unlink()
    # Trained again by whoever verifies, it would do so again.
    shutil.rmtree(next(bench.root.glob("*shell*")))
    assert accuracy(train(bench, "baseline")) == accuracy(bench.honest), "it is healed"


def test_a_record_that_was_changed_with_its_checksum_is_a_row_that_says_so(bench):
    path = baseline(bench)
    kept = path.read_bytes()
    better = json.loads(kept)
    better["metrics"]["test_top1"] = 99.0
    write_checked(path, better, RECORD)
    try:
        table = read_board(bench.root).table.set_index("strategy")
        assert table.loc["baseline", "trouble"].startswith("1 unverified")
        assert table.loc["baseline", "n"] == 0
        found = call("verify", "try", "--repeat", 0, *WHERE)
        assert found.exit_code == 1
        said = "baseline seed 0: does not verify: its record was changed after it was written"
        assert said in found.stdout
    finally:
        path.write_bytes(kept)


def test_weights_that_do_not_reach_the_accuracy_do_not_verify(bench, monkeypatch):
    """Whoever has the key can seal anything; the weights still say what they say."""
    path = baseline(bench)
    kept, seals = path.read_bytes(), (bench.root / "seals").read_bytes()
    better = json.loads(kept)
    better["metrics"]["test_top1"] += 4.0
    seal(path.parent, write_checked(path, better, RECORD))
    try:
        found = call("verify", "try", "--repeat", 0, *WHERE)
        assert found.exit_code == 1
        assert "baseline seed 0: does not verify: its weights reach " in found.stdout
        table = read_board(bench.root).table.set_index("strategy")
        assert table.loc["baseline", "trouble"].startswith("1 unverified")
    finally:
        path.write_bytes(kept)
        (bench.root / "seals").write_bytes(seals)


@pytest.mark.long
def test_what_is_as_it_was_measured_verifies_and_is_repeated_bit_by_bit(bench):
    ok("leaderboard", "try", "--results", "results")
    found = call("verify", "try", "--repeat", 0.01, *WHERE)
    assert "trained again: 1 cell, 1 bit-identical" in found.stdout
    assert "does not verify: 0 cells" in found.stdout
    assert "leaderboard.csv: the same as made anew from the cells" in found.stdout
    assert found.exit_code == 0


def test_a_leaderboard_that_was_changed_is_told(bench):
    ok("leaderboard", "try", "--results", "results")
    path = bench.root / "leaderboard.csv"
    head, lines = path.read_text().split("\n", 1)
    path.write_text(f"{head}\n{lines.replace(',25,', ',99,', 1)}")
    found = call("verify", "try", "--repeat", 0, *WHERE)
    assert found.exit_code == 1
    said = "leaderboard.csv is not what the cells say (baseline: accuracy 99 instead of 25)"
    assert said in found.stdout
