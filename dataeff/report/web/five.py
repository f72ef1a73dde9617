"""Lines of results in five columns, as a table on desktops and as blocks on phones."""

from collections.abc import Iterable

from dataeff.report.frames import Record
from dataeff.report.stats import Interval, interval_of
from dataeff.report.web.texts import evidence, figure
from dataeff.report.words import saved

_HEADS = ("time saved, %", "accuracy, points", "vs training less", "evidence")


def five_columns(first: str, rows: Iterable[str]) -> str:
    """Return a table of rows, whose first column has this head."""
    head = "".join(
        f'<th scope="col" role="columnheader"{_css(place)}>{text}</th>'
        for place, text in enumerate((first, *_HEADS))
    )
    # Roles are said: on phones lines are no longer drawn as those of a table.
    return (
        '<table role="table" class="five"><thead role="rowgroup"><tr role="row">'
        f'{head}</tr></thead><tbody role="rowgroup">{"".join(rows)}</tbody></table>'
    )


def _css(place: int) -> str:
    return {0: ' class="names"', 4: ' class="says"'}.get(place, "")


def five_cells(line: Record, head: str, look: int) -> str:
    """Return a row: what is said of one strategy, and at its beginning a text of the page.

    `look` ties it to the mark that a chart beside it has for the same.
    """
    time = saved(interval_of(line, "speedup")) if line["speedup"] > 0 else None
    cells = [
        figure(Interval(*(100 * end for end in time)), "z.0f") if time else "–",
        figure(interval_of(line, "difference"), "+z.1f"),
        figure(interval_of(line, "gain"), "+z.1f"),
    ]
    told = "".join(f'<td role="cell">{cell}</td>' for cell in cells)
    return (
        f'<tr role="row" data-look="{look}"><th scope="row" role="rowheader" class="names">{head}'
        f'</th>{told}<td role="cell" class="says">{evidence(line)}</td></tr>'
    )
