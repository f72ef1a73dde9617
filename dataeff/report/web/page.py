"""The page: one self-contained HTML file with the answer, its chart, and all else a click away."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from dataeff.files import finite, make_way, write_text
from dataeff.report.board import Board, differing, places
from dataeff.report.frames import records, tables
from dataeff.report.missing import still_missing
from dataeff.report.tables import list_checksums
from dataeff.report.trouble import troubles
from dataeff.report.web.section import section
from dataeff.report.web.shown import Shown, shown_of
from dataeff.report.web.texts import breakable, command, folded, toned
from dataeff.report.web.webtable import used_columns
from dataeff.report.words import CLAIMS

MOST_OPEN = 2
"""Tables that a page shows at once; of more than these, the first."""


def write_report(folder: Path, board: Board) -> Path:
    """Write report.html; return its path."""
    make_way(folder / "report.html")
    write_text(folder / "report.html", page_text(board))
    list_checksums(folder, ["report.html"], board.from_tables)
    return folder / "report.html"


@dataclass(frozen=True)
class Around:
    """What a page has around it where it is one of many, in HTML.

    `home` leads to the page of all, `about` goes into its head, `more` can be downloaded too;
    `elsewhere` are the pages of strategies.
    """

    home: str = "dataeff"
    about: str = ""
    more: str = ""
    elsewhere: Mapping[str, str] = field(default_factory=dict)


_ALONE = Around()


def page_text(board: Board, around: Around = _ALONE) -> str:
    """Return the page: the same text for the same board."""
    shown = shown_of(board, around.elsewhere)
    title = board.suite.get("title") or board.suite["name"]
    script = asset("page.js")
    text = Template(asset("page.html")).substitute(
        title=escape(title),
        name=escape(board.suite["name"]),
        policy=policy(script),
        home=around.home,
        about=around.about,
        more=around.more,
        style=asset("page.css"),
        script=script,
        missing=_missing(board),
        head=_head(shown, title),
        notes=_notes(board),
        sections=_sections(shown),
        claims=_claims(board),
        reproduce=folded("reproduce", "Reproduce", command("\n".join(board.suite["commands"]))),
        conditions=folded("conditions", "Conditions", _conditions(board.conditions)),
        reference=escape(board.suite["reference"]),
        meanings=_meanings(board.table),
        data=_script_json(_data(board)),
    )
    # Records may hold halves of characters, which no file can.
    return text.encode("utf-8", "replace").decode("utf-8")


def asset(name: str) -> str:
    """Return a file of the page."""
    return files("dataeff.report.web").joinpath(name).read_text(encoding="utf-8")


def policy(*scripts: str) -> str:
    """Return a policy by which nothing is fetched and no script runs but those of the page."""
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def _script_json(value: Any) -> str:
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(board: Board) -> dict[str, Any]:
    """Return what can be downloaded: the answers and the table."""
    told = json.loads(board.table.to_json(orient="split", index=False))
    answers = finite([one.numbers() for one in board.answers])
    return {"answers": answers, "columns": told["columns"], "lines": told["data"]}


def _missing(board: Board) -> str:
    """Return what has not ended yet, how long it will take, and what to type."""
    told = still_missing(board.missing)
    return f'<p class="missing" role="status">{breakable(told)}</p>' if told else ""


def _head(shown: Sequence[Shown], title: str) -> str:
    """Return the title where there are several tables, with the answer of each; else nothing."""
    if len(shown) < 2:
        return ""
    conditions = len({one.key[1] for one in shown}) > 1
    links = "".join(
        f'<li><a href="#{one.place}">{breakable(one.key[0])}</a>'
        f"{f' <small>{escape(one.key[1])}</small>' if conditions else ''}: "
        f"{breakable(one.answer.headline if one.answer else 'no finished run yet')}</li>"
        for one in shown
    )
    return f'<h1>{escape(title)}</h1><nav aria-label="Tables"><ul>{links}</ul></nav>'


def _sections(shown: Sequence[Shown]) -> str:
    """Return the part of each table; of many, all but the first are folded."""
    if not shown:
        return "<h1>There is no finished run yet.</h1>"
    if len(shown) == 1:
        return section(shown[0], "h1")
    count = len(shown) if len(shown) <= MOST_OPEN else 1
    told = [section(one, "h2") for one in shown[:count]]
    told += [folded(f"{one.place}-task", one.key[0], section(one, "h2")) for one in shown[count:]]
    return "\n".join(told)


def _notes(board: Board) -> str:
    """Return what was split, left out or matched; troubles stand with their tables."""
    told = {one.text for _, runs in tables(board.runs) for one in troubles(runs, "")}
    told |= {one.text for one in troubles(board.runs, "")}
    left = [note for note in board.notes if note not in told]
    lines = "".join(f"<li>{breakable(note)}</li>" for note in left)
    return folded(
        "notes", f"Notes ({len(left)})", f'<ul class="notes">{lines}</ul>' if left else ""
    )


def _claims(board: Board) -> str:
    """Return what became of the claims of papers, one line each."""
    if board.claims.empty:
        return ""
    lines = ""
    for line, where in zip(records(board.claims), places(board), strict=True):
        small = " · ".join(breakable(text) for text in (line["source"], where) if text)
        lines += (
            f"<li>{toned(line['verdict'])}<div><p>{breakable(line['text'])} <small>{small}</small>"
            f'</p><p class="soft">{breakable(line["strategy"])} {breakable(line["claimed"])}: '
            f"<b>{breakable(line['measured'])}</b></p></div></li>"
        )
    counts = board.claims["verdict"].value_counts(sort=False)
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    body = (
        f'<p class="soft">{CLAIMS}. Differences of less than {board.margin:g} points count as no '
        f'worse, and as equal.</p><ul class="said">{lines}</ul>'
    )
    return folded("claims", f"Claims of papers: {told}", body)


_DIFFERS = ' <span class="tag">differs</span>'


def _conditions(conditions: dict[str, dict[str, Any]]) -> str:
    """Return a list per conditions; where there are several, what differs comes first, marked."""
    found = sorted(differing(conditions).items(), key=lambda pair: len(pair[1]) == 1)
    marks = {key: _DIFFERS if len(values) > 1 else "" for key, values in found}
    text = ""
    for number, (name, values) in enumerate(conditions.items()):
        lines = "".join(
            f"<dt>{escape(key)}{marked}</dt><dd>{breakable(values[key])}</dd>"
            for key, marked in marks.items()
            if key in values
        )
        text += f'<div id="c-{number}"><h3>{escape(name)}</h3><dl>{lines}</dl></div>'
    return f'<div class="conditions">{text}</div>' if text else ""


def _meanings(table: pd.DataFrame) -> str:
    return "".join(
        f"<dt>{escape(column.title)}</dt><dd>{escape(column.brief)}</dd>"
        for column in used_columns(table)
    )
