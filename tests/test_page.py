"""The page: what it holds, and that it fetches nothing and runs nothing."""

import dataclasses
import json
import re

import boards
import numpy as np
import pytest
from pages import HOSTILE, NO_PLOTLY, figures, hostile, names_of, read
from plotly import offline

from dataeff.report.columns import PAGE
from dataeff.report.web import bars, canvas
from dataeff.report.web.cards import MOST_CARDS
from dataeff.report.web.page import MOST_CHARTED, page_text, write_report


@pytest.fixture(autouse=True)
def light(monkeypatch):
    """Leave plotly's script out of pages that draw nothing."""
    monkeypatch.setattr(offline, "get_plotlyjs", lambda: NO_PLOTLY)


# What it holds ---------------------------------------------------------------------------------


def test_the_page_is_written_whole(tmp_path):
    path = write_report(tmp_path, boards.board())
    assert path == tmp_path / "report.html"
    assert path.read_text(encoding="utf-8") == page_text(boards.board())
    assert sorted(tmp_path.iterdir()) == [tmp_path / "checksums.json", path]


def test_the_page_says_what_was_compared():
    _, page = read(boards.board(title="By hand", notes=["2 runs were left out."]))
    assert page.text("title") == "dataeff: By hand"
    assert page.text("h1") == "By hand"
    lead = page.text("p.lead")
    for said in ("10 strategies on digits", "5 seeds each", "baseline", "0.5 points"):
        assert said in lead
    assert "2 runs were left out." in page.text("aside")
    assert page.text("pre") == "dataeff run hand"
    assert "AMD EPYC 7B13" in page.text("dd")
    assert "digits, resnet8, 20 epochs" in page.text("section")


def test_a_suite_without_a_title_goes_by_its_name():
    assert read(boards.board(title=""))[1].text("h1") == "hand"


def test_cards_say_the_verdicts_in_the_order_of_the_table_controls_last():
    board = boards.board()
    text, page = read(board)
    heads = re.findall(r"<h4>.*?</svg> (.*?)</h4>", text)
    shown = [re.sub("<.*?>", "", head) for head in heads]
    table = board.table[board.table["strategy"] != "baseline"]
    kinds = (table["control"] == is_so for is_so in (False, True))
    assert shown == [name for kind in kinds for name in table.loc[kind, "strategy"]]
    row = board.table.set_index("strategy").loc["mixtrain_cutmix"]
    assert row["sentence"] in page.text("p.says")
    assert row["against_line"].startswith("beats training less, +2.09 (")
    assert f"{row['against_line'].capitalize()}." in page.text("p.versus")
    assert "Controls: yardsticks at a known cost" in page.text("h3")


def test_what_holds_for_a_whole_table_stands_under_it():
    text, page = read(boards.board(tasks=("digits", "cifar")))
    assert page.text("p.soft").count(boards.FOOT) == 2
    ends = [found.start() for found in re.finditer("</table></div>", text)]
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


def test_many_cards_are_folded():
    methods = {f"m{number}": (1.0 + number / 100, 0.0) for number in range(MOST_CARDS + 9)}
    text, page = read(boards.board(methods=methods, controls=()))
    assert f"Show all {MOST_CARDS + 8} strategies" in page.text("summary")
    assert text.count('<article class="card">') == MOST_CARDS + 8
    assert text.index("<details>") > [m.start() for m in re.finditer("<article", text)][11]
    assert "Show all" not in read(boards.board())[1].text("summary")


def test_the_table_has_a_row_per_strategy_with_raw_numbers_to_sort_by():
    board = boards.changed(boards.board(), trouble={"amp": "2 failed"}, oracle={"amp": 1.5})
    text, _ = read(board)
    body = re.search(r"<tbody>(.*?)</tbody>", text, re.S)[1]
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
    ("ends", "said"),
    [
        ((-np.inf, 0.25), "at most +0.25"),
        ((-0.75, np.inf), "at least -0.75"),
        ((-0.75, 0.25), "-0.75 to +0.25"),
        ((-np.inf, np.inf), ""),
    ],
)
def test_a_gain_beyond_an_end_of_the_line_is_known_on_one_side(ends, said):
    columns = zip(("gain", "gain_low", "gain_high"), (-0.4, *ends), strict=True)
    text, _ = read(boards.changed(boards.board(), **{key: {"amp": end} for key, end in columns}))
    beside = f" <small>{said}</small>" if said else ""
    assert f'data-v="-0.4">-0.40{beside}</td>' in text


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
    assert names_of(text) == {
        "trade",
        "seconds",
        "epoch",
        "phases",
        "kept",
        "mixed",
        "composed-speedup",
        "composed-accuracy",
        "classes",
    }
    assert {f"f0-{name}" for name in names_of(text)} <= page.ids
    assert any("mixtrain_cutmix: 1.5" in label for label in page.labels)
    assert page.text("figcaption").count("Bars are the intervals that judge.") == 1
    assert "bands reach from the lowest to the highest seed" in page.text("figcaption")
    assert "less than the sum" in page.text("td")


def test_charts_of_nothing_are_left_out():
    methods = {"baseline": (1.0, 0.0), "plain": (1.05, 0.0)}
    board = boards.board(methods, (), classes=0, compositions=False, published=False)
    text, page = read(board)
    assert names_of(text) == {"trade", "seconds", "epoch", "phases"}
    assert "papers" not in page.text("h3")


def test_the_papers_stand_beside_us():
    _, page = read(boards.board())
    assert "The papers beside us" in page.text("h3")
    assert "94.20%" in page.text("td")
    assert "2.10×" in page.text("td")
    assert "Nobody 2024" in page.text("td")


def test_conditions_are_never_mixed_and_what_differs_is_marked():
    text, page = read(boards.board(conditions=("c1", "c2")))
    assert text.count('<section id="s') == 2
    assert page.text("nav") == "digits c1digits c2"
    assert text.count('threads <span class="tag">differs</span>') == 2
    assert text.count('<span class="tag">differs</span>') == 2
    assert "differs" not in read(boards.board())[0].partition("</style>")[2].split("<script")[0]
    drawn, alone = figures(text), figures(read(boards.board(conditions=("c1",)))[0])
    assert {name: drawn[name] for name in alone} == alone
    assert drawn["f0-trade"]["data"] != drawn["f1-trade"]["data"]


def test_a_strategy_looks_the_same_in_all_charts_and_the_reference_is_neutral():
    drawn = figures(read(boards.board(tasks=("digits", "cifar")))[0])
    seen = {}
    for name in ("f0-trade", "f0-seconds", "f0-epoch", "f0-kept", "f1-trade", "f1-epoch"):
        for trace in drawn[name]["data"]:
            if "meta" in trace and "fill" not in trace:
                style = trace["marker"]["color"], trace["marker"]["symbol"]
                assert seen.setdefault(trace["name"], style) == style
    assert seen["baseline"] == ("<ink>", "circle")
    assert len(set(seen.values())) == len(seen) == 10


def test_the_same_board_gives_the_same_page():
    assert page_text(boards.board()) == page_text(boards.board())


# While a suite is running -----------------------------------------------------------------------


def test_what_is_missing_is_said_plainly():
    board = boards.without_runs(boards.board(), "amp")
    board.suite["strategies"].append("late")
    _, page = read(board)
    said = page.text("div.progress")
    assert "35 of 45 runs have ended" in said
    assert "No run yet: late." in said
    assert "no finished run yet" in page.text("article")
    assert "progress" not in read(boards.board())[0].partition("</style>")[2].split("<script")[0]


def test_of_a_suite_that_runs_until_settled_nobody_knows_how_many_runs_there_will_be():
    board = boards.without_runs(boards.board(), "amp")
    _, page = read(dataclasses.replace(board, suite=board.suite | {"seeds": "auto"}))
    assert "seeds until settled, compared with baseline" in page.text("p.lead")
    assert page.text("div.progress") == ""


def test_without_the_reference_there_is_no_comparison():
    _, page = read(boards.without_runs(boards.board(), "baseline"))
    assert "The reference has no finished run" in page.text("div.progress")


def test_with_the_reference_alone_there_is_nothing_to_compare():
    text, page = read(boards.board(methods={"baseline": (1.0, 0.0)}, controls=()))
    assert "nothing to compare yet" in page.text("section")
    assert names_of(text) == {"seconds", "epoch", "phases"}


def test_one_seed_has_no_verdict_and_no_interval():
    text, page = read(boards.board(seeds=1))
    assert "One seed tells nothing" in page.text("div.progress")
    assert "no verdict" in page.text("article")
    drawn = figures(text)
    assert all(
        t["error_x"] == t["error_x"] | {"visible": False} for t in drawn["f0-trade"]["data"][1:]
    )
    assert not any("fill" in trace for trace in drawn["f0-seconds"]["data"])
    assert "no band" in page.text("figcaption")


def test_nothing_finished_is_a_page_too():
    text, page = read(boards.without_runs(boards.board(), *boards.METHODS))
    assert "There is nothing to draw yet." in page.text("section")
    assert figures(text) == {}


def test_no_rows_at_all_are_a_page_too():
    base = boards.board()
    frames = ("table", "runs", "curves", "classes", "compositions")
    empty = {name: getattr(base, name)[:0] for name in frames}
    _, page = read(dataclasses.replace(base, conditions={}, **empty))
    assert "no finished run yet" in page.text("main")


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_unknown_numbers_are_dashes(seeds):
    board = boards.without_runs(boards.board(seeds=seeds), "amp", "infobatch")
    text, page = read(board)
    assert not re.search(r"\b(nan|inf|None|NaN)\b", "".join(page.words.values()))
    assert "<td>–</td>" in text
    assert "NaN" not in json.dumps(figures(text))


# Untrusted and self-contained -------------------------------------------------------------------


def test_hostile_names_are_text():
    text, page = read(hostile())
    assert set(page.tags) & {"script", "img", "a", "c1", "ink"} == {"script", "a"}
    assert page.tags.count("script") == 3
    assert page.fetched == []
    assert "<b>bold</b>" not in text
    for name in HOSTILE.values():
        assert name in "".join(page.words.values()), name
    data = re.search(r'id="figures">(.*?)</script>', text, re.S)[1]
    assert not re.search("[<>&\u2028\u2029]", data)


def test_plotly_gets_no_tag_no_entity_and_no_formula():
    told = json.dumps(figures(read(hostile())[0]))
    # Our own texts have line breaks, bold names and colours; names have none of their brackets.
    for tag in re.findall(r"<.*?>", told):
        assert re.fullmatch(r"</?b>|<br>|</?extra>|<[a-z]+\d?>", tag), tag
    assert "alert(1)" in told
    assert "$" not in told
    assert "%{x} " not in told


@pytest.mark.parametrize("name", ["<b>x</b>", "&lt;", "$x$", "%{x}", "<ink>", "&#60;i>"])
def test_plain_text_is_decoded_to_itself_by_plotly(name):
    shown = canvas.plain(name)
    assert not re.search(r"[<>$]|%\{", shown)
    # As plotly does: entities in one pass.
    known = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&#36;": "$", "&#37;": "%"}
    assert re.sub(r"&(#\d+|[a-z]+);", lambda found: known[found[0]], shown) == name


def test_the_page_fetches_nothing():
    text, page = read(boards.board())
    assert page.fetched == []
    assert not {"link", "iframe", "img", "object", "embed", "base"} & set(page.tags)
    assert not re.search(r"@import|url\(", text)
    assert not re.search(r"https?://", text)
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_halves_of_characters_do_not_stop_the_page(tmp_path):
    board = boards.board(title="half \ud800", notes=["half \ud800"])
    assert "half ?" in write_report(tmp_path, board).read_text(encoding="utf-8")


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
    keys = re.findall(r'data-key="(\d+)"', text)
    assert MOST_CHARTED < len(keys) < 30
    assert f"{81 - len(keys)} more are in the table" in page.text("section")
    others = next(t for t in figures(text)["f0-trade"]["data"] if "text" in t and "meta" not in t)
    assert len(others["x"]) == 81 - len(keys)
    best = many.table[~many.table["control"]]["strategy"][:5]
    drawn = {trace.get("name") for trace in figures(text)["f0-epoch"]["data"]}
    assert set(best) <= drawn


def test_of_many_classes_those_with_the_greatest_losses_are_shown(many):
    wide = bars.class_differences(many.classes, ["m0", "m1", "m2"])
    assert wide.shape == (3, bars.MOST_CLASSES)
    # Losses fall with the label on these boards.
    assert list(wide.columns) == list(range(bars.MOST_CLASSES))
    assert f"Only the {bars.MOST_CLASSES} classes" in read(many)[1].text("figcaption")
