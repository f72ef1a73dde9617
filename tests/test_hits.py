"""Hits: kept bit by bit for each cell, and what images add to the error of a difference."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from benches import Bench, record
from PIL import Image
from probes import Stateless

from dataeff import hookimpl
from dataeff.data import load_dataset
from dataeff.files import write_bits
from dataeff.models import build_model
from dataeff.report.board import read_board
from dataeff.report.grid import Grid
from dataeff.report.hits import image_error, image_errors, read_hits
from dataeff.testing import TASK, lab_of, train_tiny
from dataeff.training.evaluate import evaluate
from dataeff.training.job import Place

# Nobody gets all of it right, so that one order differs from another.
HARD = TASK.model_copy(
    update={"dataset": "synthetic[samples=90,test_samples=37,classes=4,size=8,difficulty=0.9]"}
)


@pytest.fixture
def bench(tmp_path, installed):
    return Bench(tmp_path, installed)


def by_hand(result, installed):
    """Return what the network gets right as it stands, image by image."""
    test = lab_of(installed).data(result.run.task).test
    model = result.run.model.eval()
    with torch.no_grad():
        guesses = [
            model(x).argmax(1) for x in test.stream(list(torch.arange(len(test))[:, None]), None)
        ]
    return torch.cat(guesses) == test.labels


# What a cell keeps -----------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["device", "host"])
def test_hits_are_those_of_the_last_network_in_order_of_the_images(installed, memory):
    task = HARD.model_copy(update={"dataset": HARD.dataset.replace("]", f",memory={memory}]")})
    result = train_tiny(installed=installed, task=task)
    assert result.hits.dtype == torch.bool
    assert 0 < result.hits.sum() < 37
    assert torch.equal(result.hits, by_hand(result, installed))
    top1 = result.record["metrics"]["test_top1"]
    assert 100 * result.hits.double().mean().item() == pytest.approx(top1)
    assert not any(name.endswith("_hits") for line in result.epochs for name in line)


@pytest.mark.parametrize("workers", [0, 2])
def test_hits_of_streamed_images_come_in_order(installed, tmp_path, workers):
    rng = np.random.default_rng(0)
    for part in ("train", "val"):
        for label in ("ant", "bee"):
            (tmp_path / part / label).mkdir(parents=True)
            for i in range(11):
                image = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
                image.save(tmp_path / part / label / f"{i:02}.png")
    text = f"image_folder[path={tmp_path},size=16]"
    data = load_dataset(text, installed.datasets, workers=workers)
    model = build_model("tiny", installed.models, classes=2, shape=data.shape).eval()
    order = torch.randperm(22, generator=torch.Generator().manual_seed(0))
    figures = evaluate(model, data.test, order, 4)
    (x,) = data.test.stream([torch.arange(22)], None)
    right = model(x).argmax(1) == data.test.labels
    assert 0 < right.sum() < 22
    assert torch.equal(figures["hits"], right[order])


def test_a_run_that_is_over_knows_its_hits_when_it_is_read_again(installed, tmp_path):
    first = train_tiny(installed=installed, task=HARD, place=Place(tmp_path))
    again = train_tiny(installed=installed, task=HARD, place=Place(tmp_path))
    assert torch.equal(again.hits, first.hits)
    assert again.record["clocks"]["evaluate"] == first.record["clocks"]["evaluate"], "not tested"


def test_a_cell_that_ends_between_two_tests_has_the_hits_of_its_end(installed):
    class Stop(Stateless):
        @hookimpl
        def should_stop(self, run):
            return run.epoch == 2

    task = HARD.model_copy(update={"test_every": 2})
    result = train_tiny(Stop(), installed=installed, task=task)
    assert ["test_top1" in line for line in result.epochs] == [False, True, True]
    assert torch.equal(result.hits, by_hand(result, installed))


def test_the_file_of_a_cell_adds_up_to_its_accuracy(bench):
    cells = bench.cells("baseline", "random_backprop", seeds=2)
    bench.run(cells)
    for cell in cells:
        known = record(cell)
        hits = read_hits(cell.folder / "hits.bin", sum(known["classes"]["test"]))
        assert 100 * hits.mean() == pytest.approx(known["metrics"]["test_top1"])
    grid = Grid(read_board(bench.root).runs, "baseline")
    assert list(image_errors(bench.root, grid, {})) == ["random_backprop[keep=0.5]"]


def test_a_cell_that_was_never_tested_has_no_hits(bench):
    (cell,) = bench.cells(lr=1e30)
    bench.run([cell])
    assert (record(cell)["status"], record(cell)["metrics"]) == ("diverged", {})
    assert not (cell.folder / "hits.bin").exists()


# Reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("images", [1, 7, 8, 9, 10_000])
def test_what_is_written_is_read(tmp_path, images):
    hits = np.random.default_rng(0).random(images) < 0.7
    write_bits(tmp_path / "hits.bin", hits)
    assert (tmp_path / "hits.bin").stat().st_size == math.ceil(images / 8)
    read = read_hits(tmp_path / "hits.bin", images)
    assert read.dtype == bool
    assert (read == hits).all()
    assert read_hits(tmp_path / "hits.bin", images + 8) is None, "another test set"
    assert read_hits(tmp_path / "none.bin", images) is None


# The error -------------------------------------------------------------------------------------


def naive(ours, theirs):
    """Return the error by sums of squares, cell by cell."""
    n, m = ours.shape
    d = [[100 * (int(ours[s, i]) - int(theirs[s, i])) for i in range(m)] for s in range(n)]
    mean = sum(map(sum, d)) / (n * m)
    rows = [sum(line) / m for line in d]
    columns = [sum(d[s][i] for s in range(n)) / n for i in range(m)]
    images = n * sum((c - mean) ** 2 for c in columns) / (m - 1)
    left = [(d[s][i] - rows[s] - columns[i] + mean) ** 2 for s in range(n) for i in range(m)]
    rest = sum(left) / ((n - 1) * (m - 1))
    return math.sqrt(max(0, (images - rest) / n) / m)


def test_the_error_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(0)
    for n, m in ((2, 2), (2, 50), (5, 30)):
        ours, theirs = rng.random((2, n, m)) < rng.random(m)
        assert image_error(ours, theirs) == pytest.approx(naive(ours, theirs))


def test_what_every_seed_repeats_is_of_the_images():
    ours, theirs = np.ones((3, 100), bool), np.ones((3, 100), bool)
    ours[:, :10] = False
    spread = 100 * math.sqrt(0.1 * 0.9 * 100 / 99)
    assert image_error(ours, theirs) == pytest.approx(spread / 10)
    assert image_error(ours, ours) == 0
    assert math.isnan(image_error(ours[:1], theirs[:1]))
    assert math.isnan(image_error(ours[:, :1], theirs[:, :1]))


def simulated(rng, n, m, of_images):
    """Return ours and theirs: seeds differ, images differ, and coins fall."""
    base = rng.uniform(0.6, 0.8, m)
    shift = 0.05 * rng.standard_normal((n, 1)) + of_images * rng.choice([-1, 1], m)
    return rng.random((n, m)) < base + shift, rng.random((n, m)) < base


@pytest.mark.parametrize("n", [3, 12])
@pytest.mark.parametrize("of_images", [0.0, 0.2])
def test_seeds_and_images_make_the_error_together_and_seeds_lessen_only_their_own(n, of_images):
    rng, m = np.random.default_rng(0), 150
    means, by_seeds, by_images = [], [], []
    for _ in range(1500):
        ours, theirs = simulated(rng, n, m, of_images)
        of_seeds = 100 * (ours.mean(1) - theirs.mean(1))
        means.append(of_seeds.mean())
        by_seeds.append(of_seeds.var(ddof=1) / n)
        by_images.append(image_error(ours, theirs) ** 2)
    coins = 100**2 * (0.21 - 0.2**2 / 12 - of_images**2 + 0.21 - 0.2**2 / 12)
    expected = (100 * of_images) ** 2 / m
    assert np.mean(by_seeds) == pytest.approx((5**2 + coins / m) / n, rel=0.1)
    if of_images:
        assert np.mean(by_images) == pytest.approx(expected, rel=0.1)
        assert np.mean(by_seeds) + np.mean(by_images) == pytest.approx(np.var(means), rel=0.1)
    else:
        # What is cut off at none is not unbiased, but small beside what the seeds give.
        assert np.mean(by_images) < np.mean(by_seeds) / 5


# A table ---------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """Write hits of two strategies and a reference; return the runs of their table."""
    rng, lines = np.random.default_rng(0), []
    for strategy, seeds in (("base", 4), ("ours", 3), ("once", 1), ("lost", 3)):
        for seed in range(seeds):
            cell = f"{strategy}-{seed}"
            lines.append((strategy, seed, cell, "finished", 40.0))
            if strategy != "lost" or seed == 2:
                write_bits(tmp_path / cell / "hits.bin", rng.random(40) < 0.7)
    names = ["strategy", "seed", "folder", "status", "test_samples"]
    return pd.DataFrame(lines, columns=names).assign(contended="")


def test_errors_of_a_table_are_those_of_shared_seeds(tmp_path, table):
    def hits(name, *seeds):
        return np.stack([read_hits(tmp_path / f"{name}-{s}" / "hits.bin", 40) for s in seeds])

    shuffled = table.sample(frac=1, random_state=0)
    seeds = (0, 1, 2)
    expected = image_error(hits("ours", *seeds), hits("base", *seeds))
    assert image_errors(tmp_path, Grid(shuffled, "base"), {}) == {"ours": pytest.approx(expected)}
    table.loc[table["folder"] == "ours-1", "status"] = "diverged"
    expected = image_error(hits("ours", 0, 2), hits("base", 0, 2))
    assert image_errors(tmp_path, Grid(table, "base"), {}) == {"ours": pytest.approx(expected)}


def test_where_nothing_is_known_there_are_no_errors(tmp_path, table):
    assert image_errors(tmp_path, Grid(table, "nobody"), {}) == {}
    assert image_errors(tmp_path, Grid(table.assign(test_samples=math.nan), "base"), {}) == {}
    assert image_errors(tmp_path, Grid(table.assign(test_samples=80.0), "base"), {}) == {}
    assert image_errors(tmp_path, Grid(table[:0], "base"), {}) == {}


def test_each_file_is_read_once(tmp_path, table, monkeypatch):
    read = []

    def counting(path, images, known):
        read.append(path)
        return read_hits(path, images, known)

    monkeypatch.setattr("dataeff.report.hits.read_hits", counting)
    image_errors(tmp_path, Grid(table, "base"), {})
    assert len(read) == len(set(read)) == len(table)
