"""The analyses of the Diet-SB poster: against naive sets, and through the command line."""

import itertools
import math
import statistics
from pathlib import Path

import pandas as pd
import pytest
import torch
from dataeff_plugins.poster import images, overlap, runs, usage
from PIL import Image
from shell import mistake, ok

from dataeff.testing import TASK, lab_of, train_tiny

BLOBS = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
ADHOC = ["--dataset", BLOBS, "--model", "tiny", "--epochs", "4", "--name", "mine"]
FAST = ["--set", "batch_size=16", "--set", "lr=0.05", "--device", "cpu"]
OTHER = 'other="tiny[width=4]"'
SMALL = "models=2,epochs=2"
FIGURES = {
    "overlap": ["architectures", "sb"],
    "images": ["combined", "lowest"],
    "usage": ["deciles", "dropped", "times"],
}
SB = "selective_backprop_batch[keep={},start=0,end=1,interrupt=0]"


def analyze(analysis, *options):
    return ["analyze", analysis, *ADHOC, *FAST, *options]


def trained(text):
    lines = [line for line in text.splitlines() if line.startswith("trained ")]
    return [line.removeprefix("trained synthetic ").split(" seed ")[0] for line in lines]


def drawn(n, seed=0, among=None):
    generator = torch.Generator().manual_seed(seed)
    if among:
        return torch.randint(among, (n,), generator=generator)
    return torch.rand(n, generator=generator)


# Overlap -----------------------------------------------------------------------------------------


def lowest_sets(values, n):
    """Return every set of n samples that no sample outside lies below."""
    places = range(len(values))
    sets = [set(chosen) for chosen in itertools.combinations(places, n)]
    return [
        chosen
        for chosen in sets
        if all(values[i] <= values[j] for i in chosen for j in places if j not in chosen)
    ]


@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("among", [None, 2, 4])
def test_overlap_is_the_mean_over_all_ways_to_break_ties(n, among):
    a, b = drawn(7, seed=1), drawn(7, seed=2, among=among)
    pairs = itertools.product(lowest_sets(a.tolist(), n), lowest_sets(b.tolist(), n))
    expected = statistics.mean(len(first & second) / n for first, second in pairs)
    assert overlap.shared(a, b, n) == pytest.approx(expected)
    assert overlap.shared(b, a, n) == pytest.approx(expected)


def test_overlap_without_ties_counts_sets():
    a, b = drawn(500, seed=3), drawn(500, seed=4)
    b = a + 0.5 * b
    lines = overlap.overlaps(a, {"b": b, "same": 2 * a, "opposite": -a})
    assert [line["fraction"] for line in lines] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    for line in lines:
        n = line["samples"]
        assert n == round(500 * line["fraction"])
        low = [set(sorted(range(500), key=column.tolist().__getitem__)[:n]) for column in (a, b)]
        assert line["b"] == pytest.approx(len(low[0] & low[1]) / n)
        assert line["same"] == 1
        assert line["opposite"] == pytest.approx(max(0, 2 * n - 500) / n)
        assert line["chance"] == pytest.approx(n / 500)


def test_equal_values_overlap_by_chance():
    lines = overlap.overlaps(drawn(81), {"use": torch.full((81,), 3, dtype=torch.int32)})
    for line in lines:
        assert line["use"] == pytest.approx(line["chance"])
    assert overlap.overlaps(drawn(4), {"use": drawn(4)})[0]["samples"] == 1


def test_the_other_network_is_never_the_tasks_own():
    assert overlap.default_other("tiny") == "resnet20"
    assert overlap.default_other("resnet20") == "resnet8"


# Ranks and images --------------------------------------------------------------------------------


def test_ranks_of_equal_values_are_their_mean():
    values = [3, 1, 2, 1, 3, 3, 0]
    expected = [
        statistics.mean(place for place, other in enumerate(sorted(values), 1) if other == value)
        for value in values
    ]
    assert images.mean_ranks(torch.tensor(values)).tolist() == expected
    assert sum(expected) == 7 * 8 / 2


def test_equal_ranks_are_ordered_by_score():
    rank, scores = drawn(60, seed=5, among=6), drawn(60, seed=6)
    expected = sorted(range(60), key=lambda i: (rank[i].item(), scores[i].item()))[:20]
    assert images.lowest_of(rank, scores, 20).tolist() == expected
    assert len(images.lowest_of(rank[:5], scores[:5], 20)) == 5


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize(("n", "columns"), [(20, 7), (7, 7), (3, 2), (1, 1)])
def test_a_montage_holds_every_image_at_its_place(channels, n, columns):
    shape = (n, 10, 20, channels)
    pixels = torch.randint(200, shape, generator=torch.Generator().manual_seed(0)).byte()
    whole, places = images.montage(pixels, columns)
    assert whole.shape == (math.ceil(n / columns) * 14, columns * 22, 3)
    assert whole.dtype == torch.uint8
    assert len(places) == n
    left = whole.clone()
    for number, ((x, y), image) in enumerate(zip(places, pixels, strict=True)):
        row, column = divmod(number, columns)
        top, start = int(y) + 1, int(x - 9.5)
        assert (top, start) == (14 * row + 4, 22 * column + 1)
        shown = left[top : top + 10, start : start + 20]
        for channel in range(3):
            grey = image.double().mean(2)
            expected = image[:, :, channel] if channels == 3 else grey
            assert (shown[:, :, channel] - expected).abs().max() <= 0.5
        shown.fill_(255)
    assert (left == 255).all(), "nothing else is drawn"


# Use and what is dropped -------------------------------------------------------------------------


def test_times_are_counted_and_chance_is_binomial():
    use = drawn(200, seed=7, among=5).int()
    table = usage.times_table(use, 6)
    assert [line["times"] for line in table] == list(range(7))
    assert [line["samples"] for line in table] == [use.tolist().count(k) for k in range(7)]
    assert sum(line["share"] for line in table) == pytest.approx(1)
    p = sum(use.tolist()) / 200 / 6
    for k, line in enumerate(table):
        expected = math.comb(6, k) * p**k * (1 - p) ** (6 - k)
        assert line["by_chance"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("times", [0, 3])
def test_times_that_are_all_the_same(times):
    table = usage.times_table(torch.full((5,), times), 3)
    expected = [float(k == times) for k in range(4)]
    assert [line["share"] for line in table] == expected
    assert [line["by_chance"] for line in table] == pytest.approx(expected)


def test_a_sample_trained_more_often_than_there_are_epochs_is_counted():
    assert len(usage.times_table(torch.tensor([0, 5]), 2)) == 6


@pytest.mark.parametrize("n", [4, 81, 100])
def test_deciles_split_the_samples_by_score(n):
    scores, use = drawn(n, seed=8), drawn(n, seed=9, among=9)
    order = sorted(range(n), key=scores.tolist().__getitem__)
    at = 0
    for line in usage.deciles(scores, use):
        part, at = order[at : at + line["samples"]], at + line["samples"]
        assert abs(line["samples"] - n / 10) < 1
        assert line["el2n_from"] == scores[part[0]]
        assert line["el2n_to"] == scores[part[-1]]
        expected = statistics.mean(use[i].item() for i in part)
        assert line["times_trained"] == pytest.approx(expected)
    assert at == n


def test_every_method_drops_what_it_is_asked_to(installed):
    data = BLOBS.replace("samples=90", "samples=96")
    short = {"dataset": data, "validation": 0, "epochs": 1, "batch_size": 24}
    task = TASK.model_copy(update=short)
    assert usage.methods(0.5, 3, 5) == {
        "SB": SB.format(0.5),
        "RB": "random_backprop[keep=0.5]",
        "EL2N": "el2n[keep=0.5,models=3,epochs=5,reuse=true]",
        "Diet-SB": "el2n[keep=0.75,models=3,epochs=5,reuse=true]+" + SB.format("0.666666666667"),
    }
    assert "Diet-SB" not in usage.methods(0.25, 3, 5)
    assert "Diet-SB" in usage.methods(0.26, 3, 5)
    for dropped in (0.5, 0.625):
        for strategy in usage.methods(dropped, 1, 0).values():
            record = train_tiny(strategy, installed=installed, task=task).record
            assert record["rows"]["trained"] == 96 * (1 - dropped), strategy


def test_a_third_of_three_rows_is_one(installed):
    (part,) = lab_of(installed).composition(runs.selective(1 / 3)).parts
    assert int(part.values["keep"] * 3 + 1e-9) == 1


# The command -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawings(tmp_path_factory):
    """Draw everything once; return the folder, what was printed, and the tables."""
    root = tmp_path_factory.mktemp("poster")
    texts, tables = {}, {}
    for analysis, parameters in {
        "overlap": f"[{OTHER},{SMALL}]",
        "images": f"[{SMALL}]",
        "usage": f"[{SMALL},fractions=0.5 0.25]",
    }.items():
        texts[analysis] = ok(*analyze(analysis + parameters, "--results", root))
        folder = root / "mine" / "analysis" / analysis
        for name in FIGURES[analysis]:
            tables[name] = pd.read_csv(folder / f"{name}.csv")
    return root, texts, tables


@pytest.mark.long
def test_every_figure_is_a_picture_a_table_and_a_line(drawings):
    root, texts, tables = drawings
    for analysis, names in FIGURES.items():
        folder = root / "mine" / "analysis" / analysis
        assert sorted(path.stem for path in folder.glob("*.png")) == names
        assert texts[analysis].splitlines()[-1] == f"Written: {folder}/"
        for name in names:
            assert min(Image.open(folder / f"{name}.png").size) > 500
            (line,) = [x for x in texts[analysis].splitlines() if x.startswith(f"fig {name}: ")]
            assert any(letter.isdigit() for letter in line.partition(": ")[2])
            assert len(tables[name]) > 0


def test_analyses_share_scores_and_runs(drawings):
    texts = drawings[1]
    el2n = "el2n[keep={},models=2,epochs=2,reuse=true]"
    again = "el2n[keep=1,models=2,epochs=2]"
    assert trained(texts["overlap"]) == [
        f"tiny[width=4] {again}",
        again,
        el2n.format(1),
        SB.format(0.5),
    ]
    assert texts["overlap"].count(": prepared in ") == 3, "scores need no training"
    assert trained(texts["images"]) == []
    assert trained(texts["usage"]) == [
        "baseline",
        SB.format(0.75),
        "random_backprop[keep=0.75]",
        el2n.format(0.75),
        "random_backprop[keep=0.5]",
        el2n.format(0.5),
        f"{el2n.format(0.75)}+{SB.format('0.666666666667')}",
    ]


def test_columns_and_their_numbers(drawings):
    tables = drawings[2]
    columns = {name: list(table) for name, table in tables.items()}
    ranks = ["times_trained", "rank_el2n", "rank_use", "rank"]
    rows = ["rows_trained", "rows_dropped"]
    assert columns == {
        "architectures": ["fraction", "samples", "architectures", "seeds", "chance"],
        "sb": ["fraction", "samples", "sb", "chance"],
        "lowest": ["sample", "label", "el2n"],
        "combined": ["sample", "label", "el2n", *ranks],
        "times": ["times", "samples", "share", "by_chance"],
        "deciles": ["decile", "samples", "el2n_from", "el2n_to", "times_trained"],
        "dropped": ["method", "strategy", "dropped", "accuracy", *rows],
    }
    for name in ("architectures", "sb"):
        assert tables[name].drop(columns="samples").stack().between(0, 1).all()
    assert (tables["architectures"]["architectures"] < 1).any(), "these are two networks"
    assert (tables["architectures"]["seeds"] < 1).any(), "these are other seeds"
    assert not tables["architectures"]["architectures"].equals(tables["architectures"]["seeds"])
    dropped = tables["dropped"]
    assert dropped["method"].tolist() == [
        *("baseline", "SB", "RB", "EL2N"),
        *("SB", "RB", "EL2N", "Diet-SB"),
    ]
    assert dropped["dropped"].tolist() == [0] + 3 * [0.25] + 4 * [0.5]
    assert dropped["rows_trained"].iloc[0] == 4 * 81
    assert (dropped["rows_dropped"] - dropped["dropped"]).abs().max() < 0.04
    assert dropped["accuracy"].between(0, 100).all()


def test_tables_hold_what_the_strategies_have_left(drawings, installed):
    tables = drawings[2]
    task = TASK.model_copy(update={"dataset": BLOBS})
    scored = train_tiny(runs.el2n(1, 2, 2), installed=installed, task=task)
    scores = scored.run.strategies[0].plugin.scores
    trainable = scored.samples["trainable"]
    use = train_tiny(SB.format(0.5), installed=installed, task=task).samples["times_trained"]
    samples = trainable.nonzero()[:, 0].tolist()
    labels = lab_of(installed).data(task).train.labels
    lowest = sorted(samples, key=lambda i: scores[i].item())[:20]
    assert tables["lowest"]["sample"].tolist() == lowest
    assert tables["lowest"]["el2n"].tolist() == pytest.approx(scores[lowest].tolist())
    assert tables["lowest"]["label"].tolist() == labels[lowest].tolist()
    counts = use[trainable].tolist()
    assert tables["times"]["samples"].tolist() == [counts.count(k) for k in range(5)]
    combined = tables["combined"]
    assert combined["times_trained"].tolist() == use[combined["sample"].tolist()].tolist()
    assert combined["rank"].is_monotonic_increasing
    assert (combined["rank_el2n"] + combined["rank_use"]).equals(combined["rank"])
    assert tables["deciles"]["samples"].sum() == len(samples)
    mean = (tables["deciles"]["times_trained"] * tables["deciles"]["samples"]).sum() / len(samples)
    assert mean == pytest.approx(statistics.mean(counts))


@pytest.mark.long
def test_only_what_a_figure_needs_is_trained():
    first = ok(*analyze(f"usage[{SMALL},keep=0.75]", "--figure", "times"))
    assert trained(first)[1:] == [SB.format(0.75)]
    text = ok(*analyze(f"images[{SMALL}]", "--figure", "lowest"))
    assert trained(text) == []
    text = ok(*analyze(f"usage[{SMALL},fractions=0.2]", "--figure", "dropped"))
    assert "20% dropped: SB " in text
    assert "Diet-SB" not in text
    pictures = sorted(path.stem for path in Path("results").rglob("*.png"))
    assert pictures == ["dropped", "lowest", "times"]


@pytest.mark.long
def test_mistakes_are_told_in_one_sentence():
    said = mistake(*analyze("overlap[other=tiny]"))
    assert said == (
        "overlap: other=tiny is the task's own network; name another one, such as other=resnet20."
    )
    said = mistake(*analyze("overlap[other=resnet21]"))
    assert said.startswith("There is no model 'resnet21'. Did you mean resnet")
    said = mistake(*analyze("usage[fractions=0.5 1]"))
    assert said == "analysis usage: fractions=0.5 1 is not valid, it should be less than 1."
    said = mistake(*analyze('usage[fractions="0.5,2"]'))
    assert "fractions=0.5,2 is not valid, it should be less than 1." in said
    assert "fractions=half is not valid" in mistake(*analyze("usage[fractions=half]"))
    assert "fractions= is not valid" in mistake(*analyze('usage[fractions=""]'))
    said = mistake(*analyze("images[model=3]"))
    assert "has no parameter 'model'. Did you mean models? It takes: models, epochs, keep." in said
    assert "models=0 is not valid" in mistake(*analyze("images[models=0]"))
    said = mistake(*analyze("images", "--figure", "highest"))
    assert "images draws no figure 'highest'; it draws: lowest, combined." in said
