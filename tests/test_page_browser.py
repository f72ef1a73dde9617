"""The page in a browser: how it behaves."""

import threading

import boards
import browser
import pytest
from pages import HOSTILE, NO_PLOTLY, PLOTLY, hostile
from plotly import offline

from dataeff.report.web.page import page_text, write_report
from dataeff.report.web.serve import make_server


@pytest.fixture(autouse=True)
def light(monkeypatch):
    """Leave plotly's script out of pages that draw nothing."""
    monkeypatch.setattr(offline, "get_plotlyjs", lambda: NO_PLOTLY)


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
    assert tab.run(focused) == "verdict"
    tab.press(" ", " ")
    assert tab.run("document.querySelector('[aria-sort]').dataset.name") == "verdict"


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
