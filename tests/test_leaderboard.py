"""The leaderboard and its page, from records made by hand with numbers known beforehand."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from records import Folder
from rich.console import Console
from scipy import stats

from dataeff.errors import DataeffError
from dataeff.report.board import read_board, write_tables
from dataeff.report.columns import NAMES
from dataeff.report.terminal import markdown, plain_text, rich_tables
from dataeff.report.worth import BEATS, KEEPS, SAVES

TEXTS = ["verdict", "sentence", "trouble", "note", "against_line", "device", "published_source"]
TEXTS += [SAVES, KEEPS, BEATS]


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "hand")


BASE, OURS = [90.0, 92.0, 91.0], [89.0, 92.5, 89.5]


@pytest.fixture
def filled(folder):
    """Two strategies on three seeds, with work and times that differ."""
    folder.fill("base", BASE, [10.0, 12.0, 11.0], flops=600)
    return folder.fill("ours", OURS, [(1.0, 4.0), (2.0, 2.0), (0.5, 5.0)], flops=200)


# Accuracy --------------------------------------------------------------------------------------


def test_the_difference_is_paired_by_seed_with_a_t_interval(filled):
    line = filled.lines().loc["ours"]
    differences = np.subtract(OURS, BASE)
    mean, error = differences.mean(), differences.std(ddof=1) / math.sqrt(3)
    # Speed and accuracy are open: each has half of the chance of 4%.
    low, high = stats.t.interval(0.98, df=2, loc=mean, scale=error)
    assert line["difference"] == pytest.approx(mean)
    assert line["difference_low"] == pytest.approx(low)
    assert line["difference_high"] == pytest.approx(high)
    # 6.965: the 99% point of Student's t with two degrees of freedom, from a printed table.
    assert high - mean == pytest.approx(6.965 * error, rel=1e-4)
    assert line["accuracy"] == pytest.approx(np.mean(OURS))
    assert line["accuracy_std"] == pytest.approx(np.std(OURS, ddof=1))
    assert line["macro_f1"] == pytest.approx(np.mean(OURS) - 1)
    assert line["n"] == 3


def test_the_reference_differs_from_itself_by_nothing(filled):
    line = filled.lines().loc["base"]
    assert (line["difference"], line["difference_low"], line["difference_high"]) == (0, 0, 0)
    assert line["speedup"] == line["realised"] == 1


def test_one_seed_has_a_difference_but_no_interval(folder):
    folder.add("base", 0, 90.0).add("ours", 0, 91.0)
    line = folder.lines().loc["ours"]
    assert line["difference"] == 1
    assert np.isnan([line["difference_low"], line["difference_high"], line["accuracy_std"]]).all()
    assert "+1.00" in plain_text(folder.board())


def test_only_seeds_that_both_have_are_compared(folder):
    folder.fill("base", [90.0, 80.0], [10.0, 20.0])
    folder.add("ours", 1, 85.0, 10.0).add("ours", 2, 10.0, 1.0)
    line = folder.lines().loc["ours"]
    assert (line["n"], line["accuracy"]) == (2, 47.5)
    assert (line["difference"], line["speedup"]) == (5, 2)


def test_without_a_finished_reference_nothing_is_compared(folder):
    folder.add("base", 0, status="failed").add("ours", 0, 90.0)
    line = folder.lines().loc["ours"]
    assert line["accuracy"] == 90
    assert np.isnan([line["difference"], line["speedup"], line["ideal_speedup"]]).all()


# Speed -----------------------------------------------------------------------------------------


def test_the_speedup_is_the_geometric_mean_of_prepare_and_train_by_seed(filled):
    line = filled.lines().loc["ours"]
    assert line["speedup"] == pytest.approx((10 / 5 * 12 / 4 * 11 / 5.5) ** (1 / 3))
    assert line["prepare_seconds"] == pytest.approx(3.5 / 3)
    assert line["train_seconds"] == pytest.approx(11 / 3)


def test_the_ideal_comes_from_the_counted_work(filled):
    line = filled.lines().loc["ours"]
    assert line["ideal_speedup"] == pytest.approx(3)
    assert line["realised"] == pytest.approx(line["speedup"] / 3)
    assert line["rows_trained"] == 100
    assert line["peak_memory_mib"] == 3


def test_the_reference_comes_first_then_the_fastest(folder):
    folder.add("slow", 0, 90.0, 4.0).add("fast", 0, 80.0, 1.0).add("base", 0, 90.0, 2.0)
    folder.add("broken", 0, status="failed")
    assert folder.board().table["strategy"].tolist() == ["base", "fast", "slow", "broken"]


def test_what_used_a_clock_of_its_own_says_so_and_comes_after_the_others(folder):
    folder.add("base", 0, 90.0, 2.0).add("slow", 0, 90.0, 3.0)
    clocks = {"prepare": 0.0, "train": 1.0, "off_oracle": 9.0}
    folder.add("oracle", 0, 95.0, clocks=clocks, ranked=False)
    board = folder.board()
    table = board.table
    assert table["strategy"].tolist() == ["base", "slow", "oracle"]
    assert table["on_clock"].tolist() == [True, True, False]
    assert table["speedup"].iloc[-1] == pytest.approx(0.2), "what was left off the clock counts"
    assert table["oracle"].iloc[-1] == 2
    assert table["oracle"].isna().tolist() == [True, True, False]
    assert "0.20x (part off the clock)" in plain_text(board)
    assert "2.00x" in plain_text(board)
    assert plain_text(board).count("off the clock") == 1
    assert folder.board().runs["off_oracle_seconds"].iloc[-1] == 9


# Against the line --------------------------------------------------------------------------------

NOISE = np.array([0.0, 0.1, -0.1, 0.05, -0.05])


def trained_less(folder, kind="short[share={}]", lost=10):
    """Add what just training less reaches: so many points less for each half of the time."""
    for share in (0.25, 0.5):
        accuracies = (90 + lost * math.log2(share) + NOISE[::-1]).tolist()
        seconds, flops = (2 * share * np.exp(NOISE / 9)).tolist(), round(200 * share)
        folder.fill(kind.format(share), accuracies, seconds, flops=flops, control=True)


@pytest.fixture
def lined(folder):
    """A reference, and two shorter schedules that the suite has added."""
    folder.fill("base", (90 + NOISE).tolist(), [2.0] * 5, flops=200)
    trained_less(folder)
    return folder


@pytest.mark.parametrize(
    ("accuracy", "said"), [(83, "beats"), (80, "open against"), (77, "beaten by")]
)
def test_a_method_is_compared_with_what_training_less_reaches_in_its_time(lined, accuracy, said):
    lined.fill("ours", (accuracy + NOISE).tolist(), [1.0] * 5, flops=120)
    board = lined.board()
    lines = board.table.set_index("strategy")
    line = lines.loc["ours"]
    assert line["gain"] == pytest.approx(accuracy - 80, abs=0.02)
    assert line["gain_low"] < line["gain"] < line["gain_high"]
    numbers = f"{line['gain']:+.2f} ({line['gain_low']:+.2f}..{line['gain_high']:+.2f})"
    assert line["against_line"] == f"{said} training less, {numbers}"
    assert lines.drop(index="ours")["gain"].isna().all()
    assert not lines.drop(index="ours")["against_line"].any()
    for form in (plain_text, markdown):
        assert f"{line['sentence']}; {line['against_line']}" in form(board)
    assert f"  {numbers}  " in plain_text(board)


def test_controls_that_the_suite_added_have_an_interval_and_no_verdict(lined):
    lined.fill("ours", (83 + NOISE).tolist(), [1.0] * 5, flops=120)
    line = lined.lines().loc["short[share=0.5]"]
    differences = NOISE[::-1] - NOISE - 10
    mean, error = differences.mean(), stats.sem(differences)
    low, high = stats.t.interval(0.96, df=4, loc=mean, scale=error)
    assert line["verdict"] == "control"
    assert (line["difference_low"], line["difference_high"]) == pytest.approx((low, high))
    assert (line["sentence"], line["settled"], line["look"]) == ("", False, 0)


def test_a_control_that_was_asked_for_is_judged_as_all_others_are(lined):
    lined.suite(strategies=["base", "short[share=0.5]"], line=["short[share=?]"])
    lines = lined.lines()
    assert lines["verdict"].to_dict() == {
        "base": "",
        "short[share=0.5]": "faster but worse",
        "short[share=0.25]": "control",
    }
    assert lines["gain"].isna().all(), "the line is not compared with itself"


def test_methods_come_by_gain_then_by_speed_and_yardsticks_last(lined):
    lined.fill("fast", (78 + NOISE).tolist(), [0.99] * 5, flops=100)
    lined.fill("good", (88 + NOISE).tolist(), [1.1] * 5, flops=100)
    lined.fill("late", (90 + NOISE).tolist(), [2.0] * 5, flops=200)
    lined.fill("gone", [80.0] * 5, [1.0] * 5, status="failed")
    assert lined.board().table["strategy"].tolist() == [
        *("base", "good", "late", "fast", "gone", "short[share=0.25]", "short[share=0.5]"),
        "early_termination[share=0.5]",
    ]


@pytest.mark.parametrize(("lost", "gain"), [(8, 1), (12, 3)])
def test_the_better_kind_of_training_less_counts(lined, lost, gain):
    lined.fill("ours", (83 + NOISE).tolist(), [1.0] * 5, flops=120)
    trained_less(lined, "random[keep={}]", lost)
    assert lined.lines().loc["ours", "gain"] == pytest.approx(gain, abs=0.02)


def test_times_of_a_busy_machine_are_no_times(lined):
    more = {"flops": 100, "machine": {"flags": ["busy"]}}
    lined.fill("ours", (83 + NOISE).tolist(), [1.0] * 5, **more)
    line = lined.lines().loc["ours"]
    numbers = line[["speedup", "speedup_low", "speedup_high", "train_seconds"]]
    assert numbers.isna().all()
    assert line["against_line"].endswith(" at its counted work")
    assert line["verdict"] == "worse, speed not judged"
    assert line["sentence"].startswith("speed not judged, accuracy -7.00 (")
    assert line["trouble"] == "5 contended"
    assert line["accuracy"] == pytest.approx(83)


def test_without_a_line_nothing_is_said_of_it(filled):
    assert filled.lines()["gain"].isna().all()
    assert "training less" not in plain_text(filled.board())


def test_a_bound_is_judged_at_what_it_really_took(lined):
    clocks = {"prepare": 0.0, "train": 0.5, "off_oracle": 0.5}
    accuracies = (83 + NOISE).tolist()
    lined.fill("bound", accuracies, [0.5] * 5, flops=50, clocks=clocks, ranked=False)
    line = lined.lines().loc["bound"]
    assert line["gain"] == pytest.approx(3, abs=0.02)
    assert line["speedup"] == pytest.approx(2)
    assert line["oracle"] == line["ideal_speedup"] == 4
    assert line["realised"] == 1


def test_what_a_strategy_notes_stands_under_the_table(folder):
    folder.add("base", 0, 90.0, 2.0).add("ours", 0, 80.0, columns={"ours_note": "it leaks"})
    board = folder.board()
    assert board.table["note"].tolist() == ["", "it leaks"]
    assert "ours: it leaks" in plain_text(board)


# What is counted -------------------------------------------------------------------------------


def test_failed_and_diverged_cells_are_counted_not_averaged(filled):
    filled.add("ours", 3, status="failed", error="ValueError: no")
    filled.add("ours", 4, status="failed", error="ValueError: no")
    filled.add("ours", 5, 3.0, status="diverged")
    line = filled.lines().loc["ours"]
    assert line["trouble"] == "1 diverged, 2 failed"
    assert (line["n"], line["accuracy"]) == (3, pytest.approx(np.mean(OURS)))
    assert "1 diverged, 2 failed" in plain_text(filled.board())
    assert "trouble" not in plain_text(filled.board()).splitlines()[2]


def test_runs_of_another_task_or_of_another_name_are_left_out(folder):
    folder.add("base", 0, 90.0)
    folder.add("base", 1, 10.0, task_id="old")
    folder.add("base", 2, 10.0, task_name="renamed")
    board = folder.board()
    assert board.table["accuracy"].tolist() == [90]
    assert len(board.runs) == 1
    assert board.notes == [
        "1 run was left out: the task blobs was another one then.",
        "1 run was left out: the task renamed was another one then.",
    ]


def test_a_composition_is_as_old_as_its_parts(folder):
    old, new = {"ours": "a", "other": "c"}, {"ours": "b"}
    folder.add("base", 0, 90.0, sources={"base": "x"})
    folder.add("ours+other", 0, 80.0, sources=old, ended="2026-01-01")
    folder.add("other", 0, 85.0, sources={"other": "c"}, ended="2026-01-01")
    folder.add("ours", 0, 81.0, sources=new, ended="2026-02-01")
    board = folder.board()
    assert board.table["strategy"].tolist() == ["base", "other", "ours"]
    assert board.notes == [
        "1 run was left out: ours+other had another source or other defaults then."
    ]


def test_runs_with_earlier_defaults_of_a_strategy_are_left_out(folder):
    folder.add("base", 0, 90.0)
    for seed in (0, 1):
        folder.add("ours", seed, 10.0, parameters={"ours": {"keep": 0.5}}, ended="2026-01-01")
    folder.add("ours", 0, 80.0, parameters={"ours": {"keep": 0.3}}, ended="2026-02-01")
    board = folder.board()
    line = board.table.set_index("strategy").loc["ours"]
    assert (line["n"], line["accuracy"]) == (1, 80)
    assert board.notes == ["2 runs were left out: ours had another source or other defaults then."]


def test_of_two_copies_of_a_cell_the_newer_one_counts(folder):
    folder.add("base", 0, 80.0, ended="2026-02-01").add("base", 0, 90.0, ended="2026-01-01")
    board = folder.board()
    assert board.table[["n", "accuracy"]].values.tolist() == [[1, 80]]
    assert board.notes == ["1 run was left out: a newer run of the same cell is there."]


def test_conditions_are_never_compared(folder):
    first = {"conditions": {"device": "cpu", "threads": 1}}
    other = {"conditions_id": "c2", "conditions": {"device": "cpu", "threads": 2}}
    folder.add("base", 0, 90.0, 8.0, **first).add("ours", 0, 90.0, 4.0, **first)
    folder.add("base", 0, 80.0, 2.0, **other).add("ours", 1, 80.0, **other)
    table = folder.board().table.set_index(["conditions", "strategy"])
    assert table.loc[("c1", "ours"), "speedup"] == 2
    assert np.isnan(table.loc[("c2", "ours"), "speedup"])
    *blocks, note = plain_text(folder.board()).split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == [
        "blobs (conditions c1)",
        "blobs (conditions c2)",
    ]
    assert note == (
        "These runs were measured under 2 conditions, which are not compared: each has tables of "
        "its own. They differ in threads (1 / 2)."
    )


def test_tasks_come_in_the_order_of_the_suite(folder):
    folder.suite(task_ids={"zebra": "t2", "blobs": "t1"})
    folder.add("base", 0, 90.0).add("base", 0, 80.0, task_name="zebra", task_id="t2")
    assert folder.board().table["task"].tolist() == ["zebra", "blobs"]


def test_a_column_that_a_strategy_reports_cannot_replace_a_measured_one(folder):
    folder.add("base", 0, 90.0, columns={"test_top1": 100.0, "seed": 7, "temperature": 0.5})
    line = folder.board().runs.iloc[0]
    assert (line["test_top1"], line["seed"], line["temperature"]) == (90, 0, 0.5)


def test_a_line_says_where_it_ran(folder):
    said = "On cpu (A processor, 2 threads): torch is built without CUDA."
    folder.add("base", 0, 90.0, machine={"flags": [], "device_line": said})
    folder.add("base", 1, 90.0, machine={"flags": [], "device_line": said}).add("base", 2, 90.0)
    board = folder.board()
    assert board.runs["device"].tolist() == [said, said, ""], "older records do not know"
    assert board.table["device"].tolist() == [said]


def test_published_figures_stand_beside_the_measured_ones(filled):
    paper = {"strategy": "ours", "accuracy": 93.1, "speedup": 2.5, "source": "Nobody 2026"}
    filled.suite(published=[paper | {"task": "other", "accuracy": 1.0}, paper | {"task": None}])
    line = filled.lines().loc["ours"]
    assert (line["published_accuracy"], line["published_speedup"]) == (93.1, 2.5)
    assert line["published_source"] == "Nobody 2026"
    text = plain_text(filled.board()).splitlines()
    assert text[1].split()[-4:] == ["paper", "%", "paper", "speed-up"]
    assert text[2].split()[-2:] == ["-", "-"]
    assert text[3].split()[-2:] == ["93.10", "2.50x"]


# Forms -----------------------------------------------------------------------------------------


def test_the_csv_files_hold_the_table_and_every_run(filled):
    board = filled.board()
    table = board.table
    write_tables(filled.path, board)
    written = pd.read_csv(filled.path / "leaderboard.csv")
    assert written.columns.tolist() == table.columns.tolist() == NAMES
    pd.testing.assert_frame_equal(
        written.drop(columns=TEXTS), table.drop(columns=TEXTS), check_dtype=False
    )
    runs = pd.read_csv(filled.path / "runs.csv")
    assert runs[["strategy", "seed"]].values.tolist() == [
        [name, seed] for name in ("base", "ours") for seed in range(3)
    ]
    assert runs["total_seconds"].tolist() == [10, 12, 11, 5, 4, 5.5]
    assert runs["evaluate_seconds"].tolist() == [5.0] * 6
    assert not list(filled.path.rglob("*.partial"))


def test_plain_text_is_aligned(filled):
    lines = plain_text(filled.board()).splitlines()
    assert lines[0] == "blobs (conditions c1)"
    assert len({len(line) for line in lines[1:4]}) == 1
    assert lines[1].startswith("strategy    verdict  n")
    assert lines[2].startswith("base      reference  3  91.00 ±1.00")
    answer, *said = lines[4:]
    assert answer.startswith("ours is the best bet: 56% less time for -0.7 points. Whether ")
    said = said[said.index("1 method was tried: 1 loses more than 0.5 points.") + 1 :]
    assert said[0].startswith("ours: 2.29x the speed (")
    assert said[1] == "ours: 2.29x with its preparation, 3.21x without it."
    assert said[2].startswith("Settled: 0 of 1. The chance that anything said here is wrong, on ")
    assert said[3].startswith("Spread between seeds: typically ")


def test_markdown_is_a_table_that_names_cannot_break(folder):
    folder.add("base", 0, 90.0).add("ours[a=x|y]", 0, 90.0)
    lines = markdown(folder.board()).splitlines()
    assert lines[0] == "**blobs (conditions c1)**"
    assert lines[3].startswith("| --- | ---: |")
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in lines[2:6]]
    assert len(set(bars)) == 1
    assert lines[5].startswith(r"| `ours[a=x\|y]` | no verdict | 1 |")
    assert lines[-1] == (
        r"ours[a=x\|y]: 1.00x the speed, accuracy +0.00: no verdict; one seed shows no spread; "
        "add seeds: --seeds 5"
    )


@pytest.mark.parametrize("width", [70, 100, 240])
def test_the_terminal_table_fits_and_keeps_the_headline(filled, width):
    table, *said = rich_tables(filled.board(), width)
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    for word in ("strategy", "ours", "accuracy %", "speed-up", "2.29x"):
        assert word in text
    assert ("Too narrow for: peak MiB" in text) == (width < 240)
    assert str(said[0]).startswith("ours is the best bet: 56% less time for -0.7 points.")
    assert any(str(line).startswith("ours: 2.29x the speed") for line in said)


def test_the_terminal_shows_brackets_as_they_are(folder):
    folder.suite(task_ids={"[red]task": "t1"})
    folder.add("base[bold]", 0, 90.0, task_name="[red]task")
    console = Console(width=200)
    with console.capture() as capture:
        console.print(*rich_tables(folder.board(), 200))
    assert "base[bold]" in capture.get()
    assert "[red]task" in capture.get()


# Nothing to show -------------------------------------------------------------------------------


def test_no_results_say_what_to_type(tmp_path):
    with pytest.raises(DataeffError, match=r"no results in .*; type: dataeff run gone"):
        read_board(tmp_path / "gone")


def test_no_runs_say_what_to_type(folder):
    with pytest.raises(DataeffError, match=r"holds no runs .*; type: dataeff run hand"):
        folder.board()


def test_only_failed_runs_give_dashes(folder):
    folder.add("base", 0, status="failed").add("ours", 0, status="failed")
    text = plain_text(folder.board())
    assert text.splitlines()[2].split() == ["base", "-", "0", *["-"] * 16, "1", "failed"]
    assert "nan" not in text
    assert "nan" not in markdown(folder.board())


def test_a_damaged_record_is_set_aside_and_named(filled):
    whole, cell = filled.board(), min(filled.path.glob("*/run.json"))
    cell.write_text('{"suite": ')
    board = filled.board()
    assert len(board.runs) == len(whole.runs) - 1
    assert board.notes[-1].startswith(f"{cell} is damaged (Invalid JSON: EOF while parsing")
    assert board.notes[-1].endswith(
        "as run.json.damaged; its cell runs again with: dataeff run hand"
    )
    assert len(filled.board().notes) == len(board.notes) - 1, "it is said once"


def test_every_figure_of_a_paper_has_its_column(filled):
    figures = {"macro_f1": 93.0, "hours": 0.5, "train_loss": 0.1, "test_loss": 0.2}
    paper = {"strategy": "ours", "task": None, "accuracy": None, "speedup": None, "source": "x"}
    filled.suite(published=[paper | figures])
    line = filled.lines().loc["ours"]
    assert {name: line[f"published_{name}"] for name in figures} == figures
    assert pd.isna(line["published_accuracy"])


def test_who_is_not_listed_has_no_verdict_and_is_no_reference(folder):
    folder.suite(strategies=["base"])
    folder.fill("base", [70, 71, 72], [10, 10, 10]).fill("ours", [60, 61, 62], [5, 5, 5])
    assert folder.lines().loc["ours", "verdict"] == "not listed"
    assert plain_text(folder.board()).count("reference") == 2, "a heading, and the reference"
