"""The site of what is published, in a browser."""

from pathlib import Path

import pytest
from browser import DESKTOP, OVERLAPS, PHONE, serious
from shell import ok

PUBLISHED = Path(__file__).parent.parent / "results" / "published"
PAGES = {
    "index": "index.html",
    "suite": "suites/selection-zoo-mini.html",
    "method": "methods/mixtrain_cutmix.html",
    "long names": "methods/el2n.html",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "out"
    ok("site", PUBLISHED, "--out", folder)
    return folder


@pytest.fixture
def shown(tab, site):
    """Return a function that opens a page, and see that nothing was complained of or fetched."""

    def show(name, size=DESKTOP, dark=False):
        tab.size(*size, dark)
        tab.open((site / PAGES[name]).as_uri())
        return tab

    tab.complaints.clear()
    tab.requests.clear()
    yield show
    assert tab.complaints == []
    assert not [url for url in tab.requests if not url.startswith(("file:", "data:"))]


@pytest.mark.long
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_collides_and_no_page_scrolls_sideways(shown, name, size):
    tab = shown(name, size)
    assert tab.run(OVERLAPS) == []
    assert tab.run("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["index", "method"])
def test_axe_finds_nothing_serious(shown, name, dark):
    assert serious(shown(name, dark=dark)) == []


def test_from_the_index_to_a_method_and_back(shown):
    tab = shown("index")
    tab.click(".index td a")
    tab.wait("location.href.includes('/suites/')")
    tab.wait("document.querySelector('.answer') !== null")
    tab.run("document.getElementById('s0-each').open = true")
    tab.click("#s0-each h4 a[href^='../methods/']")
    tab.wait("location.href.includes('/methods/')")
    tab.wait("document.querySelector('.kicker a') !== null")
    tab.click(".kicker a")
    tab.wait("location.href.endsWith('index.html')")
