"""The first page of a site: what there is to say, suites by machines, and all methods."""

from collections.abc import Iterable, Sequence
from html import escape

from dataeff.plural import counted
from dataeff.report.answer import BET, LESS, LOSES, SLOW
from dataeff.report.frames import Record
from dataeff.report.site.gather import TRAIN_LESS, Gallery, Hung, Seen
from dataeff.report.web.first import task_facts
from dataeff.report.web.texts import LEGEND, breakable, evidence, lines
from dataeff.report.words import listed, percent
from dataeff.report.worth import BEATS, KEEPS, SAVES

_ASKED = {SAVES: "saves time", KEEPS: "loses no more", BEATS: "beats training less"}
"""The questions of methods, as heads of columns."""
_WHY = {LESS: "no method beats it", LOSES: "all methods lose too much"}
SURE = ("proven", "likely")
_LEGEND = f"Evidence: {LEGEND}. Methods: in how many tables it is proven or likely, of those asked."


def index_body(gallery: Gallery) -> str:
    """Return the body of the first page."""
    machines = counted(len(gallery.machines), "machine")
    suites = counted(len({one.suite for one in gallery.tables}), "suite")
    tables = counted(len(gallery.tables), "table")
    return (
        f"<h1>{escape(headline(gallery))}</h1>"
        f'<p class="facts">{tables} of {suites} on {machines}. Tables of different tasks, '
        "machines or conditions are never mixed.</p>"
        f"{_suites(gallery)}<h2>Does it hold elsewhere?</h2>{_methods(gallery)}"
        f'<p class="soft">{_LEGEND}</p>{lines(gallery.notes, "soft")}'
    )


def headline(gallery: Gallery) -> str:
    """Return what all tables come to, in one sentence."""
    bets, less, slow = (gallery.count(kinds) for kinds in ((BET,), TRAIN_LESS, (SLOW,)))
    waiting = len(gallery.tables) - bets - less - slow
    said = [
        (bets, "has a best bet", "have a best bet"),
        (less, "says to just train less", "say to just train less"),
        (slow, "has nothing that saves time", "have nothing that saves time"),
        (waiting, "has no answer yet", "have no answer yet"),
    ]
    told = [f"{n} {one if n == 1 else more}" for n, one, more in said if n]
    of = f"Of {counted(len(gallery.tables), 'table')}, " if len(gallery.tables) > 1 else ""
    return f"{of}{listed(told)}." if told else "There is no finished run yet."


# Suites by machines ------------------------------------------------------------------------------


def _suites(gallery: Gallery) -> str:
    head = "".join(
        f'<th scope="col" role="columnheader" class="text">{breakable(name)}</th>'
        for name in ("suite", *gallery.machines)
    )
    body = "".join(
        f'<tr role="row"><th scope="row" role="rowheader">{_suite(tables[0])}</th>'
        + "".join(_cell(name, tables) for name in gallery.machines)
        + "</tr>"
        for tables in gallery.rows().values()
    )
    # Roles are said: on phones lines are no longer drawn as those of a table.
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Suites by machines">'
        f'<table role="table" class="index"><thead role="rowgroup"><tr role="row">{head}</tr>'
        f'</thead><tbody role="rowgroup">{body}</tbody></table></div>'
    )


def _suite(hung: Hung) -> str:
    told = task_facts(hung.shown)
    return f"{breakable(hung.title)}<small>{escape(told)}</small>"


def _cell(machine: str, tables: Iterable[Hung]) -> str:
    found = [_answer(hung) for hung in tables if hung.machine == machine]
    if not found:
        return '<td role="cell" class="text none">–</td>'
    return f'<td role="cell" class="text" data-on="{escape(machine)}">{"".join(found)}</td>'


def _answer(hung: Hung) -> str:
    """Return the answer of a table in a few words, with its evidence, as a way to its page."""
    found = hung.answer
    why = _WHY.get(found.kind, "") if found else ""
    less = f"<small>{why}</small>" if why else ""
    return f'<p><a href="{escape(hung.address)}">{_told(hung)}</a>{less}</p>{_evidence(hung)}'


def _told(hung: Hung) -> str:
    found = hung.answer
    if found is None:
        return "no finished run yet"
    if found.time_saved is None or found.accuracy is None:
        return found.kind
    name = hung.shown.labels[found.strategy] if found.kind == BET else "train less"
    saved = percent(found.time_saved.mean)
    points = f"{found.accuracy.mean:+.1f}".replace("-", "−")
    return f"<b>{breakable(name)}</b>: {saved} less time, {points} points"


def _evidence(hung: Hung) -> str:
    found = hung.answer
    if found is None or found.kind != BET:
        return ""
    line = next(one for one in hung.shown.methods if one["strategy"] == found.strategy)
    return f'<p class="dots">{evidence(line)}</p>'


# Methods -----------------------------------------------------------------------------------------


def _methods(gallery: Gallery) -> str:
    told = {name: gallery.seen(name) for name in gallery.methods}
    order = sorted(
        told,
        key=lambda name: (
            -gallery.bets(name),
            *(-_share(told[name], question) for question in (BEATS, KEEPS, SAVES)),
            name,
        ),
    )
    heads = ["tables", "best bet in", *_ASKED.values()]
    head = '<th scope="col" class="names">method</th>' + "".join(
        f'<th scope="col">{text}</th>' for text in heads
    )
    body = "".join(_method(gallery, name, told[name]) for name in order)
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Methods">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _method(gallery: Gallery, name: str, seen: Sequence[Seen]) -> str:
    cells = [str(len({one.hung.address for one in seen})), str(gallery.bets(name))]
    cells += [of_asked([one.line for one in seen], question) for question in _ASKED]
    told = "".join(f"<td>{text}</td>" for text in cells)
    link = f'<a href="{escape(gallery.methods[name])}">{breakable(name)}</a>'
    return f'<tr><th scope="row">{link}</th>{told}</tr>'


def of_asked(found: Sequence[Record], question: str) -> str:
    """Return of how many lines a question is answered by yes, of those where it is asked."""
    asked = [line[question] for line in found if line[question]]
    return f"{sum(word in SURE for word in asked)} of {len(asked)}" if asked else "–"


def _share(seen: Sequence[Seen], question: str) -> float:
    asked = [one.line[question] for one in seen if one.line[question]]
    return sum(word in SURE for word in asked) / len(asked) if asked else -1.0
