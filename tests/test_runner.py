"""The runner: order, skipping, failures, and the files it leaves."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from benches import LOOSE, TASK, Bench, kinds, numbers, record, rewrite

from dataeff.bench.asked import write_suite
from dataeff.bench.blocks import Cells
from dataeff.bench.conditions import conditions_id
from dataeff.bench.desk import Desk
from dataeff.bench.ended import failures
from dataeff.bench.runner import run_cells
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.door.running import again_of
from dataeff.errors import DataeffError, UnknownName
from dataeff.lab import Lab
from dataeff.report.board import read_board


@pytest.fixture
def bench(tmp_path, installed):
    return Bench(tmp_path, installed)


# Order -----------------------------------------------------------------------------------------


def test_cells_come_seed_by_seed(bench):
    cells = bench.cells("baseline", "random_backprop", seeds=3)
    order = [(cell.seed, cell.strategy) for cell in cells]
    assert order == [
        (s, name) for s in range(3) for name in ("baseline", "random_backprop[keep=0.5]")
    ]
    assert len({cell.folder for cell in cells}) == 6


def test_events_tell_start_epochs_and_end(bench):
    cells = bench.cells("baseline", "short_schedule", epochs=3)
    events = bench.run(cells)
    assert kinds(events) == ["started", *["epoch"] * 3, "ended", "started", *["epoch"] * 2, "ended"]
    # 1.5 epochs: the second, of half the length, is not more than all of it.
    assert [round(e.share, 2) for e in events if e.kind == "epoch"] == [0.33, 0.67, 1, 0.67, 1]
    assert [(e.number, e.total) for e in events if e.kind == "ended"] == [(1, 2), (2, 2)]
    assert events[-1].record == record(cells[1])


# Files -----------------------------------------------------------------------------------------


def test_a_cell_leaves_the_files_of_the_design(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    assert {path.name for path in cell.folder.iterdir()} == {
        "held",
        "epochs.csv",
        "hits.bin",
        "run.json",
        "samples.parquet",
        "weights.pt",
    }
    assert cell.folder.name.startswith("blobs-baseline-s0-")
    epochs = pd.read_csv(cell.folder / "epochs.csv")
    assert epochs["epoch"].tolist() == [0, 1, 2]
    # A tenth of the 90 samples is carved off for validation.
    assert epochs["rows_trained"].tolist() == [81, 162, 243]
    samples = pd.read_parquet(cell.folder / "samples.parquet")
    assert samples["sample"].tolist() == list(range(90))
    assert samples["trainable"].sum() == 81
    assert (samples["times_trained"] == 3 * samples["trainable"]).all()
    assert samples["label"].nunique() == 4


def test_run_json_says_what_was_asked_and_what_was_measured(bench):
    (cell,) = bench.cells("random_backprop[keep=0.25]")
    bench.run([cell])
    stored = record(cell)
    assert (stored["suite"], stored["task_name"]) == ("try", "blobs")
    assert (stored["strategy"], stored["seed"]) == ("random_backprop[keep=0.25]", 0)
    assert stored["parameters"] == {"random_backprop": {"keep": 0.25, "mode": "shrink"}}
    assert stored["task"]["lr"] == 0.05
    assert stored["task_id"] == cell.task.id
    assert stored["conditions_id"] == conditions_id(stored["conditions"])
    assert {"device", "torch", "threads"} <= set(stored["conditions"])
    assert stored["status"] == "finished"
    assert (
        stored["metrics"]["test_top1"]
        == pd.read_csv(cell.folder / "epochs.csv")["test_top1"].iloc[-1]
    )
    assert stored["clocks"]["train"] > 0
    assert stored["rows"]["trained"] == 3 * 20
    assert stored["ended"].endswith("+00:00")


def test_run_json_is_strict_and_takes_numbers_of_any_library(bench):
    (cell,) = bench.with_loose_plugins().cells("gauge")
    bench.run([cell])

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    stored = json.loads((cell.folder / "run.json").read_text(), parse_constant=refuse)
    assert stored["columns"] == {"nothing": None, "share": pytest.approx(3 * 81 / 90)}


def test_the_folder_of_a_cell_is_flat_whatever_its_names(bench):
    content = {"name": "try", "strategies": ["baseline"], "tasks": {"a (b): c*": TASK}}
    suite = make_suite(content, bench.desk, where="test")
    (cell, *_) = Schedule(suite, bench.desk, bench.settings.results).cells
    assert cell.folder.parent == bench.root
    assert cell.folder.name.startswith("a-b-c-baseline-s0-")


# Skipping --------------------------------------------------------------------------------------


def stamps(cell):
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in cell.folder.iterdir()
        if path.name != "held"
    }


def test_a_finished_cell_is_not_run_again(bench):
    cells = bench.cells("baseline", "random_backprop")
    bench.run(cells)
    before = [stamps(cell) for cell in cells]
    events = bench.run(cells)
    assert kinds(events) == ["skipped", "skipped"]
    assert events[0].record == record(cells[0])
    assert [stamps(cell) for cell in cells] == before


def test_fresh_runs_a_finished_cell_again_to_the_same_numbers(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    before, old = numbers(cell), stamps(cell)
    (cell.folder / "leftover").write_text("")
    assert kinds(bench.run([cell], fresh=True))[0] == "started"
    assert stamps(cell)["run.json"][0] > old["run.json"][0]
    assert numbers(cell) == before
    assert not (cell.folder / "leftover").exists()


def test_a_later_command_does_not_make_the_earlier_ones_unsaid(bench):
    def asked(command, *strategies, seeds):
        write_suite(bench.schedule(*strategies, seeds=seeds), bench.root, command)
        return bench.suite

    asked("dataeff run try", "baseline", "amp", seeds=3)
    told = asked("dataeff run try -s random_subset", "baseline", "random_subset", seeds=1)
    assert told["strategies"] == ["baseline", "amp", "random_subset[keep=0.5]"]
    assert told["seeds"] == 1, "the last command plans the looks"
    told = asked("dataeff run try --seeds 3-4", "baseline", seeds="3-4")
    assert told["seeds"] == 1, "a range plans none"
    assert told["command"] == "dataeff run try -s random_subset", "which goes on with the plan"
    assert told["commands"][:2] == ["dataeff run try", "dataeff run try -s random_subset"]
    bench.cells("baseline", epochs=9)
    assert bench.suite["strategies"] == ["baseline"], "another task: nothing of the old one counts"
    assert bench.suite["conditions"] == {"blobs": bench.cells()[0].scene.conditions_id}


def test_only_what_is_asked_for_runs_again(bench):
    cells = bench.cells("baseline", "random_backprop")
    bench.run(cells)
    for cell, flags in zip(cells, (["others were busy"], []), strict=True):
        rewrite(cell, machine={"flags": flags})
    events = []
    again = again_of(False, True, bench.schedule(), bench.root)
    run_cells(Cells(cells), bench.desk, bench.settings, events.append, again)
    assert [e.cell.strategy for e in events if e.kind == "ended"] == ["baseline"]
    assert [e.cell.strategy for e in events if e.kind == "skipped"] == ["random_backprop[keep=0.5]"]


def test_the_record_says_what_it_was_measured_on_and_how_the_machine_was(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    stored = record(cell)
    assert stored["conditions"] == cell.scene.conditions
    assert {"commit", "versions"} <= set(stored["provenance"])
    assert {"load_high", "process_share", "foreign_cores", "flags"} <= set(stored["machine"])
    assert stored["sources"].keys() == {"baseline"}


def test_a_changed_task_is_a_new_cell_and_the_old_one_leaves_the_leaderboard(bench):
    (old,) = bench.cells()
    bench.run([old])
    (new,) = bench.cells(lr=0.02)
    assert new.folder != old.folder
    bench.run([new])
    assert old.folder.exists()
    assert read_board(bench.root).table["n"].tolist() == [1]
    assert read_board(bench.root).runs["task_id"].tolist() == [new.task.id]


def test_changed_conditions_are_a_new_cell_in_a_table_of_its_own(bench, monkeypatch):
    (here,) = bench.cells()
    bench.run([here])
    elsewhere = here.scene.conditions | {"threads": 64}
    monkeypatch.setattr(bench.desk, "_conditions", elsewhere)
    (there,) = bench.cells()
    assert there.folder != here.folder
    bench.run([there])
    table = read_board(bench.root).table
    assert sorted(table["conditions"]) == sorted(
        [here.scene.conditions_id, conditions_id(elsewhere)]
    )
    assert table["n"].tolist() == [1, 1]


# Failures --------------------------------------------------------------------------------------


def test_a_cell_that_fails_says_so_and_the_rest_goes_on(bench):
    cells = bench.with_loose_plugins().cells("baseline", "trouble", "random_backprop")
    events = bench.run(cells)
    assert [e.record["status"] for e in events if e.kind == "ended"] == [
        "finished",
        "failed",
        "finished",
    ]
    failed = record(cells[1])
    assert failed["error"] == "StrategyError: trouble, in on_epoch_start: ValueError: as asked"
    assert (failed["strategy"], failed["task_name"], failed["seed"]) == ("trouble", "blobs", 0)
    trace = (cells[1].folder / "traceback.txt").read_text()
    assert 'raise ValueError("as asked")' in trace
    (line,) = failures(cells)
    assert line == f"blobs trouble seed 0: {failed['error']} (see {cells[1].folder}/traceback.txt)"
    table = read_board(bench.root).table.set_index("strategy")
    assert table.loc["trouble", "trouble"] == "1 failed"


def test_a_failed_cell_is_run_again_from_its_last_epoch(bench):
    (cell,) = bench.with_loose_plugins().cells("trouble")
    bench.run([cell])
    Path("mended").touch()
    events = bench.run([cell])
    assert [e.record["epoch"] for e in events if e.kind == "epoch"] == [1, 2]
    assert record(cell)["status"] == "finished"
    assert not (cell.folder / "traceback.txt").exists()


def test_who_edits_a_strategy_gets_new_cells_and_only_those_in_the_table(bench):
    """Old code's results and checkpoints must not flow into those of the new code."""
    old = bench.with_loose_plugins().cells("baseline", "trouble")
    bench.run(old)
    bench.write_plugin(LOOSE.replace("as asked", "as asked again"))
    new = bench.cells("baseline", "trouble")
    assert new[0].folder == old[0].folder
    assert new[1].folder != old[1].folder
    bench.run(new)
    table = read_board(bench.root).runs
    assert table.strategy.tolist() == ["baseline", "trouble"]
    assert "again" in table.error.tolist()[1]


def test_a_diverged_cell_is_recorded_and_done(bench):
    (cell,) = bench.cells(lr=1e30)
    (ended,) = [e for e in bench.run([cell]) if e.kind == "ended"]
    assert ended.record["status"] == "diverged"
    assert "lower the learning rate" in ended.record["error"]
    assert not (cell.folder / "checkpoint.pt").exists()
    assert kinds(bench.run([cell])) == ["skipped"]
    assert read_board(bench.root).table["trouble"].tolist() == ["1 diverged"]
    assert failures([cell]) == []


def test_data_or_a_model_that_cannot_be_had_is_told_before_anything_runs(bench):
    with pytest.raises(DataeffError, match="cifar10 needs a data folder"):
        bench.cells(dataset="cifar10")
    with pytest.raises(UnknownName, match=r"There is no model 'tinny'\. Did you mean tiny"):
        bench.cells(model="tinny")


def test_changed_data_gives_new_cells_and_only_those_in_the_table(bench, monkeypatch):
    (old,) = bench.cells()
    bench.run([old])
    changed = replace(bench.lab.data(old.task), fingerprint="other data")
    monkeypatch.setattr("dataeff.lab.load_dataset", lambda *given, **options: changed)
    bench.desk = Desk.beside(Lab(bench.lab.installed, "cpu"))
    (new,) = bench.cells()
    assert new.folder != old.folder
    bench.run([new])
    assert read_board(bench.root).runs["folder"].tolist() == [new.folder.name]
