"""The cost preview of many cells: troubles, finished ones, the quick one, bytes, and words."""

import copy
import math
import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from conftest import drawn
from previews import cells_of, coming, desk_of, line_of, with_fake_clock
from ticking import SCORED, TRAINED

from dataeff import Strategy, hookimpl
from dataeff.bench.backends import run_cell
from dataeff.bench.cells import Settings
from dataeff.foretell.preview import (
    Estimate,
    Preview,
    asks,
    duration,
    preview,
    quick,
    sentence,
    size,
    table,
)
from dataeff.testing import lab_of
from dataeff.training import checkpoint


@pytest.fixture
def fake(installed, monkeypatch):
    return with_fake_clock(installed, monkeypatch)


@dataclass(eq=False)
class Scoring(Strategy):
    """Trains two children to score with."""

    @hookimpl
    def prepare(self, run):
        for k in range(2):
            run.train_child("proxy", k, 2)


@dataclass(eq=False)
class Failing(Strategy):
    """Fails in its first batch."""

    @hookimpl
    def transform_batch(self):
        raise ValueError("as asked\nand more")


def test_what_fails_is_said_and_the_rest_goes_on(fake):
    fake.add_strategy("failing", Failing, "test")
    cells = cells_of(fake, "failing", "baseline", seeds=2)
    told = []
    cost = preview(coming(cells), desk_of(fake), tell=told.append)
    failing, baseline = cost.lines
    assert failing.trouble == "failing, in transform_batch: ValueError: as asked"
    assert (failing.seconds, failing.known, failing.disk) == (0, False, 0)
    assert baseline.trouble == ""
    assert cost.seconds == baseline.seconds > 0
    assert cost.unknown == 2
    assert told == ["Measuring failing on blobs", "Measuring baseline on blobs"]
    assert table(cost)[1][0][2:] == ["2", "0", *["?"] * 9, failing.trouble]


def test_a_strategy_that_cannot_be_built_any_more_is_said_too(fake, tmp_path):
    @dataclass(eq=False)
    class Needy(Strategy):
        def __post_init__(self):
            if (tmp_path / "gone").exists():
                raise ValueError("its file is gone")

    fake.add_strategy("needy", Needy, "test")
    cells = cells_of(fake, "needy")
    (tmp_path / "gone").touch()
    (line,) = preview(coming(cells), desk_of(fake)).lines
    assert line.trouble == "strategy needy: its file is gone"


def test_a_strategy_may_score_before_it_is_asked_to_prepare(fake):
    @dataclass(eq=False)
    class Early(Strategy):
        @hookimpl
        def setup(self, run):
            self.scores = run.score_dataset()

    line = line_of(fake, Early)
    assert (line.trouble, line.known) == ("", True)


# Finished cells --------------------------------------------------------------------------------


def test_finished_cells_are_counted_and_cost_nothing(installed):
    cells = cells_of(installed, "baseline", "random_backprop", seeds=3, model="tiny")
    for cell in cells[:3]:
        run_cell(cell, lab_of(installed), Settings(), lambda *line: None)
    told = []
    cost = preview(coming(cells), desk_of(installed), tell=told.append)
    baseline, control = cost.lines
    assert (baseline.cells, baseline.finished) == (1, 2)
    assert (control.cells, control.finished) == (2, 1)
    assert (cost.cells, cost.finished, cost.unknown) == (6, 3, 0)
    assert cost.seconds == pytest.approx(sum(baseline.parts) + 2 * sum(control.parts))
    assert cost.disk == baseline.disk + 2 * control.disk
    assert len(told) == 2


def test_nothing_is_measured_where_all_is_finished_but_fresh_runs_it_again(installed):
    cells = cells_of(installed, "baseline", model="tiny")
    run_cell(cells[0], lab_of(installed), Settings(), lambda *line: None)
    for ask in (preview, quick):
        cost = ask(coming(cells), desk_of(installed))
        assert cost.lines == (Estimate("blobs", "baseline", 0, 1),)
        assert sentence(cost) == "1 cell (1 finished), nothing to run."
        again = ask(coming(cells, again=lambda cell, record: True), desk_of(installed))
        assert (again.lines[0].cells, again.finished) == (1, 0)
        assert again.seconds > 0


# The quick one ---------------------------------------------------------------------------------


def test_the_quick_one_measures_the_first_and_gives_its_pace_to_the_others(fake):
    @dataclass(eq=False)
    class Untouched(Strategy):
        @hookimpl
        def prepare(self):
            raise AssertionError("the quick one does not prepare others")

        @hookimpl
        def on_epoch_start(self):
            raise AssertionError("the quick one does not train others")

    fake.add_strategy("untouched", Untouched, "test")
    cells = cells_of(fake, "baseline", "short_schedule[share=0.5]", "untouched")
    first, short, other = quick(coming(cells), desk_of(fake)).lines
    assert first.train == pytest.approx(TRAINED * 81 * 3)
    assert first.evaluate == pytest.approx(SCORED * (9 * 3 + 20 * 2))
    assert short.train == pytest.approx(first.train / 2)
    assert short.evaluate == pytest.approx(SCORED * (9 * 2 + 20))
    assert (short.start, short.step) == (first.start, first.step)
    assert other == Estimate(**{**vars(first), "strategy": "untouched"})
    assert short.disk < first.disk


def test_the_quick_one_measures_the_next_where_the_first_fails(fake):
    fake.add_strategy("failing", Failing, "test")
    cells = cells_of(fake, "failing", "baseline", "random_subset")
    failing, baseline, subset = quick(coming(cells), desk_of(fake)).lines
    assert failing.trouble
    assert subset.train == baseline.train == pytest.approx(TRAINED * 81 * 3)


def test_what_the_first_prepares_is_its_own(fake):
    fake.add_strategy("parent", Scoring, "test")
    cells = cells_of(fake, "parent", "baseline", batch_size=8)
    parent, baseline = quick(coming(cells), desk_of(fake)).lines
    assert parent.prepare > 0
    assert baseline.prepare == 0


def test_each_task_has_a_pace_of_its_own(fake):
    short = cells_of(fake, "baseline", "random_subset", name="short", epochs=1)
    long = cells_of(fake, "baseline", "random_subset", name="long", epochs=2)
    for ask in (preview, quick):
        lines = ask(coming([*short, *long]), desk_of(fake)).lines
        assert [line.task for line in lines] == ["short", "short", "long", "long"]
        assert lines[2].train == pytest.approx(2 * lines[0].train)


# Bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "epochs", "test_every", "classes"),
    drawn([(90, 3, 1, 4), (90, 40, 10, 4), (3000, 2, 1, 50)], 1),
)
def test_the_disk_is_about_what_a_cell_leaves(installed, samples, epochs, test_every, classes):
    dataset = f"synthetic[samples={samples},test_samples=200,classes={classes},size=8]"
    options = {"dataset": dataset, "epochs": epochs, "test_every": test_every, "model": "tiny"}
    (cell,) = cells_of(installed, "baseline", **options)
    line = preview(coming([cell]), desk_of(installed)).lines[0]
    run_cell(cell, lab_of(installed), Settings(), lambda *line: None)
    real = sum(path.stat().st_size for path in cell.folder.iterdir())
    assert real / 1.5 < line.disk < real * 1.5


def test_the_checkpoint_is_about_what_a_cell_writes(installed, tmp_path):
    options = {"model": "resnet8", "optimizer": "adam", "epochs": 1}
    (cell,) = cells_of(installed, "baseline", **options)
    line = preview(coming([cell]), desk_of(installed)).lines[0]
    result = lab_of(installed).run(cell.task, cell.composition, 0)
    for _ in range(2):
        checkpoint.save(result.job, tmp_path / "checkpoint.pt")
    real = sum(path.stat().st_size for path in tmp_path.glob("checkpoint*.pt"))
    assert real / 1.5 < line.checkpoint < real * 1.5


def test_checkpoints_of_children_come_on_top(fake):
    alone = line_of(fake, batch_size=8)
    parent = line_of(fake, Scoring, batch_size=8)
    assert parent.checkpoint == pytest.approx(3 * alone.checkpoint, rel=0.01)


# What is left behind ---------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [preview, quick])
def test_random_state_is_untouched_and_nothing_is_written(installed, tmp_path, ask):
    @dataclass(eq=False)
    class Drawing(Strategy):
        @hookimpl
        def setup(self):
            self.drawn = [torch.rand(1), random.random(), np.random.rand()]  # noqa: NPY002

        @hookimpl
        def transform_batch(self):
            self.drawn = [torch.rand(1), random.random(), np.random.rand()]  # noqa: NPY002

        def state_dict(self):
            return {}

    installed.add_strategy("drawing", Drawing, "test")
    cells = cells_of(installed, "drawing", "baseline", model="tiny", deterministic=True)
    before = torch.get_rng_state(), random.getstate(), copy.deepcopy(np.random.get_state())  # noqa: NPY002
    cost = ask(coming(cells), desk_of(installed))
    assert cost.unknown == 0
    _, keys, *rest = np.random.get_state()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(keys, before[2][1])
    assert rest == list(before[2][2:])
    assert not torch.are_deterministic_algorithms_enabled()
    assert list(tmp_path.iterdir()) == []


# Words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.2, "<1 s"),
        (40.4, "40 s"),
        (59.6, "1 min"),
        (720, "12 min"),
        (3569, "59 min"),
        (3599, "1 h"),
        (4200, "1 h 10 min"),
        (86399, "1 d"),
        (86400 * 3 + 4 * 3600 + 60, "3 d 4 h"),
        (math.nan, "?"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (640, "640 B"), (999.6, "1 kB"), (38_200_000, "38 MB"), (1.24e9, "1.2 GB")],
)
def test_sizes(count, words):
    assert size(count) == words


def cost_of(*cells, finished=0, **changes):
    line = Estimate("t", "s", 0, finished, 0.02, 19, 12, 0.5, 100, 4000, 99.5, 1_000_000, 5_000)
    return Preview(tuple(Estimate(**{**vars(line), "cells": count, **changes}) for count in cells))


def test_one_sentence_says_it_all():
    cost = cost_of(1, 2, finished=4)
    assert cost.seconds == 3 * 4200
    assert sentence(cost) == "11 cells (8 finished), about 3 h 30 min, 3 MB on disk."
    assert sentence(cost_of(1)) == "1 cell, about 1 h 10 min, 1 MB on disk."
    partly = cost_of(2, prepare=math.nan)
    assert sentence(partly) == (
        "2 cells, at least 2 h 17 min (2 cells of unknown length), 2 MB on disk."
    )


def test_the_largest_checkpoint_counts():
    lines = (*cost_of(1).lines, *cost_of(5, checkpoint=7_000).lines)
    assert Preview(lines).checkpoint == 7_000
    assert Preview(()).checkpoint == 0


def test_several_lanes_share_the_waiting():
    cost = Preview(cost_of(4).lines, lanes=2)
    assert cost.seconds == cost_of(4).seconds / 2
    assert sentence(cost) == "4 cells, about 2 h 20 min on 2 lanes, 4 MB on disk."


def test_the_table_has_a_text_for_every_column():
    header, lines = table(cost_of(2, 0))
    assert [len(line) for line in lines] == [len(header)] * 2
    assert dict(zip(header, lines[0], strict=True)) == {
        "task": "t",
        "strategy": "s",
        "to run": "2",
        "finished": "0",
        "step": "20 ms",
        "steps/epoch": "19",
        "epochs": "12",
        "prepare": "2 min",
        "train": "1 h 7 min",
        "evaluate": "2 min",
        "all cells": "2 h 20 min",
        "disk": "2 MB",
        "checkpoint": "5 kB",
        "trouble": "",
    }
    assert lines[1] == ["t", "s", "0", "0", *[""] * 10]


def test_above_an_hour_it_asks():
    assert not asks(3600)
    assert asks(3601)
