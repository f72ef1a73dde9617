"""All that is to be said of each method of a table, behind a click, with a link to keep."""

import math
from html import escape

from dataeff.report.frames import Record
from dataeff.report.styles import parts_of
from dataeff.report.web import svg
from dataeff.report.web.shown import Shown
from dataeff.report.web.texts import breakable, lines, questions, verdict


def methods(shown: Shown) -> str:
    """Return what is said of each method, those worth most first."""
    return "".join(_method(shown, line) for line in shown.methods)


def _method(shown: Shown, line: Record) -> str:
    name = line["strategy"]
    anchor = shown.anchors[name]
    off = "" if math.isnan(line["oracle"]) else "Part of its work is off the clock."
    contended = line["contended"] > 0
    busy = f"Contended: {line['contended']:.0f} runs." if contended else ""
    pages = "".join(
        f' <a href="{escape(page)}">{breakable(part)} elsewhere</a>'
        for part in parts_of(name)
        if (page := shown.elsewhere.get(part))
    )
    against = f"{line['against_line'].capitalize()}." if line["against_line"] else ""
    return (
        f'<article class="method" id="{anchor}"><h4>{svg.icon(shown.styles[name])} '
        f'{breakable(name)} <a class="here" href="#{anchor}" '
        f'aria-label="Link to {escape(name)}"><span aria-hidden="true">#</span></a>{pages}</h4>'
        f"<p>{verdict(line)}</p>{questions(line)}{lines([line['sentence'], against])}"
        f"{lines([off, line['trouble'], line['note'], busy], 'soft')}</article>"
    )
