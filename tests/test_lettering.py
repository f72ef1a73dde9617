"""Where marks and texts of a figure stand, in points: sizes, folding, places, edges."""

from itertools import pairwise

import pytest
from matplotlib.figure import Figure

from dataeff.report.placing import Box, Label, cheapest, ways
from dataeff.report.plots.edges import depths_of, outliers, stacked, stretched
from dataeff.report.plots.layout import columns_of
from dataeff.report.plots.lettering import Lettering, Wish, along, fitted, folded, width_of
from dataeff.report.stats import Interval
from dataeff.report.trade import Point, Range, Trade

LONG = "el2n[keep=0.75]+selective_backprop_batch[start=0]"


# Texts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["baseline", "_a$b$", LONG, "two\nlines"])
def test_a_text_is_as_wide_as_it_is_drawn(text):
    figure = Figure(dpi=600)
    drawn = figure.text(0.5, 0.5, text, fontsize=7, parse_math=False)
    assert width_of(text, 7) == pytest.approx(drawn.get_window_extent().width * 72 / 600, rel=0.02)


def test_a_long_text_keeps_both_ends():
    cut = fitted(LONG, 7, 60)
    assert width_of(cut, 7) <= 60
    head, tail = cut.split("…")
    assert LONG.startswith(head)
    assert LONG.endswith(tail)
    assert abs(len(head) - len(tail)) <= 1
    assert fitted("short", 7, 60) == "short"


def test_a_name_is_folded_between_its_parts():
    assert folded(LONG, 7, 130) == "el2n[keep=0.75]+selective_\nbackprop_batch[start=0]"
    assert folded("random_backprop[keep=0.5]", 7, 80) == "random_backprop\n[keep=0.5]"
    assert folded("short", 7, 80) == "short"
    narrow = folded(LONG, 7, 60).split("\n")
    assert len(narrow) == 2
    assert max(width_of(line, 7) for line in narrow) <= 60


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (2, 2), (9, 4)])
def test_short_names_stand_side_by_side(count, columns):
    assert columns_of(["name"] * count, 7, 238) == columns


def test_long_names_stand_below_one_another():
    assert columns_of([LONG] * 3, 7, 238) == 1


# Places -------------------------------------------------------------------------------------------


def test_a_label_goes_where_it_covers_fewest_lines():
    label = Label(50, 50, 20, 8, 3)
    right, left = Box.around(63, 50, 20, 8), Box.around(37, 50, 20, 8)
    assert cheapest(ways(label), []) == right
    assert cheapest(ways(label), list(along([(60, 40), (60, 60)], 1))).right < 60
    assert cheapest([(right, 0), (left, 0)], [right, left, left]) == right
    assert cheapest([], []) is None


def test_a_far_place_is_taken_where_near_ones_cost_more():
    label, far = Label(50, 50, 20, 8, 3), (6.0,)
    near = [box for box, cost in ways(label, far) if not cost]
    assert cheapest(ways(label, far), [Box(20, 20, 80, 80)] * 9).high < 20
    assert cheapest(ways(label, far), [Box(20, 20, 80, 80)]) == near[0]


def test_along_covers_a_line_without_a_gap():
    boxes = list(along([(0, 0), (30, 0), (30, 12)], 1))
    assert (boxes[0].left, boxes[-1].high) == (-0.5, 12.5)
    middles = [((box.left + box.right) / 2, (box.low + box.high) / 2) for box in boxes]
    steps = [abs(x - u) + abs(y - v) for (x, y), (u, v) in pairwise(middles)]
    assert max(steps) <= 3


@pytest.fixture
def letters():
    figure = Figure(figsize=(3, 2), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 216), ylim=(0, 144))
    return Lettering(axes, 7)


def test_points_are_measured_from_the_corner_of_the_axes(letters):
    assert letters.frame == pytest.approx(Box(0, 0, 216, 144))
    assert letters.at(100, 50) == pytest.approx((100, 50))


def test_names_cover_neither_marks_nor_one_another(letters):
    places = [(100, 70), (104, 72), (108, 70), (60, 70)]
    for x, y in places:
        letters.add_mark(x, y, 4)
    found = [letters.find(Wish("a name", x, y, 2)) for x, y in places]
    assert all(found)
    boxes = [*found, *(Box.around(x, y, 4, 4) for x, y in places)]
    assert not any(a.meets(b) for i, a in enumerate(found) for b in boxes[i + 1 :])


def test_a_name_that_is_not_the_nearest_is_led_to_its_mark(letters):
    for x, y in ((100, 70), (104, 72), (96, 72), (100, 78), (100, 62)):
        letters.add_mark(x, y, 4)
    before = len(letters.axes.lines)
    letters.name("far", Box.around(100, 100, 20, 8), 100, 70)
    assert len(letters.axes.lines) == before + 1
    letters.name("near", Box.around(117, 72, 20, 8), 104, 72)
    assert len(letters.axes.lines) == before + 1


def test_a_line_is_named_beside_it_and_an_area_in_an_empty_corner(letters):
    line = [(10.0, 10.0), (100.0, 60.0), (200.0, 70.0)]
    letters.add_line(line, 1)
    box = letters.find_along("a line", line)
    assert not any(box.meets(part) for part in along(line, 1))
    letters.add_mark(206, 136, 12)
    assert letters.find_inside("an area", Box(20, 80, 216, 144)).left < 30
    assert letters.find_inside("too large for it", Box(0, 0, 20, 20)) is None


def test_nothing_that_is_drawn_moves_the_axes(letters):
    letters.draw([-50], [500], marker="o")
    letters.write("far outside", Box.around(400, 300, 40, 8))
    assert not letters.axes.lines[-1].get_in_layout()
    assert not letters.axes.texts[-1].get_in_layout()


# Edges --------------------------------------------------------------------------------------------


def test_marks_at_an_edge_are_stacked_where_they_would_touch():
    assert stacked([0, 20, 5, 24, 2], 10, 9) == [0, 0, 1, 1, 2]
    assert stacked([0, 20, 5, 24, 2], 10, 2) == [0, 0, 1, 1, 1]
    assert stacked([], 10, 9) == []


def test_an_axis_with_room_at_its_ends_shows_the_rest_between():
    low, high = stretched(Range(0, 80), 100, 10, 10)
    assert (low, high) == (-10, 90)


def test_who_is_off_the_axes_stands_at_the_edge_that_is_nearest():
    def point(name, saved, points):
        return Point(name, Interval(saved, saved, saved), Interval(points, points, points), 0.0)

    told = {"on": (9.0, 0.0), "slow": (-60.0, 0.0), "low": (9.0, -9.0)}
    told |= {"both": (-60.0, -9.0), "high": (0.0, 9.0)}
    points = [point(name, *place) for name, place in told.items()]
    trade = Trade(points, [], {}, 0.5, Range(-25, 50), Range(-2, 2))
    found = outliers(trade, (200, 150), 10)
    assert {one.point.strategy: one.side for one in found} == {
        "slow": "left",
        "low": "low",
        "both": "low",
        "high": "high",
    }
    assert depths_of(found, 10) == {"left": 10, "right": 0, "low": 10, "high": 10}
