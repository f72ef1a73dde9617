"""One table on the page: what is missing, cards, the table itself, charts, the papers beside it."""

from html import escape

import pandas as pd

from dataeff.report.board import Board
from dataeff.report.frames import Key, of_table, seen_on
from dataeff.report.series import phase_means
from dataeff.report.web import bars, charts
from dataeff.report.web.canvas import Chart, Figure, Styles
from dataeff.report.web.cards import breakable, cards, mark
from dataeff.report.web.webtable import plain_table, web_table
from dataeff.report.words import numbers

_PAPERS = (
    ("accuracy", "accuracy", ".2f %"),
    ("speed-up", "speedup", ".2f x"),
    ("F1", "macro_f1", ".2f %"),
    ("hours", "hours", ".3g"),
    ("training loss", "train_loss", ".2f"),
    ("test loss", "test_loss", ".2f"),
)
_LEFT_OUT = (
    "The charts show the reference, the best by gain, the front and some controls; {} more are in "
    "the table, and small dots in the first chart."
)


def section(
    board: Board, number: int, key: Key, part: pd.DataFrame, styles: Styles
) -> tuple[str, dict[str, Figure]]:
    """Return the part of a page that is about one table, and what its charts draw, by place.

    `styles` are of those that its charts show.
    """
    reference, (task, conditions) = board.suite["reference"], key
    told = board.suite["tasks"].get(task, {})
    facts = [str(told[name]) for name in ("dataset", "model") if name in told]
    counts = {"epochs": "epochs", "batch_size": "rows a batch"}
    facts += [f"{told[name]:g} {text}" for name, text in counts.items() if name in told]
    drawn = {f"f{number}-{chart.name}": chart for chart in gallery(board, key, part, styles)}
    body = [
        f'<section id="s{number}" class="task"><h2>{breakable(task)}</h2>',
        f'<p class="soft">{escape(", ".join(facts))} · '
        f'<a href="#c-{list(board.conditions).index(conditions)}">conditions '
        f"{escape(conditions)}</a></p>",
        _progress(board, key, part),
        cards(part, styles, reference, board.margin),
        "<h3>All strategies</h3>",
        web_table(part, styles, reference, number),
        "".join(f'<p class="soft">{escape(text)}</p>' for text in board.feet.get(key, ())),
        _charts(drawn, part, styles),
        _papers(part),
        "</section>",
    ]
    return "\n".join(filter(None, body)), {name: chart.figure for name, chart in drawn.items()}


def gallery(board: Board, key: Key, part: pd.DataFrame, styles: Styles) -> list[Chart]:
    """Return the charts that there is anything for."""
    curves, classes, composed, runs = (
        of_table(frame, key)
        for frame in (board.curves, board.classes, board.compositions, board.runs)
    )
    curves = curves[curves["strategy"].isin(list(styles))]
    reference = board.suite["reference"]
    others = [name for name in styles if name != reference]
    found = [
        charts.trade_off(part[part["n"] > 0], styles, reference, board.margin),
        *(charts.learning(curves, styles, x, seen_on(runs)) for x in ("seconds", "epoch")),
        bars.phases(phase_means(runs, list(styles))),
        *(charts.shares(curves, styles, column) for column in ("kept", "mixed")),
        *(bars.composed(composed, quantity) for quantity in ("speedup", "accuracy")),
        bars.per_class(bars.class_differences(classes, others), classes),
    ]
    return [chart for chart in found if chart]


def _progress(board: Board, key: Key, part: pd.DataFrame) -> str:
    """Say what is missing: seeds, strategies, and why there is no verdict."""
    asked, said = board.suite["strategies"], []
    runs = of_table(board.runs, key)
    # What has diverged or failed has ended too: it is in the column of troubles.
    ended, seeds = int(runs["strategy"].isin(asked).sum()), board.suite["seeds"]
    # Until all is settled nobody knows how many: the foot of the table says what is waited for.
    if isinstance(seeds, int) and ended < seeds * len(asked):
        wanted = seeds * len(asked)
        said.append(f"Not complete: {ended} of {wanted} runs have ended; the figures will change.")
    if absent := [name for name in asked if name not in set(part["strategy"])]:
        names = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if absent[5:] else "")
        said.append(f"No run yet: {names}.")
    if not (part.loc[part["strategy"] == board.suite["reference"], "n"] > 0).any():
        said.append("The reference has no finished run here: there is nothing to compare with.")
    elif part["n"].max() == 1:
        said.append("One seed tells nothing about chance: there are no verdicts and no intervals.")
    lines = "".join(f"<p>{breakable(text)}</p>" for text in said)
    return f'<div class="progress" role="status">{lines}</div>' if said else ""


def _charts(charts: dict[str, Chart], part: pd.DataFrame, styles: Styles) -> str:
    if not charts:
        return "<p>There is nothing to draw yet.</p>"
    keys = "".join(
        f'<button type="button" aria-pressed="true" data-key="{style.key}">'
        f"{mark(style, line=True)}<span>{breakable(name)}</span></button>"
        for name, style in styles.items()
    )
    left = int((part["n"] > 0).sum()) - len(styles)
    said = f'<p class="soft">{_LEFT_OUT.format(left)}</p>' if left > 0 else ""
    drawn = "".join(_figure(place, chart) for place, chart in charts.items())
    return (
        f'<h3>Charts</h3>{said}<div class="charts" data-charts>'
        '<div class="legend" role="group" '
        f'aria-label="Strategies shown in the charts">{keys}</div>'
        f'<div class="figures-grid">{drawn}</div></div>'
    )


def _figure(place: str, chart: Chart) -> str:
    """Return a chart and its words, and folded the numbers behind it that the table has not."""
    table = "" if chart.table is None else plain_table(chart.table)
    more = table and f"<details><summary>The numbers</summary>{table}</details>"
    return (
        f'<figure class="{"wide" if chart.wide else "half"}"><figcaption><h4>{chart.heading}</h4>'
        f'<p class="soft">{escape(chart.caption)}</p></figcaption>'
        f'<div class="plot" id="{place}" style="height:{chart.height}px" role="img" '
        f'aria-label="{escape(chart.label)}"></div>{more}</figure>'
    )


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
    return (
        "<h3>The papers beside us</h3>"
        '<p class="soft">Papers used other machines, and mostly other tasks.</p>'
        + plain_table(table)
    )
