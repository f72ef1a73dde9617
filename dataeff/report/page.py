"""The page: one self-contained HTML file with verdicts, tables, charts and how to repeat them."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from dataeff.bench.results import write_text
from dataeff.report.board import Board
from dataeff.report.cards import breakable, cards, mark, toned
from dataeff.report.charts import Figure, Looks, looks
from dataeff.report.claims import places
from dataeff.report.gallery import Chart, gallery, texts
from dataeff.report.sentences import counted
from dataeff.report.webtable import used_columns, web_table

MOST_CHARTED = 12
"""Methods that the charts show, the best by rank; more could not be told apart."""
_MOST_CONTROLS = 6


def write_report(folder: Path, board: Board) -> Path:
    """Write report.html; return its path."""
    write_text(folder / "report.html", page_text(board))
    return folder / "report.html"


def page_text(board: Board) -> str:
    """Return the page: the same text for the same board."""
    # Slow to import, and only here needed.
    from plotly.offline import get_plotlyjs

    reference = board.suite["reference"]
    groups = [
        (key, part.sort_values("rank", kind="stable", na_position="last"))
        for key, part in board.table.groupby(["task", "conditions"], sort=False)
    ]
    charted = [_charted(part, reference) for _, part in groups]
    controls = set(board.table.loc[board.table["control"].astype(bool), "strategy"])
    given = looks((name for names in charted for name in names), reference, controls)
    figures: dict[str, Figure] = {}
    sections = [
        _section(board, number, key, part, {name: given[name] for name in names}, figures)
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
        sections="\n".join(sections) or "<p>There is no finished run yet.</p>",
        claims=_claims(board),
        command=escape("\n".join(board.suite["commands"])),
        conditions=_conditions(board.conditions),
        reference=escape(reference),
        meanings=_meanings(board.table),
        figures=_script_json(figures),
    )
    # Records may hold halves of characters, which no file can.
    return text.encode("utf-8", "replace").decode("utf-8")


def _asset(name: str) -> str:
    return importlib.resources.files("dataeff.report").joinpath(name).read_text(encoding="utf-8")


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
    """Return who is in the charts: the reference, the best by rank, the front, some controls."""
    part = part[part["n"] > 0]
    control, base = part["control"].astype(bool), part["strategy"] == reference
    methods = part[~control & ~base]
    front = methods.loc[methods["pareto"].astype(bool), "strategy"]
    chosen = [*methods["strategy"][:MOST_CHARTED], *front[: MOST_CHARTED // 2]]
    chosen += part.loc[control & ~base, "strategy"][:_MOST_CONTROLS].tolist()
    return list(dict.fromkeys([*part.loc[base, "strategy"], *chosen]))


def _seeds(board: Board) -> int:
    return board.suite["seeds"]


def _lead(board: Board) -> str:
    tasks, seeds = list(board.suite["tasks"]), _seeds(board)
    # Controls that the suite has added are among those run, and not among those asked for.
    count = len({*board.suite["strategies"], *board.runs["strategy"]})
    on = ", ".join(tasks) if len(tasks) <= 3 else f"{len(tasks)} tasks"
    each = f"{counted(seeds, 'seed', 'seeds')} each"
    what = f"{counted(count, 'strategy', 'strategies')} on {on}, {each}"
    loss = f"Up to {board.margin:g} points less accuracy count as no worse"
    return breakable(f"{what}, compared with {board.suite['reference']}. {loss}.")


def _contents(keys: list[tuple[str, str]], claims: bool) -> str:
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


def _section(
    board: Board,
    number: int,
    key: tuple[str, str],
    part: pd.DataFrame,
    given: Looks,
    figures: dict[str, Figure],
) -> str:
    task, conditions = key
    reference = board.suite["reference"]
    told = board.suite["tasks"].get(task, {})
    facts = [str(told[name]) for name in ("dataset", "model") if name in told]
    facts += [f"{told[name]:g} {text}" for name, text in _FACTS if name in told]
    drawn = gallery(board, key, part, given)
    figures |= {f"f{number}-{chart.name}": chart.figure for chart in drawn}
    body = [
        f'<section id="s{number}" class="task"><h2>{breakable(task)}</h2>',
        f'<p class="soft">{escape(", ".join(facts))} · '
        f'<a href="#c-{_anchor(board, conditions)}">conditions {escape(conditions)}</a></p>',
        _progress(board, part),
        cards(part, given, reference, board.margin),
        "<h3>All strategies</h3>",
        web_table(part, given, reference, number),
        _charts(number, drawn, part, given),
        _papers(part),
        "</section>",
    ]
    return "\n".join(piece for piece in body if piece)


_DIFFERS = ' <span class="tag">differs</span>'
_FACTS = (("epochs", "epochs"), ("batch_size", "rows a batch"))


def _anchor(board: Board, conditions: str) -> int:
    return list(board.conditions).index(conditions)


def _progress(board: Board, part: pd.DataFrame) -> str:
    """Say what is missing: seeds, strategies, and why there is no verdict."""
    said, present = [], set(part["strategy"])
    asked = board.suite["strategies"]
    absent = [name for name in asked if name not in present]
    key = part["task"].iloc[0], part["conditions"].iloc[0]
    runs = board.runs[(board.runs["task_name"] == key[0]) & (board.runs["conditions_id"] == key[1])]
    # What has diverged or failed has ended too: it is in the column of troubles.
    ended, wanted = int(runs["strategy"].isin(asked).sum()), _seeds(board) * len(asked)
    if ended < wanted:
        said.append(f"Not complete: {ended} of {wanted} runs have ended; the figures will change.")
    if absent:
        names = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if absent[5:] else "")
        said.append(f"No run yet: {names}.")
    if not (part.loc[part["strategy"] == board.suite["reference"], "n"] > 0).any():
        said.append("The reference has no finished run here: there is nothing to compare with.")
    elif part["n"].max() == 1:
        said.append("One seed tells nothing about chance: there are no verdicts and no intervals.")
    lines = "".join(f"<p>{breakable(text)}</p>" for text in said)
    return f'<div class="progress" role="status">{lines}</div>' if said else ""


def _charts(number: int, charts: list[Chart], part: pd.DataFrame, given: Looks) -> str:
    if not charts:
        return "<p>There is nothing to draw yet.</p>"
    keys = "".join(
        f'<button type="button" aria-pressed="true" data-key="{look.key}">'
        f"{mark(look, line=True)}<span>{breakable(name)}</span></button>"
        for name, look in given.items()
    )
    left = int((part["n"] > 0).sum()) - len(given)
    said = ""
    if left > 0:
        said = (
            f'<p class="soft">The charts show the reference, the best by rank, the front and some '
            f"controls; {left} more are in the table, and small dots in the first chart.</p>"
        )
    drawn = "".join(
        f'<figure class="{"wide" if chart.wide else "half"}"><figcaption><h4>{chart.heading}</h4>'
        f'<p class="soft">{escape(chart.caption)}</p></figcaption>'
        f'<div class="plot" id="f{number}-{chart.name}" style="height:{chart.height}px" role="img" '
        f'aria-label="{escape(chart.label)}"></div>{_numbers(chart)}</figure>'
        for chart in charts
    )
    return (
        f'<h3>Charts</h3>{said}<div class="charts" data-charts><div class="legend" role="group" '
        f'aria-label="Strategies shown in the charts">{keys}</div>'
        f'<div class="figures-grid">{drawn}</div></div>'
    )


def _numbers(chart: Chart) -> str:
    """Return the numbers behind a chart that the table does not have, folded."""
    if chart.table is None:
        return ""
    return f"<details><summary>The numbers</summary>{_plain_table(chart.table)}</details>"


def _plain_table(table: pd.DataFrame) -> str:
    # Columns of numbers are aligned at their ends, those of words at their beginnings.
    kinds = [
        "" if table[name].str.match(r"[-+–\d]").all() else ' class="text"' for name in table.columns
    ]
    head = "".join(
        f'<th scope="col"{kind if place else " class=names"}>{escape(str(name))}</th>'
        for place, (name, kind) in enumerate(zip(table.columns, kinds, strict=True))
    )
    body = "".join(
        f'<tr><th scope="row">{breakable(first)}</th>'
        + "".join(
            f"<td{kind}>{breakable(text)}</td>" for text, kind in zip(rest, kinds[1:], strict=True)
        )
        + "</tr>"
        for first, *rest in table.itertuples(index=False)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


_PAPERS = (
    ("accuracy", "accuracy", ".2f", "%"),
    ("speed-up", "speedup", ".2f", "×"),
    ("F1", "macro_f1", ".2f", "%"),
    ("hours", "hours", ".3g", ""),
    ("training loss", "train_loss", ".2f", ""),
    ("test loss", "test_loss", ".2f", ""),
)


def _papers(part: pd.DataFrame) -> str:
    """Return the published figures beside the measured ones."""
    told = part[part["published_source"] != ""]
    if told.empty:
        return ""
    columns = {"strategy": told["strategy"]}
    ours = told.assign(hours=(told["prepare_seconds"] + told["train_seconds"]) / 3600)
    for name, column, form, unit in _PAPERS:
        if told[f"published_{column}"].notna().any():
            columns[f"{name}, paper"] = texts(told[f"published_{column}"], form, unit)
            columns[f"{name}, ours"] = texts(ours[column], form, unit)
    table = pd.DataFrame({**columns, "source": told["published_source"]})
    return (
        "<h3>The papers beside us</h3>"
        '<p class="soft">Papers used other machines, and mostly other tasks.</p>'
        + _plain_table(table)
    )


def _claims(board: Board) -> str:
    """Return what became of the claims of papers, one line each."""
    if board.claims.empty:
        return ""
    lines = ""
    for row, where in zip(board.claims.to_dict("records"), places(board), strict=True):
        small = " · ".join(breakable(text) for text in (row["source"], where) if text)
        lines += (
            f"<li>{toned(row['verdict'])}<div><p>{breakable(row['text'])} <small>{small}</small>"
            f'</p><p class="soft">{breakable(row["strategy"])} {breakable(row["claimed"])}: '
            f"<b>{breakable(row['measured'])}</b></p></div></li>"
        )
    return (
        '<section id="claims"><h2>Claims of papers</h2><p class="soft">Each is judged by the 95% '
        "interval of its own comparison, paired by seed. Differences of less than "
        f"{board.margin:g} points count as no worse, and as equal.</p>"
        f'<ul class="said">{lines}</ul></section>'
    )


def _conditions(conditions: dict[str, dict[str, Any]]) -> str:
    """Return a list per conditions; where there are several, what differs comes first, marked."""
    keys = list(dict.fromkeys(key for values in conditions.values() for key in values))
    differs = {
        key for key in keys if len({str(values.get(key)) for values in conditions.values()}) > 1
    }
    ordered = sorted(keys, key=lambda key: key not in differs)
    parts = []
    for number, (name, values) in enumerate(conditions.items()):
        lines = "".join(
            f"<dt>{escape(key)}{_DIFFERS if key in differs else ''}</dt>"
            f"<dd>{breakable(values[key])}</dd>"
            for key in ordered
            if key in values
        )
        parts.append(f'<div id="c-{number}"><h3>{escape(name)}</h3><dl>{lines}</dl></div>')
    return f'<div class="conditions">{"".join(parts)}</div>'


def _meanings(table: pd.DataFrame) -> str:
    return "".join(
        f"<dt>{escape(column.title)}</dt><dd>{escape(column.meaning)}</dd>"
        for column in used_columns(table)
    )
