"""Writing a site: its pages, its cards, and a list of them, so that no old one stays behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from dataeff.errors import DataeffError
from dataeff.files import finite, make_way, read_bytes, write_json, write_text
from dataeff.report.plots.card import Words, save_card
from dataeff.report.site.elsewhere import method_body
from dataeff.report.site.gather import Gallery, Hung
from dataeff.report.site.index import headline, index_body
from dataeff.report.web.first import facts
from dataeff.report.web.page import Around, asset, page_text, policy

LIST = "site.json"
"""The file that lists what a site is made of, and what its tables say."""
_INDEX = "index.html"
_FORMS = ("png", "svg")
_SIZE = (1200, 630)


def write_site(gallery: Gallery, folder: Path, title: str, url: str = "") -> list[str]:
    """Write all pages and cards; return their names. `url` is where they will be, if known.

    Only addresses that are whole can be shown where links are shared.
    """
    before = _before(folder)
    names = []
    for name, text in _pages(gallery, title, url):
        make_way(folder / name)
        write_text(folder / name, text)
        names.append(name)
    for hung in gallery.tables:
        names += _write_card(folder, hung)
    tables = finite([_listed(hung) for hung in gallery.tables])
    write_json(folder / LIST, {"title": title, "files": names, "tables": tables})
    for name in before - set(names):
        # Its suite or its method is no longer there.
        (folder / name).unlink(missing_ok=True)
    return names


def _before(folder: Path) -> set[str]:
    """Return what a site there has written; a folder that holds anything else is left alone."""
    if folder.exists() and not folder.is_dir():
        raise DataeffError(f"{folder} is a file; name a folder for the site with --out.")
    known = set()
    with suppress(OSError, ValueError, TypeError, KeyError):
        listed = json.loads(read_bytes(folder / LIST))["files"]
        known = {name for name in listed if _is_ours(name)}
    if not known and folder.exists() and any(folder.iterdir()):
        raise DataeffError(
            f"{folder} holds other things than a site; name an empty folder with --out."
        )
    return known


def _is_ours(name: object) -> bool:
    """Say whether a name is one that sites write: nothing else is ever deleted."""
    home, _, rest = str(name).rpartition("/")
    return name == _INDEX or (home in ("suites", "methods", "cards") and rest != "..")


# Pages -------------------------------------------------------------------------------------------


def _pages(gallery: Gallery, title: str, url: str) -> Iterator[tuple[str, str]]:
    yield _INDEX, _page(title, escape(title), index_body(gallery), headline(gallery))
    home = f'<a href="../{_INDEX}">{escape(title)}</a>'
    for page, board in gallery.pages.items():
        tables = [hung for hung in gallery.tables if hung.page == page]
        about = _about(tables[:1], url)
        elsewhere = tables[0].shown.elsewhere if tables else {}
        yield page, page_text(board, Around(home, about, _cards(tables), elsewhere))
    for name, page in gallery.methods.items():
        body = method_body(gallery, name)
        yield page, _page(f"{name}, elsewhere", f"{home} · {escape(name)} ", body)


def _page(title: str, home: str, body: str, description: str = "") -> str:
    script = asset("page.js")
    about = f'<meta name="description" content="{escape(description)}">\n' if description else ""
    return Template(asset("site.html")).substitute(
        title=escape(title),
        policy=policy(script),
        about=about,
        style=asset("page.css"),
        script=script,
        home=home,
        body=body,
    )


def _about(tables: Sequence[Hung], url: str) -> str:
    """Return what those show who are sent the address of a page: its answer, and its card."""
    told: dict[str, str] = {}
    for hung in tables:
        said = hung.answer.sentences if hung.answer else [hung.title]
        told |= {"og:title": said[0], "og:description": " ".join(said[1:2]), "og:type": "article"}
        if url:
            width, height = map(str, _SIZE)
            told |= {"og:url": f"{url}/{hung.page}", "og:image": f"{url}/cards/{hung.card}.png"}
            told |= {"og:image:width": width, "og:image:height": height}
            told["twitter:card"] = "summary_large_image"
    return "".join(
        f'<meta property="{name}" content="{escape(value)}">\n' for name, value in told.items()
    )


# Cards -------------------------------------------------------------------------------------------


def _cards(tables: Sequence[Hung]) -> str:
    """Return the ways to the cards of a page."""
    return "".join(
        f"<p>Card to share{f', {escape(hung.task)}' if hung.task else ''}: "
        + ", ".join(
            f'<a href="../cards/{escape(hung.card)}.{form}">{form.upper()}</a>' for form in _FORMS
        )
        + "</p>"
        for hung in tables
    )


def _write_card(folder: Path, hung: Hung) -> list[str]:
    board = hung.shown.board
    said = hung.answer.headline if hung.answer else "There is no finished run yet."
    command = f"$ {board.suite['commands'][-1]}"
    words = Words(f"dataeff · {hung.title}", said, facts(hung.shown), command)
    names = [f"cards/{hung.card}.{form}" for form in _FORMS]
    make_way(folder / names[0])
    save_card(board, hung.shown.key, words, [folder / name for name in names])
    return names


def _listed(hung: Hung) -> dict[str, Any]:
    """Return a table for programs."""
    told = hung.answer.numbers() if hung.answer else {}
    return {
        "suite": hung.suite,
        "machine": hung.machine,
        "page": hung.address,
        "card": f"cards/{hung.card}.png",
        **told,
    }
