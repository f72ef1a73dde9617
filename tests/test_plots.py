"""Figures for papers: nothing collides, nothing is cut, and everything can be read in print."""

import itertools
import shutil
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from boards import METHODS, board, changed
from matplotlib.colors import to_hex
from PIL import Image
from shell import mistake, ok

from dataeff.report.board import read_board
from dataeff.report.frames import tables
from dataeff.report.plots.draw import FIGURES, draw, figure_of
from dataeff.report.styles import labels_of, styles_of
from dataeff.sheet import SHEETS, style_of

PUBLISHED = Path(__file__).parent.parent / "results" / "published"
SUITES = (
    *("selection-zoo-mini", "diet-sb-mini", "quickstart"),
    *("review-mini", "mixtrain-mini", "comparison-mini"),
)
LONG = "a_rather_long_name_of_a_strategy[with=many,parameters=0.125,that=differ]"
HOSTILE = {
    "baseline": (1.0, 0.0),
    "_a$b$": (1.5, 0.1),
    "$\\frac{1": (1.51, 0.12),
    LONG: (1.3, -0.1),
    LONG.replace("0.125", "0.25"): (1.3, -0.1),
    "W" * 70: (1.1, -30.0),
    "slow": (0.1, -0.1),
}
MANY = {f"method_{n}[keep=0.{n}]": (1 + n / 100, -(n % 7) / 3) for n in range(60)}
OFF = {f"off_{n}": ((0.3, 1.3)[n % 2], -90 - n / 99) for n in range(60)}
MADE = {
    "ten": board(),
    "hostile": board(HOSTILE, ()),
    "many": board({"baseline": (1.0, 0.0)} | MANY, ()),
    "alike": board({"baseline": (1.0, 0.0)} | {f"same_{n}": (1.4, -0.2) for n in range(9)}, ()),
    "off": board({"baseline": (1.0, 0.0), "on": (1.2, 0.0)} | OFF, ()),
    "one seed": board(seeds=1),
}


def made_of(board, name, sheet):
    """Yield the figures of this name, one per table, as they are before they become files."""
    for key, _ in tables(board.table):
        with matplotlib.rc_context(style_of(SHEETS[sheet])):
            made = figure_of(board, key, name, sheet)
            if made:
                # Numbers at the axes are only made when they are drawn.
                made.figure.draw_without_rendering()
                yield made


def texts_of(figure):
    """Return all texts that are seen."""
    (axes,) = figure.axes
    keys = [text for key in figure.legends for text in key.get_texts()]
    labels = [axes.xaxis.label, axes.yaxis.label, axes._left_title]
    title = [figure._suptitle] if figure._suptitle else []
    found = [*axes.texts, *numbers_of(axes), *keys, *labels, *title]
    return [text for text in found if text.get_text()]


def numbers_of(axes):
    """Yield what stands at the axes: matplotlib keeps texts for places beyond their ends, too."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        yield from (one.label1 for one in axis.get_major_ticks() if low <= one.get_loc() <= high)


def box_of(text):
    box, figure = text.get_window_extent(), text.get_figure(root=True)
    # Half a point: what is rounded to whole dots.
    return box.padded(-0.5 * figure.dpi / 72)


def marks_of(figure):
    """Return where the middles of marks are."""
    lines = named(figure).items()
    return {name: line.get_transform().transform(line.get_xydata())[0] for name, line in lines}


def named(figure):
    """Return the marks that stand for somebody."""
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    # What matplotlib calls those without a name.
    return {name: line for name, line in lines.items() if not name.startswith("_child")}


def check(figure):
    boxes = [(text.get_text(), box_of(text)) for text in texts_of(figure)]
    for (one, box), (other, second) in itertools.combinations(boxes, 2):
        assert not box.overlaps(second), f"{one!r} and {other!r}"
    for name, place in marks_of(figure).items():
        on = [text for text, box in boxes if box.contains(*place)]
        assert not on, f"{on} on the mark of {name}"
    width, height = figure.get_size_inches() * figure.dpi
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text


# Nothing collides ---------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("sheet", SHEETS)
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("suite", SUITES)
def test_nothing_collides_in_what_was_published(suite, name, sheet):
    for made in made_of(read_board(PUBLISHED / suite), name, sheet):
        check(made.figure)


@pytest.mark.parametrize("sheet", SHEETS)
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("which", MADE)
def test_nothing_collides_whatever_there_is(which, name, sheet):
    (made,) = made_of(MADE[which], name, sheet)
    check(made.figure)


@pytest.mark.parametrize("name", FIGURES)
def test_letters_of_a_column_are_seven_points_at_least(name):
    (made,) = made_of(MADE["ten"], name, "column")
    assert min(text.get_fontsize() for text in texts_of(made.figure)) >= 7
    assert made.figure.get_figwidth() == 3.3


@pytest.mark.parametrize("which", ["ten", "many"])
@pytest.mark.parametrize("name", FIGURES)
def test_a_slide_stays_a_slide(name, which):
    (made,) = made_of(MADE[which], name, "slide")
    width, height = made.figure.get_size_inches()
    assert width / height == pytest.approx(16 / 9)
    assert min(text.get_fontsize() for text in texts_of(made.figure)) >= 16
    assert made.figure._suptitle.get_text() == FIGURES[name][0]


# Who is who ---------------------------------------------------------------------------------------


def told(figure):
    """Return all that is written, each name on one line."""
    return [text.get_text().replace("\n", "") for text in texts_of(figure)]


@pytest.mark.parametrize("sheet", ["column", "page"])
def test_every_method_has_its_name_and_its_style(sheet):
    made_board = read_board(PUBLISHED / "selection-zoo-mini")
    (made,) = made_of(made_board, "tradeoff", sheet)
    is_method = ~made_board.table["control"].astype(bool)
    methods = made_board.table.loc[is_method, "strategy"]
    styles = styles_of(made_board.suite, made_board.table)
    labels = labels_of(made_board.suite, made_board.table["strategy"])
    lines = named(made.figure)
    written = told(made.figure)
    for method in methods:
        assert lines[method].get_markerfacecolor() == styles[method].hex
        # Its middle may have given way.
        assert any(text.startswith(labels[method][:12]) for text in written), method


def test_a_curve_has_the_colour_of_its_method():
    made_board = MADE["ten"]
    (made,) = made_of(made_board, "epochs", "page")
    styles = styles_of(made_board.suite, made_board.table)
    drawn = {
        to_hex(line.get_color()) for line in made.figure.axes[0].lines if len(line.get_xdata()) > 2
    }
    assert {styles[name].hex for name in METHODS} <= drawn


def test_short_names_are_used():
    made_board = board(names={"mixtrain_cutmix+amp": "Mixed and fast"})
    for name in ("tradeoff", "time", "epochs", "phases"):
        (made,) = made_of(made_board, name, "column")
        assert "Mixed and fast" in told(made.figure), name


def test_who_is_off_the_axes_stands_at_their_edge_with_its_number():
    made_board = changed(
        board(),
        difference={"el2n[keep=0.75]": -80.0},
        speedup={"amp": 0.25},
    )
    (made,) = made_of(made_board, "tradeoff", "page")
    written = told(made.figure)
    assert "el2n \N{MINUS SIGN}80.0" in written
    assert "amp \N{MINUS SIGN}300%" in written
    frame, marks = made.figure.axes[0].get_window_extent(), marks_of(made.figure)
    size = SHEETS["page"].mark * made.figure.dpi / 72
    assert frame.y0 < marks["el2n[keep=0.75]"][1] < frame.y0 + 3 * size
    assert frame.x0 < marks["amp"][0] < frame.x0 + 3 * size
    assert "Arrows: beyond the axes." in made.caption


def test_numbers_of_the_axes_hold_where_marks_stand():
    made_board = changed(board(), difference={"el2n[keep=0.75]": -80.0})
    (made,) = made_of(made_board, "tradeoff", "page")
    axes, marks = made.figure.axes[0], marks_of(made.figure)
    line = made_board.table.set_index("strategy").loc["infobatch"]
    x, y = axes.transData.inverted().transform(marks["infobatch"])
    assert x == pytest.approx(100 - 100 / line["speedup"], abs=0.1)
    assert y == pytest.approx(line["difference"], abs=0.01)
    assert min(axes.get_yticks()) > -10, "there is no number where none holds"


def test_intervals_are_drawn_up_to_eight_methods():
    few = {name: METHODS[name] for name in list(METHODS)[:5]}
    for methods, crosses in ((few, 8), (MANY, 0)):
        made_board = board({"baseline": (1.0, 0.0)} | methods, ())
        (made,) = made_of(made_board, "tradeoff", "page")
        arms = [line for line in made.figure.axes[0].lines if line.get_alpha() == 0.5]
        assert len(arms) == crosses
        assert ("Crosses: " in made.caption) is bool(crosses)


def test_who_has_no_name_is_counted():
    (made,) = made_of(MADE["many"], "tradeoff", "slide")
    pale = [line for line in made.figure.axes[0].lines if line.get_alpha() == 0.3]
    assert len(pale) > 10
    assert f"Without a name: {len(pale)} methods." in made.caption


def test_what_has_nothing_to_show_is_no_figure():
    alone = board({"baseline": (1.0, 0.0)}, ())
    assert not list(made_of(alone, "tradeoff", "page"))
    unseen = board()
    unseen.curves["test_top1"] = np.nan
    assert not list(made_of(unseen, "time", "page"))
    unseen.curves[["kept", "mixed"]] = (1.0, 0.0)
    assert not list(made_of(unseen, "shares", "page"))
    unseen.runs["contended"] = "others were busy"
    assert not list(made_of(unseen, "phases", "page"))


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sheet", ["column", "page", "slide"])
def test_files_have_the_size_of_their_place(tmp_path, sheet):
    ((paths, caption),) = draw(MADE["ten"], tmp_path, ["phases"], ["png", "pdf", "svg"], sheet)
    png, pdf, svg = paths
    assert png.name == ("phases.png" if sheet == "page" else f"phases-{sheet}.png")
    with Image.open(png) as image:
        inches = image.size[0] / SHEETS[sheet].dpi
        assert image.info["Description"] == caption
    assert inches == pytest.approx(SHEETS[sheet].width, abs=0.01)
    assert b"/Type3" not in pdf.read_bytes(), "publishers refuse it"
    assert b"CreationDate" not in pdf.read_bytes()
    text = svg.read_text()
    assert ">baseline<" in text, "letters stay letters"
    assert f"<dc:description>{caption}</dc:description>" in text


@pytest.mark.parametrize("form", ["png", "pdf", "svg"])
def test_the_same_numbers_give_the_same_file(tmp_path, form):
    for where in ("first", "second"):
        list(draw(MADE["ten"], tmp_path / where, ["tradeoff"], [form]))
    first, second = (tmp_path / where / f"tradeoff.{form}" for where in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_several_tables_have_files_of_their_own(tmp_path):
    several = board(tasks=("digits", "letters"))
    names = [paths[0].name for paths, _ in draw(several, tmp_path, ["phases"], sheet="column")]
    assert names == [f"phases-{task}-99372ed4-column.png" for task in ("digits", "letters")]


def test_the_command_draws_for_a_place_and_says_what_the_caption_may(tmp_path):
    folder = shutil.copytree(PUBLISHED / "quickstart", tmp_path / "quickstart")
    out = tmp_path / "out"
    said = ok(
        "plot", folder, "--for", "column", "--format", "pdf", "--figure", "time", "--out", out
    )
    assert f"Written: {out / 'time-column.pdf'}" in said
    assert "  Accuracy against time, digits, 5 seeds. Mean and range of seeds" in said
    assert "column" in mistake("plot", folder, "--for", "colum")
