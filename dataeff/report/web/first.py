"""The first screen of a table: the answer, the one chart, and methods in five columns."""

from collections.abc import Sequence
from html import escape

from dataeff.plural import counted
from dataeff.report.answer import Answer
from dataeff.report.frames import Record
from dataeff.report.stats import Interval, interval_of
from dataeff.report.trade import trade_of
from dataeff.report.web import svg
from dataeff.report.web.shown import Shown
from dataeff.report.web.texts import LEGEND, breakable, evidence, figure, lines
from dataeff.report.web.tradeoff import trade_off
from dataeff.report.words import saved

MOST_LINES = 8
"""Methods that the first screen shows, those worth most; the others are a click away."""
_HEADS = ("method", "time saved, %", "accuracy, points", "vs training less", "evidence")


def first_screen(shown: Shown, heading: str) -> str:
    """Return the answer of a table under a heading (h1 or h2), its chart and its methods."""
    return (
        f'<div class="answer">{_answer(shown, heading)}</div>'
        f'<div class="two">{_chart(shown)}{_methods(shown)}</div>'
    )


def facts(shown: Shown) -> str:
    """Return what was compared on, in one line: the task, how often, and where."""
    board, (task, conditions) = shown.board, shown.key
    told = board.suite["tasks"].get(task, {})
    said = [str(told[name]) for name in ("dataset", "model") if name in told]
    said += [f"{told['epochs']:g} epochs"] if "epochs" in told else []
    most = int(shown.part["n"].max()) if len(shown.part) else 0
    said += [counted(most, "seed")] if most else []
    where = board.conditions.get(conditions, {})
    device = where.get("cpu") if where.get("device") == "cpu" else where.get("device")
    threads = where.get("threads")
    place = [str(device)] if device else []
    place += [counted(int(threads), "thread")] if threads and where.get("device") == "cpu" else []
    # A dataset with parameters is wanted whole: it is what is typed.
    return " · ".join(filter(None, [", ".join(said), ", ".join(place)]))


def _answer(shown: Shown, heading: str) -> str:
    found = shown.answer
    if found is None:
        return f"<{heading}>There is no finished run yet.</{heading}>"
    rest = [found.detail, found.open]
    return (
        f"<{heading}>{_headline(shown, found)}</{heading}>"
        f"{lines(rest)}{lines([found.counts], 'soft')}"
    )


def _headline(shown: Shown, found: Answer) -> str:
    """Return the headline, in which the strategy to take stands out and leads to what is said."""
    if not found.strategy or found.strategy not in shown.anchors:
        return breakable(found.headline)
    before, name, after = found.headline.partition(found.strategy)
    if not name:
        return breakable(found.headline)
    link = f'<a href="#{shown.anchors[name]}">{breakable(name)}</a>'
    return f"{breakable(before)}{link}{breakable(after)}"


def _chart(shown: Shown) -> str:
    trade = trade_of(shown.part, shown.board.suite, shown.board.margin)
    if trade is None:
        return "<p>There is nothing to compare yet.</p>"
    return (
        f'<figure class="trade" id="{shown.place}-trade">{trade_off(shown, trade)}'
        f'<button type="button" data-save="{shown.place}-trade" hidden>SVG</button></figure>'
    )


# Methods -----------------------------------------------------------------------------------------


def _methods(shown: Shown) -> str:
    """Return methods in five columns: the first of them, and folded all others."""
    methods = shown.methods
    if not methods:
        return ""
    few, rest = methods[:MOST_LINES], methods[MOST_LINES:]
    told = _table(shown, few)
    if rest:
        more = counted(len(rest), "more method")
        told += f'<details id="{shown.place}-rest"><summary>{more}</summary>'
        told += f"{_table(shown, rest)}</details>"
    return f'<div class="methods">{told}<p class="soft">{LEGEND}</p></div>'


def _table(shown: Shown, methods: Sequence[Record]) -> str:
    head = "".join(
        f'<th scope="col" role="columnheader"{_css(place)}>{text}</th>'
        for place, text in enumerate(_HEADS)
    )
    body = "".join(_line(shown, line) for line in methods)
    # Roles are said: on phones lines are no longer drawn as those of a table.
    return (
        '<table role="table" class="five"><thead role="rowgroup"><tr role="row">'
        f'{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table>'
    )


def _css(place: int) -> str:
    return {0: ' class="names"', 4: ' class="says"'}.get(place, "")


def _line(shown: Shown, line: Record) -> str:
    name = line["strategy"]
    style = shown.styles[name]
    time = saved(interval_of(line, "speedup")) if line["speedup"] > 0 else None
    cells = [
        figure(Interval(*(100 * end for end in time)), "z.0f") if time else "–",
        figure(interval_of(line, "difference"), "+z.1f"),
        figure(interval_of(line, "gain"), "+z.1f"),
    ]
    beside = line["trouble"] if line["n"] else ""
    trouble = f"<small>{breakable(beside)}</small>" if beside else ""
    told = "".join(f'<td role="cell">{cell}</td>' for cell in cells)
    return (
        f'<tr role="row" data-look="{style.key}"><th scope="row" role="rowheader" class="names">'
        f'{svg.icon(style)} <a href="#{shown.anchors[name]}" title="{escape(name)}">'
        f"{breakable(shown.labels[name])}</a>{trouble}</th>"
        f'{told}<td role="cell" class="says">{evidence(line)}</td></tr>'
    )
