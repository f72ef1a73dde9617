"""Early termination: the reference stopped at the cost of a method, read off its own curve."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from records import Folder
from scipy import stats
from shell import mistake, ok

from dataeff.report.board import write_tables
from dataeff.report.curves import last_seen
from dataeff.report.latex import latex
from dataeff.report.plots import draw
from dataeff.report.terminal import markdown, plain_text
from dataeff.report.web.page import page_text


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "results" / "hand")


def stopped(folder, **options):
    """Return the lines that were read off the curve, by share."""
    lines = folder.lines(**options)
    found = lines[lines["verdict"] == "read off a curve"]
    return found.set_axis([float(name[24:-1]) for name in found.index])


# When the reference is as good -------------------------------------------------------------------


@pytest.mark.parametrize("number", range(5))
def test_the_reference_is_stopped_at_its_first_look_as_good(folder, number):
    draw = np.random.default_rng(number)
    ratios = {"high": [], "low": []}
    for seed in range(4):
        times, looks = np.cumsum(draw.uniform(0.5, 1.5, 8)), draw.uniform(50, 90, 8)
        prepare, total = 0.25, times[-1] + 0.25
        curve = list(zip(times.tolist(), looks.tolist(), strict=True))
        folder.add("base", seed, looks[-1], (prepare, times[-1]), curve=curve)
        for name, accuracy in {"high": looks.max(), "low": looks.min() + 1}.items():
            folder.add(name, seed, accuracy, 1.0)
            first = next(t for t, look in curve if look >= accuracy)
            ratios[name].append(total / (first + prepare))
        folder.add("best", seed, looks.max() + (seed == 2), 1.0)
    lines = folder.lines()
    for name, values in ratios.items():
        expected = np.exp(np.mean(np.log(values)))
        assert lines.loc[name, "early_speedup"] == pytest.approx(expected)
    assert np.isnan(lines.loc["best", "early_speedup"]), "one seed of it was never reached"
    assert np.isnan(lines.loc["base", "early_speedup"])


def test_a_seed_that_only_one_of_them_has_does_not_count(folder):
    for seed in range(2):
        folder.add("base", seed, 90.0, 4.0, curve=[(1.0, 80.0), (4.0, 90.0)])
        folder.add("ours", seed, 79.0, 1.0)
    folder.add("base", 2, 90.0, 4.0, curve=[(1.0, 80.0), (4.0, 90.0)])
    folder.add("ours", 3, 99.0, 1.0)
    assert folder.lines().loc["ours", "early_speedup"] == pytest.approx(4.0)


# What is read off -------------------------------------------------------------------------------


def by_hand(curve, until):
    """Return the last accuracy that was seen by then, going through the looks one by one."""
    last = None
    for seconds, accuracy in curve:
        if accuracy is not None and seconds <= until:
            last = accuracy
    return last


@pytest.mark.parametrize("number", range(5))
def test_it_is_what_going_through_the_looks_one_by_one_gives(folder, number):
    draw = np.random.default_rng(number)
    cells = []
    for seed in range(6):
        prepare, times = draw.uniform(0, 0.5), np.cumsum(draw.uniform(0.5, 1.5, 10))
        looks = [None if draw.random() < 0.3 else draw.uniform(50, 90) for _ in times]
        looks[-1] = draw.uniform(85, 95)
        curve = list(zip(times.tolist(), looks, strict=True))
        folder.add("base", seed, looks[-1], (prepare, curve[-1][0]), flops=1000, curve=curve)
        for name, flops in {"a": 700, "b": 720, "c": 330, "d": 990, "e": 1400}.items():
            folder.add(name, seed, 90.0, 1.0 * flops, flops=flops, machine={"flags": ["busy"]})
        cells.append((prepare, curve))
    lines = stopped(folder)
    assert lines.index.tolist() == [0.33, 0.71], "a and b share one; d and e save nothing"
    for share, line in lines.iterrows():
        seen, differences, seconds = [], [], []
        for prepare, curve in cells:
            until = share * (prepare + curve[-1][0])
            value = by_hand([(prepare + time, look) for time, look in curve], until)
            if value is not None:
                seen.append(value)
                differences.append(value - curve[-1][1])
                seconds.append((prepare, until - prepare, curve[-1][0]))
        assert line["n"] == len(seen) > 1
        assert line["accuracy"] == pytest.approx(np.mean(seen))
        assert line["accuracy_std"] == pytest.approx(np.std(seen, ddof=1))
        mean, error = np.mean(differences), stats.sem(differences)
        low, high = stats.t.interval(0.95, len(seen) - 1, loc=mean, scale=error)
        found = line[["difference", "difference_low", "difference_high"]].tolist()
        assert found == pytest.approx([mean, low, high])
        times = line[["prepare_seconds", "train_seconds"]].tolist()
        assert times == pytest.approx(np.mean(seconds, axis=0)[:2])
        trained = np.log([whole / train for _, train, whole in seconds])
        assert line["train_speedup"] == pytest.approx(np.exp(trained.mean()))
        speed = line[["speedup", "speedup_low", "speedup_high", "ideal_speedup"]].tolist()
        assert speed == [1 / share] * 4
        assert line["realised"] == 1


def look_at(*curve, until):
    """Return what one seed, and another one beside it, had shown by then."""
    lines = [(0, 0, *look) for look in curve] + [(1, 0, 0.0, 99.0), (0, 1, 1.0, 7.0)]
    table = pd.DataFrame(lines, columns=["strategy_at", "seed_at", "seconds", "test_top1"])
    return last_seen(table, 0, np.array([[until, 9.0]])).tolist()[0]


@pytest.mark.parametrize(
    ("until", "accuracy"), [(4.0, 40), (5.0, 40), (5.999, 40), (6.0, 30), (60.0, 30)]
)
def test_between_two_looks_the_earlier_one_counts_even_if_the_later_one_is_worse(until, accuracy):
    assert look_at((4.0, 40.0), (6.0, 30.0), until=until)[0] == accuracy


def test_before_the_first_look_and_without_a_time_nothing_is_known():
    assert np.isnan(look_at((4.0, 40.0), (6.0, 60.0), until=3.9)[0])
    assert np.isnan(look_at((4.0, 40.0), (6.0, 60.0), until=np.nan)[0])


def test_a_single_look_is_no_curve():
    assert np.isnan(look_at((4.0, 40.0), (6.0, 60.0), until=9.0)[1])


def test_seeds_without_a_value_are_left_out(folder):
    folder.add("base", 0, 90.0, 10.0, curve=[(4.0, 60.0), (10.0, 90.0)])
    folder.add("base", 1, 91.0, 10.0, curve=[(6.0, 70.0), (10.0, 91.0)])
    folder.add("base", 2, 92.0, 10.0, curve=[(5.0, 71.0), (10.0, 92.0)])
    folder.add("base", 3, 93.0, 10.0, curve=[(10.0, 93.0)])
    folder.add("base", 4, 93.0, clocks={}, curve=[(1.0, 70.0), (2.0, 93.0)])
    folder.add("base", 5, 93.0, 10.0, status="diverged")
    folder.fill("ours", [90.0] * 6, [5.0] * 6, flops=50)
    line = stopped(folder).loc[0.5]
    assert (line["n"], line["accuracy"]) == (2, 65.5)
    assert line["difference"] == pytest.approx((60 - 90 + 71 - 92) / 2)


def test_counting_whole_test_images_leaves_a_spread(folder):
    classes = {"test": [50, 50], "accuracy": [90.0, 90.0], "trained": [1.0, 1.0]}
    folder.fill("base", [90.0] * 3, [10.0] * 3, classes=classes)
    folder.fill("ours", [90.0] * 3, [5.0] * 3, flops=50, classes=classes)
    line = stopped(folder).loc[0.5]
    half = 4.30265 / np.sqrt(12) / np.sqrt(3)
    assert line["difference_high"] - line["difference"] == pytest.approx(half, rel=1e-4)


# Which rows there are ---------------------------------------------------------------------------


def test_there_is_one_for_the_methods_that_save_and_none_for_controls(folder):
    folder.fill("base", [90.0, 91.0], [10.0, 10.0], flops=1000)
    folder.fill("control", [80.0, 80.0], [7.0, 7.0], flops=700, control=True)
    folder.fill("same", [80.0, 80.0], [9.6, 9.6], flops=960)
    assert stopped(folder).empty
    folder.fill("ours", [80.0, 80.0], [9.5, 9.5], flops=950)
    assert stopped(folder).index.tolist() == [0.95]


def test_the_clock_counts_where_it_alone_sees_the_saving(folder):
    folder.fill("base", [90.0, 91.0], [10.0, 10.0]).fill("ours", [90.0, 91.0], [6.0, 6.0])
    assert stopped(folder).index.tolist() == [0.6]


def test_without_two_looks_there_is_none(folder):
    for seed in range(2):
        folder.add("base", seed, 90.0, 10.0, curve=[(5.0, None), (10.0, 90.0)])
    folder.fill("ours", [90.0] * 2, [5.0] * 2, flops=50)
    assert stopped(folder).empty
    assert "early_termination" not in plain_text(folder.board())


def test_before_the_first_look_there_is_none(folder):
    folder.fill("base", [90.0, 91.0], [10.0, 10.0]).fill("ours", [90.0] * 2, [4.0] * 2, flops=40)
    assert stopped(folder).empty


def test_without_a_finished_reference_there_is_none(folder):
    folder.add("base", 0, status="failed").add("ours", 0, 90.0, flops=50)
    assert stopped(folder).empty


def test_every_table_has_its_own(folder):
    folder.suite(task_ids={"blobs": "t1", "rings": "t2"})
    rings = {"task_name": "rings", "task_id": "t2"}
    folder.fill("base", [90.0] * 2, [10.0] * 2).fill("ours", [90.0] * 2, [5.0] * 2, flops=50)
    folder.fill("base", [80.0] * 2, [20.0] * 2, **rings)
    folder.fill("ours", [80.0] * 2, [14.0] * 2, flops=70, **rings)
    folder.add("base", 0, 70.0, 10.0, conditions_id="c2")
    table = folder.board().table
    table = table[table["verdict"] == "read off a curve"]
    assert table[["task", "conditions", "strategy", "accuracy"]].values.tolist() == [
        ["blobs", "c1", "early_termination[share=0.5]", 45],
        ["rings", "c1", "early_termination[share=0.7]", 40],
    ]


# What it changes --------------------------------------------------------------------------------


@pytest.fixture
def crowded(folder):
    """Two methods, a control and a bound; what is read off would be on the front."""
    noise = np.array([0.0, 0.1, -0.1, 0.05])
    looks = [[(2.0, 89.9 + x), (8.0, 90.0 + x)] for x in noise]
    for seed, curve in enumerate(looks):
        folder.add("base", seed, curve[-1][1], 8.0, flops=800, curve=curve)
    folder.fill("ours", (89.0 + 2 * noise).tolist(), [4.0, 4.1, 3.9, 4.0], flops=400)
    folder.fill("other", (88.0 + 3 * noise).tolist(), [2.0, 2.1, 1.9, 2.0], flops=200)
    folder.fill("half", (88.0 + noise).tolist(), [4.0, 4.1, 3.9, 4.0], flops=400, control=True)
    clocks = {"prepare": 0.0, "train": 1.0, "off_oracle": 3.0}
    return folder.fill(
        "bound", (91 + noise).tolist(), [1.0] * 4, flops=100, clocks=clocks, ranked=False
    )


def test_nothing_that_is_said_of_the_others_changes(crowded):
    board = crowded.board()
    table = board.table.set_index("strategy")
    remarks = [line for line in plain_text(board).splitlines() if ": " in line]
    assert len(table) == 7
    for path in crowded.path.glob("*/epochs.csv"):
        lines = pd.read_csv(path)
        lines[lines["test_top1"] == lines["test_top1"].max()].to_csv(path, index=False)
    without = crowded.board()
    plain = without.table.set_index("strategy")
    assert len(plain) == 5
    told = ["reference_at_same_time", "target_seconds", "early_speedup"]
    pd.testing.assert_frame_equal(
        table.loc[plain.index].drop(columns=told), plain.drop(columns=told)
    )
    assert plain["pareto"].sum() == 3
    said = [line for line in plain_text(without).splitlines() if ": " in line]
    assert said == remarks
    assert said[-2].startswith("Settled: 3 of 3. The chance that")


def test_it_comes_last_without_a_verdict(crowded):
    table = crowded.board().table
    assert table["strategy"].tolist()[-4:] == [
        "bound",
        "half",
        "early_termination[share=0.25]",
        "early_termination[share=0.5]",
    ]
    lines = table.iloc[-2:]
    assert lines["control"].tolist() == [True, True]
    assert not lines[["on_clock", "pareto", "settled", "look"]].any(axis=None)
    assert lines[["oracle", "gain", "gain_low", "gain_high"]].isna().all(axis=None)
    assert lines["margin"].tolist() == [0.5, 0.5]
    assert not lines[["against_line", "trouble", "note"]].astype(bool).any(axis=None)
    assert lines["sentence"].tolist()[1] == (
        "read off the curve of base, stopped at 50% of its time; nothing was run"
    )
    for column in ("on_clock", "control", "pareto", "settled"):
        assert table[column].dtype == bool
    assert table["n"].dtype == table["contended"].dtype == table["look"].dtype == int


def test_it_is_no_line_that_a_method_is_compared_with(folder):
    folder.fill("base", [90.0, 91.0], [10.0, 10.0])
    folder.fill("ours", [90.0, 91.0], [5.0, 5.0], flops=50)
    assert len(stopped(folder)) == 1
    assert folder.lines().loc["ours", "against_line"] == ""


# Where it is shown ------------------------------------------------------------------------------

NAME = "early_termination[share=0.5]"


def test_every_form_has_the_row_and_no_form_of_runs_has_it(crowded, tmp_path):
    board = crowded.board()
    text = plain_text(board)
    (line,) = [line for line in text.splitlines() if line.startswith(NAME)]
    assert re.search(r"^\S+ +read off a curve  4 .* -0\.10 \(-0\.10\.\.-0\.10\) ", line)
    assert re.search(r" 2\.00x  2\.00-2\.00 +-  2\.00x +1\.00 ", line)
    assert text.count("(part off the clock)") == 1, "the bound alone"
    assert f"| `{NAME}` | read off a curve | 4 |" in markdown(board)
    assert r"early\_termination{[}share=0.5{]}" in latex(board)
    assert NAME not in board.runs["strategy"].tolist()
    write_tables(crowded.path, board)
    written = pd.read_csv(crowded.path / "leaderboard.csv").set_index("strategy")
    assert written.loc[NAME, "speedup"] == 2
    assert NAME not in (crowded.path / "runs.csv").read_text()
    assert "nan" not in text
    drawn = {path.stem: path.read_text() for path in draw(board, tmp_path, formats=["svg"])}
    assert {name: NAME in text for name, text in drawn.items()} == {
        "tradeoff": True,
        "time": False,
        "epochs": False,
        "phases": False,
    }


def test_the_command_prints_it_and_nothing_compares_it(crowded):
    lines = json.loads(ok("leaderboard", crowded.path, "--json"))["lines"]
    (line,) = [line for line in lines if line["strategy"] == NAME]
    assert (line["gain"], line["speedup"], line["verdict"]) == (None, 2, "read off a curve")
    assert "early_termination" in mistake("compare", crowded.path, "base", NAME)


def test_the_page_has_it_in_the_table_of_all_columns_alone(crowded):
    crowded.suite(strategies=["base", "ours", "other", "bound"], seeds=4)
    text = page_text(crowded.board())
    body = re.search(r'class="results">.*?<tbody>(.*?)</tbody>', text, re.S)[1]
    row = body.split("</tr>")[-2]
    assert row.startswith('<tr class="control">')
    assert "share=0.5]" in row
    assert "read off a curve" in row
    assert "<td>–</td>" in row
    said = re.findall(r"<article.*?</article>", text, re.S)
    assert not [one for one in said if "share=0.5]" in one]
    assert sum("Part of its work is off the clock." in one for one in said) == 1
    first = text.partition("<main")[2].partition("<details")[0]
    assert "early_termination" not in first


def test_one_seed_has_a_row_without_intervals(folder):
    folder.add("base", 0, 90.0, 10.0).add("ours", 0, 90.0, 5.0, flops=50)
    line = stopped(folder).loc[0.5]
    assert (line["accuracy"], line["difference"], line["speedup"]) == (45, -45, 2)
    assert np.isnan([line["difference_low"], line["difference_high"], line["accuracy_std"]]).all()
    assert "nan" not in plain_text(folder.board())
    assert page_text(folder.board())
