"""One table on the page: its first screen, what went wrong, and all else behind one click each."""

from collections.abc import Sequence
from html import escape

import pandas as pd

from dataeff.report.frames import of_table, seen_on
from dataeff.report.trouble import Trouble, troubles
from dataeff.report.web import bars, growth
from dataeff.report.web.chart import Chart
from dataeff.report.web.first import facts, first_screen
from dataeff.report.web.methods import methods
from dataeff.report.web.shown import Shown
from dataeff.report.web.svg import icon
from dataeff.report.web.texts import breakable, command, folded, lines
from dataeff.report.web.webtable import plain_table, web_table
from dataeff.report.words import numbers

MOST_CHARTED = 12
"""Methods that the charts of lines and bars show, those worth most; more nobody tells apart."""
_MOST_CONTROLS = 4
_PAPERS = (
    ("accuracy", "accuracy", ".2f %"),
    ("speed-up", "speedup", ".2f x"),
    ("F1", "macro_f1", ".2f %"),
    ("hours", "hours", ".3g"),
    ("training loss", "train_loss", ".2f"),
    ("test loss", "test_loss", ".2f"),
)
_LEFT_OUT = (
    "The charts show the reference, the methods worth most and some yardsticks; {} more are in the "
    "table."
)


def section(shown: Shown, heading: str) -> str:
    """Return the part of a page that is about one table, below a heading (h1 or h2)."""
    board, place = shown.board, shown.place
    task, conditions = shown.key
    number = list(board.conditions).index(conditions) if conditions in board.conditions else 0
    names = charted(shown)
    runs = of_table(board.runs, shown.key)
    several = "" if heading == "h1" else f"<b>{breakable(task)}</b> · "
    return "\n".join(
        filter(
            None,
            [
                f'<section id="{place}" class="task"><p class="facts">{several}'
                f'{escape(facts(shown))} · <a href="#c-{number}">conditions</a></p>',
                first_screen(shown, heading),
                trouble_text(troubles(runs, board.suite["commands"][-1])),
                folded(f"{place}-each", "Each method", methods(shown)),
                folded(f"{place}-why", "Why: where the time went", _why(shown, names)),
                folded(f"{place}-curves", "Curves", _curves(shown, names, runs)),
                folded(
                    f"{place}-by-class", "Classes", _drawn(shown, [bars.per_class(shown, names)])
                ),
                folded(f"{place}-papers", "The papers beside us", _papers(shown.part)),
                folded(f"{place}-all", "All columns, yardsticks included", _all(shown)),
                "</section>",
            ],
        )
    )


def charted(shown: Shown) -> list[str]:
    """Return who is in the charts: the reference, those worth most, some yardsticks."""
    part = shown.part[shown.part["n"] > 0]
    control, base = part["control"].astype(bool), part["strategy"] == shown.reference
    chosen = [*part.loc[base, "strategy"], *part.loc[~control & ~base, "strategy"][:MOST_CHARTED]]
    return [*chosen, *part.loc[control & ~base, "strategy"][:_MOST_CONTROLS]]


def trouble_text(found: Sequence[Trouble]) -> str:
    """Return what went wrong, each with what to type."""
    if not found:
        return ""
    told = "".join(f"<li><p>{breakable(one.text)}</p>{command(one.cure)}</li>" for one in found)
    return f'<aside class="trouble" aria-label="What went wrong"><ul>{told}</ul></aside>'


def _why(shown: Shown, names: Sequence[str]) -> str:
    effects = [bars.composed(shown, quantity) for quantity in ("speedup", "accuracy")]
    return _drawn(shown, [bars.phases(shown, names), *effects])


def _curves(shown: Shown, names: Sequence[str], runs: pd.DataFrame) -> str:
    """Return charts of lines below buttons that leave strategies out of them."""
    images = seen_on(runs)
    drawn = [growth.learning(shown, names, x, images) for x in ("seconds", "epoch")]
    drawn += [growth.shares(shown, names, column) for column in ("kept", "mixed")]
    if not any(drawn):
        return ""
    keys = "".join(
        f'<button type="button" aria-pressed="true" data-toggle="{shown.styles[name].key}">'
        f"{icon(shown.styles[name], line=True)} <span>{breakable(name)}</span></button>"
        for name in names
    )
    left = int((shown.part["n"] > 0).sum()) - len(names)
    return (
        lines([_LEFT_OUT.format(left) if left > 0 else ""], "soft")
        + '<div class="legend" role="group" aria-label="Strategies shown in the charts">'
        + f"{keys}</div>{_drawn(shown, drawn)}"
    )


def _drawn(shown: Shown, charts: Sequence[Chart | None]) -> str:
    texts = "".join(chart.text(shown.place) for chart in charts if chart)
    return f'<div class="figures">{texts}</div>' if texts else ""


def _all(shown: Shown) -> str:
    feet = shown.board.feet.get(shown.key, ())
    table = web_table(shown.part, shown.styles, shown.reference, shown.number)
    return table + "".join(f'<p class="soft">{escape(text)}</p>' for text in feet)


def _papers(part: pd.DataFrame) -> str:
    """Return the published figures beside the measured ones."""
    told = part[part["published_source"] != ""]
    if told.empty:
        return ""
    columns = {"strategy": told["strategy"]}
    ours = told.assign(hours=(told["prepare_seconds"] + told["train_seconds"]) / 3600)
    for name, column, form in _PAPERS:
        if told[f"published_{column}"].notna().any():
            columns[f"{name}, paper"] = numbers(told[f"published_{column}"], form)
            columns[f"{name}, ours"] = numbers(ours[column], form)
    table = pd.DataFrame({**columns, "source": told["published_source"]})
    remark = '<p class="soft">Papers used other machines, and mostly other tasks.</p>'
    return remark + plain_table(table)
