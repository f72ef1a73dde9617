"""The charts of the page: what they draw."""

import dataclasses
import itertools
import re
import xml.etree.ElementTree as ElementTree

import boards
import numpy as np
import pandas as pd
import pytest

from dataeff.report.placing import Box
from dataeff.report.series import phase_means
from dataeff.report.styles import styles, styles_of
from dataeff.report.trade import trade_of
from dataeff.report.web import bars, growth, svg, tradeoff
from dataeff.report.web.shown import Shown

KEY = ("digits", "99372ed4")
SIZES = ("wide", "narrow")


def shown(board):
    return Shown(board, KEY, 0, styles_of(board.suite, board.table))


def with_curves(lines):
    columns = ["strategy", "seed", "epoch", "seconds", "test_top1", "kept", "mixed"]
    made = pd.DataFrame(lines, columns=columns).assign(task=KEY[0], conditions=KEY[1])
    return shown(dataclasses.replace(boards.board(), curves=made))


def drawings(text):
    """Return the drawings of a chart by size, as trees."""
    found = re.findall(r'<svg class="chart (\w+)".*?</svg>(?=<svg class="chart|$)', text, re.S)
    parts = re.split(r'(?=<svg class="chart )', text)[1:]
    return dict(zip(found, map(ElementTree.fromstring, parts), strict=True))


def of_class(tree, name):
    return [part for part in tree.iter() if name in (part.get("class") or "").split()]


def places(path):
    """Return the points that a path goes through."""
    numbers = [float(text) for text in re.findall(r"-?\d+(?:\.\d+)?", path.get("d"))]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


# Lines -------------------------------------------------------------------------------------------


def test_a_curve_is_the_mean_over_seeds_and_its_band_the_extremes():
    there = with_curves(
        [
            ("amp", 0, 1, 2.0, 50.0, 1, 0),
            ("amp", 1, 1, 4.0, 60.0, 1, 0),
            ("amp", 0, 2, 4.0, np.nan, 1, 0),
            ("amp", 1, 2, 8.0, np.nan, 1, 0),
            ("amp", 0, 3, 6.0, 70.0, 1, 0),
            ("amp", 1, 3, 12.0, 90.0, 1, 0),
        ]
    )
    chart = growth.learning(there, ["amp"], "seconds")
    assert "amp: 80.00% after 9 seconds" in chart.drawn
    for tree in drawings(chart.drawn).values():
        (line,), (band,) = of_class(tree, "line"), of_class(tree, "band")
        (x0, y0), (x1, y1) = places(line)
        assert x0 < x1
        assert y1 < y0
        there, back = places(band)[:2], places(band)[2:]
        assert [x for x, _ in there] == [x0, x1] == [x for x, _ in back[::-1]]
        # The middle of the extremes is the mean of two.
        assert (there[0][1] + back[1][1]) / 2 == pytest.approx(y0, abs=0.2)
    assert (
        "amp: 80.00% after 3 epochs"
        in growth.learning(
            with_curves([("amp", s, 3, 6.0, 80.0, 1, 0) for s in (0, 1)]), ["amp"], "epoch"
        ).drawn
    )


def test_long_curves_are_thinned_but_keep_their_ends():
    there = with_curves([("amp", 0, e, e, 50.0 + e / 100, 1, 0) for e in range(1, 5001)])
    tree = drawings(growth.learning(there, ["amp"], "epoch").drawn)["wide"]
    (line,) = of_class(tree, "line")
    assert len(places(line)) < 300
    assert places(line)[0][0] == pytest.approx(40, abs=0.1)
    assert places(line)[-1][0] == pytest.approx(440, abs=0.1)


def test_names_stand_apart_at_the_ends_of_their_lines():
    board = boards.board()
    names = list(board.table["strategy"])
    tree = drawings(growth.learning(shown(board), names, "epoch").drawn)["wide"]
    labels = [(float(one.get("y")), one.text) for one in of_class(tree, "end")]
    assert len(labels) == len(names)
    heights = sorted(y for y, _ in labels)
    assert min(np.diff(heights)) > svg.SMALL
    assert all(svg.width_of(text, svg.SMALL) <= 120 for _, text in labels)


def test_shares_are_drawn_where_they_are_unusual():
    lines = [
        (name, 0, e, e, 1.0, 1 - 0.1 * e * (name == "amp"), 0)
        for name in ("amp", "infobatch")
        for e in (1, 2)
    ]
    chart = growth.shares(with_curves(lines), ["amp", "infobatch"], "kept")
    assert "amp: 85%" in chart.drawn
    assert "infobatch" not in chart.drawn
    assert growth.shares(with_curves(lines), ["amp"], "mixed") is None


# The one chart -----------------------------------------------------------------------------------


def drawn(board):
    one = shown(board)
    trade = trade_of(one.part, board.suite, board.margin)
    return trade, drawings(tradeoff.trade_off(one, trade))


def boxes(tree):
    """Return the boxes of the labels that are shown, by their texts."""
    found = {}
    for text in tree.iter("text"):
        kind = (text.get("class") or "").split()
        if "hidden" in kind:
            continue
        bold = "best" in kind
        size = svg.SMALL if {"axis", "region-name", "less-name"} & set(kind) else svg.NORMAL
        width = svg.width_of(text.text, size, bold)
        x, y = float(text.get("x")), float(text.get("y"))
        anchor = text.get("text-anchor") or ("end" if "region-name" in kind else "start")
        left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
        found[f"{text.text} {x} {y}"] = Box(left, y - 0.8 * size, left + width, y + 0.2 * size)
    return found


def many(count, seed=0):
    draw = np.random.default_rng(seed)
    methods = {"baseline": (1.0, 0.0)}
    speeds, gaps = np.exp(draw.normal(0.2, 0.3, count)), draw.normal(-1.0, 1.5, count)
    pairs = zip(speeds, gaps, strict=True)
    methods |= {f"method_number_{i}[keep=0.{i}]": pair for i, pair in enumerate(pairs)}
    return boards.board(methods, controls=tuple(list(methods)[-4:]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [0, 8, 30, 100])
def test_no_label_of_the_one_chart_covers_another(count, size):
    _, trees = drawn(many(count) if count else boards.board())
    found = boxes(trees[size])
    assert len(found) > 8
    for (name, one), (other, two) in itertools.combinations(found.items(), 2):
        assert not one.meets(two), (name, other)


def test_what_is_off_the_chart_is_an_arrow_at_its_edge_with_its_number():
    methods = boards.METHODS | {"bad": (1.4, -60.0), "slow": (0.2, -0.1)}
    trade, trees = drawn(boards.board(methods))
    assert trade.up.low > -60
    assert trade.across.low > -300
    for tree in trees.values():
        texts = [text.text for text in tree.iter("text")]
        assert any(re.fullmatch(r"bad -6\d", text) for text in texts)
        assert any(re.fullmatch(r"slow -\d+%", text) for text in texts)
        assert len(of_class(tree, "away")) == 2


def test_intervals_are_crosses_up_to_eight_methods_and_shown_on_a_look_beyond():
    _, few = drawn(boards.board())
    assert of_class(few["wide"], "reach")
    assert not [one for one in of_class(few["wide"], "reach") if "hidden" in one.get("class")]
    _, more = drawn(many(30))
    assert all("hidden" in one.get("class") for one in of_class(more["wide"], "reach"))


def test_the_region_is_where_time_is_saved_and_no_more_is_lost_than_may_be():
    trade, trees = drawn(boards.board())
    tree = trees["wide"]
    (region,), (base,) = of_class(tree, "region"), of_class(tree, "reference")
    left, top = float(region.get("x")), float(region.get("y"))
    floor = top + float(region.get("height"))
    assert left == pytest.approx(float(base.get("cx")), abs=0.1)
    # The margin lies below the reference.
    assert floor > float(base.get("cy"))
    step = (floor - float(base.get("cy"))) / trade.margin
    for point in trade.points:
        link = next(
            a for a in tree.iter("a") if a.find("title").text.startswith(f"{point.strategy}:")
        )
        (mark,) = of_class(link, "mark")
        _, y = map(float, re.findall(r"translate\((\S+) (\S+)\)", mark.get("transform"))[0])
        if trade.up.low < point.points.mean < trade.up.high:
            assert y == pytest.approx(float(base.get("cy")) - step * point.points.mean, abs=0.2)


def test_every_method_leads_to_what_is_said_of_it():
    board = boards.board()
    one = shown(board)
    _, trees = drawn(board)
    targets = {a.get("href") for a in trees["wide"].iter("a")}
    assert targets == {f"#{one.anchors[line['strategy']]}" for line in one.methods}


# Bars --------------------------------------------------------------------------------------------


def test_phases_are_means_over_finished_cells_and_sum_to_the_clock():
    board = boards.board()
    runs = board.runs
    runs.loc[len(runs)] = runs.iloc[0].to_dict() | {
        "status": "failed",
        "forward_phase_seconds": 9e9,
    }
    means = phase_means(runs, ["amp", "baseline", "gone"])
    assert list(means.index) == ["amp", "baseline"]
    mine = runs[(runs["strategy"] == "baseline") & (runs["status"] == "finished")]
    clock = (mine["prepare_seconds"] + mine["train_seconds"]).mean()
    assert means.loc["baseline"].sum() == pytest.approx(clock)
    chart = bars.phases(shown(board), ["amp", "baseline"])
    tree = drawings(chart.drawn.partition("</p>")[2])["wide"]
    widths = [float(part.get("width")) for part in of_class(tree, "fill")]
    used = len(means.columns)
    whole = means.sum(axis=1)
    assert sum(widths[:used]) / sum(widths[used:]) == pytest.approx(
        whole.iloc[0] / whole.iloc[1], 0.02
    )
    assert f"{clock:.3g} s" in chart.drawn
    assert list(chart.table.columns)[1:3] == ["prepare", "plan"]


def test_compositions_show_expected_measured_and_what_is_open():
    one = shown(boards.board())
    chart = bars.composed(one, "speedup")
    tree = drawings(chart.drawn)["wide"]
    expected, measured = (
        float(re.search(r"translate\((\S+) ", part.get("transform"))[1])
        for part in of_class(tree, "mark")
    )
    (reach,) = of_class(tree, "reach")
    # 1.41 expected, 1.38 measured, and the interval is of what is left: 0.95 to 1.01 of 1.41.
    assert float(reach.get("x1")) < measured < expected < float(reach.get("x2"))
    assert chart.table["measured"].tolist() == ["1.38×"]
    assert bars.composed(one, "accuracy").table["says"].tolist() == ["less than the sum"]


def test_a_chart_of_nothing_is_no_chart():
    one = shown(boards.without_runs(boards.board(), *boards.METHODS))
    assert bars.phases(one, ["amp"]) is None
    assert growth.learning(one, ["amp"], "epoch") is None
    assert bars.per_class(one, ["amp"]) is None


# What they share ---------------------------------------------------------------------------------


def test_controls_look_open_and_dotted():
    given = styles(["base", "a", "b"], "base", {"b"})
    assert given["b"].is_open
    assert (given["b"].dash, given["a"].dash) == ("dot", "solid")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 10, [0, 5, 10]), (-1, 1, [-1, 0, 1]), (0.2, 0.4, [0.2, 0.3, 0.4]), (3, 3, [3])],
)
def test_ticks_are_round(low, high, ticks):
    assert svg.Scale(low, high, 0, 100).ticks(45) == ticks


def test_texts_that_are_too_long_lose_their_middle():
    long = "el2n[keep=0.75,models=3,epochs=3,reuse=true]"
    cut = svg.shortened(long, 120)
    assert svg.width_of(cut) <= 120
    assert cut.startswith("el2n")
    assert cut.endswith("]")
    assert svg.shortened("amp", 120) == "amp"
