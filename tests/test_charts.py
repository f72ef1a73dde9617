"""The charts of the page: what they draw."""

import boards
import numpy as np
import pandas as pd
import pytest

from dataeff.report.series import phase_means
from dataeff.report.web import bars, canvas, charts, section

STYLES = canvas.styles(["base", "a", "b"], "base", {"b"})


def curves(lines):
    columns = ["strategy", "seed", "epoch", "seconds", "test_top1", "kept", "mixed"]
    return pd.DataFrame(lines, columns=columns).assign(task="t", conditions="c")


def test_controls_look_open_and_dotted():
    assert STYLES["b"].symbol.endswith("-open")
    assert (STYLES["b"].dash, STYLES["a"].dash) == ("dot", "solid")


def test_a_curve_is_the_mean_over_seeds_and_its_band_the_extremes():
    lines = curves(
        [
            ("a", 0, 1, 2.0, 50.0, 1, 0),
            ("a", 1, 1, 4.0, 60.0, 1, 0),
            ("a", 0, 2, 4.0, np.nan, 1, 0),
            ("a", 1, 2, 8.0, np.nan, 1, 0),
            ("a", 0, 3, 6.0, 70.0, 1, 0),
            ("a", 1, 3, 12.0, 90.0, 1, 0),
        ]
    )
    band, line = charts.learning(lines, STYLES, "seconds").figure["data"]
    assert (line["x"], line["y"]) == ([3, 9], [55, 80])
    assert (band["x"], band["y"]) == ([3, 9, 9, 3], [60, 90, 70, 50])
    _, line = charts.learning(lines, STYLES, "epoch").figure["data"]
    assert line["x"] == [1, 3]


def test_a_curve_ends_where_its_first_seed_ends():
    lines = curves([("a", s, e, e, 50.0 + s, 1, 0) for s, n in ((0, 2), (1, 3)) for e in range(n)])
    *_, line = charts.learning(lines, STYLES, "epoch").figure["data"]
    assert line["x"] == [0, 1]


def test_long_curves_are_thinned_but_keep_their_ends():
    lines = curves([("a", 0, epoch, epoch, 50.0, 1, 0) for epoch in range(1, 5001)])
    (line,) = charts.learning(lines, STYLES, "epoch").figure["data"]
    assert len(line["x"]) < 300
    assert (line["x"][0], line["x"][-1]) == (1, 5000)


def test_shares_are_drawn_where_they_are_unusual():
    lines = [(name, 0, e, e, 1.0, 1 - 0.1 * e * (name == "a"), 0) for name in "ab" for e in (1, 2)]
    (line,) = charts.shares(curves(lines), STYLES, "kept").figure["data"]
    assert (line["name"], line["y"]) == ("a", [90, 80])
    assert charts.shares(curves(lines), STYLES, "mixed") is None


def test_intervals_and_the_front_are_drawn():
    board = boards.board()
    styles = canvas.styles(board.table["strategy"], "baseline", set(boards.CONTROLS))
    drawn = charts.trade_off(board.table, styles, "baseline", 0.5).figure
    front = drawn["data"][0]
    on = board.table[board.table["pareto"]].sort_values("speedup")
    assert front["x"] == canvas.numbers(on["speedup"])
    row = board.table.set_index("strategy").loc["amp"]
    point = next(trace for trace in drawn["data"] if trace.get("name") == "amp")
    assert point["y"] == [pytest.approx(row["accuracy"], abs=1e-3)]
    low = row["difference"] - row["difference_low"]
    assert point["error_y"]["arrayminus"] == [pytest.approx(low, abs=1e-3)]
    high = row["speedup_high"] - row["speedup"]
    assert point["error_x"]["array"] == [pytest.approx(high, abs=1e-3)]
    floor = board.table["accuracy"][0] - 0.5
    assert any(shape.get("y0") == pytest.approx(floor) for shape in drawn["layout"]["shapes"])


def test_wide_intervals_do_not_squash_the_points():
    table = boards.board(seeds=2).table
    table.loc[1, ["difference_low", "difference_high"]] = -400, 400
    drawn = charts.trade_off(table, STYLES, "baseline", 0.5).figure
    low, high = drawn["layout"]["yaxis"]["range"]
    assert high - low < 4 * np.ptp(table["accuracy"])
    assert low < table["accuracy"].min() < table["accuracy"].max() < high


def test_phases_are_means_over_finished_cells_and_sum_to_the_clock():
    runs = boards.board().runs
    runs.loc[len(runs)] = runs.iloc[0].to_dict() | {
        "status": "failed",
        "forward_phase_seconds": 9e9,
    }
    means = phase_means(runs, ["amp", "baseline", "gone"])
    assert list(means.index) == ["amp", "baseline"]
    mine = runs[(runs["strategy"] == "baseline") & (runs["status"] == "finished")]
    clock = (mine["prepare_seconds"] + mine["train_seconds"]).mean()
    assert means.loc["baseline"].sum() == pytest.approx(clock)
    drawn = bars.phases(means).figure["data"]
    assert sum(bar["x"][1] for bar in drawn) == pytest.approx(clock, abs=0.01)
    assert [bar["name"] for bar in drawn][:2] == ["prepare", "plan"]


def test_compositions_show_expected_measured_and_what_is_open():
    part = boards.board().compositions
    expected, measured = bars.composed(part, "speedup").figure["data"]
    assert (expected["x"], measured["x"]) == ([1.41], [1.38])
    assert measured["error_x"]["arrayminus"] == [pytest.approx(1.38 - 1.41 * 0.95, abs=1e-3)]
    expected, measured = bars.composed(part, "accuracy").figure["data"]
    assert measured["error_x"]["array"] == [pytest.approx(0.2 - 0.1 + 0.1, abs=1e-3)]


def test_a_chart_without_figure_is_no_chart():
    board = boards.without_runs(boards.board(), *boards.METHODS)
    assert section.gallery(board, ("digits", "99372ed4"), board.table, {}) == []
