"""The page in a browser: how it looks and behaves."""

import json
import threading
from pathlib import Path

import boards
import pytest
from browser import DESKTOP, OPEN_ALL, OVERLAPS, PHONE, serious
from pages import HOSTILE, hostile

from dataeff.report.board import read_board
from dataeff.report.web.page import page_text, write_report
from dataeff.report.web.serve import make_server

PUBLISHED = Path(__file__).parent.parent / "results" / "published"


@pytest.fixture
def shown(tab, tmp_path):
    """Return a function that opens the page of a board, and see that nothing was complained of."""

    def show(board, size=DESKTOP, dark=False):
        tab.size(*size, dark)
        tab.open(write_report(tmp_path, board).as_uri())
        return tab

    tab.complaints.clear()
    tab.requests.clear()
    yield show
    assert tab.complaints == []
    assert not [url for url in tab.requests if not url.startswith(("file:", "data:"))]


def many():
    methods = {"baseline": (1.0, 0.0)}
    methods |= {f"method_{i}[keep=0.{i}]": (0.8 + i / 60, 0.8 - i / 30) for i in range(100)}
    return boards.board(methods, controls=tuple(list(methods)[-5:]))


BOARDS = {
    "usual": boards.board,
    "one seed": lambda: boards.board(seeds=1),
    "two tasks": lambda: boards.board(tasks=("digits", "cifar")),
    "nothing finished": lambda: boards.without_runs(boards.board(), *boards.METHODS),
    "a hundred": many,
    "hostile": hostile,
    "quickstart": lambda: read_board(PUBLISHED / "quickstart"),
    "zoo": lambda: read_board(PUBLISHED / "selection-zoo-mini"),
}


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", BOARDS)
def test_nothing_collides_and_no_page_scrolls_sideways(shown, name, size):
    tab = shown(BOARDS[name](), size)
    assert tab.run(OVERLAPS) == []
    tab.run(OPEN_ALL)
    assert tab.run(OVERLAPS) == []
    assert tab.run("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize(
    ("size", "most"), [(DESKTOP, 900), (PHONE, 1100)], ids=["desktop", "phone"]
)
@pytest.mark.parametrize("name", ["usual", "quickstart", "zoo"])
def test_answer_and_chart_are_on_the_first_screen(shown, name, size, most):
    tab = shown(BOARDS[name](), size)
    ends = "[...document.querySelectorAll('h1, .answer, figure.trade')]"
    assert tab.run(f"Math.max(...{ends}.map((e) => e.getBoundingClientRect().bottom))") <= most


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["usual", "zoo"])
def test_axe_finds_nothing_serious(shown, name, dark):
    assert serious(shown(BOARDS[name](), dark=dark)) == []


# What it does ------------------------------------------------------------------------------------

ORDER = (
    "[...document.querySelectorAll('#t0 tbody tr')].map(r => r.querySelector('.name').innerText)"
)
VISIBLE = (
    "[...document.querySelectorAll('#t0 tbody tr')].filter(r => r.offsetHeight)"
    ".map(r => r.querySelector('.name').textContent.trim().split(' ')[0])"
)


def order(tab):
    return [text.split()[0] for text in tab.run(ORDER)]


def unfold(tab, *places):
    for place in places:
        tab.run(f"document.getElementById('{place}').open = true")


def test_lines_that_are_switched_off_are_not_drawn(shown):
    tab = shown(boards.board())
    unfold(tab, "s0-curves")
    drawn = (
        "[...document.querySelectorAll('#s0-seconds .wide .line')]"
        ".filter((line) => getComputedStyle(line).visibility === 'visible').length"
    )
    before = tab.run(drawn)
    tab.click("#s0-curves [data-toggle]")
    assert tab.run("document.querySelectorAll('[aria-pressed=false]').length") == 1
    assert tab.run(drawn) == before - 1


def test_all_that_is_folded_is_printed_and_folded_again(shown):
    tab = shown(boards.board(), dark=True)
    folded = "document.querySelectorAll('details:not([open])').length"
    before = tab.run(folded)
    assert before > 5
    tab.run("window.dispatchEvent(new Event('beforeprint'))")
    assert tab.run(folded) == 0
    tab.run("window.dispatchEvent(new Event('afterprint'))")
    assert tab.run(folded) == before


def test_a_link_to_a_method_opens_what_is_said_of_it(shown):
    tab = shown(boards.board())
    tab.click(".five tbody th a")
    tab.wait("document.getElementById('s0-each').open")
    target = tab.run("location.hash.slice(1)")
    tab.wait(f"document.getElementById({json.dumps(target)}).getBoundingClientRect().top < 200")
    address = tab.run("location.href")
    tab.open("about:blank")
    tab.open(address)
    assert tab.run("document.getElementById('s0-each').open")


def test_who_is_looked_at_in_the_table_stands_out_in_the_chart(shown):
    tab = shown(many())
    hidden = (
        "[...document.querySelectorAll('.wide .looked .hidden')]"
        ".filter((part) => getComputedStyle(part).visibility === 'visible').length"
    )
    assert tab.run(hidden) == 0
    tab.run("document.querySelector('.five tbody th a').focus()")
    assert tab.run("document.querySelectorAll('.five .looked').length") == 1
    assert tab.run(hidden) > 0


def test_clicking_a_head_sorts_by_numbers_with_missing_ones_last(shown):
    board = boards.without_runs(boards.board(), "infobatch")
    tab = shown(board)
    unfold(tab, "s0-all")
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
    tab = shown(boards.board())
    unfold(tab, "s0-all")
    tab.run("document.querySelector('#t0 th[data-name=strategy] button').focus()")
    tab.press("Enter", "\r")
    assert order(tab)[:2] == ["amp", "baseline"]
    tab.press("Enter", "\r")
    assert order(tab)[-2:] == ["baseline", "amp"]
    tab.press("Tab")
    assert tab.run("document.activeElement.closest('th').dataset.name") == "verdict"
    tab.press(" ", " ")
    assert tab.run("document.querySelector('[aria-sort]').dataset.name") == "verdict"


def test_the_filter_looks_at_strategies_and_verdicts(shown):
    tab = shown(boards.board())
    unfold(tab, "s0-all")
    tab.run("document.querySelector('[data-filter=t0]').focus()")
    tab.type("  MIX but ")
    assert tab.run(VISIBLE) == ["mixtrain_cutmix[selection=none,interference=off]"]
    assert tab.run("document.getElementById('t0-count').textContent") == "1 of 10"
    tab.run("document.querySelector('[data-filter=t0]').select()")
    tab.type("nothing like it")
    assert tab.run(VISIBLE) == []


def test_controls_can_be_hidden_and_columns_added(shown):
    tab = shown(boards.board())
    unfold(tab, "s0-all")
    tab.click('[data-table="t0"][data-switch="controls"]')
    assert len(tab.run(VISIBLE)) == 8
    width = "document.querySelector('#t0 th[data-name=macro_f1]').offsetWidth"
    assert tab.run(width) == 0
    tab.click('[data-table="t0"][data-switch="more"]')
    assert tab.run(width) > 0


def test_the_theme_follows_the_system_and_the_switch_and_so_do_the_charts(shown):
    page = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('.reference')).fill"
    tab = shown(boards.board())
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


def test_hostile_names_run_nothing_and_are_shown_as_they_are(shown):
    tab = shown(hostile())
    tab.run(OPEN_ALL)
    assert tab.run("document.querySelectorAll('main img, main b b').length") == 0
    told = tab.run("document.body.textContent")
    assert all(name in told for name in set(HOSTILE.values()) - {HOSTILE["digits"]})


# What is saved: the files are caught instead of written.
CATCH = """(() => {
    window.caught = [];
    URL.createObjectURL = (blob) => { blob.text().then((text) => caught.push(text)); return "#"; };
    HTMLAnchorElement.prototype.click = function () { caught.push(this.download); };
})()"""


def test_tables_and_drawings_can_be_saved(shown):
    board = boards.board()
    tab = shown(board)
    tab.run(CATCH)
    tab.run("document.getElementById('downloads').open = true")
    for form in ("csv", "json"):
        tab.run("caught.length = 0")
        tab.click(f'[data-download="{form}"]')
        tab.wait("caught.length === 2")
        name, text = sorted(tab.run("caught"), key=len)
        assert name == f"hand-leaderboard.{form}"
        if form == "json":
            lines = json.loads(text)["lines"]
            assert [line["strategy"] for line in lines] == list(board.table["strategy"])
        else:
            assert text.splitlines()[0] == ",".join(board.table.columns)
            assert len(text.splitlines()) == 1 + len(board.table)
    tab.run("caught.length = 0")
    tab.run("document.querySelector('[data-save=s0-trade]').click()")
    tab.wait("caught.length === 2")
    name, text = sorted(tab.run("caught"), key=len)
    assert name == "hand-s0-trade.svg"
    assert text.startswith("<svg")
    assert "var(--" not in text
    assert "rgb(" in text


def test_everything_can_be_reached_by_keyboard_beginning_with_the_skip_link(shown):
    tab = shown(boards.board())
    tab.press("Tab")
    assert tab.run("document.activeElement.className") == "skip"
    assert tab.run("document.activeElement.getBoundingClientRect().left") >= 0
    bare = (
        "[...document.querySelectorAll('[data-toggle], th button, summary, .scroll, [data-copy]')]"
        ".filter(e => e.tabIndex < 0).length"
    )
    assert tab.run(bare) == 0


def test_the_command_is_copied_or_selected(shown):
    tab = shown(boards.board())
    unfold(tab, "reproduce")
    tab.run("navigator.clipboard && (navigator.clipboard.writeText = () => Promise.reject())")
    tab.run("document.execCommand = () => false")
    tab.click("#reproduce [data-copy]")
    tab.wait("document.getElementById('said').textContent.startsWith('Selected')")
    assert tab.run("getSelection().toString()") == "dataeff run hand"


# While a suite runs ------------------------------------------------------------------------------


def test_a_page_from_a_file_is_not_live(shown):
    assert shown(boards.board()).run("document.getElementById('live').hidden") is True


def test_a_served_page_takes_what_comes_in_and_leaves_the_reader_where_he_is(tab, tmp_path):
    made = iter(
        [
            boards.board(title="first"),
            boards.changed(boards.board(title="second"), note={"amp": "it came in"}),
        ]
    )
    (tmp_path / "suite.json").write_text("{}")
    server = make_server(tmp_path, lambda: page_text(next(made)).encode())
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        tab.complaints.clear()
        tab.size(1280, 900)
        tab.open(f"http://127.0.0.1:{server.server_port}/")
        assert tab.run("document.getElementById('live').innerText") == "live"
        unfold(tab, "s0-all", "s0-curves")
        tab.click('#t0 th[data-name="strategy"] button')
        tab.click("#s0-curves [data-toggle]")
        tab.run("document.querySelector('[data-filter=t0]').focus()")
        tab.type("amp")
        tab.run("scrollTo(0, 700)")
        tab.run("window.untouched = document.querySelector('[data-filter=t0]')")
        (tmp_path / "suite.json").write_text('{"seeds": 2}')
        tab.wait("document.title.endsWith('second')")
        assert "it came in" in tab.run("document.getElementById('m0-amp').textContent")
        assert abs(tab.run("scrollY") - 700) < 2
        assert tab.run("document.activeElement === window.untouched")
        assert tab.run("document.activeElement.value") == "amp"
        assert len(tab.run(VISIBLE)) == 2
        assert tab.run("document.getElementById('s0-all').open")
        assert not tab.run("document.getElementById('s0-why').open")
        assert order(tab)[:2] == ["amp", "baseline"]
        assert tab.run("document.querySelectorAll('#s0-curves .out').length") > 0
        assert tab.complaints == []
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
