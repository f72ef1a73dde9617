"""Exporting: what a cell kept, how often, with what weight and score, for other programs."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benches import Bench, rewrite
from shell import mistake, ok

PRUNED = "el2n[keep=0.5,models=1,epochs=1]"
TWO = ("baseline", PRUNED)


@pytest.fixture
def bench(tmp_path, installed):
    return Bench(tmp_path, installed)


def exported(bench, *cells):
    said = ok("export", bench.root, *cells, "--out", "out")
    index = pd.read_csv("out/cells.csv").set_index("cell")
    return said, index, {name: pd.read_parquet(f"out/{name}.parquet") for name in index.index}


def test_what_a_static_pruner_kept_are_its_highest_scores(bench):
    cells = bench.cells(*TWO)
    bench.run(cells)
    said, index, tables = exported(bench)
    assert said == "Written: out/cells.csv, 2 cells as .parquet and .csv\n"
    table = tables[cells[1].folder.name]
    kept = table[table["kept"]]
    # Half of 81 samples, each of them once in each of 3 epochs.
    assert len(kept) == 40 == index.loc[cells[1].folder.name, "kept"]
    assert set(kept["times_trained"]) == {3}
    left = table[table["trainable"] & ~table["kept"]]
    assert kept["score_el2n"].min() >= left["score_el2n"].max()
    assert table["score_el2n"].notna().sum() >= 81
    whole = tables[cells[0].folder.name]
    assert (whole["kept"] == whole["trainable"]).all()
    assert "score_el2n" not in whole


def test_tables_say_what_the_cell_has_kept_for_itself(bench):
    cells = bench.cells(*TWO)
    bench.run(cells)
    _, _, tables = exported(bench)
    for cell in cells:
        own, table = pd.read_parquet(cell.folder / "samples.parquet"), tables[cell.folder.name]
        for name in ("sample", "label", "trainable", "times_trained", "last_loss", "last_correct"):
            pd.testing.assert_series_equal(own[name], table[name])
        csv = pd.read_csv(f"out/{cell.folder.name}.csv")
        assert list(csv) == list(table)
        np.testing.assert_allclose(csv["last_loss"], table["last_loss"], rtol=1e-6)
        assert (csv["kept"] == table["kept"]).all()


WEIGHTS = '''
"""Weights."""

from dataclasses import dataclass

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("heavy", Heavy)


@dataclass(eq=False)
class Heavy(Strategy):
    """Weigh each sample by its index."""

    @hookimpl
    def select_batch(self, run, batch):
        batch.weight *= batch.idx + 1
'''


def test_weights_are_those_of_the_last_time(bench):
    bench.with_loose_plugins(WEIGHTS)
    cells = bench.cells("baseline", "heavy")
    bench.run(cells)
    _, _, tables = exported(bench)
    heavy = tables[cells[1].folder.name]
    trained = heavy[heavy["times_trained"] > 0]
    assert (trained["last_weight"] == trained["sample"] + 1).all()
    assert heavy.loc[heavy["times_trained"] == 0, "last_weight"].isna().all()
    plain = tables[cells[0].folder.name]
    assert set(plain.loc[plain["kept"], "last_weight"]) == {1.0}


def test_cells_are_named_by_strategy_by_folder_or_by_a_pattern(bench):
    cells = bench.cells(*TWO, seeds=2)
    bench.run(cells)
    for asked, found in (
        (PRUNED, [cells[1], cells[3]]),
        (cells[0].folder.name, [cells[0]]),
        ("*-s1-*", [cells[2], cells[3]]),
    ):
        _, index, _ = exported(bench, asked)
        assert set(index.index) == {cell.folder.name for cell in found}
    told = mistake("export", bench.root, "basline", "--out", "out")
    assert told == f"No cell of {bench.root} is called 'basline'. Did you mean baseline?"


def test_what_is_not_there_is_told(bench):
    (cell,) = bench.cells()
    told = mistake("export", bench.root, "--out", "out")
    assert "holds no cells that have ended" in told
    bench.run([cell])
    (cell.folder / "samples.parquet").unlink()
    rewrite(cell)
    assert not Path("out").exists()
    assert ok("export", bench.root, "--out", "out") == ""


def test_cells_without_weights_do_not_know_them(bench):
    (cell,) = bench.cells()
    bench.run([cell])
    path = cell.folder / "samples.parquet"
    pd.read_parquet(path).drop(columns="last_weight").to_parquet(path, index=False)
    rewrite(cell, files={})
    _, _, tables = exported(bench)
    assert tables[cell.folder.name]["last_weight"].isna().all()
