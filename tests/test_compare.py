"""Two strategies side by side, from runs made by hand with numbers known beforehand."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sides import PLAIN, cell, interval, judged

from dataeff.report.compare import (
    PHASES,
    cheaper,
    compare,
    counted_work,
    fewest,
    overhead,
)
from dataeff.report.explain import headline, sentences


def one(*cells, a="base", b="ours"):
    """Return the one comparison of these cells."""
    (found,) = compare(judged(cells), a, b)
    return found


def said(*cells):
    return "\n".join(sentences(one(*cells)))


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
    # Nothing is known yet: speed and accuracy have half of the chance each.
    expected = np.exp(interval(np.log(np.divide(TIMES["base"], TIMES["ours"])), 0.02))
    assert list(found.said.speedup) == pytest.approx(expected)
    assert found.seeds == [0, 1, 2]
    assert found.ideal == pytest.approx(3)
    assert found.realised == pytest.approx((2 * 3 * 2) ** (1 / 3) / 3)


def test_accuracy_is_compared_in_pairs():
    found = one(*three_seeds()).said.difference
    expected = interval(np.subtract(ACCURACY["ours"], ACCURACY["base"]), 0.02)
    assert list(found) == pytest.approx(expected)


def test_equal_steps_of_accuracy_are_no_certainty():
    # Two test images of 50 fewer, on every seed: one image is two points.
    cells = [
        cell(name, seed, accuracy, test_samples=50)
        for name, accuracy in (("base", 90.0), ("ours", 86.0))
        for seed in range(3)
    ]
    found = one(*cells).said.difference
    half = stats.t.ppf(0.99, 2) * (2 / math.sqrt(12)) / math.sqrt(3)
    assert list(found) == pytest.approx([-4, -4 - half, -4 + half])


def test_the_words_follow_the_intervals():
    speed, ideal, accuracy, verdict = headline(one(*three_seeds()))
    assert speed == "Speed-up: 2.29x (0.89x to 5.87x): open."
    assert ideal == "Ideal: 3.00x by counted work; 76% of it is realised."
    assert accuracy == "Accuracy: -0.67 points (-4.85..+3.52): open."
    assert verdict.startswith("B against A: open; the intervals are the table's")
    other = headline(one(*three_seeds(), a="ours", b="base"))
    assert other[0] == "Speed-up: 0.44x (0.17x to 1.12x): open."
    assert other[2] == "Accuracy: +0.67 points (-3.52..+4.85): open."


def five_seeds(points=0.0, seconds=5.0):
    noise = [0.0, 0.1, -0.1, 0.05, -0.05]
    base = [cell("base", seed) for seed in range(5)]
    return base + [
        cell("ours", seed, 90 + points + x, {"forward": seconds * (1 + x / 5)})
        for seed, x in enumerate(noise)
    ]


@pytest.mark.parametrize(
    ("points", "seconds", "words"),
    [
        (2.0, 5.0, ["faster", "better", "faster and better"]),
        (0.0, 5.0, ["faster", "no worse (margin 0.5)", "faster and no worse"]),
        (-0.5, 5.0, ["faster", "less accurate", "faster but less accurate"]),
        (-2.0, 5.0, ["faster", "worse (margin 0.5)", "faster but worse"]),
        (0.0, 20.0, ["slower", "no worse (margin 0.5)", "slower but no worse"]),
        (2.0, 20.0, ["slower", "better", "slower but better"]),
        (0.0, 10.0, ["open", "no worse (margin 0.5)", "no worse, speed open"]),
    ],
)
def test_a_difference_that_is_told_is_said(points, seconds, words):
    speed, _, accuracy, verdict = headline(one(*five_seeds(points, seconds)))
    assert speed.endswith(f"): {words[0]}.")
    assert accuracy.endswith(f"): {words[1]}.")
    assert verdict.startswith(f"B against A: {words[2]}; ")


def test_one_seed_has_no_interval():
    found = one(cell("base"), cell("ours", accuracy=91.0, phases={"forward": 5.0}))
    speedup, difference = found.said[:2]
    assert (speedup.mean, difference.mean) == (pytest.approx(2), 1)
    assert np.isnan([*speedup[1:], *difference[1:]]).all()
    assert headline(found)[0] == "Speed-up: 2.00x: no verdict."
    assert headline(found)[-1].startswith("B against A: no verdict; one seed shows no spread; add")
    assert "nan" not in "".join([*headline(found), *sentences(found)])


def test_only_finished_seeds_that_both_have_are_compared():
    cells = [cell("base", 0), cell("base", 1), cell("base", 2), cell("ours", 1, 91.0)]
    cells += [cell("ours", 2, 5.0, status="diverged"), cell("ours", 3, 5.0)]
    found = one(*cells)
    assert found.seeds == [1]
    assert found.said.difference.mean == 1


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
    found = compare(judged(cells), "base", "ours")
    assert [(*c.key, c.said.difference.mean) for c in found] == [
        ("blobs", "c1", 1),
        ("blobs", "c2", 2),
        ("rings", "c1", 3),
    ]


@pytest.mark.parametrize("cells", [[], [cell("base", status="failed")]])
def test_nothing_to_compare_is_nothing(cells):
    assert compare(judged(cells), "base", "ours") == []


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
    assert found.said.speedup.mean == pytest.approx(10 / 14)
    assert (found.free, found.realised) == (pytest.approx(2), pytest.approx(1))
    assert found.total["b"] == 5
    assert found.off_clock.to_dict("index") == {"oracle": {"a": 0, "b": 9}}
    assert "realised on the clock" in headline(found)[1]
    assert sentences(found)[:2] == [
        "B left 9.00 s (oracle) off the clock on purpose.",
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
    ours = cell("ours", phases={"load": 2.0, "score": 2.0, "forward": 2.0, "backward": 4.0})
    assert "what score and load take beyond it is" in said(cell("base"), ours)
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
