"""`dataeff analyze`: figures and their numbers, trained once, and mistakes told in one sentence."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from PIL import Image
from shell import call, mistake, ok

from dataeff import Strategy, hookimpl
from dataeff.analysis.study import Study
from dataeff.bench.results import read_runs
from dataeff.data.images import resize
from dataeff.errors import DataeffError
from dataeff.testing import TASK, lab_of

BLOBS = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
ADHOC = ["--dataset", BLOBS, "--model", "tiny", "--epochs", "4", "--name", "mine"]
FAST = ["--set", "batch_size=16", "--set", "lr=0.05", "--device", "cpu"]
ANALYZE = ["analyze", "mixtrain", *ADHOC, *FAST]
FIGURES = ["2a", "2b", "5a", "5b", "5c", "6", "7", "8a", "8b", "9a", "9b", "10a", "10b", "12", "13"]
FOLDER = Path("results/mine/analysis/mixtrain")

SUITE = f"""
strategies = ["baseline"]
[tasks.small]
dataset = "{BLOBS}"
model = "tiny"
epochs = 4
[tasks.large]
dataset = "{BLOBS}"
model = "tiny"
epochs = 3
"""

LOOSE = '''
"""Curves."""

from dataeff import hookimpl


@hookimpl
def register_analyses(register):
    register("curves", curves)


def curves(study):
    """Draw the loss."""
    result = study.train("baseline")
    with study.figure("1", "loss", result.epochs, f"{len(result.epochs)} epochs") as axes:
        axes.plot([line["train_loss"] for line in result.epochs])
'''

TUNED = LOOSE.replace("import hookimpl", "import hookimpl\nfrom pydantic import PositiveInt")
TUNED = TUNED.replace("(study)", "(study, *, word: str = 'loss', times: PositiveInt = 2)")
TUNED = TUNED.replace("{len(result.epochs)} epochs", "{word} of 4 epochs ({times} times)")


def trained(text):
    return [line.split(" ")[2] for line in text.splitlines() if line.startswith("trained ")]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Draw every figure once; return the results' folder, what was printed, and the tables."""
    root = tmp_path_factory.mktemp("drawn")
    text = ok(*ANALYZE, "--results", root)
    folder = root / "mine" / "analysis" / "mixtrain"
    return root, text, {name: pd.read_csv(folder / f"{name}.csv") for name in FIGURES}


# Figures -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_every_figure_is_a_picture_a_table_and_a_line(drawn):
    root, text, tables = drawn
    folder = root / "mine" / "analysis" / "mixtrain"
    assert sorted(path.stem for path in folder.glob("*.png")) == sorted(FIGURES)
    for name in FIGURES:
        assert min(Image.open(folder / f"{name}.png").size) > 500
        assert len(tables[name]) > 0
        (line,) = [line for line in text.splitlines() if line.startswith(f"fig {name}: ")]
        assert any(letter.isdigit() for letter in line.partition(": ")[2])
    assert text.splitlines()[-1] == f"Written: {folder}/"
    assert not list(folder.rglob("*.partial"))


@pytest.mark.long
def test_each_run_is_trained_once_whatever_needs_it(drawn):
    names = trained(drawn[1])
    assert len(names) == len(set(names)) == 11


def test_shares_are_shares(drawn):
    tables = drawn[2]
    columns = {
        "2b": ["right", "single", "both", "second_in_top5"],
        "5b": ["pooled", "split"],
        "5c": ["all", "wrong"],
        "6": ["right_below", "wrong_below"],
        "7": ["mixed", "region1", "deflected"],
        "8a": ["share"],
        "8b": ["share"],
        "9a": ["mixed", "in_region3", "chosen_of_region3"],
        "12": ["second_in_top5"],
    }
    for name, names in columns.items():
        values = tables[name][names].stack().dropna()
        assert values.between(0, 1).all(), name
    assert tables["5c"]["all"].sum() == pytest.approx(1)
    assert tables["8b"]["share"].sum() == pytest.approx(1)
    assert (tables["5a"][["gap", "gap_split", "samples"]] >= 0).all().all()


def test_figures_hold_the_runs_they_speak_of(drawn):
    tables = drawn[2]
    assert tables["2a"]["run"].nunique() == 5
    assert set(tables["2b"]["operator"]) == {"cutmix", "zeropatch", "mixup", "split"}
    assert tables["2a"].groupby("run")["epoch"].max().eq(3).all()
    assert tables["2a"]["validation_top1"].between(0, 100).all()
    assert tables["2a"]["test_top1"].dropna().between(0, 100).all()
    # Of four epochs of 81 rows, one test on the way may have the whole test set of 20 images.
    assert tables["2a"].groupby("run")["test_top1"].count().eq(2).all()
    assert tables["9b"]["label"].tolist() == ["k=1", "k=2", "k=3"]
    naive = tables["10a"].set_index("run").loc["naive CutMix"]
    assert naive["speedup_counted"] == pytest.approx(2, abs=0.1)
    assert tables["10a"].set_index("run").loc["baseline", "speedup_measured"] == 1
    assert tables["13"]["train_loss"].is_monotonic_decreasing


@pytest.mark.long
def test_a_test_set_looked_at_now_and_then_gives_the_curves_their_points():
    rare = ["--set", "validation=0", "--set", "test_every=3"]
    ok(*ANALYZE, *rare, "--figure", "2a")
    table = pd.read_csv(FOLDER / "2a.csv")
    assert table.groupby("run")["epoch"].agg(list).tolist() == [[2, 3]] * 5
    assert table["test_top1"].between(0, 100).all()


@pytest.mark.long
def test_a_run_that_fails_costs_only_the_figures_that_need_it():
    flat = ["--dataset", BLOBS.replace("size=8", "size=4"), *ADHOC[2:]]
    result = call("analyze", "mixtrain", *flat, *FAST, "--figure", "6", "--figure", "13")
    assert result.exit_code == 2
    assert "has one cell for these images" in result.stderr
    assert "fig 6: not drawn" in result.stdout
    assert sorted(path.stem for path in FOLDER.glob("*.png")) == ["13"]


def test_the_leaderboard_does_not_see_them(drawn):
    root = drawn[0]
    assert read_runs(root / "mine") == []
    assert "no results of mine" in mistake("leaderboard", "mine", "--results", root)
    run = ["run", *ADHOC, *FAST, "-s", "baseline", "--seeds", "1", "--in-process"]
    ok(*run, "--results", root)
    assert len(read_runs(root / "mine")) == 1


# Trained once ------------------------------------------------------------------------------------


@pytest.mark.long
def test_only_what_is_wanted_is_trained_and_only_once():
    first = ok(*ANALYZE, "--figure", "6", "--figure", "13")
    assert trained(first) == ["mixtrain_cutmix", "baseline"]
    assert sorted(path.stem for path in FOLDER.glob("*.png")) == ["13", "6"]
    table = (FOLDER / "6.csv").read_text()
    second = ok(*ANALYZE, "--figure", "6", "--figure", "8")
    assert trained(second) == []
    assert (FOLDER / "6.csv").read_text() == table, "what the probe saw is there again"
    assert (FOLDER / "8a.png").exists()
    assert (FOLDER / "8b.png").exists()
    assert trained(ok(*ANALYZE, "--figure", "6", "--fresh")) == ["mixtrain_cutmix"]
    assert (FOLDER / "6.csv").read_text() == table
    assert trained(ok(*ANALYZE, "--figure", "6", "--set", "momentum=0.5")) == ["mixtrain_cutmix"]


@pytest.mark.long
def test_seeds_and_tasks_have_folders_of_their_own():
    Path("two.toml").write_text(SUITE)
    ok("analyze", "mixtrain", "two.toml", "--task", "small", "--figure", "13")
    ok("analyze", "mixtrain", "two.toml", "--task", "large", "--figure", "13", "--seed", "2")
    found = sorted(str(path) for path in Path("results/two/analysis/mixtrain").rglob("13.csv"))
    assert [Path(path).parts[4:-1] for path in found] == [("large", "seed2"), ("small",)]
    assert [len(pd.read_csv(path)) for path in found] == [3, 4]


def study(installed, **options):
    return Study("mine", "blobs", TASK, Path("here"), lab_of(installed), **options)


class Steps(Strategy):
    """Counts what it saw."""

    def __init__(self, by=1):
        self.by = by

    @hookimpl
    def setup(self):
        self.seen = 0

    @hookimpl
    def observe_batch(self):
        self.seen += self.by


def test_a_probe_gets_its_state_back_and_is_no_part_of_the_label(installed):
    first, second, other = Steps(), Steps(), Steps(by=2)
    events = []
    mine = study(installed, watch=events.append)
    result = mine.train("random_backprop[keep=0.5]", first)
    again = mine.train("random_backprop[keep=0.5]", second)
    assert first.seen == second.seen == 20
    assert again.record["strategy"] == result.record["strategy"] == "random_backprop[keep=0.5]"
    assert again.epochs == result.epochs
    assert again.record["clocks"]["train"] == result.record["clocks"]["train"]
    for name, column in result.samples.items():
        assert torch.equal(column.nan_to_num(), again.samples[name].nan_to_num())
    mine.train("random_backprop[keep=0.5]", other)
    assert other.seen == 40, "another probe is another run"
    kinds = [event.kind for event in events]
    assert kinds == (["started"] + 4 * ["epoch"] + ["ended"]) * 2


def test_a_stopped_run_goes_on(installed):
    class Stop(Exception):
        pass

    def stop(event):
        if event.kind == "epoch" and event.record["epoch"] == 1:
            raise Stop

    with pytest.raises(Stop):
        study(installed, watch=stop).train("baseline", Steps())
    epochs = []
    probe = Steps()
    study(installed, watch=lambda event: epochs.append(event.record.get("epoch"))).train(
        "baseline", probe
    )
    assert 0 not in epochs
    assert probe.seen == 20


def test_a_run_that_diverges_says_so(installed):
    wild = replace(study(installed), task=TASK.model_copy(update={"lr": 1e30}))
    with pytest.raises(DataeffError, match="blobs baseline seed 0: The loss of epoch 0 is "):
        wild.train("baseline")


def test_an_analysis_of_a_third_party_needs_no_more_than_a_function():
    Path("loose").mkdir()
    Path("loose/curves.py").write_text(LOOSE)
    text = ok("analyze", "curves", *ADHOC, *FAST, "--plugins-dir", "loose")
    assert "fig 1: 4 epochs" in text
    assert len(pd.read_csv("results/mine/analysis/curves/1.csv")) == 4


@pytest.mark.long
def test_parameters_are_read_and_checked():
    Path("loose").mkdir()
    Path("loose/curves.py").write_text(TUNED)
    more = [*ADHOC, *FAST, "--plugins-dir", "loose"]
    assert "fig 1: loss of 4 epochs (2 times)" in ok("analyze", "curves", *more)
    text = ok("analyze", "curves[times=3,word=mean loss]", *more)
    assert "fig 1: mean loss of 4 epochs (3 times)" in text
    assert trained(text) == [], "the same run"
    assert Path("results/mine/analysis/curves/1.csv").exists()
    said = mistake("analyze", "curves[times=0]", *more)
    assert said == "analysis curves: times=0 is not valid, it should be greater than 0."
    said = mistake("analyze", "curves[time=3]", *more)
    assert "has no parameter 'time'. Did you mean times?" in said


def test_a_study_trains_another_network_on_the_same_task(installed):
    events = []
    mine = study(installed, watch=events.append)
    names = [
        [name for name, _ in mine.train("baseline", model=model).run.model.named_parameters()]
        for model in (None, "resnet8", "tiny")
    ]
    assert names[0] == names[2] != names[1]
    titles = [event.cell.title for event in events if event.kind == "ended"]
    assert titles == ["blobs baseline seed 0", "blobs resnet8 baseline seed 0"]
    assert mine.train("baseline", model="resnet8").record["task"]["model"] == "resnet8"
    assert mine.train("baseline").record["task"] == TASK.model_dump(mode="json")
    assert len(list(Path("here/runs").iterdir())) == 2


def test_a_study_keeps_its_runs_where_it_is_told(installed):
    study(installed, runs=Path("there")).train("baseline")
    assert len(list(Path("there").iterdir())) == 1
    assert not Path("here").exists()


def test_a_study_shows_samples_as_they_were(installed):
    factory = installed.datasets["synthetic"].factory
    raw = factory(samples=90, test_samples=20, classes=4, size=8, difficulty=0.3).read(None)
    indices = torch.tensor([7, 0, 89])
    pixels, labels = study(installed).samples(indices)
    assert torch.equal(pixels, resize(raw.train_images[indices], 8))
    assert torch.equal(labels, raw.train_labels[indices])


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_mistakes_are_told_in_one_sentence():
    Path("two.toml").write_text(SUITE)
    said = mistake("analyze")
    assert said.startswith("Name an analysis: images (Show the samples of lowest EL2N, ")
    assert " mixtrain (Draw the figures of the mixTrain paper.), " in said
    assert "no analysis 'mixtrian'. Did you mean mixtrain?" in mistake("analyze", "mixtrian")
    said = mistake("analyze", "mixtrain[k=2]", *ADHOC)
    assert said == "analysis mixtrain has no parameter 'k'. It takes: no parameters."
    assert "write name, name[key=value,key=value]" in mistake("analyze", "mixtrain[k", *ADHOC)
    assert "names 2 things" in mistake("analyze", "mixtrain+mixtrain", *ADHOC)
    said = mistake(*ANALYZE, "--figure", "3")
    assert "mixtrain draws no figure '3'; it draws: 2a, 2b, 5a," in said
    assert "add --task with one of: small, large." in mistake("analyze", "mixtrain", "two.toml")
    said = mistake("analyze", "mixtrain", "two.toml", "--task", "smal")
    assert said == "two has no task 'smal'. Did you mean small?"
    assert "add --dataset, --model, --epochs." in mistake("analyze", "mixtrain")
    assert "for ad-hoc" in mistake("analyze", "mixtrain", "two.toml", "--model", "tiny")
    assert "take a task of 3 or more" in mistake(*ANALYZE, "--epochs", "2")
    assert "'cuba'" in mistake(*ANALYZE, "--device", "cuba")
    assert not Path("results").exists()
