"""The first screen of a table: the answer, the one chart, and methods in five columns."""

from collections.abc import Sequence
from html import escape

from dataeff.plural import counted
from dataeff.report.answer import Answer
from dataeff.report.frames import Record
from dataeff.report.trade import trade_of
from dataeff.report.web import svg
from dataeff.report.web.five import five_cells, five_columns
from dataeff.report.web.shown import Shown
from dataeff.report.web.texts import LEGEND, breakable, lines
from dataeff.report.web.tradeoff import trade_off

MOST_LINES = 8
"""Methods that the first screen shows, those worth most; the others are a click away."""


def first_screen(shown: Shown, heading: str) -> str:
    """Return the answer of a table under a heading (h1 or h2), its chart and its methods."""
    return (
        f'<div class="answer">{_answer(shown, heading)}</div>'
        f'<div class="two">{_chart(shown)}{_methods(shown)}</div>'
    )


def facts(shown: Shown) -> str:
    """Return what was compared on, in one line: the task, how often, and where."""
    where = shown.board.conditions.get(shown.key[1], {})
    threads = where.get("threads")
    place = [shown.machine] if shown.machine else []
    place += [counted(int(threads), "thread")] if threads and where.get("device") == "cpu" else []
    return " · ".join(filter(None, [task_facts(shown), ", ".join(place)]))


def task_facts(shown: Shown) -> str:
    """Return what was compared on: dataset, network, length of training, and how often."""
    told = shown.board.suite["tasks"].get(shown.key[0], {})
    # A dataset with parameters is wanted whole: it is what is typed.
    said = [str(told[name]) for name in ("dataset", "model") if name in told]
    said += [f"{told['epochs']:g} epochs"] if "epochs" in told else []
    most = int(shown.part["n"].max()) if len(shown.part) else 0
    said += [counted(most, "seed")] if most else []
    return ", ".join(said)


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
    return five_columns("method", (_line(shown, line) for line in methods))


def _line(shown: Shown, line: Record) -> str:
    name = line["strategy"]
    style = shown.styles[name]
    beside = line["trouble"] if line["n"] else ""
    trouble = f"<small>{breakable(beside)}</small>" if beside else ""
    link = f'<a href="#{shown.anchors[name]}" title="{escape(name)}">'
    told = f"{svg.icon(style)} {link}{breakable(shown.labels[name])}</a>{trouble}"
    return five_cells(line, told, style.key)
