"""Artefacts: scores that a run leaves for others, what they are known by, and who pays."""

import json

import pandas as pd
import pytest
import torch
from conftest import drawn
from shell import ok

from dataeff.testing import TASK, train_tiny
from dataeff.training.artefact import Shelf
from dataeff.training.job import Place

SHARED = "el2n[models=1,epochs=1,keep=0.5,reuse=true]"
ALONE = "el2n[models=1,epochs=1,keep=0.5]"
# Without a validation split all seeds train on the same samples.
WHOLE = TASK.model_copy(update={"validation": 0})


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "artefacts", ("data", "conditions"))


def scores(result):
    return result.run.strategies[0].plugin.scores


def test_scores_are_kept_with_what_made_them_and_what_they_cost(shelf):
    result = train_tiny(ALONE, place=Place(shelf=shelf))
    (entry,) = result.record["artefacts"]
    assert entry["made"] is True
    assert entry["reuse"] is False
    path = shelf.folder / f"el2n-{entry['key']}"
    table = pd.read_parquet(path.with_suffix(".parquet"))
    assert table["sample"].tolist() == list(range(90))
    assert torch.equal(
        torch.tensor(table["score"].to_numpy()).nan_to_num(-1), scores(result).nan_to_num(-1)
    )
    said = json.loads(path.with_suffix(".json").read_text())
    assert said["made_from"]["settings"] == {"models": 1, "epochs": 1}
    assert said["made_from"]["task"]["model"] == "tiny"
    assert said["stamp"] == ["data", "conditions"]
    assert said["cost"]["rows"] == {
        "prepare_loaded": 81,
        "prepare_forwarded": 81,
        "prepare_trained": 81,
        "scored": 81,
    }
    assert said["cost"]["flops"] > 0
    assert sum(said["cost"]["wall"].values()) == entry["seconds"] > 0
    assert not list(shelf.folder.glob("*.partial"))


def test_who_reuses_scores_gets_the_same_numbers_and_pays_in_full(shelf):
    first = train_tiny(SHARED, place=Place(shelf=shelf), task=WHOLE)
    second = train_tiny(SHARED, place=Place(shelf=shelf), task=WHOLE)
    assert [run.record["artefacts"][0]["made"] for run in (first, second)] == [True, False]
    assert torch.equal(scores(first), scores(second))
    for name in ("rows", "flops"):
        assert first.record[name] == second.record[name]
    spent = second.record["artefacts"][0]["seconds"]
    assert spent == first.record["artefacts"][0]["seconds"]
    assert second.record["clocks"]["prepare"] >= spent


def test_who_reuses_gradients_pays_for_them_too(shelf):
    text = "grand[models=1,epochs=1,reuse=true]"
    first, second = (
        train_tiny(text, place=Place(shelf=shelf), task=WHOLE).record for _ in range(2)
    )
    assert not second["artefacts"][0]["made"]
    assert first["flops"] == second["flops"]
    assert first["rows"] == second["rows"]


def test_reused_scores_do_not_hang_on_who_came_first(tmp_path):
    ours = [Shelf(tmp_path / name) for name in ("one", "other")]
    first = train_tiny(SHARED, place=Place(shelf=ours[0]), task=WHOLE, seed=3)
    second = train_tiny(SHARED, place=Place(shelf=ours[1]), task=WHOLE, seed=4)
    assert torch.equal(scores(first), scores(second))
    alone = [train_tiny(ALONE, task=WHOLE, seed=seed) for seed in (3, 4)]
    assert not torch.equal(*map(scores, alone))


def made(shelf, *strategies, **options):
    return train_tiny(*strategies, place=Place(shelf=shelf), **options).record["artefacts"][0][
        "made"
    ]


def test_all_seeds_and_all_shares_use_one_artefact(shelf):
    assert made(shelf, SHARED, task=WHOLE)
    assert not made(shelf, SHARED, task=WHOLE, seed=1)
    assert not made(shelf, SHARED.replace("0.5", "0.25"), task=WHOLE)
    assert not made(shelf, SHARED, "random_backprop", task=WHOLE)


@pytest.mark.parametrize(
    ("strategies", "changes"),
    drawn(
        [
            ([SHARED.replace("epochs=1", "epochs=2")], {}),
            ([SHARED.replace("models=1", "models=2")], {}),
            ([SHARED, "amp"], {}),
            ([SHARED], {"lr": 0.01}),
            ([SHARED], {"model": "tiny[width=4]"}),
            ([SHARED], {"validation": 0.1}),
        ],
        3,
    ),
)
def test_what_scores_hang_on_makes_others(shelf, strategies, changes):
    assert made(shelf, SHARED, task=WHOLE)
    assert made(shelf, *strategies, task=WHOLE.model_copy(update=changes))


def test_other_data_and_other_conditions_make_others(shelf):
    assert made(shelf, SHARED, task=WHOLE)
    assert made(Shelf(shelf.folder, ("other", "conditions")), SHARED, task=WHOLE)
    assert made(Shelf(shelf.folder, ("data", "other")), SHARED, task=WHOLE)


def test_scoring_networks_never_see_another_runs_validation_samples(shelf):
    assert made(shelf, SHARED, seed=0)
    assert made(shelf, SHARED, seed=1), "its validation samples are others"


def test_without_reuse_scores_are_made_each_time(shelf):
    assert made(shelf, ALONE)
    assert made(shelf, ALONE)


def test_half_an_artefact_is_none(shelf):
    key = train_tiny(SHARED, place=Place(shelf=shelf), task=WHOLE).record["artefacts"][0]["key"]
    (shelf.folder / f"el2n-{key}.json").write_text("{")
    assert made(shelf, SHARED, task=WHOLE)


def test_cells_of_a_suite_find_each_others_scores(tmp_path):
    suite = tmp_path / "few.toml"
    suite.write_text(
        f"""
        seeds = 2
        controls = false
        strategies = ["baseline", "{SHARED}", "{SHARED}+random_backprop"]

        [tasks.t]
        dataset = "{TASK.dataset}"
        model = "tiny"
        epochs = 2
        batch_size = 16
        validation = 0
        """
    )
    ok("run", str(suite), "--in-process")
    records = [json.loads(path.read_text()) for path in tmp_path.glob("results/few/*/run.json")]
    used = [record["artefacts"][0] for record in records if record["artefacts"]]
    assert len(used) == 4
    assert len({entry["key"] for entry in used}) == 1
    assert sum(entry["made"] for entry in used) == 1
    assert len(list(tmp_path.glob("results/artefacts/el2n-*.parquet"))) == 1
