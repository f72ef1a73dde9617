"""The page: what it holds, that it fetches nothing and runs nothing, and how it behaves."""

import dataclasses
import json
import re
import threading
from html.parser import HTMLParser

import boards
import browser
import numpy as np
import pandas as pd
import pytest
from plotly import offline

from dataeff.report import charts, gallery, rows
from dataeff.report.cards import MOST_CARDS
from dataeff.report.page import MOST_CHARTED, page_text, write_report
from dataeff.report.serve import make_server
from dataeff.report.webtable import COLUMNS

HOSTILE = {
    "mixtrain_cutmix": "<script>alert(1)</script>",
    "amp": '<a href="javascript:alert(1)">x</a>',
    "infobatch": "<img src=x onerror=alert(1)>",
    "selective_backprop[keep=0.5]": "\"&' constructor",
    "el2n[keep=0.75]": "$x$ &amp; %{x} <b>bold</b>",
    "mixtrain_cutmix+amp": "</script><!--<ink>\u2028",
    "digits": "<svg onload=alert(1)>",
    "99372ed4": "<c1>",
}


# Reading plotly's script is most of what a page costs, in Python and in a browser.
PLOTLY, NO_PLOTLY = offline.get_plotlyjs, "window.Plotly = {react() {}};"


@pytest.fixture(autouse=True)
def light(monkeypatch):
    """Leave plotly's script out of pages that draw nothing."""
    monkeypatch.setattr(offline, "get_plotlyjs", lambda: NO_PLOTLY)


class Read(HTMLParser):
    """A page as a reader finds it: tags, what they would fetch, texts by tag, tables."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.fetched, self.words, self.labels = [], [], {}, []
        self.ids, self._open = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        told = dict(attrs)
        self.ids.add(told.get("id"))
        self.labels.append(told.get("aria-label") or "")
        self._open.append((tag, told.get("class") or told.get("id") or ""))
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            if name in ("src", "href", "xlink:href", "srcset", "data") and value[0] != "#":
                self.fetched.append(value)
        if tag in ("meta", "input", "wbr", "path"):
            self._open.pop()

    def handle_endtag(self, tag):
        if self._open and tag not in ("path", "wbr"):
            self._open.pop()

    def handle_data(self, data):
        for tag, kind in self._open:
            for key in {tag, f"{tag}.{kind}"}:
                self.words[key] = self.words.get(key, "") + data

    def text(self, key):
        return self.words.get(key, "")


def read(board):
    """Return the page of a board, as text and as read."""
    text = page_text(board)
    return text, Read(text)


def figures(text):
    """Return the figures that a page draws."""
    return json.loads(re.search(r'id="figures">(.*?)</script>', text, re.S)[1])


def names_of(text):
    return {name.partition("-")[2] for name in figures(text)}


# What it holds ---------------------------------------------------------------------------------


def test_the_page_is_written_whole(tmp_path):
    path = write_report(tmp_path, boards.board())
    assert path == tmp_path / "report.html"
    assert path.read_text(encoding="utf-8") == page_text(boards.board())
    assert list(tmp_path.iterdir()) == [path]


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


def test_cards_say_the_verdicts_in_order_of_rank_controls_last():
    board = boards.board()
    text, page = read(board)
    heads = re.findall(r"<h4>.*?</svg> (.*?)</h4>", text)
    shown = [re.sub("<.*?>", "", head) for head in heads]
    ranked = board.table.sort_values("rank")
    methods = ranked[~ranked["control"] & (ranked["strategy"] != "baseline")]["strategy"]
    controls = ranked[ranked["control"]]["strategy"]
    assert shown == [*methods, *controls]
    row = board.table.set_index("strategy").loc["mixtrain_cutmix"]
    assert row["verdict"] in page.text("p.says")
    assert f"Controls: {row['against_controls']}" in page.text("p.versus")
    assert "Controls: yardsticks at a known cost" in page.text("h3")


@pytest.mark.parametrize(
    ("claim", "tone", "shape"),
    [
        ("faster and no worse", "good", "▲"),
        ("faster but worse", "trade", "◆"),
        ("slower and worse", "bad", "▼"),
        ("undecided", "open", "○"),
        ("something new", "open", "○"),
    ],
)
def test_a_claim_has_a_shape_and_not_only_a_colour(claim, tone, shape):
    text, _ = read(boards.changed(boards.board(), claim={"amp": claim}))
    assert f'<span class="claim {tone}"><i aria-hidden="true">{shape}</i> {claim}</span>' in text


def test_many_cards_are_folded():
    methods = {f"m{number}": (1.0 + number / 100, 0.0) for number in range(MOST_CARDS + 9)}
    text, page = read(boards.board(methods=methods, controls=()))
    assert f"Show all {MOST_CARDS + 8} strategies" in page.text("summary")
    assert text.count('<article class="card">') == MOST_CARDS + 8
    assert text.index("<details>") > [m.start() for m in re.finditer("<article", text)][11]
    assert "Show all" not in read(boards.board())[1].text("summary")


def test_the_table_has_a_row_per_strategy_with_raw_numbers_to_sort_by():
    board = boards.changed(boards.board(), trouble={"amp": "2 failed"}, ranked={"amp": False})
    text, _ = read(board)
    body = re.search(r"<tbody>(.*?)</tbody>", text, re.S)[1]
    lines = dict(
        zip(board.table.sort_values("rank")["strategy"], body.split("</tr>"), strict=False)
    )
    row = board.table.set_index("strategy").loc["amp"]
    assert f'data-v="{row["speedup"]:.10g}">{row["speedup"]:.2f}×' in lines["amp"]
    assert "2 failed" in lines["amp"]
    assert '<span class="tag">not ranked</span>' in lines["amp"]
    assert '<span class="tag">reference</span>' in lines["baseline"]
    assert lines["short_schedule[share=0.65]"].startswith('<tr class="control">')


def test_columns_that_say_nothing_are_left_out():
    board = boards.board()
    assert 'data-name="energy_joules"' not in read(board)[0]
    assert 'data-name="trouble"' not in read(board)[0]
    text, page = read(boards.changed(board, energy_joules={"amp": 812.0}))
    assert 'data-name="energy_joules"' in text
    assert "Energy, where a meter exists." in page.text("dd")


def test_every_column_of_the_table_can_be_shown():
    board = boards.board()
    assert {column.name for column in COLUMNS} <= set(board.table.columns)


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
    assert page.text("figcaption").count("95% intervals") == 1
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
                look = trace["marker"]["color"], trace["marker"]["symbol"]
                assert seen.setdefault(trace["name"], look) == look
    assert seen["baseline"] == ("<ink>", "circle")
    assert len(set(seen.values())) == len(seen) == 10


def test_the_same_board_gives_the_same_page():
    assert page_text(boards.board()) == page_text(boards.board())


# While a suite is running -----------------------------------------------------------------------


def test_what_is_missing_is_said_plainly():
    board = boards.without_runs(boards.board(), "amp")
    board.suite["strategies"].append("late")
    text, page = read(board)
    said = page.text("div.progress")
    assert re.findall(r'<div class="name">.*?<span>(\w+)', text)[-1] == "amp"
    assert "45 of 55 runs have ended" in said
    assert "No run yet: late." in said
    assert "no finished run yet" in page.text("article")
    assert "progress" not in read(boards.board())[0].partition("</style>")[2].split("<script")[0]


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


def hostile():
    board = boards.renamed(boards.board(), HOSTILE)
    evil = HOSTILE["infobatch"]
    suite = board.suite | {"title": evil, "commands": [f"dataeff run {evil}"]}
    columns = ("verdict", "against_controls", "note", "trouble", "claim")
    board = boards.changed(board, **{name: {HOSTILE["amp"]: evil} for name in columns})
    board.compositions["says"] = evil
    return dataclasses.replace(board, suite=suite, conditions={"<c1>": {evil: evil}}, notes=[evil])


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
    shown = charts.plain(name)
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
    best = many.table[~many.table["control"]].sort_values("rank")["strategy"][:5]
    drawn = {trace.get("name") for trace in figures(text)["f0-epoch"]["data"]}
    assert set(best) <= drawn


def test_of_many_classes_those_with_the_greatest_losses_are_shown(many):
    wide = rows.class_differences(many.classes, ["m0", "m1", "m2"])
    assert wide.shape == (3, rows.MOST_CLASSES)
    # Losses fall with the label on these boards.
    assert list(wide.columns) == list(range(rows.MOST_CLASSES))
    assert f"Only the {rows.MOST_CLASSES} classes" in read(many)[1].text("figcaption")


# Figures ----------------------------------------------------------------------------------------

LOOKS = charts.looks(["base", "a", "b"], "base", {"b"})


def curves(lines):
    columns = ["strategy", "seed", "epoch", "seconds", "test_top1", "kept", "mixed"]
    return pd.DataFrame(lines, columns=columns).assign(task="t", conditions="c")


def test_controls_look_open_and_dotted():
    assert LOOKS["b"].symbol.endswith("-open")
    assert (LOOKS["b"].dash, LOOKS["a"].dash) == ("dot", "solid")


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
    band, line = charts.learning(lines, LOOKS, "seconds")["data"]
    assert (line["x"], line["y"]) == ([3, 9], [55, 80])
    assert (band["x"], band["y"]) == ([3, 9, 9, 3], [60, 90, 70, 50])
    _, line = charts.learning(lines, LOOKS, "epoch")["data"]
    assert line["x"] == [1, 3]


def test_a_curve_ends_where_its_first_seed_ends():
    lines = curves([("a", s, e, e, 50.0 + s, 1, 0) for s, n in ((0, 2), (1, 3)) for e in range(n)])
    *_, line = charts.learning(lines, LOOKS, "epoch")["data"]
    assert line["x"] == [0, 1]


def test_long_curves_are_thinned_but_keep_their_ends():
    lines = curves([("a", 0, epoch, epoch, 50.0, 1, 0) for epoch in range(1, 5001)])
    (line,) = charts.learning(lines, LOOKS, "epoch")["data"]
    assert len(line["x"]) < 300
    assert (line["x"][0], line["x"][-1]) == (1, 5000)


def test_shares_are_drawn_where_they_are_unusual():
    lines = [(name, 0, e, e, 1.0, 1 - 0.1 * e * (name == "a"), 0) for name in "ab" for e in (1, 2)]
    (line,) = charts.shares(curves(lines), LOOKS, "kept", 1.0)["data"]
    assert (line["name"], line["y"]) == ("a", [90, 80])
    assert charts.shares(curves(lines), LOOKS, "mixed", 0.0) is None


def test_intervals_and_the_front_are_drawn():
    board = boards.board()
    looks = charts.looks(board.table["strategy"], "baseline", set(boards.CONTROLS))
    drawn = charts.trade_off(board.table, looks, "baseline", 0.5)
    front = drawn["data"][0]
    on = board.table[board.table["pareto"]].sort_values("speedup")
    assert front["x"] == charts.numbers(on["speedup"])
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
    drawn = charts.trade_off(table, LOOKS, "baseline", 0.5)
    low, high = drawn["layout"]["yaxis"]["range"]
    assert high - low < 4 * np.ptp(table["accuracy"])
    assert low < table["accuracy"].min() < table["accuracy"].max() < high


def test_phases_are_means_over_finished_cells_and_sum_to_the_clock():
    runs = boards.board().runs
    runs.loc[len(runs)] = runs.iloc[0].to_dict() | {
        "status": "failed",
        "forward_phase_seconds": 9e9,
    }
    means = rows.phase_means(runs, ["amp", "baseline", "gone"])
    assert list(means.index) == ["amp", "baseline"]
    mine = runs[(runs["strategy"] == "baseline") & (runs["status"] == "finished")]
    clock = (mine["prepare_seconds"] + mine["train_seconds"]).mean()
    assert means.loc["baseline"].sum() == pytest.approx(clock)
    bars = rows.phases(means)["data"]
    assert sum(bar["x"][1] for bar in bars) == pytest.approx(clock, abs=0.01)
    assert [bar["name"] for bar in bars][:2] == ["prepare", "plan"]


def test_compositions_show_expected_measured_and_what_is_open():
    part = boards.board().compositions
    expected, measured = rows.composed(part, "speedup")["data"]
    assert (expected["x"], measured["x"]) == ([1.41], [1.38])
    assert measured["error_x"]["arrayminus"] == [pytest.approx(1.38 - 1.41 * 0.95, abs=1e-3)]
    expected, measured = rows.composed(part, "accuracy")["data"]
    assert measured["error_x"]["array"] == [pytest.approx(0.2 - 0.1 + 0.1, abs=1e-3)]


def test_a_chart_without_figure_is_no_chart():
    board = boards.without_runs(boards.board(), *boards.METHODS)
    assert gallery.gallery(board, ("digits", "99372ed4"), board.table, {}) == []


# In a browser -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tab():
    if browser.installed() is None:
        pytest.skip("no chromium, chromium-browser or google-chrome is on the PATH")
    with browser.Browser() as opened:
        yield opened


@pytest.fixture
def shown(tab, tmp_path, monkeypatch):
    """Return a function that opens the page of a board, and see that nothing was complained of."""

    def show(board, width=1280, dark=False, draws=True):
        tab.size(width, 900, dark)
        if draws:
            monkeypatch.setattr(offline, "get_plotlyjs", PLOTLY)
        tab.open(write_report(tmp_path, board).as_uri())
        return tab

    tab.complaints.clear()
    tab.requests.clear()
    yield show
    assert tab.complaints == []
    assert not [url for url in tab.requests if not url.startswith(("file:", "data:"))]


ORDER = (
    "[...document.querySelectorAll('#t0 tbody tr')].map(r => r.querySelector('.name').innerText)"
)
VISIBLE = (
    "[...document.querySelectorAll('#t0 tbody tr')].filter(r => r.offsetHeight)"
    ".map(r => r.querySelector('.name').textContent.split(' ')[0])"
)


def order(tab):
    return [text.split()[0] for text in tab.run(ORDER)]


def draw_all(tab):
    tab.run("document.querySelectorAll('.plot').forEach(plot => plot.scrollIntoView())")
    tab.wait(
        "[...document.querySelectorAll('.plot')].every(plot => {"
        "plot.scrollIntoView(); return plot.querySelector('.main-svg'); })"
    )


def test_charts_are_drawn_leave_out_what_is_switched_off_and_print_light(shown):
    tab = shown(boards.board(), dark=True)
    tab.run("document.querySelector('#f0-seconds').scrollIntoView()")
    tab.wait("document.querySelector('#f0-seconds .main-svg') !== null")
    drawn = "document.querySelectorAll('#f0-seconds .scatterlayer .trace').length"
    before = tab.run(drawn)
    tab.click('#s0 [data-key="2"]')
    assert tab.run("document.querySelectorAll('[aria-pressed=false]').length") == 1
    # Its line and its band.
    assert tab.run(drawn) == before - 2
    # Not all has been scrolled to, but all is printed.
    tab.run("window.dispatchEvent(new Event('beforeprint'))")
    all_drawn = "[...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))"
    assert tab.run(all_drawn)
    assert tab.run("document.documentElement.dataset.theme") == "light"
    widest = "Math.max(...[...document.querySelectorAll('.main-svg')].map(s => s.clientWidth))"
    assert tab.run(widest) < 700
    tab.run("window.dispatchEvent(new Event('afterprint'))")
    assert tab.run("document.documentElement.dataset.theme") is None
    tab.wait(f"{widest} > 900")


def test_clicking_a_head_sorts_by_numbers_with_missing_ones_last(shown):
    board = boards.without_runs(boards.board(), "infobatch")
    tab = shown(board, draws=False)
    numbers = board.table.set_index("strategy")["difference"].dropna().sort_values()
    tab.click('#t0 th[data-name="difference"] button')
    assert order(tab) == [name.split()[0] for name in [*numbers.index[::-1], "infobatch"]]
    sorts = "document.querySelector('#t0 th[data-name=difference]').getAttribute('aria-sort')"
    assert tab.run(sorts) == "descending"
    tab.click('#t0 th[data-name="difference"] button')
    assert order(tab) == [*numbers.index, "infobatch"]
    assert tab.run(sorts) == "ascending"
    assert tab.run("document.querySelectorAll('[aria-sort]').length") == 1


def test_the_keyboard_sorts_too(shown):
    board = boards.board()
    tab = shown(board, draws=False)
    tab.run("document.querySelector('#t0 th[data-name=strategy] button').focus()")
    tab.press("Enter", "\r")
    assert order(tab)[:2] == ["amp", "baseline"]
    tab.press("Enter", "\r")
    assert order(tab)[-2:] == ["baseline", "amp"]
    tab.press("Tab")
    focused = "document.activeElement.closest('th').dataset.name"
    assert tab.run(focused) == "claim"
    tab.press(" ", " ")
    assert tab.run("document.querySelector('[aria-sort]').dataset.name") == "claim"


def test_the_filter_looks_at_strategies_and_verdicts(shown):
    board = boards.board()
    tab = shown(board, draws=False)
    tab.run("document.querySelector('[data-filter=t0]').focus()")
    tab.type("  MIX but ")
    assert tab.run(VISIBLE) == ["mixtrain_cutmix[selection=none,interference=off]"]
    assert tab.run("document.getElementById('t0-count').textContent") == "1 of 10"
    tab.run("document.querySelector('[data-filter=t0]').select()")
    tab.type("nothing like it")
    assert tab.run(VISIBLE) == []


def test_controls_can_be_hidden_and_columns_added(shown):
    tab = shown(boards.board(), draws=False)
    tab.click('[data-table="t0"][data-switch="controls"]')
    assert len(tab.run(VISIBLE)) == 8
    width = "document.querySelector('#t0 th[data-name=macro_f1]').offsetWidth"
    assert tab.run(width) == 0
    tab.click('[data-table="t0"][data-switch="more"]')
    assert tab.run(width) > 0


def test_the_theme_follows_the_system_and_the_switch_and_so_do_the_charts(shown):
    page = "getComputedStyle(document.body).backgroundColor"
    ink = "document.querySelector('#f0-trade').layout.font.color"
    tab = shown(boards.board())
    tab.run("document.querySelector('#f0-trade').scrollIntoView()")
    tab.wait("document.querySelector('#f0-trade .main-svg') !== null")
    light = tab.run(page), tab.run(ink)
    tab.size(1280, 900, dark=True)
    tab.wait("document.getElementById('theme').textContent === 'Light'")
    dark = tab.run(page), tab.run(ink)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    tab.click("#theme")
    assert (tab.run(page), tab.run(ink)) == light
    tab.open(tab.run("location.href"))
    assert tab.run(page) == light[0]
    tab.run("localStorage.clear()")


# Plotly answers a hover now and those that follow too soon never.
HOVER = """(async () => {
    const plot = document.querySelector('#f0-trade'), told = [];
    for (const [number, trace] of plot.data.entries()) {
        if (!('meta' in trace)) continue;
        Plotly.Fx.hover(plot, [{curveNumber: number, pointNumber: 0}]);
        await new Promise((done) => setTimeout(done, 90));
        told.push(...[...plot.querySelectorAll('.hovertext')].map((text) => text.textContent));
    }
    return told.join(' ');
})()"""


def test_hostile_names_run_nothing_and_are_shown_as_they_are(shown):
    tab = shown(hostile())
    draw_all(tab)
    assert tab.run("document.querySelectorAll('main img, main b b, main svg a').length") == 0
    texts = tab.run(
        "[...document.querySelectorAll('#f0-phases .annotation-text')].map(t => t.textContent)"
    )
    strategies = set(HOSTILE.values()) - {HOSTILE["digits"], HOSTILE["99372ed4"]}
    squeezed = {text.replace("\u2028", "") for text in texts}
    assert {name.replace("\u2028", "") for name in strategies} <= squeezed
    told = tab.run(HOVER).replace("\u2028", "")
    assert all(name.replace("\u2028", "") in told for name in strategies)


def test_a_phone_needs_no_sideways_scrolling(shown):
    tab = shown(hostile(), width=375)
    draw_all(tab)
    assert tab.run("document.documentElement.scrollWidth") <= 375
    assert tab.run("document.querySelector('#f0-trade .main-svg').clientWidth") <= 375
    cards = "new Set([...document.querySelectorAll('.card')].map(c => c.offsetLeft)).size"
    assert tab.run(cards) == 1


def test_everything_can_be_reached_by_keyboard_beginning_with_the_skip_link(shown):
    tab = shown(boards.board(), draws=False)
    tab.press("Tab")
    assert tab.run("document.activeElement.className") == "skip"
    assert tab.run("document.activeElement.getBoundingClientRect().left") >= 0
    bare = (
        "[...document.querySelectorAll('[data-key], th button, summary, .scroll, #copy')]"
        ".filter(e => e.tabIndex < 0).length"
    )
    assert tab.run(bare) == 0


def test_the_command_is_copied_or_selected(shown):
    tab = shown(boards.board(), draws=False)
    tab.run("navigator.clipboard && (navigator.clipboard.writeText = () => Promise.reject())")
    tab.run("document.execCommand = () => false")
    tab.click("#copy")
    tab.wait("document.getElementById('copied').textContent.startsWith('Selected')")
    assert tab.run("getSelection().toString()") == "dataeff run hand"


def test_a_page_from_a_file_is_not_live(shown):
    assert shown(boards.board(), draws=False).run("document.getElementById('live').hidden") is True


def test_a_served_page_is_live_and_keeps_the_view_when_results_come_in(tab, tmp_path):
    titles = iter(["first", "second"])
    (tmp_path / "suite.json").write_text("{}")
    server = make_server(tmp_path, lambda: page_text(boards.board(title=next(titles))).encode())
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        tab.complaints.clear()
        tab.size(1280, 900)
        tab.open(f"http://127.0.0.1:{server.server_port}/")
        assert tab.run("document.getElementById('live').innerText") == "live"
        tab.run("document.querySelector('[data-filter=t0]').focus()")
        tab.type("amp")
        tab.run("scrollTo(0, 700)")
        (tmp_path / "suite.json").write_text('{"seeds": 2}')
        tab.wait("document.readyState === 'complete' && document.title.endsWith('second')")
        tab.wait("Math.abs(scrollY - 700) < 2")
        assert tab.run("document.querySelector('[data-filter=t0]').value") == "amp"
        assert len(tab.run(VISIBLE)) == 2
        assert tab.complaints == []
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
