"""The page: what it holds, and that it fetches nothing and runs nothing."""

import dataclasses
import json
import re
from pathlib import Path

import boards
import numpy as np
import pytest
from pages import HOSTILE, charts, data, hostile, read

from dataeff.report.answer import Answer
from dataeff.report.board import read_board
from dataeff.report.columns import NAMES, PAGE
from dataeff.report.missing import Missing
from dataeff.report.styles import styles_of
from dataeff.report.web import bars
from dataeff.report.web.first import MOST_LINES
from dataeff.report.web.page import page_text, write_report
from dataeff.report.web.section import MOST_CHARTED
from dataeff.report.worth import BEATS, KEEPS, SAVES

PUBLISHED = Path(__file__).parent.parent / "results" / "published"


def plain(text):
    return re.sub("<.*?>", "", text)


def words(page):
    """Return the words, numbers left out, that a reader meets before the first click."""
    return [word for word in page.seen if re.search("[A-Za-z]", word)]


def first_screen(text):
    """Return what stands before anything that is folded away."""
    return text.partition("<main")[2].partition("<details")[0]


# What it holds ---------------------------------------------------------------------------------


def test_the_page_is_written_whole(tmp_path):
    path = write_report(tmp_path, boards.board())
    assert path == tmp_path / "report.html"
    assert path.read_text(encoding="utf-8") == page_text(boards.board())
    assert sorted(tmp_path.iterdir()) == [tmp_path / "checksums.json", path]


def test_the_answer_comes_first():
    board = boards.board(title="By hand", notes=["2 runs were left out."])
    text, page = read(board)
    (answer,) = board.answers
    assert page.text("title") == "dataeff: By hand"
    assert page.text("h1") == answer.headline
    first = plain(first_screen(text))
    assert answer.detail in first
    assert answer.counts in first
    assert first.index(answer.headline) < first.index(answer.detail) < first.index("time saved, %")
    assert "digits, resnet8, 20 epochs, 5 seeds · AMD EPYC 7B13, 2 threads" in first
    assert "2 runs were left out." in page.text("ul.notes")
    assert page.text("pre") == "dataeff run hand"
    assert "AMD EPYC 7B13" in page.text("dd")


def test_the_strategy_to_take_leads_to_what_is_said_of_it():
    text, page = read(boards.board())
    target = re.search(r'<h1><a href="#(.*?)">', text)[1]
    assert target in page.ids
    block = text.partition(f'id="{target}"')[2].partition("</article>")[0]
    assert "mixtrain_cutmix" in plain(block)


def test_a_suite_without_a_title_goes_by_its_name():
    assert "dataeff · hand" in read(boards.board(title=""))[1].text("p.kicker")


def test_methods_stand_in_five_columns_in_the_order_of_the_table():
    board = boards.board()
    text, _ = read(board)
    body = first_screen(text).partition("<tbody")[2]
    names = re.findall(r'<a href="#m0-.*?" title="(.*?)">', body)
    table = board.table[~board.table["control"].astype(bool)]
    assert names == list(table["strategy"][1:])
    assert len(re.findall("<th ", first_screen(text).partition("<thead")[2].split("</tr>")[0])) == 5
    row = board.table.set_index("strategy").loc["mixtrain_cutmix"]
    line = plain(body.partition('title="mixtrain_cutmix"')[2].partition("</tr>")[0])
    assert f"{100 * (1 - 1 / row['speedup']):.0f}" in line
    assert f"{row['difference']:+z.1f}".replace("-", "−") in line
    assert f"{row['gain']:+z.1f}".replace("-", "−") in line


def test_all_that_is_said_of_a_method_is_behind_a_link_to_keep():
    board = boards.board()
    text, _ = read(board)
    assert len(re.findall('<article class="method"', text)) == 7
    row = board.table.set_index("strategy").loc["mixtrain_cutmix"]
    block = text.partition('id="m0-mixtrain_cutmix"')[2].partition("</article>")[0]
    assert row["sentence"] in plain(block)
    assert f"{row['against_line'].capitalize()}." in plain(block)
    assert 'href="#m0-mixtrain_cutmix"' in block
    # Yardsticks are in the table of all columns alone.
    assert 'id="m0-short_schedule' not in text


@pytest.mark.parametrize(
    ("told", "dots"),
    [
        (
            ("proven", "likely", "open"),
            ["● proven: faster", "◐ likely: no worse", "○ open: vs less"],
        ),
        (
            ("proven not", "likely not", "proven not"),
            ["● proven: slower", "◐ likely: worse", "● proven: beaten"],
        ),
        (("open", "proven", ""), ["○ open: time", "● proven: no worse"]),
    ],
)
def test_evidence_is_said_in_dots_and_words(told, dots):
    columns = dict(zip((SAVES, KEEPS, BEATS), told, strict=True))
    board = boards.changed(boards.board(), **{key: {"amp": word} for key, word in columns.items()})
    text, _ = read(board)
    line = first_screen(text).partition('title="amp"')[2].partition("</tr>")[0]
    found = line.split('<span class="dot')[1:]
    assert [plain(dot.partition(">")[2].replace("</i>", " ")).strip() for dot in found] == dots


def test_more_methods_than_a_screen_holds_are_folded():
    methods = {f"m{number}": (1.0 + number / 100, 0.0) for number in range(MOST_LINES + 10)}
    text, page = read(boards.board(methods=methods, controls=()))
    assert "9 more methods" in page.text("summary")
    assert first_screen(text).count('<tr role="row" data-look') == MOST_LINES
    assert text.count('<tr role="row" data-look') == MOST_LINES + 9
    assert "more method" not in read(boards.board())[1].text("summary")


def test_what_holds_for_a_whole_table_stands_under_it():
    text, page = read(boards.board(tasks=("digits", "cifar")))
    assert page.text("p.soft").count(boards.FOOT) == 2
    ends = [found.end() for found in re.finditer('class="results".*?</table></div>', text, re.S)]
    feet = [found.start() for found in re.finditer(boards.FOOT, text)]
    assert feet[0] - ends[0] < 50


@pytest.mark.parametrize(
    ("verdict", "tone", "shape"),
    [
        ("faster and no worse", "good", "▲"),
        ("faster but less accurate", "trade", "◆"),
        ("slower and worse", "bad", "▼"),
        ("slower, accuracy open", "bad", "▼"),
        ("faster, accuracy open", "open", "●"),
        ("open", "open", "○"),
        ("no look yet", "open", "○"),
        ("something new", "open", "○"),
    ],
)
def test_a_verdict_has_a_shape_and_not_only_a_colour(verdict, tone, shape):
    text, _ = read(boards.changed(boards.board(), verdict={"amp": verdict}))
    assert (
        f'<span class="verdict {tone}"><i aria-hidden="true">{shape}</i> {verdict}</span>' in text
    )


def test_the_table_has_a_row_per_strategy_with_raw_numbers_to_sort_by():
    board = boards.changed(boards.board(), trouble={"amp": "2 failed"}, oracle={"amp": 1.5})
    text, _ = read(board)
    body = re.search(r'class="results">.*?<tbody>(.*?)</tbody>', text, re.S)[1]
    lines = dict(zip(board.table["strategy"], body.split("</tr>"), strict=False))
    row = board.table.set_index("strategy").loc["amp"]
    assert f'data-v="{row["speedup"]:.10g}">{row["speedup"]:.2f}×' in lines["amp"]
    assert "2 failed" in lines["amp"]
    assert '<span class="tag">part off the clock</span>' in lines["amp"]
    low, high = row["gain_low"], row["gain_high"]
    assert f"{row['gain']:+.2f} <small>{low:+.2f} to {high:+.2f}</small>" in lines["amp"]
    assert '<span class="tag">reference</span>' in lines["baseline"]
    assert lines["short_schedule[share=0.65]"].startswith('<tr class="control">')


@pytest.mark.parametrize(
    ("ends", "said", "small"),
    [
        ((-np.inf, 0.25), "at most +0.25", "at most +0.2"),
        ((-0.75, np.inf), "at least -0.75", "at least −0.8"),
        ((-0.75, 0.25), "-0.75 to +0.25", "−0.8..+0.2"),
        ((-np.inf, np.inf), "", ""),
    ],
)
def test_a_gain_beyond_an_end_of_the_line_is_known_on_one_side(ends, said, small):
    columns = zip(("gain", "gain_low", "gain_high"), (-0.4, *ends), strict=True)
    text, _ = read(boards.changed(boards.board(), **{key: {"amp": end} for key, end in columns}))
    beside = f" <small>{said}</small>" if said else ""
    assert f'data-v="-0.4">-0.40{beside}</td>' in text
    below = f"<small>{small}</small>" if small else ""
    assert f'<td role="cell">−0.4{below}</td>' in first_screen(text)


def test_columns_that_say_nothing_are_left_out():
    board = boards.board()
    assert 'data-name="energy_joules"' not in read(board)[0]
    assert 'data-name="trouble"' not in read(board)[0]
    text, page = read(boards.changed(board, energy_joules={"amp": 812.0}))
    assert 'data-name="energy_joules"' in text
    assert "Energy, where a meter exists." in page.text("dd")


def test_every_column_of_the_table_can_be_shown():
    board = boards.board()
    assert {column.name for column in PAGE} <= set(board.table.columns)


def test_the_charts_are_there_and_say_themselves_in_words():
    text, page = read(boards.board())
    assert charts(page) == {
        *("trade", "seconds", "epoch", "phases", "kept", "mixed"),
        *("composed-speedup", "composed-accuracy", "classes"),
    }
    # All but the classes, which are a table, for desktops and for phones.
    for size in ("wide", "narrow"):
        assert text.count(f'<svg class="chart {size}"') == len(charts(page)) - 1
    assert all(re.findall(r'<svg class="chart .*?aria-label="(.*?)"', text))
    assert any("7 methods save time" in label for label in page.labels)
    assert "bands reach from the lowest to the highest seed" in page.text("figcaption")
    assert "less than the sum" in page.text("td")


def test_charts_of_nothing_are_left_out():
    methods = {"baseline": (1.0, 0.0), "plain": (1.05, 0.0)}
    board = boards.board(methods, (), classes=0, compositions=False, published=False)
    _, page = read(board)
    assert charts(page) == {"trade", "seconds", "epoch", "phases"}
    assert "papers" not in page.text("summary")


def test_the_papers_stand_beside_us():
    _, page = read(boards.board())
    assert "The papers beside us" in page.text("summary")
    assert "94.20%" in page.text("td")
    assert "2.10×" in page.text("td")
    assert "Nobody 2024" in page.text("td")


def test_several_tables_begin_with_the_answer_of_each():
    board = boards.board(tasks=("digits", "cifar"), title="Two of them")
    text, page = read(board)
    assert page.text("h1") == "Two of them"
    assert page.text("h2") == "".join(one.headline for one in board.answers)
    for one in board.answers:
        assert f"{one.key[0]}: {one.headline}" in page.text("nav")
    assert '<a href="#s1">cifar</a>' in text


def test_conditions_are_never_mixed_and_what_differs_is_marked():
    text, page = read(boards.board(conditions=("c1", "c2")))
    assert text.count('<section id="s') == 2
    assert re.findall(r"digits (c\d):", page.text("nav")) == ["c1", "c2"]
    assert text.count('threads <span class="tag">differs</span>') == 2
    assert text.count('<span class="tag">differs</span>') == 2
    assert '"tag">differs' not in read(boards.board())[0]
    alone = read(boards.board(conditions=("c1",)))[0]
    drawn = re.findall(r'<figure class="trade".*?</figure>', text, re.S)
    assert drawn[0] == re.search(r'<figure class="trade".*?</figure>', alone, re.S)[0]
    assert drawn[0].replace("0-", "1-") != drawn[1]


def test_a_strategy_looks_the_same_everywhere_whatever_comes_of_it():
    board = boards.board()
    style = styles_of(board.suite, board.table)["amp"]
    text, _ = read(board)
    icons = re.findall(r'class="mark (c\d)" d="([^"]*)"[^>]*></svg> (?:<a [^>]*>)?amp\b', text)
    assert len(icons) >= 2
    assert {colour for colour, _ in icons} == {style.colour}
    assert len({shape for _, shape in icons}) == 1
    turned = board.table.iloc[::-1].reset_index(drop=True)
    assert styles_of(board.suite, turned) == styles_of(board.suite, board.table)


def test_the_same_board_gives_the_same_page():
    assert page_text(boards.board()) == page_text(boards.board())


def test_what_can_be_downloaded_is_the_table():
    board = boards.board()
    told = data(read(board)[0])
    assert told["columns"] == NAMES
    strategies = [line[told["columns"].index("strategy")] for line in told["lines"]]
    assert strategies == list(board.table["strategy"])
    assert told["answers"][0]["headline"] == board.answers[0].headline


# Of what was published ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quickstart", "selection-zoo-mini", "comparison-mini"])
def test_the_first_screen_is_read_in_a_minute(name):
    text, page = read(read_board(PUBLISHED / name))
    assert len(words(page)) <= 300
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    if name == "quickstart":
        assert len(text.encode()) <= 400_000


# While a suite is running -----------------------------------------------------------------------


def test_what_went_wrong_stands_below_the_first_screen_with_what_to_type():
    board = boards.board()
    board.runs.loc[0:1, ["status", "error"]] = "failed", "RuntimeError: out of luck\nmore"
    board.runs.loc[7, "contended"] = "busy"
    text, page = read(board)
    told = page.text("aside")
    assert "baseline failed in 2 seeds: RuntimeError: out of luck" in told
    assert "dataeff run hand --rerun-flagged" in told
    assert text.index('<aside class="trouble"') < text.index('<details id="s0-each"')
    assert "<aside" not in read(boards.board())[0]


def test_who_has_failed_says_so_in_the_place_of_a_verdict():
    board = boards.without_runs(boards.board(), "amp")
    columns = {SAVES: "", KEEPS: "", BEATS: "", "verdict": "no verdict", "trouble": "5 failed"}
    board = boards.changed(board, **{name: {"amp": word} for name, word in columns.items()})
    text, _ = read(board)
    line = first_screen(text).partition('title="amp"')[2].partition("</tr>")[0]
    assert plain(line).endswith("5 failed")
    assert "no verdict" not in line


def test_what_has_not_ended_and_the_time_left_are_said_first():
    left = Missing(("digits", "99372ed4"), 10, 12, 5, [], 240.0, "dataeff run hand")
    text, page = read(boards.board(missing=[left]))
    told = "10 of 12 cells missing for the look at 5 seeds, about 4 minutes: dataeff run hand"
    assert page.text("p.missing") == told
    assert text.index(told) < text.index("<h1>")
    assert "p.missing" not in read(boards.board())[1].words


def test_without_the_reference_there_is_no_comparison():
    _, page = read(boards.without_runs(boards.board(), "baseline"))
    assert "5 seeds" in page.text("p.facts")
    assert not re.search(r"\bnan\b", "".join(page.words.values()))


def test_with_the_reference_alone_there_is_nothing_to_compare():
    _, page = read(boards.board(methods={"baseline": (1.0, 0.0)}, controls=()))
    assert "nothing to compare yet" in page.text("section.task")
    assert charts(page) == {"seconds", "epoch", "phases"}


def test_one_seed_has_no_interval():
    text, page = read(boards.board(seeds=1))
    assert "no verdict" in page.text("article")
    assert 'class="reach' not in text.partition("</figure>")[0]
    assert 'class="band' not in text
    assert "no band" in page.text("figcaption")


def test_nothing_finished_is_a_page_too():
    _, page = read(boards.without_runs(boards.board(), *boards.METHODS))
    assert "nothing to compare yet" in page.text("section.task")
    assert charts(page) == set()


def test_no_rows_at_all_are_a_page_too():
    base = boards.board()
    frames = ("table", "runs", "curves", "classes", "compositions")
    empty = {name: getattr(base, name)[:0] for name in frames}
    _, page = read(dataclasses.replace(base, conditions={}, answers=[], **empty))
    assert "no finished run yet" in page.text("main")


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_unknown_numbers_are_dashes(seeds):
    board = boards.without_runs(boards.board(seeds=seeds), "amp", "infobatch")
    text, page = read(board)
    assert not re.search(r"\b(nan|inf|None|NaN)\b", "".join(page.words.values()))
    assert "<td>–</td>" in text
    assert "NaN" not in json.dumps(data(text))


# Untrusted and self-contained -------------------------------------------------------------------


def test_hostile_names_are_text():
    text, page = read(hostile())
    assert set(page.tags) & {"script", "img", "c1", "ink"} == {"script"}
    assert page.tags.count("script") == 2
    assert page.fetched == []
    assert "<b>bold</b>" not in text
    # One table alone does not say which task it is of.
    for name in set(HOSTILE.values()) - {HOSTILE["digits"]}:
        assert name in "".join(page.words.values()), name
    told = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
    assert not re.search("[<>&\u2028\u2029]", told)
    assert {link[1:] for link in page.links} <= set(page.ids)


def test_the_page_fetches_nothing():
    text, page = read(boards.board())
    assert page.fetched == []
    assert not {"link", "iframe", "img", "object", "embed", "base"} & set(page.tags)
    assert not re.search(r"@import|url\(", text)
    # But for the name by which a drawing says what it is.
    assert set(re.findall(r"https?://[^\"]*", text)) <= {"http://www.w3.org/2000/svg"}
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_halves_of_characters_do_not_stop_the_page(tmp_path):
    board = boards.board(title="half \ud800", notes=["half \ud800"])
    assert "half ?" in write_report(tmp_path, board).read_text(encoding="utf-8")


def test_an_answer_without_a_strategy_is_a_headline_alone():
    key = ("digits", "99372ed4")
    headline = "Nothing here saves time: all 7 are slower than training as usual."
    board = boards.board(answers=[Answer(key, "nothing saves time", headline)])
    text, page = read(board)
    assert page.text("h1") == headline
    assert "<h1><a" not in text


# Many -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    draw = np.random.default_rng(3)
    speeds, gaps = np.exp(draw.normal(0.2, 0.2, 80)), draw.normal(-0.4, 0.6, 80)
    methods = {"baseline": (1.0, 0.0)}
    methods |= {f"m{i}": (s, g) for i, (s, g) in enumerate(zip(speeds, gaps, strict=True))}
    return boards.board(methods, controls=tuple(list(methods)[-20:]), classes=40)


def test_charts_show_the_best_and_the_rest_is_said_to_be_in_the_table(many):
    text, page = read(many)
    assert text.count('<th scope="row"><div class="name">') == 81
    keys = re.findall(r'data-toggle="(\d+)"', text)
    assert MOST_CHARTED < len(keys) < 30
    assert f"{81 - len(keys)} more are in the table" in page.text("p.soft")
    best = many.table[~many.table["control"].astype(bool)]["strategy"][1:5]
    drawn = text.partition('id="s0-epoch"')[2].partition("</figure>")[0]
    assert all(f"<title>{name}</title>" in drawn for name in best)
    # But the one chart of the first screen has all of them.
    trade = text.partition('id="s0-trade"')[2].partition("</figure>")[0]
    assert trade.partition('class="chart narrow"')[0].count('class="point"') == 60
    assert len(words(page)) <= 300


def test_of_many_classes_those_with_the_greatest_losses_are_shown(many):
    wide = bars.class_differences(many.classes, ["m0", "m1", "m2"])
    assert wide.shape == (3, bars.MOST_CLASSES)
    # Losses fall with the label on these boards.
    assert list(wide.columns) == list(range(bars.MOST_CLASSES))
    assert f"Only the {bars.MOST_CLASSES} classes" in read(many)[1].text("figcaption")
