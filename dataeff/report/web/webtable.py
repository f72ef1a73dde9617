"""The tables of the page: every column, sortable by its numbers and not by its texts."""

import math
from collections.abc import Iterable
from html import escape

import pandas as pd

from dataeff.report.columns import PAGE, Column
from dataeff.report.frames import Record, records
from dataeff.report.stats import interval_of
from dataeff.report.styles import Styles
from dataeff.report.web.svg import icon
from dataeff.report.web.texts import breakable, verdict
from dataeff.report.words import POINTS, gained, limits, on_page

# A longer table scrolls in its own box, below its head.
_TALL = 20


def used_columns(table: pd.DataFrame) -> list[Column]:
    """Return the columns that say anything."""
    return [column for column in PAGE if column.always or column.says(table)]


def web_table(part: pd.DataFrame, styles: Styles, reference: str, number: int) -> str:
    """Return one table with its filter, its switches and its lines."""
    columns, lines = used_columns(part), records(part)
    rows = [
        f"<tr{_kind(line, reference)}>"
        + "".join(_cell(column, line, styles, reference) for column in columns)
        for line in lines
    ]
    tall, more = " tall" * (len(lines) > _TALL), any(column.more for column in columns)
    kinds = (f"scroll{tall}", f' id="t{number}" class="results"')
    return (
        f'<div class="tools"><label>Filter <input type="search" data-filter="t{number}" '
        'placeholder="strategy or verdict"></label>'
        + _switch(number, "controls", "hide controls", bool(part["control"].any()))
        + _switch(number, "more", "more columns", more)
        + f'<output id="t{number}-count" aria-live="polite"></output></div>'
        + _scrolled("Table of results", map(_head, columns), rows, kinds)
    )


def plain_table(table: pd.DataFrame) -> str:
    """Return a table of texts: numbers aligned at their ends, words at their beginnings."""
    first, *rest = table
    head = f'<th scope="col" class=names>{escape(first)}</th>'
    rows = '<tr><th scope="row">' + table[first].map(breakable) + "</th>"
    for name in rest:
        kind = "" if table[name].str.match(r"[-+–\d]").all() else ' class="text"'
        head += f'<th scope="col"{kind}>{escape(name)}</th>'
        rows += f"<td{kind}>" + table[name].map(breakable) + "</td>"
    return _scrolled("Numbers", head, rows, ("scroll", ""))


def tinted_table(wide: pd.DataFrame) -> str:
    """Return a table of differences, strategies down: what is lost and gained has a colour each."""
    most = max(float(wide.abs().max(axis=None)), 0.5)
    head = '<th scope="col" class="names">points, class</th>'
    head += "".join(f'<th scope="col">{escape(str(label))}</th>' for label in wide)
    rows = []
    for name, line in wide.iterrows():
        row = f'<tr><th scope="row">{breakable(name)}</th>'
        rows.append(row + "".join(_tinted(value, most) for value in line))
    return _scrolled("Accuracy by class", head, rows, ("scroll", ' class="tinted"'))


def _tinted(value: float, most: float) -> str:
    if not math.isfinite(value):
        return "<td>–</td>"
    tone = "gain" if value > 0 else "loss"
    share = f' class="{tone}" style="--share:{abs(value) / most:.0%}"' if value else ""
    return f"<td{share}>{on_page(value, POINTS)}</td>"


def _scrolled(label: str, head: Iterable[str], rows: Iterable[str], kinds: tuple[str, str]) -> str:
    """Return a table in a box of its own; `kinds` are the class of the box, and of the table."""
    box, table = kinds
    return (
        f'<div class="{box}" tabindex="0" role="region" aria-label="{label}"><table{table}>'
        f"<thead><tr>{''.join(head)}</tr></thead>"
        f"<tbody>{''.join(f'{row}</tr>' for row in rows)}</tbody></table></div>"
    )


def _switch(number: int, name: str, text: str, needed: bool) -> str:
    box = f'<input type="checkbox" data-switch="{name}" data-table="t{number}">'
    return f"<label>{box} {text}</label>" if needed else ""


def _kind(line: Record, reference: str) -> str:
    if line["strategy"] == reference:
        return ' class="reference"'
    return ' class="control"' if line["control"] else ""


def _head(column: Column) -> str:
    kinds = {"more": column.more, "names": column.name == "strategy", "text": column.form == ""}
    words = " ".join(name for name, is_so in kinds.items() if is_so)
    first = "ascending" if column.up else "descending"
    return (
        f'<th scope="col" class="{words}" data-name="{column.name}" data-first="{first}">'
        f'<button type="button" title="{escape(column.brief)}">{escape(column.title)}</button>'
        "</th>"
    )


def _cell(column: Column, line: Record, styles: Styles, reference: str) -> str:
    value = line[column.name]
    if column.name == "strategy":
        return (
            f'<th scope="row"><div class="name">{icon(styles[value]) if value in styles else ""}'
            f"<span>{breakable(value)}{_tag(line, reference)}</span></div></th>"
        )
    if column.name == "verdict":
        text = "" if line["strategy"] == reference else verdict(line)
        return f'<td class="text">{text}</td>'
    if column.form == "":
        return f'<td class="text{" more" if column.more else ""}">{breakable(value)}</td>'
    if column.form == "yes":
        return '<td data-v="1">yes</td>' if value else "<td></td>"
    css = ' class="more"' if column.more else ""
    if not math.isfinite(value):
        return f"<td{css}>–</td>"
    shown = on_page(value, column.form) + _spread(column, line)
    return f'<td{css} data-v="{float(value):.10g}">{shown}</td>'


def _tag(line: Record, reference: str) -> str:
    if line["strategy"] == reference:
        return ' <span class="tag">reference</span>'
    tags = [("control", line["control"]), ("part off the clock", line["oracle"] > 0)]
    return "".join(f' <span class="tag">{text}</span>' for text, is_so in tags if is_so)


def _spread(column: Column, line: Record) -> str:
    """Return what stands beside a number, small: its deviation, or its interval."""
    name, text = column.name, ""
    if not math.isnan(line.get(f"{name}_std", math.nan)):
        text = f"±{line[f'{name}_std']:.2f}"
    elif name == "gain":
        text = gained(interval_of(line, name)).partition(" ")[2].strip("()").replace("..", " to ")
    elif f"{name}_low" in line:
        found, form = interval_of(line, name), column.form.partition(" ")[0]
        text = "" if found.low == found.high else limits(found, form, " to ")
    return text and f" <small>{text}</small>"
