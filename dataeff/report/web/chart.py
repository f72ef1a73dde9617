"""What charts of the page have in common: a figure with its words, and the numbers behind it."""

from html import escape
from typing import NamedTuple

import pandas as pd

from dataeff.report.web.webtable import plain_table


class Chart(NamedTuple):
    """A chart: `drawn` for desktops and for phones, `table` has its numbers where no other has."""

    name: str
    heading: str
    caption: str
    drawn: str
    wide: bool = False
    table: pd.DataFrame | None = None

    def text(self, place: str) -> str:
        """Return the chart with its words, and folded the numbers behind it."""
        table = "" if self.table is None else plain_table(self.table)
        more = table and f"<details><summary>The numbers</summary>{table}</details>"
        save = f'<button type="button" data-save="{place}-{self.name}" hidden>SVG</button>'
        return (
            f'<figure class="{"wide" if self.wide else "half"}" id="{place}-{self.name}">'
            f"<figcaption><h4>{escape(self.heading)}</h4>"
            f'<p class="soft">{escape(self.caption)}</p></figcaption>{self.drawn}{save}{more}'
            "</figure>"
        )
