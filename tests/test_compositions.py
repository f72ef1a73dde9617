"""Compositions: whether the effects of their parts add up."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sides import cell, interval

from dataeff.report.composed import (
    COLUMNS,
    compositions,
)

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
    assert lines.columns.tolist() == list(COLUMNS)
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
        ([0.1, -0.1, 0.0], 0.2, "open"),
        ([3.0, -2.0, 1.0], 0.5, "open"),
        ([0.0, 0.1, 0.5], 0.5, "open"),
        ([0.0, -0.1, -0.5], 0.5, "open"),
        ([0.0, 0.0, 0.0], 0.5, "adds up"),
        ([1e-12, 1e-12, 1e-12], 0.5, "adds up"),
        ([1.0], 0.5, "open"),
        ([0.0], 0.5, "open"),
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
        ([1.0, 1.06, 0.94], "open"),
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
    assert lines["says"][1] == "open"


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
    assert compositions(runs, "base", 0.5).columns.tolist() == list(COLUMNS)
    assert compositions(runs, "base", 0.5).empty


def test_a_composed_reference_is_no_composition_of_its_own():
    assert compositions(table(), "p+q", 0.5).empty
