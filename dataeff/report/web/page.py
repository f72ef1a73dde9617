"""The page: one self-contained HTML file with verdicts, tables, charts and how to repeat them."""

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from dataeff.files import make_way, write_text
from dataeff.plural import counted
from dataeff.report.board import Board, differing, places
from dataeff.report.frames import Key, records, tables
from dataeff.report.tables import list_checksums
from dataeff.report.web.canvas import styles
from dataeff.report.web.cards import breakable, toned
from dataeff.report.web.section import section
from dataeff.report.web.webtable import used_columns
from dataeff.report.words import CLAIMS
from dataeff.seeds import in_words

MOST_CHARTED = 12
"""Methods that the charts show, the best by gain; more could not be told apart."""
_MOST_CONTROLS = 6


def write_report(folder: Path, board: Board) -> Path:
    """Write report.html; return its path."""
    make_way(folder / "report.html")
    write_text(folder / "report.html", page_text(board))
    list_checksums(folder, ["report.html"], board.from_tables)
    return folder / "report.html"


def page_text(board: Board) -> str:
    """Return the page: the same text for the same board."""
    # Slow to import, and only here needed.
    from plotly.offline import get_plotlyjs

    reference = board.suite["reference"]
    groups = list(tables(board.table))
    charted = [_charted(part, reference) for _, part in groups]
    controls = set(board.table.loc[board.table["control"].astype(bool), "strategy"])
    given = styles((name for names in charted for name in names), reference, controls)
    sections = [
        section(board, number, key, part, {name: given[name] for name in names})
        for number, ((key, part), names) in enumerate(zip(groups, charted, strict=True))
    ]
    script, plotly = _asset("page.js"), get_plotlyjs()
    text = Template(_asset("page.html")).substitute(
        title=escape(board.suite.get("title") or board.suite["name"]),
        policy=_policy(script, plotly),
        style=_asset("page.css"),
        script=script,
        plotly=plotly,
        lead=_lead(board),
        contents=_contents([key for key, _ in groups], bool(len(board.claims))),
        notes=_notes(board.notes),
        sections="\n".join(text for text, _ in sections) or "<p>There is no finished run yet.</p>",
        claims=_claims(board),
        command=escape("\n".join(board.suite["commands"])),
        conditions=_conditions(board.conditions),
        reference=escape(reference),
        meanings=_meanings(board.table),
        figures=_script_json({k: v for _, drawn in sections for k, v in drawn.items()}),
    )
    # Records may hold halves of characters, which no file can.
    return text.encode("utf-8", "replace").decode("utf-8")


def _asset(name: str) -> str:
    return files("dataeff.report.web").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
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


def _charted(part: pd.DataFrame, reference: str) -> list[str]:
    """Return who is in the charts: the reference, the best by gain, the front, some controls."""
    part = part[part["n"] > 0]
    control, base = part["control"].astype(bool), part["strategy"] == reference
    methods = part[~control & ~base]
    front = methods.loc[methods["pareto"].astype(bool), "strategy"]
    chosen = [*methods["strategy"][:MOST_CHARTED], *front[: MOST_CHARTED // 2]]
    chosen += part.loc[control & ~base, "strategy"][:_MOST_CONTROLS].tolist()
    return list(dict.fromkeys([*part.loc[base, "strategy"], *chosen]))


def _lead(board: Board) -> str:
    suite, tasks = board.suite, list(board.suite["tasks"])
    # Controls that the suite has added are among those run, and not among those asked for.
    count = counted(len({*suite["strategies"], *board.runs["strategy"]}), "strategy")
    on = ", ".join(tasks) if len(tasks) <= 3 else f"{len(tasks)} tasks"
    what = f"{count} on {on}, {in_words(suite['seeds'])}"
    loss = f"Up to {board.margin:g} {'point' if board.margin == 1 else 'points'} less accuracy"
    return breakable(f"{what}, compared with {suite['reference']}. {loss} count as no worse.")


def _contents(keys: list[Key], claims: bool) -> str:
    if len(keys) < 2:
        return ""
    several = len({conditions for _, conditions in keys}) > 1
    links = "".join(
        f'<li><a href="#s{number}">{breakable(task)}'
        f"{f' <small>{escape(conditions)}</small>' if several else ''}</a></li>"
        for number, (task, conditions) in enumerate(keys)
    )
    if claims:
        links += '<li><a href="#claims">Claims of papers</a></li>'
    return f'<nav aria-label="Tables"><ul>{links}</ul></nav>'


def _notes(notes: list[str]) -> str:
    if not notes:
        return ""
    lines = "".join(f"<li>{breakable(note)}</li>" for note in notes)
    return f'<aside class="notes"><h2>Please note</h2><ul>{lines}</ul></aside>'


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
    return (
        f'<section id="claims"><h2>Claims of papers</h2><p class="soft">{CLAIMS}. '
        "Differences of less than "
        f"{board.margin:g} points count as no worse, and as equal.</p>"
        f'<ul class="said">{lines}</ul></section>'
    )


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
    return f'<div class="conditions">{text}</div>'


def _meanings(table: pd.DataFrame) -> str:
    return "".join(
        f"<dt>{escape(column.title)}</dt><dd>{escape(column.brief)}</dd>"
        for column in used_columns(table)
    )
