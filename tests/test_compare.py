"""Two strategies side by side, from runs made by hand with numbers known beforehand."""

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from records import Folder
from rich.console import Console
from scipy import stats
from shell import mistake, ok

from dataeff.cli import comparing as command
from dataeff.report.comparing import (
    COMPOSITION_COLUMNS,
    PHASES,
    cheaper,
    compare,
    compositions,
    counted_work,
    fewest,
    overhead,
    split_parts,
)
from dataeff.report.explaining import headline, sentences

# Runs by hand ------------------------------------------------------------------------------------

PLAIN = {"load": 1.0, "forward": 3.0, "backward": 6.0}
"""Ten seconds of a plain run."""


def cell(strategy, seed=0, accuracy=90.0, phases=PLAIN, flops=300.0, prepare=0.0, **more):
    """Return one line of runs; train is the sum of the phases."""
    train = sum(phases.values())
    line = {
        "task_name": "blobs",
        "conditions_id": "c1",
        "strategy": strategy,
        "seed": seed,
        "status": "finished",
        "test_top1": accuracy,
        "prepare_seconds": prepare,
        "train_seconds": train,
        "clocked_seconds": prepare + train,
        "total_seconds": prepare + train,
        "flops": flops,
    }
    line |= {f"{name}_phase_seconds": seconds for name, seconds in phases.items()}
    return line | more


def one(*cells, a="base", b="ours"):
    """Return the one comparison of these cells."""
    (found,) = compare(pd.DataFrame(cells), a, b)
    return found


def said(*cells):
    return "\n".join(sentences(one(*cells)))


def interval(differences):
    """Return mean and 95% t interval, by scipy."""
    limits = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    return np.mean(differences), limits.low, limits.high


# Speed-up and accuracy ---------------------------------------------------------------------------

TIMES = {"base": [10.0, 12.0, 11.0], "ours": [5.0, 4.0, 5.5]}
ACCURACY = {"base": [90.0, 92.0, 91.0], "ours": [89.0, 92.5, 89.5]}


def three_seeds():
    return [
        cell(name, seed, ACCURACY[name][seed], {"forward": TIMES[name][seed]}, flops)
        for name, flops in (("base", 600.0), ("ours", 200.0))
        for seed in range(3)
    ]


def test_the_speedup_has_a_paired_interval_on_the_log_scale():
    found = one(*three_seeds())
    expected = np.exp(interval(np.log(np.divide(TIMES["base"], TIMES["ours"]))))
    speedup = found.speedup
    assert [speedup.mean, speedup.low, speedup.high] == pytest.approx(expected)
    assert found.seeds == [0, 1, 2]
    assert found.ideal == pytest.approx(3)
    assert found.realised == pytest.approx((2 * 3 * 2) ** (1 / 3) / 3)


def test_accuracy_is_compared_in_pairs():
    found = one(*three_seeds()).difference
    expected = interval(np.subtract(ACCURACY["ours"], ACCURACY["base"]))
    assert [found.mean, found.low, found.high] == pytest.approx(expected)


def test_equal_steps_of_accuracy_are_no_certainty():
    # Two test images of 50 fewer, on every seed: one image is two points.
    cells = [
        cell(name, seed, accuracy, test_samples=50)
        for name, accuracy in (("base", 90.0), ("ours", 86.0))
        for seed in range(3)
    ]
    found = one(*cells).difference
    half = stats.t.ppf(0.975, 2) * (2 / math.sqrt(12)) / math.sqrt(3)
    assert [found.mean, found.low, found.high] == pytest.approx([-4, -4 - half, -4 + half])


def test_the_words_follow_the_intervals():
    speed, ideal, accuracy = headline(one(*three_seeds()))
    assert speed == "Speed-up: 2.29x (95%: 1.28x to 4.10x): B is faster."
    assert ideal == "Ideal: 3.00x by counted work; 76% of it is realised."
    assert accuracy == "Accuracy: -0.67 points (95%: -3.25..+1.92): not told apart."
    other = headline(one(*three_seeds(), a="ours", b="base"))
    assert other[0].endswith("(95%: 0.24x to 0.78x): B is slower.")
    assert other[2] == "Accuracy: +0.67 points (95%: -1.92..+3.25): not told apart."


@pytest.mark.parametrize(("points", "word"), [(2.0, "B is better."), (-2.0, "B is worse.")])
def test_a_difference_that_is_told_is_said(points, word):
    cells = [cell("base", seed, 90.0) for seed in range(3)]
    cells += [cell("ours", seed, 90.0 + points + seed / 10) for seed in range(3)]
    assert headline(one(*cells))[2].endswith(word)


def test_one_seed_has_no_interval():
    found = one(cell("base"), cell("ours", accuracy=91.0, phases={"forward": 5.0}))
    assert (found.speedup.mean, found.difference.mean) == (pytest.approx(2), 1)
    assert np.isnan([found.speedup.low, found.speedup.high, found.difference.low]).all()
    assert headline(found)[0] == "Speed-up: 2.00x: one seed shows no spread."
    assert "nan" not in "".join([*headline(found), *sentences(found)])


def test_only_finished_seeds_that_both_have_are_compared():
    cells = [cell("base", 0), cell("base", 1), cell("base", 2), cell("ours", 1, 91.0)]
    cells += [cell("ours", 2, 5.0, status="diverged"), cell("ours", 3, 5.0)]
    found = one(*cells)
    assert found.seeds == [1]
    assert found.difference.mean == 1


def test_tasks_and_conditions_are_never_mixed():
    cells = [
        cell(name, 0, accuracy, task_name=task, conditions_id=conditions)
        for task, conditions, accuracies in (
            ("blobs", "c1", (90.0, 91.0)),
            ("blobs", "c2", (90.0, 92.0)),
            ("rings", "c1", (90.0, 93.0)),
        )
        for name, accuracy in zip(("base", "ours"), accuracies, strict=True)
    ]
    cells.append(cell("base", 0, task_name="lonely"))
    found = compare(pd.DataFrame(cells), "base", "ours")
    assert [(c.task, c.conditions, c.difference.mean) for c in found] == [
        ("blobs", "c1", 1),
        ("blobs", "c2", 2),
        ("rings", "c1", 3),
    ]


@pytest.mark.parametrize("runs", [pd.DataFrame(), pd.DataFrame([cell("base", status="failed")])])
def test_nothing_to_compare_is_nothing(runs):
    assert compare(runs, "base", "ours") == []


# Phases ------------------------------------------------------------------------------------------

SCORING = {"load": 1.0, "score": 2.0, "select": 0.5, "forward": 1.5, "backward": 4.0}


def test_the_phases_add_up_to_the_whole():
    base = [cell("base", seed, phases=PLAIN | {"load": 1.0 + seed}) for seed in range(2)]
    ours = [cell("ours", seed, flops=200.0, phases=SCORING, prepare=0.25) for seed in range(2)]
    found = one(*base, *ours)
    phases = found.phases
    assert phases.index.tolist() == ["prepare", "load", "score", "select", "forward", "backward"]
    assert phases["a"].tolist() == [0, 1.5, 0, 0, 3, 6]
    assert phases["b"].tolist() == [0.25, 1, 2, 0.5, 1.5, 4]
    assert phases["ideal"].tolist() == pytest.approx([0, 1, 0, 0, 2, 4])
    assert phases["lost"].tolist() == pytest.approx([0.25, 0, 2, 0.5, -0.5, 0])
    assert found.total.tolist() == pytest.approx([10.5, 9.25, 7, 2.25])
    assert phases["lost"].sum() == pytest.approx(9.25 - 10.5 / 1.5)


def test_what_no_phase_names_is_other():
    ours = cell("ours") | {"clocked_seconds": 10.75, "total_seconds": 10.75}
    found = one(cell("base"), ours)
    assert found.phases.loc["other"].tolist() == pytest.approx([0, 0.75, 0, 0.75])
    whole = {"clocked_seconds": 8.0, "total_seconds": 8.0}
    found = one(cell("base", phases={}) | whole, cell("ours", phases={}) | whole)
    assert found.phases["a"].to_dict() == {"other": 8}, "records without phases"
    assert set(found.phases.index) <= set(PHASES)


def test_a_phase_that_only_some_seeds_have_counts_as_zero_in_the_others():
    base = [cell("base", seed) for seed in range(2)]
    ours = [cell("ours", 0, phases=PLAIN | {"score": 3.0}), cell("ours", 1)]
    assert one(*base, *ours).phases.loc["score", "b"] == 1.5


def test_uncounted_work_has_no_ideal():
    found = one(cell("base", flops=None), cell("ours", flops=None))
    assert math.isnan(found.ideal)
    assert found.total[["a", "b"]].tolist() == [10, 10]
    text = "\n".join([*headline(found), *sentences(found)])
    assert "Ideal: not known" in text
    assert "nan" not in text


def test_what_is_off_the_clock_is_named_and_counts_in_the_speedup_only():
    more = {"total_seconds": 14.0, "off_oracle_seconds": 9.0, "off_oracle_process_seconds": 17.0}
    found = one(cell("base"), cell("ours", phases={"forward": 5.0}, flops=150.0, **more))
    assert found.speedup.mean == pytest.approx(10 / 14)
    assert (found.free, found.realised) == (pytest.approx(2), pytest.approx(1))
    assert found.total["b"] == 5
    assert found.off_clock.to_dict("index") == {"oracle": {"a": 0, "b": 9}}
    assert "realised on the clock" in headline(found)[1]
    assert sentences(found)[:2] == [
        "B left 9.00 s (oracle) off the clock on purpose, so it is not ranked.",
        "The speed-up above counts that; without it, it is 2.00x. "
        "The table and what follows leave it out.",
    ]


# What would have to be cheaper -------------------------------------------------------------------


def test_one_phase_alone_may_save_it_all():
    seconds = pd.Series({"load": 1.0, "score": 4.0, "select": 2.0, "backward": 8.0})
    lines = cheaper(seconds, 2.0)
    assert lines.index.tolist() == ["score", "select", "backward"], "a strategy's own ones first"
    assert lines["now"].tolist() == [4, 2, 8]
    assert lines["needed"].tolist() == [2, 0, 6]
    assert lines["saving"].tolist() == [0.5, 1, 0.25]
    assert cheaper(seconds, 8.5).empty


def test_the_fewest_phases_that_take_so_long_together():
    seconds = pd.Series({"load": 1.0, "score": 4.0, "select": 2.0})
    assert fewest(seconds, 4.0).index.tolist() == ["score"]
    assert fewest(seconds, 5.0).index.tolist() == ["score", "select"]
    assert len(fewest(seconds, 99.0)) == 3


def test_overhead_is_what_a_plain_run_does_not_need():
    ours = SCORING | {"step": 5.0, "plan": 0.75}
    base = PLAIN | {"plan": 0.5, "transform": 0.5}
    found = one(cell("base", phases=base), cell("ours", phases=ours))
    assert overhead(found.phases).to_dict() == {"score": 2, "select": 0.5, "plan": 0.25}


def test_a_slower_one_is_told_what_alone_would_bring_it_level():
    ours = cell("ours", phases=PLAIN | {"score": 4.0, "backward": 4.0, "load": 1.5}, flops=200.0)
    text = said(cell("base"), ours)
    assert "B takes 12.50 s where its counted work allows 6.67 s, 5.83 s more." in text
    # Lost: score 4, forward 3 - 2, load 1.5 - 2/3, backward 4 - 4: 5.83 in all.
    assert "Lost: score 4.00 s (69%), forward 1.00 s (17%)." in text
    assert "Overhead: B spends 4.00 s, 32% of its time, on what A does not need: score 4.00" in text
    assert (
        "To break even, B has to save 2.50 s; one phase alone would do: "
        "score 4.00 -> 1.50 s (62% cheaper), or backward 4.00 -> 1.50 s (62% cheaper), "
        "or forward 3.00 -> 0.50 s (83% cheaper)."
    ) in text


def test_phases_may_do_together_what_none_does_alone():
    phases = {
        "score": 3.0,
        "select": 2.0,
        "plan": 1.0,
        "forward": 3.0,
        "backward": 3.0,
        "load": 2.0,
    }
    text = said(cell("base"), cell("ours", phases=phases, flops=200.0))
    assert (
        "To break even, B has to save 4.00 s; no single phase can, but score and select together, "
        "5.00 -> 1.00 s (80% cheaper)."
    ) in text


def test_some_cannot_break_even_by_their_overhead():
    phases = {"score": 1.0, "forward": 7.0, "backward": 7.0, "load": 6.0}
    text = said(cell("base"), cell("ours", phases=phases, flops=200.0))
    assert (
        "To break even, B has to save 11.00 s; no single phase can: even with no overhead at all "
        "it would take 20.00 s, more than A's 10.00 s."
    ) in text


def test_a_faster_one_is_told_what_it_could_spend_and_what_its_ideal_takes():
    ours = cell("ours", phases={"score": 2.0, "forward": 2.0, "backward": 4.0}, flops=150.0)
    text = said(cell("base"), ours)
    assert "B could spend another 2.00 s, 20% of A's time, before it is as slow as A." in text
    assert "To reach its ideal, B has to save 3.00 s; one phase alone would do: backward 4" in text
    assert "break even" not in text


def test_what_one_phase_loses_others_may_make_up_for():
    ours = cell("ours", phases={"load": 1.0, "score": 2.0, "forward": 2.0, "backward": 5.0})
    assert (
        "B takes 10.00 s where its counted work allows 10.00 s: "
        "what score takes beyond it is made up for in forward and backward."
    ) in said(cell("base"), ours)
    text = said(cell("base"), cell("ours"))
    assert "10.00 s: nothing to speak of is lost." in text
    assert "B and A take about the same time." in text
    assert "break even" not in text


def test_better_than_the_ideal_is_said_too():
    ours = cell("ours", phases={"load": 1.0, "forward": 1.0, "backward": 1.0, "score": 1.0})
    text = said(cell("base"), ours)
    assert "10.00 s, 6.00 s less. Gained: backward 5.00 s (71%), forward 2.00 s (29%); " in text
    assert "1.00 s of that are lost again in score." in text


def test_short_runs_show_more_decimals():
    short = {"forward": 0.031, "backward": 0.0315}
    assert "B takes 0.0625 s where" in said(cell("base", phases=short), cell("ours", phases=short))


# Counted work ------------------------------------------------------------------------------------


def counts(**rows):
    return {f"rows_{name}": float(number) for name, number in rows.items()}


BASE_ROWS = counts(forwarded=1000, trained=1000)


def test_the_work_of_rows_is_forward_one_and_backward_two():
    ours = counts(scored=1000, forwarded=800, trained=800)
    work = counted_work(one(cell("base", **BASE_ROWS), cell("ours", **ours)).rows)
    assert (work.a, work.b, work.scored) == (3000, 3400, 1000)
    assert work.scoring * 1000 + 3 * 800 == pytest.approx(3000)
    assert 1000 + 3 * work.trained == pytest.approx(3000)


def test_work_before_training_counts():
    ours = counts(prepare_forwarded=100, prepare_trained=100, prepare_scored=50, trained=500)
    ours |= counts(forwarded=500)
    work = counted_work(one(cell("base", **BASE_ROWS), cell("ours", **ours)).rows)
    assert work.b == 1500 + 350
    assert math.isinf(work.scoring), "nothing is scored in training"
    assert 3 * work.trained + 350 == pytest.approx(3000)


def test_more_work_than_the_reference_cannot_break_even():
    ours = counts(scored=1000, forwarded=800, trained=800)
    slow = PLAIN | {"score": 3.0}
    text = said(cell("base", **BASE_ROWS), cell("ours", phases=slow, flops=340.0, **ours))
    assert "B does 1.13 times the work of A, so no implementation of it can break even" in text
    assert "Rows of B: scored 1,000, forwarded 800, trained 800; with forward 1 and" in text
    assert "that is 3,400 against 3,000 of A." in text
    assert (
        "The work is equal where scoring a row costs 0.60 of a forward pass instead of 1, "
        "or 667 rows are trained instead of 800."
    ) in text
    assert "Scoring is 29% of B's work; without it, the ideal would be 1.25x." in text


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            {"scored": 1000, "forwarded": 1000, "trained": 1000},
            "equal where 667 rows are trained instead of 1,000; free scoring alone would not do.",
        ),
        (
            {"scored": 4000, "forwarded": 500, "trained": 500},
            "equal where scoring a row costs 0.38 of a forward pass instead of 1; "
            "training fewer rows alone would not do.",
        ),
        (
            {"scored": 4000, "forwarded": 1000, "trained": 1000},
            "The work stays more; free scoring or training fewer rows alone would not do.",
        ),
    ],
)
def test_what_alone_does_not_make_the_work_equal_is_said(rows, expected):
    flops = (rows["scored"] + rows["forwarded"] + 2 * rows["trained"]) / 10
    ours = cell("ours", phases=PLAIN | {"score": 9.0}, flops=flops, **counts(**rows))
    assert expected in said(cell("base", **BASE_ROWS), ours)


def test_rows_that_cost_something_else_are_not_counted_on():
    ours = cell("ours", phases=PLAIN | {"load": 4.0}, flops=600.0, **BASE_ROWS)
    text = said(cell("base", **BASE_ROWS), ours)
    assert "B does 2.00 times the work of A" in text
    assert "Its rows do not all cost the same" in text
    assert "Rows of B" not in text


def test_faster_with_more_work_is_no_contradiction():
    ours = cell("ours", phases={"forward": 5.0}, flops=600.0)
    text = said(cell("base"), ours)
    assert "B does 2.00 times the work of A: it is not faster by saving work." in text
    assert "break even" not in text


# Compositions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("a+b", ["a", "b"]),
        ("a[x=1,y=2]+b[z=3]+c", ["a[x=1,y=2]", "b[z=3]", "c"]),
        ("a[x=1+2]", ["a[x=1+2]"]),
        ('a[x="]+"]+b', ['a[x="]+"]', "b"]),
        ("a[x=1+b", ["a[x=1+b"]),
        ('a[x="1+b', ['a[x="1', "b"]),
        ("", []),
    ],
)
def test_a_plus_inside_brackets_separates_nothing(text, parts):
    assert split_parts(text) == parts


SECONDS = {"base": [10.0, 11.0, 12.0], "p": [8.0, 9.0, 9.5], "q": [9.0, 10.5, 11.0]}
SECONDS["p+q"] = [7.9, 8.0, 9.9]
POINTS = {"base": [90.0, 91.0, 92.0], "p": [89.0, 90.5, 91.0], "q": [90.5, 91.0, 92.5]}
POINTS["p+q"] = [88.0, 90.0, 89.5]


def table(seconds=SECONDS, points=POINTS, **more):
    return pd.DataFrame(
        cell(name, seed, points[name][seed], {"forward": seconds[name][seed]}, **more)
        for name in seconds
        for seed in range(len(seconds[name]))
    )


def test_an_interaction_is_what_the_pair_has_beyond_its_parts():
    lines = compositions(table(), "base", 0.5)
    assert lines.columns.tolist() == list(COMPOSITION_COLUMNS)
    assert lines["strategy"].tolist() == ["p+q"] * 2
    assert lines["parts"].tolist() == ["p + q"] * 2
    assert lines["n"].tolist() == [3, 3]
    time, accuracy = lines.set_index("quantity").loc[["speedup", "accuracy"]].to_dict("records")
    log = {name: np.log(values) for name, values in SECONDS.items()}
    gains = {name: log["base"] - values for name, values in log.items()}
    beyond = np.exp(interval(gains["p+q"] - gains["p"] - gains["q"]))
    keys = ("interaction", "interaction_low", "interaction_high")
    assert [time[key] for key in keys] == pytest.approx(beyond)
    assert time["measured"] == pytest.approx(np.exp(gains["p+q"].mean()))
    assert time["sum"] == pytest.approx(np.exp(gains["p"].mean() + gains["q"].mean()))
    assert time["measured"] / time["sum"] == pytest.approx(time["interaction"])
    gains = {name: np.subtract(values, POINTS["base"]) for name, values in POINTS.items()}
    beyond = interval(gains["p+q"] - gains["p"] - gains["q"])
    assert [accuracy[key] for key in keys] == pytest.approx(beyond)
    assert accuracy["sum"] == pytest.approx(-5 / 6 + 1 / 3)
    assert accuracy["measured"] == pytest.approx(-11 / 6)
    assert time["effects"] == "1.25x, 1.08x"
    assert accuracy["effects"] == "-0.83, +0.33"


def test_three_parts_add_up_in_the_same_way():
    seconds = SECONDS | {"r": [5.0, 5.5, 6.0], "p+q+r": [4.0, 4.0, 5.0]}
    points = POINTS | {"r": [90.0, 90.0, 90.0], "p+q+r": [85.0, 86.0, 87.0]}
    lines = compositions(table(seconds, points), "base", 0.5)
    line = lines[(lines.strategy == "p+q+r") & (lines.quantity == "accuracy")].iloc[0]
    assert line["sum"] == pytest.approx(-5 / 6 + 1 / 3 - 1)
    assert line["interaction"] == pytest.approx(-5 - line["sum"])
    assert set(lines["strategy"]) == {"p+q", "p+q+r"}


@pytest.mark.parametrize(
    ("beyond", "margin", "verdict"),
    [
        ([1.0, 1.1, 0.9], 0.5, "more than the sum"),
        ([-1.0, -1.1, -0.9], 0.5, "less than the sum"),
        ([0.1, -0.1, 0.0], 0.5, "adds up"),
        ([0.1, -0.1, 0.0], 0.2, "undecided"),
        ([3.0, -2.0, 1.0], 0.5, "undecided"),
        ([0.0, 0.1, 0.5], 0.5, "undecided"),
        ([0.0, -0.1, -0.5], 0.5, "undecided"),
        ([0.0, 0.0, 0.0], 0.5, "adds up"),
        ([1e-12, 1e-12, 1e-12], 0.5, "adds up"),
        ([1.0], 0.5, "undecided"),
        ([0.0], 0.5, "undecided"),
    ],
)
def test_the_verdict_on_accuracy_follows_the_interval(beyond, margin, verdict):
    # Numbers that binary fractions cannot hold: sums of them are not quite zero.
    n = len(beyond)
    points = {"base": [90.1] * n, "p": [90.4] * n, "q": [90.3] * n}
    points["p+q"] = [90.1 + 0.3 + 0.2 + value for value in beyond]
    lines = compositions(table({name: [1.0] * n for name in points}, points), "base", margin)
    line = lines.set_index("quantity").loc["accuracy"]
    assert line["says"] == verdict
    assert math.isnan(line["interaction_low"]) == (n == 1)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.0, 1.01, 0.99], "adds up"),
        ([1.0, 1.06, 0.94], "undecided"),
        ([1.2, 1.21, 1.19], "more than the sum"),
        ([0.8, 0.81, 0.79], "less than the sum"),
    ],
)
def test_times_add_up_within_five_percent(ratios, verdict):
    seconds = {"base": [8.0] * 3, "p": [4.0] * 3, "q": [6.0] * 3, "p+q": np.divide(3.0, ratios)}
    lines = compositions(table(seconds, {name: [90.0] * 3 for name in seconds}), "base", 0.5)
    line = lines.set_index("quantity").loc["speedup"]
    assert line["says"] == verdict
    assert line["sum"] == pytest.approx(8 / 3)


def test_equal_steps_of_accuracy_are_no_certain_interaction():
    points = {"base": [90.0] * 3, "p": [90.0] * 3, "q": [90.0] * 3, "p+q": [92.0] * 3}
    seconds = {name: [1.0] * 3 for name in points}
    says = {
        samples: compositions(table(seconds, points, test_samples=samples), "base", 0.5)["says"][1]
        for samples in (50, 1000)
    }
    assert says == {50: "more than the sum", 1000: "more than the sum"}
    points["p+q"] = [91.0] * 3
    lines = compositions(table(seconds, points, test_samples=50), "base", 0.5)
    half = stats.t.ppf(0.975, 2) * (2 / math.sqrt(12)) / math.sqrt(3)
    assert lines["interaction_low"][1] == pytest.approx(1 - half)
    assert lines["says"][1] == "undecided"


def test_only_seeds_that_all_have_count():
    seconds = SECONDS | {"q": [9.0, 10.5], "base": [10.0, 11.0, 12.0, 50.0]}
    points = POINTS | {"base": [90.0, 91.0, 92.0, 10.0]}
    lines = compositions(table(seconds, points), "base", 0.5)
    assert lines["n"].tolist() == [2, 2]
    assert lines["measured"].iloc[1] == pytest.approx(-1.5)


@pytest.mark.parametrize("missing", ["base", "p", "q"])
def test_without_all_parts_nothing_is_said(missing):
    rest = {name: values for name, values in SECONDS.items() if name != missing}
    assert compositions(table(rest), "base", 0.5).empty
    runs = table()
    runs.loc[runs.strategy == missing, "status"] = "failed"
    assert compositions(runs, "base", 0.5).empty


def test_parts_run_under_other_conditions_do_not_count():
    runs = table()
    runs.loc[runs.strategy == "q", "conditions_id"] = "c2"
    assert compositions(runs, "base", 0.5).empty
    runs = pd.concat([table(), table(conditions_id="c2"), table(task_name="rings")])
    lines = compositions(runs, "base", 0.5)
    assert lines[["task", "conditions"]].drop_duplicates().values.tolist() == [
        ["blobs", "c1"],
        ["blobs", "c2"],
        ["rings", "c1"],
    ]


def test_the_order_of_the_parts_does_not_matter():
    runs = table().replace({"strategy": {"p": "p[x=1+2]", "p+q": "q+p[x=1+2]"}})
    lines = compositions(runs, "base", 0.5)
    assert lines["parts"].tolist() == ["q + p[x=1+2]"] * 2
    assert lines["effects"].iloc[0] == "1.08x, 1.25x"


@pytest.mark.parametrize("runs", [pd.DataFrame(), table().query("strategy != 'p+q'")])
def test_no_compositions_make_an_empty_table(runs):
    assert compositions(runs, "base", 0.5).columns.tolist() == list(COMPOSITION_COLUMNS)
    assert compositions(runs, "base", 0.5).empty


def test_a_composed_reference_is_no_composition_of_its_own():
    assert compositions(table(), "p+q", 0.5).empty


# The command -------------------------------------------------------------------------------------


class Results(Folder):
    """A folder of results of one suite, in the making."""

    def __init__(self, path):
        self.root = path
        super().__init__(path / "hand")

    def suite(self, **more):
        content = {
            "reference": "baseline",
            "task_ids": {"blobs": "t1", "rings": "t1"},
            "commands": ["dataeff run -d blobs --name hand"],
        }
        super().suite(**content | more)

    def add(self, strategy, seeds=3, forward=5.0, score=0.0, accuracy=90.0, flops=300.0, **more):
        """Write a record per seed; seeds may be a list."""
        for seed in range(seeds) if isinstance(seeds, int) else seeds:
            told = {
                "phases": {"forward": forward, "score": score, "other": seed / 10},
                "rows": {"forwarded": 100, "trained": 100},
            }
            seconds = forward + score + seed / 10
            super().add(strategy, seed, accuracy + seed, seconds, flops, **told | more)
        return self

    def compare(self, a, b, *options, call=ok):
        return call("compare", "hand", a, b, "--results", self.root, *options)


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path)


@pytest.fixture
def pair(results):
    return results.add("baseline").add("ours", score=2.0, flops=200.0, accuracy=89.0)


def test_the_command_prints_headline_table_and_sentences(pair):
    lines = pair.compare("baseline", "ours").splitlines()
    assert lines[:3] == ["blobs (conditions c1), 3 seeds, paired", "A: baseline", "B: ours"]
    assert lines[3].startswith("Speed-up: 0.72x (95%: ")
    assert lines[5].startswith("Accuracy: -1.00 points (95%: -1.00..-1.00): B is worse.")
    assert lines[7:12] == [
        "phase     A s   B s  ideal B s  lost s",
        "score    0.00  2.00       0.00    2.00",
        "forward  5.00  5.00       3.33    1.67",
        "other    0.10  0.10       0.07    0.03",
        "total    5.10  7.10       3.40    3.70",
    ]
    text = "\n".join(lines)
    assert (
        "To break even, B has to save 2.00 s; one phase alone would do: score 2.00 -> 0.00" in text
    )
    assert "nan" not in text


def test_lines_of_zeros_are_left_to_other(results):
    small = {"forward": 5.0, "select": 0.004, "plan": 0.003}
    results.add("baseline", phases=small).add("ours", phases=small)
    text = results.compare("baseline", "ours")
    assert "\nother    0.10  0.10       0.10    0.00\n" in text
    assert "\nselect" not in text
    assert "\nplan" not in text
    assert "\ntotal    5.10  5.10" in text


def test_any_spelling_of_a_strategy_will_do(results):
    results.add("baseline").add("random_backprop[keep=0.5]")
    assert "B: random_backprop[keep=0.5]\n" in results.compare("baseline", "random_backprop")
    spelled = "random_backprop[ keep = 0.50 ]"
    assert "B: random_backprop[keep=0.5]\n" in results.compare("baseline", spelled)


def test_a_strategy_may_be_given_as_it_was_spelled_then(results):
    results.add("baseline").add("random_backprop").add("random_backprop[keep=0.5]")
    assert "B: random_backprop\n" in results.compare("baseline", "random_backprop")


def test_a_plugin_that_is_gone_leaves_its_results(results):
    results.add("baseline").add("gone[keep=0.5]")
    assert "B: gone[keep=0.5]\n" in results.compare("baseline", "gone[keep=0.5]")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("our", "our was not run in hand. Did you mean ours?"),
        ("amp+ours", "Did you mean ours+amp?"),
        ("other[keep=0.3]", "Did you mean other[keep=0.5]?"),
        ("othr[keep=0.3333333333,mode=x]", "Did you mean other?"),
        ("zzz", "zzz was not run in hand. See what was: dataeff leaderboard hand"),
        ("zz[", "zz[ was not run in hand."),
    ],
)
def test_what_was_not_run_gets_a_hint(pair, text, hint):
    pair.add("ours+amp").add("other[keep=0.5]")
    assert hint in pair.compare("baseline", text, call=mistake)
    assert hint in pair.compare(text, "baseline", call=mistake)


def test_the_same_twice_is_no_comparison(pair):
    assert pair.compare("ours", "ours", call=mistake) == (
        "A and B are both ours; name two strategies."
    )


def test_seeds_that_are_not_shared_are_no_comparison(results):
    results.add("baseline", [0, 1]).add("a b", [2, 3])
    assert results.compare("baseline", "a b", call=mistake) == (
        "baseline and a b share no finished seed under the same conditions; "
        "type: dataeff run -d blobs --name hand -s baseline -s 'a b'"
    )


def test_failed_cells_are_no_comparison(results):
    results.add("baseline").add("ours", 2, status="failed").add("ours", [5], status="diverged")
    assert results.compare("baseline", "ours", call=mistake) == (
        "No cell of ours finished (2 failed, 1 diverged), so there is nothing to compare."
    )


def test_no_runs_and_no_results_say_what_to_type(results):
    assert "holds no runs of this suite yet; type: " in results.compare("a", "b", call=mistake)
    sentence = mistake("compare", "hnd", "a", "b", "--results", results.root)
    assert "Did you mean hand?" in sentence


def test_tasks_and_conditions_have_a_block_each(pair):
    pair.add("baseline", task_name="rings").add("ours", task_name="rings")
    pair.add("baseline", conditions_id="c2").add("ours", conditions_id="c2")
    pair.add("ours", conditions_id="c3")
    text = pair.compare("baseline", "ours")
    titles = [line for line in text.splitlines() if line.endswith("3 seeds, paired")]
    assert [title.split(",")[0] for title in titles] == [
        "blobs (conditions c1)",
        "blobs (conditions c2)",
        "rings (conditions c1)",
    ]
    note = "Not compared: blobs (conditions c3), where they share no finished seed."
    assert text.splitlines()[-1] == note
    text = pair.compare("baseline", "ours", "--task", "rings")
    assert text.count("3 seeds, paired") == 1
    assert "blobs" not in text


def test_a_task_that_is_not_there_gets_a_hint(pair):
    assert "Did you mean blobs?" in pair.compare("baseline", "ours", "--task", "blob", call=mistake)
    assert "There are: blobs." in pair.compare("baseline", "ours", "--task", "zz", call=mistake)


def test_json_holds_every_number_and_null_for_none(results):
    results.add("baseline", 1).add("ours", 1, score=2.0, flops=200.0)
    document = json.loads(results.compare("baseline", "ours", "--json"))
    assert [document[key] for key in ("suite", "a", "b")] == ["hand", "baseline", "ours"]
    (block,) = document["blocks"]
    assert block["speedup"] == {"mean": pytest.approx(5 / 7), "low": None, "high": None}
    assert block["ideal_speedup"] == pytest.approx(1.5)
    assert [line["phase"] for line in block["phases"]] == ["score", "forward"]
    lost = sum(line["lost"] for line in block["phases"])
    assert lost == pytest.approx(block["total"]["lost"]) == pytest.approx(7 - 5 / 1.5)
    assert block["goal"] == "break even"
    assert block["surplus"] == pytest.approx(2)
    assert block["one_phase_alone"][0] == {
        "phase": "score",
        "now": 2,
        "needed": pytest.approx(0),
        "saving": pytest.approx(1),
    }
    assert block["compositions"] == document["notes"] == []


def test_compositions_show_their_parts(results):
    results.add("baseline").add("amp", forward=4.0).add("ours", score=1.0, accuracy=91.0)
    results.add("ours+amp", forward=4.0, score=1.0, accuracy=93.0)
    text = results.compare("baseline", "ours+amp")
    assert "Do the effects of B add up? Against baseline, 3 seeds:" in text
    lines = {" ".join(line.split()[:-2]): line.split()[-2:] for line in text.splitlines()}
    assert lines["ours"] == ["0.84x", "+1.00"]
    assert lines["if they add up"] == ["1.04x", "+1.00"]
    assert lines["measured together"] == ["1.00x", "+3.00"]
    assert "more than the sum" in text
    document = json.loads(results.compare("ours+amp", "amp", "--json"))
    time, accuracy = document["blocks"][0]["compositions"]
    assert time["parts"] == ["ours", "amp"]
    assert accuracy["effects"] == [1, 0]
    assert accuracy["interaction"] == pytest.approx(2)


def test_parts_that_were_not_run_are_asked_for(results):
    results.add("baseline").add("ours[x=1]+amp", 2).add("amp", status="failed")
    text = results.compare("baseline", "ours[x=1]+amp")
    assert (
        "Whether the effects of B add up is not known: it takes runs of ours[x=1], amp alone; "
        "type: dataeff run -d blobs --name hand -s 'ours[x=1]' -s amp"
    ) in text
    results.add("ours[x=1]", [2]).add("amp", [1], conditions_id="c1")
    text = results.compare("baseline", "ours[x=1]+amp")
    assert "it takes a finished seed that baseline and all of its parts share." in text


def test_a_named_suite_is_run_by_its_name(tmp_path):
    results = Results(tmp_path)
    results.add("baseline").add("ours+amp").add("amp")
    results.path.rename(tmp_path / "quickstart")
    text = ok("compare", "quickstart", "baseline", "ours+amp", "--results", tmp_path)
    assert "type: dataeff run quickstart -s ours\n" in text


def test_the_terminal_shows_names_as_they_are(results, monkeypatch):
    results.suite(task_ids={"[red]task": "t1"})
    name = "[bold]x[/bold]+a[keep=0.5]"
    for strategy in ("baseline", name, "[bold]x[/bold]", "a[keep=0.5]"):
        results.add(strategy, task_name="[red]task")
    screen = Console(file=io.StringIO(), force_terminal=True, width=70, color_system=None)
    monkeypatch.setattr(command, "console", screen)
    results.compare("baseline", name)
    shown = screen.file.getvalue()
    assert f"B: {name}" in shown
    assert "[red]task (conditions c1)" in shown
    assert "│ [bold]x[/bold] " in shown
    assert max(map(len, shown.splitlines())) <= 70
