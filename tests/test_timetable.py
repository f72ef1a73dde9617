"""Tests on the way: when, on which images, and that nobody mixes them with those of the end."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from benches import LOOSE, Bench, numbers, record
from hypothesis import example, given
from hypothesis import strategies as st
from probes import Stateless
from records import Folder
from scipy import stats
from shell import ok

from dataeff import hookimpl
from dataeff.registry import portion
from dataeff.report.series import on_one_scale
from dataeff.report.web.page import write_report
from dataeff.testing import TASK, lab_of, train_tiny
from dataeff.training.evaluate import evaluate, metrics, take_test
from dataeff.training.task import Task
from dataeff.training.timetable import Timetable

# 810 samples to train: in five epochs, a tenth of their rows is two tests of 202 images.
BLOBS = "synthetic[samples=900,test_samples=500,classes=4,size=8,difficulty=0.9]"
LONG = TASK.model_copy(update={"dataset": BLOBS, "epochs": 5, "batch_size": 64})
SEEN = [False, True, False, True, True]


def timetable(epochs, samples, images, validation=0.0, **more):
    task = Task(dataset="d", model="m", epochs=epochs, validation=validation, **more)
    return Timetable.of(task, samples, images)


def due(table, epochs):
    """Return the epochs after which a run of so many is tested before its end."""
    return [epoch for epoch in range(1, math.ceil(epochs)) if table.due(epoch)]


# When, and on how many images ------------------------------------------------------------------


@given(
    epochs=st.floats(0.001, 500) | st.integers(1, 500).map(float),
    samples=st.integers(2, 10**7),
    images=st.integers(1, 10**6),
    validation=st.sampled_from([0.0, 0.1, 0.5]),
)
@example(4.0, 600, 10_000, 0.0)
@example(10.0, 2000, 10_000, 0.1)
@example(1.0, 50_000, 10_000, 0.0)
def test_tests_on_the_way_count_at_most_a_tenth_of_training(epochs, samples, images, validation):
    table = timetable(epochs, samples, images, validation)
    rows = epochs * (samples - portion(validation, samples))
    tests = due(table, epochs)
    assert 10 * len(tests) * table.images <= rows
    assert len(tests) < 20
    if not tests:
        assert table.images == images
        few = rows < 10 * min(200, images)
        assert few or epochs <= 1
        return
    assert min(200, images) <= table.images <= images
    gaps = torch.tensor([0, *tests, math.ceil(epochs)]).diff()
    assert gaps.max() - gaps.min() <= 1, "evenly"
    assert table.images == images or 10 * len(tests) * (table.images + 1) > rows, "all it may"


@given(every=st.integers(1, 50), epochs=st.integers(1, 200))
def test_who_says_how_often_has_the_whole_set_as_often(every, epochs):
    table = timetable(epochs, 100, 10_000, test_every=every)
    assert table.images == 10_000
    assert due(table, epochs) == [n for n in range(1, epochs) if n % every == 0]


def test_some_tasks_of_ours():
    review, zoo = timetable(4, 600, 10_000), timetable(10, 2000, 10_000, 0.1)
    assert (due(review, 4), review.images) == ([2], 240)
    assert (due(zoo, 10), zoo.images) == (list(range(1, 10)), 200)
    whole = timetable(90, 1_281_167, 50_000)
    assert (len(due(whole, 90)), whole.images) == (19, 50_000)


def test_shorter_and_longer_runs_are_tested_after_the_same_epochs():
    table = timetable(12, 1000, 400)
    assert due(table, 12) == [2, 4, 6, 7, 9, 11]
    assert due(table, 6.5) == [2, 4, 6]
    assert due(table, 20) == [2, 4, 6, 7, 9, 11, 12, 14, 16, 18, 19]


# Which images ----------------------------------------------------------------------------------


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=80).map(torch.tensor),
    share=st.floats(0.01, 1),
)
def test_the_part_is_spread_over_the_classes_as_evenly_as_they_allow(labels, share):
    table = Timetable(1, 1, math.ceil(share * len(labels)))
    part = table.part(labels)
    assert len(part) == table.images
    assert (part.diff() > 0).all()
    there, taken = labels.bincount(minlength=6), labels[part].bincount(minlength=6)
    assert (taken <= there).all()
    assert (taken[taken < there] >= taken.max() - 1).all()


def test_the_part_is_the_same_for_every_run_and_hangs_on_the_labels_alone():
    labels, table = torch.arange(500) % 4, Timetable(1, 1, 100)
    torch.manual_seed(1)
    first = table.part(labels)
    torch.manual_seed(2)
    assert torch.equal(table.part(labels), first)
    assert torch.equal(Timetable(2, 9, 100).part(labels), first)
    assert not torch.equal(table.part(labels.sort().values), first)


# What a run keeps ------------------------------------------------------------------------------


class Stop(Stateless):
    """End training after the second epoch."""

    @hookimpl
    def should_stop(self, run):
        return run.epoch == 1


def split_and_part(installed, task=LONG):
    data = lab_of(installed).data(task)
    return data.test, Timetable.of(task, 900, 500).part(data.test.labels)


def test_lines_are_of_the_part_and_the_record_of_all_images(installed):
    result = train_tiny(installed=installed, task=LONG)
    assert ["test_top1" in line for line in result.epochs] == SEEN
    test, part = split_and_part(installed)
    assert len(part) == 202
    assert result.record["part"] == 202
    end, told = result.epochs[-1], result.record["metrics"]
    assert told["test_top1"] == pytest.approx(100 * result.hits.double().mean().item())
    assert end["test_top1"] == pytest.approx(100 * result.hits[part].double().mean().item())
    assert end["test_top1"] != told["test_top1"]
    assert sum(result.record["classes"]["test"]) == len(result.hits) == 500
    assert not {"test_hits", "test_classes"} & {name for line in result.epochs for name in line}
    alone = evaluate(result.run.model, test, part, LONG.batch_size)
    assert end["test_loss"] == pytest.approx(alone["loss"], rel=1e-5)


def test_a_run_that_stops_early_has_both_at_its_end(installed):
    """The test on the way tells of the network what the one at the end does."""
    whole = train_tiny(installed=installed, task=LONG)
    result = train_tiny(Stop(), installed=installed, task=LONG)
    assert ["test_top1" in line for line in result.epochs] == [False, True]
    assert sum(result.record["classes"]["test"]) == len(result.hits) == 500
    ours, theirs = result.epochs[-1], whole.epochs[1]
    for name in ("test_top1", "test_top5", "test_macro_f1", "test_loss"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-5)


def test_how_often_one_tests_changes_nothing_else(installed):
    often = train_tiny(installed=installed, task=LONG.model_copy(update={"test_every": 1}))
    rarely = train_tiny(installed=installed, task=LONG)
    assert often.record["metrics"] == rarely.record["metrics"]
    assert torch.equal(often.hits, rarely.hits)
    assert often.record["part"] == 500
    end = {key: value for key, value in often.epochs[-1].items() if key.startswith("test_")}
    assert end.items() <= often.record["metrics"].items()


def test_one_pass_tells_of_the_part_what_its_logits_do(installed):
    test, part = split_and_part(installed)
    model = train_tiny(installed=installed, task=LONG).run.model
    told = take_test(model, test, part, True, 64)
    assert told["whole"].keys() == metrics(torch.eye(4), torch.arange(4)).keys()
    assert told["images"] == 202
    assert "whole" not in (alone := take_test(model, test, part, False, 64))
    assert alone["part"] == pytest.approx(told["part"], rel=1e-5)


# What is read off curves -----------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Return results whose curves are of 50 images, on which all are 10 points better."""
    folder = Folder(tmp_path / "results" / "hand", margin=3.0)
    classes = {"test": [100, 100], "accuracy": [80.0, 80.0], "trained": [1.0, 1.0]}
    for seed in range(3):
        told = {"part": 50, "classes": classes}
        curve = [(2.0, 60.0), (4.0, 80.0), (6.0, 88.0), (8.0, 90.0)]
        folder.add("base", seed, 80.0 + seed, 8.0, curve=curve, **told)
        curve = [(2.0, 78.0), (4.0, 88.0)]
        folder.add("ours", seed, 78.0, 4.0, flops=50, curve=curve, **told)
    return folder


def test_curves_are_read_on_the_part_alone(folder):
    lines = folder.lines()
    assert lines.loc["base", "accuracy"] == 81, "of all images"
    assert (lines["target"].dropna() == 87).all(), "of the part: 90 less the margin"
    assert lines["target_seconds"][["base", "ours"]].tolist() == [6, 4]
    assert lines.loc["ours", "reference_at_same_time"] == 80
    assert lines.loc["ours", "early_speedup"] == pytest.approx(8 / 6), "88 is reached after 6"
    stopped = lines.loc["early_termination[share=0.5]"]
    assert (stopped["accuracy"], stopped["difference"]) == (80, -10)
    # Three equal steps are no certainty: a step is one of 50 images.
    half = stopped["difference_high"] - stopped["difference"]
    assert half == pytest.approx(2 / math.sqrt(12) * stats.t.ppf(0.975, 2) / math.sqrt(3))


def test_it_is_said_on_how_many_images(folder, tmp_path):
    board = folder.board()
    (feet,) = board.feet.values()
    said = "Curves, and what is read off them, are of 50 of the 200 test images"
    assert [line for line in feet if line.startswith(said)]
    assert "On 50 of the 200 test images." in write_report(folder.path, board).read_text()
    assert (board.runs["test_part"] == 50).all()


def test_where_all_images_were_tested_nothing_is_said(folder):
    for path in folder.path.glob("*/run.json"):
        path.write_text(path.read_text().replace('"part": 50', '"part": 200'))
    board = folder.board()
    (feet,) = board.feet.values()
    assert not [line for line in feet if line.startswith("Curves")]
    lines = board.table.set_index("strategy")
    assert (lines["target"].dropna() == 78).all(), "the accuracies of records, less the margin"


def test_what_is_read_off_a_curve_is_drawn_by_its_difference(folder):
    board = folder.board()
    drawn = on_one_scale(board.table, "base").set_index("strategy")["accuracy"]
    assert drawn["early_termination[share=0.5]"] == 71
    assert drawn["ours"] == 78


# In processes of their own ---------------------------------------------------------------------


# Ends where it is told, once; and two ways to change what is tested.
PLUGIN = (
    LOOSE.replace("epoch == 1", "epoch == 3")
    + '''

import torch


@hookimpl
def register_strategies(register):
    register("trouble", Trouble)
    register("wrapped", Wrapped)
    register("lost", Lost)
    register("farewell", Farewell)


class Wrapped(Strategy):
    """Change the network, so that its weights are not enough to test it."""

    @hookimpl
    def setup(self, run):
        run.model.register_forward_hook(lambda module, given, logits: 2 * logits)


class Farewell(Strategy):
    """End when all is done but for the record."""

    @hookimpl
    def report(self, run):
        if not Path("mended").exists():
            os._exit(3)
        return {}


class Lost(Strategy):
    """Diverge in the fourth epoch."""

    @hookimpl
    def on_epoch_start(self, run, epoch):
        if epoch == 3:
            with torch.no_grad():
                next(run.model.parameters()).fill_(float("nan"))
'''
)


@pytest.fixture
def bench(tmp_path, installed):
    return Bench(tmp_path, installed).with_loose_plugins(PLUGIN)


def cells(bench, *strategies):
    return bench.cells(*strategies, dataset=BLOBS, epochs=5, batch_size=64)


@pytest.mark.long
def test_the_evaluator_says_what_a_run_says_itself(bench):
    strategies = ("baseline", "wrapped", "lost")
    these = cells(bench, *strategies)
    bench.run(these)
    here = [numbers(cell) for cell in these]
    assert [told[0]["part"] for told in here] == [202] * 3
    assert [told[0]["network_form"] for told in here] == ["weights", "program", "weights"]
    assert here[2][0]["status"] == "diverged"
    bench.apart()
    bench.run(these, fresh=True)
    for cell, ours in zip(these, here, strict=True):
        assert numbers(cell) == ours
    tops = pd.read_csv(these[0].folder / "epochs.csv")["test_top1"]
    assert tops.notna().tolist() == SEEN
    assert record(these[0])["metrics"]["test_top1"] != tops.iloc[-1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("strategy", "how", "again"),
    [("trouble[kind=kill]", "SIGKILL", [3, 4]), ("farewell", "exit code 3", [])],
)
def test_a_cell_that_was_killed_goes_on_to_the_same_tests(bench, strategy, how, again):
    (cell,) = cells(bench, strategy)
    whole = bench.killed(cell)
    assert how in record(cell)["error"]
    Path("mended").touch()
    events = bench.run([cell])
    assert [event.record["epoch"] for event in events if event.kind == "epoch"] == again
    assert numbers(cell) == whole


@pytest.mark.long
def test_a_cell_of_which_a_part_was_tested_verifies():
    task = ["--dataset", BLOBS, "--model", "tiny", "--epochs", 5, "--seeds", 1]
    ok("run", *task, "-s", "baseline", "-s", "random_backprop", "--name", "few", "--no-controls")
    said = ok("verify", "few", "--repeat", 0.01)
    assert "verified: 2 cells" in said
    assert "1 bit-identical" in said
