"""Results without cells: what tables hold is judged and shown as the cells were."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benches import Bench
from records import Folder
from shell import call, mistake, ok

from dataeff.errors import DataeffError
from dataeff.files import parse_csv, write_csv, write_json
from dataeff.report.board import judge_folder, read_board, write_tables
from dataeff.report.looks import write_looks
from dataeff.report.web.page import page_text
from dataeff.report.web.serve import results_version

PUBLISHED = Path(__file__).parent.parent / "results" / "published"
SUITES = sorted(path.parent.name for path in PUBLISHED.glob("*/runs.csv"))
FRAMES = ("table", "runs", "curves", "classes", "compositions", "claims")


def publish(path, to):
    """Leave the tables of a folder in another one, as results/published has them."""
    board = read_board(path)
    to.mkdir(parents=True)
    write_tables(to, board)
    write_csv(to / "curves.csv", board.curves)
    several = len(board.conditions) > 1
    told = board.conditions if several else next(iter(board.conditions.values()))
    write_json(to / "conditions.json", told)
    shutil.copy(path / "suite.json", to)
    return to


def assert_equal(*both):
    # A column of whole numbers has no type of its own, and None is as missing as NaN.
    pd.testing.assert_frame_equal(*(one.fillna(np.nan) for one in both), check_dtype=False)


def assert_same(ours, theirs):
    for name in FRAMES:
        assert_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.conditions == theirs.conditions
    assert (ours.notes, ours.feet) == (theirs.notes, theirs.feet)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "results" / "hand")


@pytest.fixture
def filled(folder):
    """Return a folder with something of everything that a record may hold."""
    folder.suite(task_ids={"zebra": "12345678", "blobs": "t1"}, strategies=["base", "nan"])
    classes = {"test": [50, 50], "accuracy": [91.0, 89.0], "trained": [1.0, 0.5]}
    shared = [{"name": "s", "key": "k", "seconds": 0.5, "reuse": True}]
    folder.fill("base", [90.0, 91.0, 90.5], [3.0, 3.1, 2.9], classes=classes)
    folder.fill("nan", [90.1, 91.2, 90.4], [2.0, 2.1, 1.9], columns={"x_note": "5", "x": 0.25})
    folder.fill("ours", [90.0, 91.0, 89.0], [(0.5, 1.0)] * 3, artefacts=shared, control=True)
    folder.fill("idle", [90.0, 91.0, 90.5], [3.0] * 3, no_effect="nothing here", ranked=False)
    folder.add("base", 3, status="failed", error='Traceback:\n  "x", 1\n')
    folder.add("ours", 3, 90.0, 1.5, machine={"flags": ["others were busy"]})
    of_zebra = {"task_name": "zebra", "task_id": "12345678", "conditions_id": "00000012"}
    return folder.add("base", 0, 80.0, 1.0, **of_zebra, conditions={"device": "cuda"})


# From cells, and from tables ---------------------------------------------------------------------


@pytest.mark.long
def test_a_real_run_is_the_same_from_its_tables(tmp_path, installed):
    bench = Bench(tmp_path, installed)
    composed = "random_backprop[keep=0.5]+amp"
    strategies = ["baseline", "random_backprop[keep=0.5]", "amp", composed, "el2n[keep=0.75]"]
    bench.run(bench.cells(*strategies, seeds=2))
    tables = publish(bench.root, tmp_path / "published" / "try")
    ours, theirs = read_board(tables), read_board(bench.root)
    assert_same(ours, theirs)
    assert page_text(ours) == page_text(theirs)
    for both in (("baseline", "random_backprop"), ("el2n[keep=0.750]", composed)):
        told = (
            [ok("compare", path, *both, *more) for more in ((), ("--json",))]
            for path in (tables, bench.root)
        )
        assert next(told) == [text.replace(str(bench.root), str(tables)) for text in next(told)]


def test_everything_that_a_record_may_hold_comes_back(filled, tmp_path):
    tables = publish(filled.path, tmp_path / "published")
    ours, theirs = read_board(tables), filled.board()
    assert_same(ours, theirs)
    assert page_text(ours) == page_text(theirs)
    runs = ours.runs
    assert runs["task_name"].tolist() == ["zebra"] + ["blobs"] * 14
    assert runs["conditions_id"].unique().tolist() == ["00000012", "c1"]
    assert runs["x_note"].dropna().tolist() == ["5"] * 3
    assert runs["contended"].value_counts().to_dict() == {"": 14, "others were busy": 1}
    assert runs["reused"].value_counts().to_dict() == {"": 12, "s-k:0.5": 3}
    assert {type(value) for value in runs["ranked"].dropna()} == {bool}
    assert runs["error"].max().startswith("Traceback:\n")


def test_what_looks_have_said_comes_along(folder, tmp_path):
    noise = np.array([0.0, 0.1, -0.1, 0.05, -0.05])
    folder.fill("base", [90.0] * 5, [2.0] * 5)
    folder.fill("ours", (90 + noise).tolist(), (1 + noise / 9).tolist())
    less = (80 - noise).tolist(), (1 - noise / 9).tolist()
    folder.fill("short[share=0.5]", *less, flops=50, control=True)
    looks = judge_folder(folder.path).looks
    assert [look["about"] for look in looks] == ["reference", "line"]
    looks[0]["answers"]["ours"]["difference"] = [0.01, -0.4, 0.42]
    write_looks(folder.path, looks)
    tables = publish(folder.path, tmp_path / "published")
    shutil.copy(folder.path / "looks.json", tables)
    assert judge_folder(tables).looks == looks, "answers hold: the cells are the same"
    ours = read_board(tables)
    assert_same(ours, folder.board())
    line = ours.table.set_index("strategy").loc["ours"]
    assert (line["difference_low"], line["difference_high"]) == (-0.4, 0.42)


def test_what_tables_do_not_hold_is_not_shown(filled, tmp_path):
    tables, theirs = publish(filled.path, tmp_path / "published"), filled.board()
    for name in ("curves.csv", "classes.csv", "conditions.json"):
        (tables / name).unlink()
    ours = read_board(tables)
    for name in ("curves", "classes"):
        assert getattr(ours, name).empty
        assert list(getattr(ours, name)) == list(getattr(theirs, name))
    assert ours.conditions == {"00000012": {}, "c1": {}}
    names = ["strategy", "n", "accuracy", "speedup", "verdict"]
    ran = theirs.table["strategy"].isin(theirs.runs["strategy"])
    there = theirs.table.loc[ran, names].reset_index(drop=True)
    pd.testing.assert_frame_equal(ours.table[names], there)


def test_runs_without_a_curve_have_tables_too(folder, tmp_path):
    folder.add("base", 0, status="failed")
    tables = publish(folder.path, tmp_path / "published")
    assert_same(read_board(tables), folder.board())


def test_old_tables_know_fewer_columns(filled, tmp_path):
    tables, theirs = publish(filled.path, tmp_path / "published"), filled.board()
    runs = theirs.runs.drop(columns=["contended", "reused", "no_effect", "artefact_uses"])
    runs.to_csv(tables / "runs.csv", index=False)
    (tables / "checksums.json").unlink()
    ours = read_board(tables).runs
    assert set(ours["contended"]) == set(ours["reused"]) == {""}
    same = ["strategy", "seed", "test_top1", "total_seconds", "ranked", "control"]
    assert_equal(ours[same], theirs.runs[same])


def test_old_curves_are_epochs_as_cells_have_them(folder, tmp_path):
    folder.fill("base", [90.0, 91.0], [(0.5, 3.0)] * 2).fill("ours", [90.0, 91.0], [2.0, 2.1])
    tables, theirs = publish(folder.path, tmp_path / "published"), folder.board()
    epochs = [
        pd.read_csv(folder.path / line.folder / "epochs.csv").assign(
            task=line.task_name, strategy=line.strategy, seed=line.seed
        )
        for line in theirs.runs.itertuples()
    ]
    pd.concat(epochs).to_csv(tables / "curves.csv", index=False)
    assert_same(read_board(tables), theirs)


def test_rounded_curves_are_as_good_as_they_were(folder, tmp_path):
    third = 100 / 3
    looks = [(1.0, 20.0), (2.0, third), (3.0, 50.0)]
    folder.fill("base", [50.0, 50.0], [3.0] * 2, curve=looks)
    folder.fill("ours", [third, third], [2.0] * 2)
    tables, theirs = publish(folder.path, tmp_path / "published"), folder.board()
    write_csv(tables / "curves.csv", theirs.curves.round(5))
    line = read_board(tables).table.set_index("strategy").loc["ours"]
    assert line["early_speedup"] == 1.5


# What is left out --------------------------------------------------------------------------------


def test_tables_of_another_task_are_left_out_and_said(filled, tmp_path):
    tables = publish(filled.path, tmp_path / "published")
    suite = json.loads((tables / "suite.json").read_text())
    write_json(tables / "suite.json", suite | {"task_ids": {"zebra": "other", "blobs": "t1"}})
    board = read_board(tables)
    assert set(board.runs["task_name"]) == {"blobs"}
    assert "1 run was left out: the task zebra was another one then." in board.notes
    write_json(tables / "suite.json", suite | {"task_ids": {}})
    with pytest.raises(DataeffError, match="holds no runs"):
        read_board(tables)


def test_old_tables_do_not_take_the_place_of_cells(filled):
    write_tables(filled.path, filled.board())
    filled.suite(task_ids={"blobs": "other"})
    with pytest.raises(DataeffError, match="holds no runs"):
        filled.board()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "(Empty CSV file)"),
        ("a,b\n1\n", "(CSV parse error"),
        ("strategy,seed\nours,0\n", "(it has no column conditions_id, status, task_id, task_name)"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(folder, text, said):
    (folder.path / "runs.csv").write_text(text)
    result = call("leaderboard", folder.path)
    damaged, error = result.stderr.splitlines()
    assert damaged.startswith(f"{folder.path}/runs.csv is damaged {said}")
    assert damaged.endswith(", set aside as runs.csv.damaged; get it anew from where it came from")
    assert error.endswith("get runs.csv anew, or type: dataeff run hand")
    assert (folder.path / "runs.csv.damaged").read_text() == text
    assert mistake("leaderboard", folder.path) == error.removeprefix("Error: ")


def test_text_stays_text_and_empty_is_not_missing(tmp_path):
    written = pd.DataFrame({"a": ["1e5", "", None], "b": [1.5, None, 2], "c": [True, None, False]})
    write_csv(tmp_path / "x.csv", written)
    found = parse_csv((tmp_path / "x.csv").read_bytes(), lambda name: name == "a")
    pd.testing.assert_frame_equal(found, written)


# Published ---------------------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path):
    """Return published results, to be written to."""
    shutil.copytree(PUBLISHED, tmp_path / "published")
    return tmp_path / "published"


@pytest.mark.parametrize("suite", SUITES)
def test_published_results_are_read_without_training(copied, suite):
    before = {path: path.read_bytes() for path in (copied / suite).glob("*.*")}
    written = [
        name for name in ("leaderboard.csv", "claims.csv") if copied / suite / name in before
    ]
    text = ok("leaderboard", suite, "--results", copied)
    assert text.endswith(f"\nWritten: {copied}/{suite}/{', '.join(written)}\n")
    after = {path: path.read_bytes() for path in (copied / suite).glob("*.*")}
    assert after.keys() == before.keys()
    changed = {path.name for path, content in after.items() if content != before[path]}
    assert changed <= set(written)
    # What was measured is as it was; rules of judging may change.
    names = ["n", "accuracy", "train_seconds", "speedup", "ideal_speedup"]
    now, then = (
        pd.read_csv(root / suite / "leaderboard.csv").set_index(["task", "strategy"])[names]
        for root in (copied, PUBLISHED)
    )
    ran = pd.read_csv(copied / suite / "runs.csv").groupby(["task_name", "strategy"]).size().index
    np.testing.assert_allclose(now.loc[ran], then.loc[ran], rtol=1e-9)


@pytest.mark.long
def test_every_command_reads_published_results(copied):
    name = "selection-zoo-mini"
    assert ok("report", name, "--results", copied) == f"Written: {copied}/{name}/report.html\n"
    page = (copied / name / "report.html").read_text()
    assert "progressive_<wbr>resizing<wbr>[initial=0.5]</a> is the best bet" in page
    assert "AVX512" in page
    ok("plot", name, "--results", copied, "--figure", "time", "--out", copied / "figures")
    assert [path.name for path in (copied / "figures").iterdir()] == ["time.png"]
    text = ok("compare", copied / name, "baseline", "craig")
    assert text.startswith("cifar10 (conditions 6e41dda6), 3 seeds, paired\n")
    assert "B: craig[keep=0.3]\n" in text
    assert "Did you mean craig" in mistake("compare", copied / name, "baseline", "crag")


# The page on localhost ---------------------------------------------------------------------------


def test_the_page_is_made_anew_when_tables_change_that_it_is_made_from(folder):
    empty = results_version(folder.path)
    (folder.path / "runs.csv").write_text("a")
    of_tables = results_version(folder.path)
    folder.add("base", 0, 90.0)
    of_cells = results_version(folder.path)
    assert len({empty, of_tables, of_cells}) == 3
    (folder.path / "runs.csv").write_text("ab")
    assert results_version(folder.path) == of_cells
