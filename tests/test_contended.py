"""Times of a busy machine: missing wherever time is judged or shown, while accuracies stay."""

import math

import numpy as np
import pandas as pd
import pytest
from sides import cell, judged

from dataeff.report.compare import compare
from dataeff.report.foot import foot
from dataeff.report.series import phase_means
from dataeff.report.table import leaderboard
from dataeff.report.worth import Worth

LUCK = np.random.default_rng(0).normal(0, 1, (9, 5))
LINE = {"line": ["short[share=?]"], "strategies": ["base", "ours", "other"]}
CURVES = {"strategy": [], "seed": [], "task": [], "conditions": [], "test_top1": [], "seconds": []}


def seeds(name, points=0.0, share=1.0, busy=(), **more):
    place = len(name) + int(100 * share) % 5
    return [
        cell(
            name,
            seed,
            90 + points + 0.1 * LUCK[place % 9, seed],
            {"forward": 10 * share * (5.0 if seed in busy else 1 + 0.01 * LUCK[place % 9, seed])},
            flops=300.0 * share,
            contended="others were busy" if seed in busy else "",
            device="cpu",
            **more,
        )
        for seed in range(5)
    ]


def lined(busy=()):
    line = [
        one
        for share in (0.4, 0.7)
        for one in seeds(f"short[share={share}]", 9 * math.log(share), share, control=True)
    ]
    others = seeds("other", -5.0, 0.6, control=False, ranked=True)
    return [*seeds("base"), *seeds("ours", 0.0, 0.5, busy, control=False), *others, *line]


def table_of(cells, **suite):
    (one,) = judged(cells, **suite)
    return one, leaderboard([Worth(one)], no_curves(), []).set_index("strategy")


def no_curves():
    return pd.DataFrame(CURVES).astype({"seed": int, "test_top1": float, "seconds": float})


def test_a_busy_seed_has_no_time_and_its_accuracy():
    _, table = table_of(lined(busy=(1,)), **LINE)
    line = table.loc["ours"]
    assert line["speedup"] == pytest.approx(2.0, rel=0.03), "not a fifth of it in one seed"
    assert (line["n"], line["contended"], line["verdict"]) == (5, 1, "faster and no worse")


def test_with_one_time_left_speed_is_not_judged_and_accuracy_has_all_of_the_share():
    one, table = table_of(lined(busy=(0, 1, 2, 3)), **LINE)
    line = table.loc["ours"]
    assert line["verdict"] == "no worse, speed not judged"
    assert line["sentence"].startswith("speed not judged, accuracy ")
    assert math.isnan(line["speedup_low"])
    assert not one.settled[one.grid.names.index("ours")]


def test_without_times_the_line_is_met_at_the_counted_work():
    _, table = table_of(lined(busy=range(5)), **LINE)
    _, clocked = table_of(lined(), **LINE)
    assert table.loc["ours", "against_line"].endswith("at its counted work")
    assert not clocked.loc["ours", "against_line"].endswith("at its counted work")
    assert table.loc["ours", "gain"] == pytest.approx(clocked.loc["ours", "gain"], abs=0.2)


def test_a_comparison_takes_seconds_of_seeds_that_were_calm_on_both_sides():
    (one,) = judged(lined(busy=(2,)), **LINE)
    (found,) = compare([one], "base", "ours")
    assert found.total["b"] == pytest.approx(5.0, rel=0.03)
    assert found.seeds == [0, 1, 2, 3, 4]
    assert phase_means(one.grid.group, ["ours"]).loc["ours", "forward"] == pytest.approx(
        5, rel=0.03
    )


def test_a_line_that_falls_is_said():
    cells = [
        line | ({"test_top1": line["test_top1"] - 9} if "0.7" in line["strategy"] else {})
        for line in lined()
    ]
    (one,) = judged(cells, **LINE)
    assert foot(one, {})[-1] == (
        "The line falls: short[share=?] at 0.7 of the work is below 0.4, which does less."
    )
    (rising,) = judged(lined(), **LINE)
    assert not any("falls" in text for text in foot(rising, {}))
