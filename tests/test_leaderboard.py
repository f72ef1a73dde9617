"""The leaderboard and its page, from records made by hand with numbers known beforehand."""

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

from dataeff.errors import DataeffError
from dataeff.report.leaderboard import leaderboard, paired_interval, runs_table, write_tables
from dataeff.report.page import write_report
from dataeff.report.terminal import markdown, plain_text, rich_tables

COLUMNS = [
    "task",
    "strategy",
    "n",
    "accuracy",
    "accuracy_std",
    "difference",
    "difference_low",
    "difference_high",
    "macro_f1",
    "prepare_seconds",
    "train_seconds",
    "speedup",
    "oracle",
    "ideal_speedup",
    "realised",
    "rows_trained",
    "peak_memory_mib",
    "ranked",
    "control",
    "trouble",
    "note",
    "conditions",
    "against_controls",
]

TEXTS = ["trouble", "note", "against_controls"]


class Folder:
    """A results folder in the making."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.suite()

    def suite(self, **more):
        content = {
            "name": "hand",
            "title": "",
            "reference": "base",
            "task_ids": {"blobs": "t1"},
            "published": [],
            "command": "dataeff run hand",
        }
        (self.path / "suite.json").write_text(json.dumps(content | more))

    def add(self, strategy, seed, accuracy=None, seconds=1.0, flops=100, status="finished", **more):
        """Write the record of one cell; without an accuracy, of one that failed."""
        record = {
            "suite": "hand",
            "task_name": "blobs",
            "task_id": "t1",
            "strategy": strategy,
            "parameters": {strategy: {}},
            "seed": seed,
            "status": status,
            "error": "",
            "conditions_id": "c1",
            "conditions": {"device": "cpu"},
        }
        prepare, train = seconds if isinstance(seconds, tuple) else (0.0, seconds)
        if accuracy is not None:
            record |= {
                "metrics": {"test_top1": accuracy, "test_macro_f1": accuracy - 1},
                "clocks": {"prepare": prepare, "train": train, "evaluate": 5.0},
                "rows": {"trained": flops // 2},
                "flops": flops,
                "peak_memory": 3 * 2**20,
                "ranked": True,
                "control": False,
                "columns": {},
            }
        record |= more
        cell = self.path / f"{record['task_name']}-{len(list(self.path.iterdir())):03}"
        cell.mkdir()
        (cell / "run.json").write_text(json.dumps(record))
        if accuracy is not None:
            lines = {
                "epoch": [0, 1],
                "prepare_seconds": [prepare] * 2,
                "train_seconds": [train / 2, train],
                "test_top1": [accuracy / 2, accuracy],
            }
            pd.DataFrame(lines).to_csv(cell / "epochs.csv", index=False)
        return self

    def fill(self, strategy, accuracies, seconds, **more):
        """Write one cell per seed."""
        for seed, (accuracy, time) in enumerate(zip(accuracies, seconds, strict=True)):
            self.add(strategy, seed, accuracy, time, **more)
        return self

    def lines(self):
        return leaderboard(self.path).set_index("strategy")

    def page(self):
        return write_report(self.path, write_tables(self.path)).read_text(encoding="utf-8")


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
    low, high = stats.t.interval(0.95, df=2, loc=mean, scale=error)
    assert line["difference"] == pytest.approx(mean)
    assert line["difference_low"] == pytest.approx(low)
    assert line["difference_high"] == pytest.approx(high)
    # 4.3027: the 97.5% point of Student's t with two degrees of freedom, from a printed table.
    assert high - mean == pytest.approx(4.3027 * error, rel=1e-4)
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
    assert "+1.00" in plain_text(leaderboard(folder.path))


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


def test_an_interval_of_nothing_is_nothing():
    assert np.isnan(paired_interval(None, pd.Series([1.0]))).all()
    assert np.isnan(paired_interval(pd.Series([]), pd.Series([]))).all()


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
    assert leaderboard(folder.path)["strategy"].tolist() == ["base", "fast", "slow", "broken"]


def test_what_used_a_clock_of_its_own_is_not_ranked(folder):
    folder.add("base", 0, 90.0, 2.0).add("slow", 0, 90.0, 3.0)
    clocks = {"prepare": 0.0, "train": 1.0, "off_oracle": 9.0}
    folder.add("oracle", 0, 95.0, clocks=clocks, ranked=False)
    table = leaderboard(folder.path)
    assert table["strategy"].tolist() == ["base", "slow", "oracle"]
    assert table["ranked"].tolist() == [True, True, False]
    assert table["speedup"].iloc[-1] == pytest.approx(0.2), "what was left off the clock counts"
    assert table["oracle"].iloc[-1] == 2
    assert table["oracle"].isna().tolist() == [True, True, False]
    assert "0.20x (not ranked)" in plain_text(table)
    assert "2.00x" in plain_text(table)
    assert plain_text(table).count("not ranked") == 1
    assert runs_table(folder.path)["off_oracle_seconds"].iloc[-1] == 9


# Against controls -------------------------------------------------------------------------------


def control(folder, name, accuracies, **more):
    for seed, accuracy in enumerate(accuracies):
        folder.add(name, seed, accuracy, control=True, **more)


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([81.0, 82.1, 82.9], "worse, -2.00 points (-2.25..-1.75), against half at 2.00x"),
        ([75.0, 80.0, 79.0], "not told apart, +2.00 points (-2.97..+6.97), against half at 2.00x"),
        ([71.0, 72.1, 72.9], "better, +8.00 points (+7.75..+8.25), against half at 2.00x"),
    ],
)
def test_a_method_is_told_how_it_stands_against_a_control_of_its_cost(folder, accuracies, expected):
    for seed in range(3):
        folder.add("base", seed, 90.0, 2.0, flops=200)
        folder.add("ours", seed, 79.0 + seed, 1.0, flops=105)
    control(folder, "half", accuracies)
    control(folder, "tenth", accuracies, seconds=0.2, flops=20)
    lines = folder.lines()
    assert lines.loc["ours", "against_controls"] == expected
    assert not lines.loc[["base", "half", "tenth"], "against_controls"].any()
    table = leaderboard(folder.path)
    assert f"ours against controls of its cost: {expected}" in plain_text(table)
    assert expected in markdown(table)
    assert "half at 2.00x" in write_report(folder.path, table).read_text()


def test_seeds_that_only_one_of_them_has_are_left_out(folder):
    folder.fill("base", [90.0, 90.0, 90.0], [2, 2, 2], flops=200)
    folder.fill("ours", [80.0, 81.0, 10.0], [1, 1, 1])
    control(folder, "half", [79.0, 80.0])
    assert folder.lines().loc["ours", "against_controls"].startswith("better, +1.00 points (+1.00")


def test_a_missing_control_is_asked_for_by_its_cost(folder):
    folder.add("base", 0, 90.0, 2.0, flops=200).add("ours", 0, 80.0, flops=130)
    folder.add("same", 0, 80.0, flops=199)
    control(folder, "half", [79.0])
    lines = folder.lines()
    assert lines.loc["ours", "against_controls"] == (
        "none was run; add one that does 0.65 of the reference's work"
    )
    assert lines.loc["same", "against_controls"] == "", "it saves nothing: no control is needed"


def test_a_small_saving_is_judged_where_a_control_of_its_cost_was_run(folder):
    folder.fill("base", [90.0, 90.0], [2, 2], flops=200)
    folder.fill("ours", [89.0, 89.0], [1.9, 1.9], flops=190)
    control(folder, "most", [88.0, 88.0], seconds=1.8, flops=180)
    assert folder.lines().loc["ours", "against_controls"].startswith("better, +1.00 points")


def test_a_bound_is_judged_at_the_cost_that_it_claims_and_says_so(folder):
    folder.fill("base", [90.0, 90.0], [2, 2], flops=200)
    clocks = {"prepare": 0.0, "train": 1.0, "off_oracle": 3.0}
    folder.fill("bound", [89.0, 89.0], [1, 1], clocks=clocks, ranked=False)
    control(folder, "half", [88.0, 88.0])
    line = folder.lines().loc["bound"]
    free = "if what is off the clock cost nothing: better, +1.00 points"
    assert line["against_controls"].startswith(free)
    assert line["speedup"] == pytest.approx(0.5)
    assert line["oracle"] == line["ideal_speedup"] == 2
    assert line["realised"] == 1


def test_one_seed_gives_no_verdict(folder):
    folder.add("base", 0, 90.0, 2.0, flops=200).add("ours", 0, 80.0)
    control(folder, "half", [79.0])
    verdict = folder.lines().loc["ours", "against_controls"]
    assert verdict == "+1.00 points against half at 2.00x: one seed tells nothing"


def test_what_a_strategy_notes_stands_under_the_table(folder):
    folder.add("base", 0, 90.0, 2.0).add("ours", 0, 80.0, columns={"ours_note": "it leaks"})
    table = leaderboard(folder.path)
    assert table["note"].tolist() == ["", "it leaks"]
    assert "ours: it leaks" in plain_text(table)


# What is counted -------------------------------------------------------------------------------


def test_failed_and_diverged_cells_are_counted_not_averaged(filled):
    filled.add("ours", 3, status="failed", error="ValueError: no")
    filled.add("ours", 4, status="failed", error="ValueError: no")
    filled.add("ours", 5, 3.0, status="diverged")
    line = filled.lines().loc["ours"]
    assert line["trouble"] == "2 failed, 1 diverged"
    assert (line["n"], line["accuracy"]) == (3, pytest.approx(np.mean(OURS)))
    assert "2 failed, 1 diverged" in plain_text(leaderboard(filled.path))
    assert "trouble" not in plain_text(leaderboard(filled.path)).splitlines()[2]


def test_runs_of_another_task_or_of_another_name_are_left_out(folder):
    folder.add("base", 0, 90.0)
    folder.add("base", 1, 10.0, task_id="old")
    folder.add("base", 2, 10.0, task_name="renamed")
    assert folder.lines()["accuracy"].tolist() == [90]
    assert len(runs_table(folder.path)) == 1


def test_runs_with_earlier_defaults_of_a_strategy_are_left_out(folder):
    folder.add("base", 0, 90.0)
    for seed in (0, 1):
        folder.add("ours", seed, 10.0, parameters={"ours": {"keep": 0.5}}, ended="2026-01-01")
    folder.add("ours", 0, 80.0, parameters={"ours": {"keep": 0.3}}, ended="2026-02-01")
    line = folder.lines().loc["ours"]
    assert (line["n"], line["accuracy"]) == (1, 80)


def test_of_two_copies_of_a_cell_the_newer_one_counts(folder):
    folder.add("base", 0, 80.0, ended="2026-02-01").add("base", 0, 90.0, ended="2026-01-01")
    assert folder.lines()[["n", "accuracy"]].values.tolist() == [[1, 80]]


def test_conditions_are_never_compared(folder):
    folder.add("base", 0, 90.0, 8.0).add("ours", 0, 90.0, 4.0)
    folder.add("base", 0, 80.0, 2.0, conditions_id="c2").add("ours", 1, 80.0, conditions_id="c2")
    table = leaderboard(folder.path).set_index(["conditions", "strategy"])
    assert table.loc[("c1", "ours"), "speedup"] == 2
    assert np.isnan(table.loc[("c2", "ours"), "speedup"])
    blocks = plain_text(leaderboard(folder.path)).split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == [
        "blobs (conditions c1)",
        "blobs (conditions c2)",
    ]


def test_tasks_come_in_the_order_of_the_suite(folder):
    folder.suite(task_ids={"zebra": "t2", "blobs": "t1"})
    folder.add("base", 0, 90.0).add("base", 0, 80.0, task_name="zebra", task_id="t2")
    assert leaderboard(folder.path)["task"].tolist() == ["zebra", "blobs"]


def test_a_column_that_a_strategy_reports_cannot_replace_a_measured_one(folder):
    folder.add("base", 0, 90.0, columns={"test_top1": 100.0, "seed": 7, "temperature": 0.5})
    line = runs_table(folder.path).iloc[0]
    assert (line["test_top1"], line["seed"], line["temperature"]) == (90, 0, 0.5)


def test_published_figures_stand_beside_the_measured_ones(filled):
    paper = {"strategy": "ours", "accuracy": 93.1, "speedup": 2.5, "source": "Nobody 2026"}
    filled.suite(published=[paper | {"task": "other", "accuracy": 1.0}, paper | {"task": None}])
    line = filled.lines().loc["ours"]
    assert (line["published_accuracy"], line["published_speedup"]) == (93.1, 2.5)
    assert line["published_source"] == "Nobody 2026"
    text = plain_text(leaderboard(filled.path)).splitlines()
    assert text[1].split()[-4:] == ["paper", "%", "paper", "speed-up"]
    assert text[2].split()[-2:] == ["-", "-"]
    assert text[3].split()[-2:] == ["93.10", "2.50x"]


# Forms -----------------------------------------------------------------------------------------


def test_the_csv_files_hold_the_table_and_every_run(filled):
    table = write_tables(filled.path)
    written = pd.read_csv(filled.path / "leaderboard.csv")
    assert written.columns.tolist() == COLUMNS
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
    lines = plain_text(leaderboard(filled.path)).splitlines()
    assert lines[0] == "blobs (conditions c1)"
    assert len({len(line) for line in lines[1:]}) == 1
    assert lines[1].startswith("strategy  n")
    assert lines[2].startswith("base      3  91.00 ±1.00")


def test_markdown_is_a_table_that_names_cannot_break(folder):
    folder.add("base", 0, 90.0).add("ours[a=x|y]", 0, 90.0)
    lines = markdown(leaderboard(folder.path)).splitlines()
    assert lines[0] == "**blobs (conditions c1)**"
    assert lines[3].startswith("| --- | ---: |")
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in lines[2:]]
    assert len(set(bars)) == 1
    assert lines[-1].startswith(r"| `ours[a=x\|y]` | 1 |")


@pytest.mark.parametrize("width", [70, 100, 200])
def test_the_terminal_table_fits_and_keeps_the_headline(filled, width):
    (table,) = rich_tables(leaderboard(filled.path), width)
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    for word in ("strategy", "ours", "accuracy %", "speed-up", "2.29x"):
        assert word in text
    assert ("Too narrow for: peak MiB" in text) == (width < 200)


def test_the_terminal_shows_brackets_as_they_are(folder):
    folder.suite(task_ids={"[red]task": "t1"})
    folder.add("base[bold]", 0, 90.0, task_name="[red]task")
    console = Console(width=200)
    with console.capture() as capture:
        console.print(*rich_tables(leaderboard(folder.path), 200))
    assert "base[bold]" in capture.get()
    assert "[red]task" in capture.get()


# Nothing to show -------------------------------------------------------------------------------


def test_no_results_say_what_to_type(tmp_path):
    with pytest.raises(DataeffError, match=r"no results in .*; type: dataeff run gone"):
        leaderboard(tmp_path / "gone")


def test_no_runs_say_what_to_type(folder):
    with pytest.raises(DataeffError, match=r"holds no runs .*; type: dataeff run hand"):
        leaderboard(folder.path)


def test_only_failed_runs_give_dashes(folder):
    folder.add("base", 0, status="failed").add("ours", 0, status="failed")
    text = plain_text(leaderboard(folder.path))
    assert text.splitlines()[2].split() == ["base", "0", *["-"] * 10, "1", "failed"]
    assert "nan" not in text
    assert "nan" not in markdown(leaderboard(folder.path))
    page = folder.page()
    assert "<svg" not in page
    assert "1 failed" in page


def test_a_damaged_record_is_named(filled):
    cell = next(filled.path.glob("*/run.json"))
    cell.write_text('{"suite": ')
    with pytest.raises(DataeffError, match=re.escape(f"{cell} is damaged")):
        leaderboard(filled.path)


# The page --------------------------------------------------------------------------------------

HOSTILE = "<script>alert('$x$')</script>&\""


class Tags(HTMLParser):
    """Collects the tags of a page and whatever a browser would fetch."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.fetched = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            fetches = name in ("src", "href", "xlink:href", "srcset", "data")
            if fetches and not value.startswith("#"):
                self.fetched.append(value)


def test_the_page_escapes_hostile_names(filled):
    filled.suite(title=HOSTILE, command=f"dataeff run {HOSTILE}", task_ids={HOSTILE: "t1"})
    for cell in filled.path.glob("*/run.json"):
        record = json.loads(cell.read_text())
        record |= {"task_name": HOSTILE, "conditions": {HOSTILE: HOSTILE}}
        cell.write_text(json.dumps(record).replace('"ours"', json.dumps(HOSTILE)))
    page = filled.page()
    assert "script" not in Tags(page).tags
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6


def test_the_page_fetches_nothing(filled):
    page = filled.page()
    parsed = Tags(page)
    assert parsed.fetched == []
    assert not {"script", "link", "iframe", "img"} & set(parsed.tags)
    assert not re.search(r"@import|url\((?!#)", page)
    # Addresses remain only as the names of SVG's vocabularies.
    assert set(re.findall(r"https?://[^\"'\s<]*", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_the_page_is_the_same_for_the_same_results(filled):
    assert filled.page() == filled.page()


def test_the_page_shows_tables_a_figure_the_command_and_the_conditions(filled):
    filled.suite(title="By hand")
    filled.add("ours", 3, status="failed")
    page = filled.page()
    assert "<title>dataeff: By hand</title>" in page
    assert page.count("<svg") == 1
    assert f"<td>{np.mean(OURS):.2f} ±{np.std(OURS, ddof=1):.2f}</td>" in page
    assert "<pre>dataeff run hand</pre>" in page
    assert "<dt>device</dt><dd>cpu</dd>" in page
    assert "<td>1 failed</td>" in page


def test_the_curves_leave_out_earlier_tasks_and_cells_that_did_not_finish(filled):
    before = filled.page()
    filled.add("ours", 0, 99.0, 50.0, task_id="old")
    figure = re.compile("<svg.*</svg>", re.S)
    assert figure.search(filled.page())[0] == figure.search(before)[0]
    filled.add("ours", 7, 99.0, 50.0, status="diverged")
    assert figure.search(filled.page())[0] == figure.search(before)[0]


def test_names_that_matplotlib_reads_otherwise_are_in_the_legend(folder):
    folder.add("base", 0, 90.0).add("_hidden", 0, 90.0).add("a$b$", 0, 90.0)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", folder.page())
    assert {"base", "_hidden", "a$b$"} <= set(texts)
