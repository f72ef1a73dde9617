"""What the board adds to accuracy and speed-up: verdicts, curves, classes, the machine, forms."""

import json

import numpy as np
import pandas as pd
import pytest
from records import Folder
from shell import call, mistake, ok

from dataeff.report.board import write_tables
from dataeff.report.latex import escape, latex
from dataeff.report.plots.draw import FIGURES, draw
from dataeff.report.table import pareto
from dataeff.report.terminal import plain_text
from dataeff.report.web.page import page_text


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "results" / "hand")


# Verdicts ---------------------------------------------------------------------------------------


NOISE = np.array([0.0, 0.1, -0.1, 0.05, -0.05])


def test_the_verdict_is_a_sentence_on_both(folder):
    folder.fill("base", [90.0, 91.0, 90.5, 90.2, 90.8], [3.0, 3.1, 2.9, 3.0, 3.05])
    folder.fill("ours", [90.1, 91.2, 90.5, 90.3, 90.8], [2.0, 2.0, 2.0, 1.95, 2.05])
    line = folder.lines().loc["ours"]
    ratios = np.log([3 / 2, 3.1 / 2, 2.9 / 2, 3 / 1.95, 3.05 / 2.05])
    # The 99% point of Student's t: speed has half of the chance of 4%, on two sides.
    half = 3.747 * ratios.std(ddof=1) / np.sqrt(5)
    low, high = np.exp([ratios.mean() - half, ratios.mean() + half])
    assert (line["speedup_low"], line["speedup_high"]) == pytest.approx((low, high), rel=1e-4)
    assert line["verdict"] == "faster and no worse"
    assert line["sentence"] == (
        f"1.50x faster ({low:.2f}-{high:.2f}), accuracy +0.08 (-0.06..+0.22): "
        "faster and no worse (margin 0.5)"
    )
    assert (line["settled"], line["look"]) == (True, 5)


def test_the_margin_decides_what_is_no_worse_and_is_the_suites_unless_told(folder):
    folder.fill("base", [90.0, 91.0, 92.0, 93.0], [2.0] * 4)
    folder.fill("ours", [89.3, 90.35, 91.3, 92.25], [1.0, 1.01, 0.99, 1.0])
    strict, wide = folder.lines().loc["ours"], folder.lines(margin=1.0).loc["ours"]
    assert strict["verdict"] == "faster but worse"
    assert wide["verdict"] == "faster and no worse"
    ends = ["difference_low", "difference_high"]
    assert wide[ends].tolist() == strict[ends].tolist(), "read off the same interval"
    folder.suite(margin=1.0)
    assert folder.lines().loc["ours", ["verdict", "margin"]].tolist() == [wide["verdict"], 1.0]
    assert folder.lines(margin=0.5).loc["ours", "verdict"] == "faster but worse"


def test_every_strategy_of_a_table_widens_the_intervals(folder):
    folder.fill("base", [90.0] * 5, [1.0] * 5)
    folder.fill("ours", (89.9 + NOISE).tolist(), [1.0, 1.1, 0.9, 1.0, 1.05])
    alone = folder.lines().loc["ours"]
    folder.fill("other", (90 + 9 * NOISE).tolist(), [1.1, 1.0, 1.0, 0.9, 0.95])
    beside = folder.lines().loc["ours"]
    assert alone["verdict"] == "no worse, speed open"
    assert beside["difference_low"] < alone["difference_low"]
    assert beside["difference_high"] > alone["difference_high"]


def test_the_reference_is_not_judged_and_one_seed_gives_no_verdict(folder):
    folder.add("base", 0, 90.0, 2.0).add("ours", 0, 80.0)
    lines = folder.lines()
    assert lines["verdict"].tolist() == ["", "no verdict"]
    assert lines["sentence"].loc["ours"] == (
        "2.00x the speed, accuracy -10.00: no verdict; one seed shows no spread; "
        "add seeds: --seeds 5"
    )
    assert not lines["settled"].any()


def test_before_a_look_there_is_no_verdict_and_no_interval(folder):
    folder.suite(seeds=5)
    folder.fill("base", [90.0] * 4, [2.0] * 4)
    folder.fill("ours", (91 + NOISE[:3]).tolist(), [1.0] * 3)
    line = folder.lines().loc["ours"]
    assert (line["verdict"], line["look"], line["settled"]) == ("no look yet", 0, False)
    assert line["sentence"] == (
        "2.00x the speed, accuracy +1.00: no look yet; next look at 5 seeds, 3 there"
    )
    ends = [f"{name}_{end}" for name in ("difference", "speedup") for end in ("low", "high")]
    assert line[ends].isna().all()
    assert folder.board().feet == {("blobs", "c1"): ["Next look at 5 seeds, 3 there."]}
    assert "\nNext look at 5 seeds, 3 there." in plain_text(folder.board())


def test_a_strategy_that_shares_no_seed_says_so(folder):
    folder.add("base", 0, 90.0).add("base", 1, status="failed")
    folder.add("ours", 0, status="failed").add("ours", 1, 90.0)
    line = folder.lines().loc["ours"]
    assert line["sentence"] == "no verdict: it shares no seed with the reference"
    assert line["trouble"] == "1 failed, 0 of 1 seeds paired"


def test_who_diverges_is_not_no_worse_and_needs_no_more_seeds(folder):
    folder.fill("base", [90.0] * 6, [2.0] * 6)
    folder.fill("ours", [90.1, 90.0, 89.9], [1.0, 1.01, 0.99])
    for seed in (3, 4, 5):
        folder.add("ours", seed, 10.0, status="diverged")
    line = folder.lines().loc["ours"]
    assert line["verdict"] == "faster, diverged in 3 of 6"
    assert line["sentence"].endswith(": faster, diverged in 3 of 6")
    assert line["settled"]


def test_a_seed_in_which_the_reference_diverged_too_is_nobodys_fault(folder):
    folder.fill("base", [90.0] * 5, [2.0] * 5).add("base", 5, 10.0, status="diverged")
    folder.fill("ours", (90 + NOISE).tolist(), [1.0, 1.01, 0.99, 1.0, 1.02])
    folder.add("ours", 5, 10.0, status="diverged")
    assert folder.lines().loc["ours", "verdict"] == "faster and no worse"


def test_three_equal_steps_of_one_test_image_are_no_certainty(folder):
    classes = {"test": [50, 50], "accuracy": [90.0, 90.0], "trained": [1.0, 1.0]}
    folder.fill("base", [90.0] * 3, [1.0, 1.1, 1.2], classes=classes)
    folder.fill("ours", [89.0] * 3, [1.0, 1.2, 1.1], classes=classes)
    line = folder.lines(margin=0.1).loc["ours"]
    half = 6.9646 / np.sqrt(12) / np.sqrt(3)
    assert line["difference_low"] == pytest.approx(-1 - half, rel=1e-4)
    assert line["verdict"] == "open"


# The foot ---------------------------------------------------------------------------------------


def test_the_foot_says_what_holds_for_the_whole_table(folder):
    folder.fill("base", [90.0] * 5, [2.0] * 5)
    for turn, name in enumerate(("ours", "other", "third")):
        noise = np.roll(NOISE, turn)
        folder.fill(name, (90 + noise).tolist(), (np.exp(noise) * (2 - turn / 2)).tolist())
    together, spread = folder.board().feet["blobs", "c1"]
    settled = int(folder.lines()["settled"].sum())
    assert together == (
        f"Settled: {settled} of 3. The chance that anything said here is wrong, on this test "
        "set, is 4% against the reference (looked at 5 seeds)."
    )
    assert spread == (
        "Spread between seeds: typically 0.09 points, 9% of time. "
        "Smallest margin that 5 seeds can show: 0.2 points."
    )


def test_the_foot_says_what_busy_lanes_do_to_times_beside_them(folder):
    calibration = {"devices": "cpu*2", "change": -0.012, "error": 0.0049}
    said = (
        "Times are of up to 2 lanes at once: busy lanes change the ratio of two loads beside them "
        "by -1.2% (standard error 0.5%)."
    )
    folder.fill("base", [90.0, 91.0], [2.0, 2.1], lanes=1)
    folder.suite(calibration=calibration)
    assert said not in folder.board().feet["blobs", "c1"], "nobody was beside anybody"
    folder.fill("ours", [90.0, 91.0], [1.0, 1.1], lanes=2)
    assert said in folder.board().feet["blobs", "c1"]
    assert folder.board().runs["lanes"].tolist() == [1, 1, 2, 2]
    folder.suite(calibration=None)
    assert not any("lanes" in text for text in folder.board().feet["blobs", "c1"])


def test_the_foot_stands_under_every_form_of_its_table(folder):
    more = {"task_name": "rings", "task_id": "t2"}
    tasks = {name: {"dataset": name, "model": "tiny", "epochs": 2.0} for name in ("blobs", "rings")}
    folder.suite(task_ids={"blobs": "t1", "rings": "t2"}, tasks=tasks)
    for told in ({}, more):
        folder.fill("base", [90.0] * 5, [2.0] * 5, **told)
    folder.fill("ours", (90 + NOISE).tolist(), [1.0] * 5)
    folder.fill("ours", (90 + NOISE[:3]).tolist(), [1.0] * 3, **more)
    board = folder.board()
    assert list(board.feet) == [("blobs", "c1"), ("rings", "c1")]
    first, second = plain_text(board).split("\n\n")
    assert "Settled: " in first
    assert "Next look" not in first
    assert second.endswith("\nNext look at 5 seeds, 3 there.")
    assert "Settled: " not in second
    page = page_text(board)
    for feet in board.feet.values():
        assert all(f'<p class="soft">{text}</p>' in page for text in feet)


# Curves ----------------------------------------------------------------------------------------


def test_time_to_target_is_the_first_look_that_reached_it(folder):
    folder.fill("base", [90.0, 92.0], [10.0, 12.0]).fill("ours", [80.0, 92.0], [4.0, 6.0])
    lines = folder.lines()
    assert lines["target"].tolist() == [90.5, 90.5]
    assert lines["target_reached"].to_dict() == {"base": 0.5, "ours": 0.5}
    assert lines["target_seconds"].isna().all(), "a mean over those that made it would flatter"
    lines = folder.lines(target=45.0)
    assert lines["target_seconds"].to_dict() == {"base": (5 + 6) / 2, "ours": (4 + 3) / 2}
    assert "50% did" in plain_text(folder.board())


def test_the_reference_at_the_same_time_is_on_its_curve(folder):
    folder.add("base", 0, 90.0, 10.0).add("half", 0, 80.0, 7.5).add("early", 0, 30.0, 4.0)
    folder.add("late", 0, 95.0, 20.0)
    then = folder.lines()["reference_at_same_time"]
    assert then["half"] == pytest.approx((45 + 90) / 2), "half-way between its two looks"
    assert np.isnan(then["early"]), "before its first look nothing is known"
    assert then["late"] == then["base"] == 90


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ([(1, 90), (2, 80), (3, 70)], [1, 1, 1]),
        ([(1, 90), (2, 90), (3, 70)], [0, 1, 1]),
        ([(1, 90), (2, 95), (2, 95), (2, 94)], [0, 1, 1, 0]),
        ([(1, 90), (np.nan, 99), (2, np.nan)], [1, 0, 0]),
    ],
)
def test_the_pareto_front(points, front):
    assert pareto(*zip(*points, strict=True)).tolist() == [bool(x) for x in front]


def test_what_is_off_the_clock_is_not_on_the_front(folder):
    folder.add("base", 0, 90.0, 2.0).add("bound", 0, 95.0, 1.0, ranked=False)
    assert folder.lines()["pareto"].to_dict() == {"base": True, "bound": False}


def test_curves_of_every_finished_cell(folder):
    folder.fill("base", [90.0, 92.0], [10.0, 12.0]).add("gone", 0, 3.0, status="diverged")
    curves = folder.board().curves
    assert curves["strategy"].unique().tolist() == ["base"]
    assert curves[["seed", "epoch", "seconds", "test_top1"]].values.tolist() == [
        [0, 1, 5, 45],
        [0, 2, 10, 90],
        [1, 1, 6, 46],
        [1, 2, 12, 92],
    ]


def test_epochs_files_of_several_shapes_are_read_together(folder):
    folder.add("base", 0, 90.0).add("ours", 0, 80.0)
    path = sorted(folder.path.glob("*/epochs.csv"))[1]
    pd.read_csv(path).assign(kept=0.5, extra="text, with a comma").to_csv(path, index=False)
    kept = folder.board().curves.groupby("strategy")["kept"].mean()
    assert np.isnan(kept["base"])
    assert kept["ours"] == 0.5


def test_a_board_without_curves(folder):
    folder.add("base", 0, 90.0)
    for path in folder.path.glob("*/epochs.csv"):
        path.unlink()
    assert folder.lines()["reference_at_same_time"].isna().all()


# Classes, use, energy, the machine ----------------------------------------------------------------


def test_balanced_accuracy_of_an_even_test_set_is_the_accuracy(folder):
    even = {"test": [25, 24], "accuracy": [95.0, 85.0], "trained": [1.0, 1.0]}
    folder.add("base", 0, 90.0, classes=even)
    folder.add("ours", 0, 80.0, classes={**even, "test": [25, 23]})
    lines = folder.board().table.set_index("strategy")["balanced_accuracy"]
    assert lines.isna().to_dict() == {"base": True, "ours": False}
    assert lines["ours"] == 90


def test_classes_use_and_energy(folder):
    def more(accuracy, balance, joules):
        return {
            "classes": {"test": [30, 20], "accuracy": accuracy, "trained": [1.0, balance]},
            "use": {"never_trained": 0.25, "class_balance": balance},
            "energy": joules,
        }

    folder.add("base", 0, 90.0, **more([95.0, 85.0], 1.0, {}))
    folder.add("base", 1, 90.0, **more([93.0, None], 1.0, {"prepare": 1.0, "train": 9.0}))
    folder.add("ours", 0, 80.0, **more([91.0, 70.0], 0.5, {"train": 5.0}))
    board = folder.board()
    lines = board.table.set_index("strategy")
    assert lines["worst_class"].to_dict() == {"base": (85 + 93) / 2, "ours": 70}
    assert lines["balanced_accuracy"].to_dict() == {"base": (90 + 93) / 2, "ours": 80.5}
    assert lines["never_trained"].tolist() == [0.25, 0.25]
    assert lines["class_balance"].to_dict() == {"base": 1.0, "ours": 0.5}
    assert lines["energy_joules"].to_dict() == {"base": 10, "ours": 5}
    classes = board.classes.set_index(["strategy", "label"])
    assert classes["accuracy"].to_dict() == {
        ("base", 0): 94,
        ("base", 1): 85,
        ("ours", 0): 91,
        ("ours", 1): 70,
    }
    assert classes["difference"].loc["ours"].tolist() == [-4, -15], "seed 1 is not paired"
    assert classes["trained"].loc[("ours", 1)] == 0.5
    write_tables(folder.path, board)
    assert len(pd.read_csv(folder.path / "classes.csv")) == 4


def test_contended_cells_are_counted_and_said(folder):
    folder.add("base", 0, 90.0)
    folder.add("ours", 0, 90.0, machine={"flags": ["others were busy"], "load_high": 3.0})
    board = folder.board()
    assert board.table.set_index("strategy")["contended"].to_dict() == {"base": 0, "ours": 1}
    assert board.table["trouble"].tolist() == ["", "1 contended"]
    assert board.runs["contended"].tolist() == ["", "others were busy"]
    (note,) = board.notes
    assert note.startswith("1 cell was measured while the machine was busy")
    assert note.endswith("add --rerun-flagged to the command that ran them.")


# Forms -----------------------------------------------------------------------------------------


def test_latex_has_a_table_that_names_cannot_break(folder):
    folder.suite(task_ids={"50%_of$all": "t1"})
    folder.add("base", 0, 90.0, task_name="50%_of$all")
    for name in (r"ours[a=\input{x},b=#&~^]", r"ours[a=y,b=1]"):
        folder.add(name, 0, 90.0, task_name="50%_of$all")
    text = latex(folder.board()).replace(r"\allowbreak{}", "")
    assert r"\caption{50\%\_of\$all (conditions c1), 1 seed. base: 90.00\% in 1 s." in text
    assert (
        r"ours{[}a=\textbackslash{}input\{x\},b=\#\&\textasciitilde{}\textasciicircum{}{]}" in text
    )
    lines = [line for line in text.splitlines() if r"\\ % " in line]
    assert len(lines) == 3
    assert {line.replace(r"\&", "").count(" & ") for line in lines} == {4}
    for word in ("toprule", "midrule", "bottomrule"):
        assert text.count(word) == 1


def test_every_special_sign_is_escaped():
    assert escape("a\nb\\c") == r"a b\textbackslash{}c"
    assert escape("<|>±") == r"\textless{}\textbar{}\textgreater{}$\pm$"


def test_the_command_prints_every_form(folder, monkeypatch):
    monkeypatch.chdir(folder.path.parent.parent)
    folder.fill("base", [90.0, 91.0], [2.0, 2.1]).fill("ours", [90.0, 91.0], [1.0, 1.1])
    assert "\\toprule" in ok("leaderboard", "hand", "--latex")
    assert ok("leaderboard", "hand", "--markdown").startswith("**blobs")
    printed = json.loads(ok("leaderboard", "hand", "--json", "--margin", "2"))
    (base, ours, stopped), (answer,) = printed["lines"], printed["answers"]
    assert (answer["task"], answer["kind"], answer["strategy"]) == ("blobs", "best bet", "ours")
    assert answer["time_saved"].keys() == {"mean", "low", "high"}
    assert [line["look"] for line in (base, ours, stopped)] == [0, 2, 0]
    assert (base["verdict"], ours["margin"], ours["gain"]) == ("", 2, None)
    reached = json.loads(ok("leaderboard", "hand", "--json", "--target", "45"))["lines"]
    assert [line["target_seconds"] for line in reached] == [1.025, 0.525, None]
    assert "--json and --latex" in mistake("leaderboard", "hand", "--json", "--latex")
    assert "--margin" in mistake("leaderboard", "hand", "--margin", "0")


def test_notes_are_said_in_every_form(folder, monkeypatch):
    monkeypatch.chdir(folder.path.parent.parent)
    folder.add("base", 0, 90.0).add("base", 1, 90.0, task_id="old")
    note = "1 run was left out: the task blobs was another one then."
    assert f"% {note}" in latex(folder.board())
    for form in ("--json", "--latex", "--markdown"):
        assert note in call("leaderboard", "hand", form).stderr


def test_results_are_found_by_their_folder_too(folder, monkeypatch):
    folder.add("base", 0, 90.0)
    assert "base" in ok("leaderboard", folder.path, "--full")
    monkeypatch.chdir(folder.path.parent)
    assert "name a suite, or add --results DIR" in mistake("leaderboard", "elsewhere/hand")


@pytest.mark.parametrize("option", ["--margin", "--target"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_what_is_no_number_is_refused(folder, option, value):
    assert option in mistake("leaderboard", folder.path, option, value)


def test_a_table_that_cannot_be_written_is_one_sentence(folder, tmp_path):
    folder.add("base", 0, 90.0)
    (tmp_path / "file").touch()
    result = call("leaderboard", folder.path, "--csv", tmp_path / "file" / "x.csv")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: Cannot use ")


def test_nothing_to_draw_is_a_mistake(folder):
    folder.add("base", 0, status="failed")
    assert "There is nothing to draw" in mistake("plot", folder.path)
    folder.add("base", 1, 90.0)
    assert "There is nothing to draw" in mistake("plot", folder.path, "--figure", "shares")


@pytest.mark.long
def test_every_figure_is_drawn(folder, tmp_path):
    folder.fill("base", [90.0, 91.0], [2.0, 2.1], phases={"forward": 1.0, "backward": 1.0})
    folder.fill("_a$b$", [90.0, 91.0], [1.0, 1.1], phases={"forward": 0.5, "step": 0.5})
    for path in folder.path.glob("*/epochs.csv"):
        pd.read_csv(path).assign(kept=0.5, mixed=0.2).to_csv(path, index=False)
    made = [paths for paths, _ in draw(folder.board(), tmp_path, formats=("png", "svg"))]
    assert [path.name for paths in made for path in paths] == [
        f"{name}.{form}" for name in FIGURES for form in ("png", "svg")
    ]
    text = (tmp_path / "tradeoff.svg").read_text()
    assert ">_a$b$<" in text, "a name is no formula, and no hidden label"


def test_plot_leaves_out_what_has_nothing_to_show_and_knows_its_figures(folder, monkeypatch):
    monkeypatch.chdir(folder.path.parent.parent)
    folder.add("base", 0, 90.0)
    written = ok("plot", "hand", "--format", "svg")
    assert "time.svg" in written
    assert "tradeoff" not in written, "there is nobody to compare"
    assert "shares" not in written
    assert (folder.path / "figures" / "time.svg").exists()
    assert "Did you mean phases?" in mistake("plot", "hand", "--figure", "phasse")
    assert "There are no results of gone" in mistake("plot", "gone")
