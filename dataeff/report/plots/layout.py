"""Layout: where axes stand on a sheet, and what stands below and beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dataeff.report.plots.lettering import INCH, LEADING, SOFT, size_of, width_of
from dataeff.report.plots.subject import Entry
from dataeff.sheet import Sheet

# Of a key, in sizes of its letters: what a mark takes before its name, and what parts columns.
_HANDLE, _PAD, _BETWEEN = 1.5, 0.4, 1.0
_COLUMNS = 4
# Inches between axes and key.
_AIR = 0.06


class Ground:
    """The axes of a figure that is not drawn yet, with room for so many inches of a key `below`.

    Only slides have a title, and only slides keep their height: others become higher by the key.
    """

    def __init__(self, sheet: Sheet, title: str, note: str, below: float = 0.0) -> None:
        from matplotlib.figure import Figure

        self.sheet, self._below, self._right = sheet, below, 0.0
        high = sheet.height + (0 if sheet.title else below)
        size = (sheet.width, high)
        self.figure = Figure(figsize=size, dpi=sheet.dpi, layout="constrained")
        self.axes = self.figure.add_subplot()
        if sheet.title:
            small: dict[str, Any] = {"fontsize": sheet.small, "color": SOFT, "parse_math": False}
            self.figure.suptitle(title, x=0.02, ha="left", fontweight="bold")
            self.axes.set_title(note, loc="left", **small)

    def lay(self, right: float | None = None) -> None:
        """Give axes their place, with so many points to their right, before that is measured."""
        self._right = self._right if right is None else right
        width, height = self.figure.get_size_inches()
        low = self._below / height
        engine: Any = self.figure.get_layout_engine()
        engine.set(rect=(0, low, 1 - self._right / INCH / width, 1 - low))
        self.figure.draw_without_rendering()

    def grow(self, high: float) -> None:
        """Make axes at least as high as this, in points, where the figure may become higher."""
        lacking = high - size_of(self.axes)[1]
        if not self.sheet.title and lacking > 0:
            self.figure.set_figheight(self.figure.get_figheight() + lacking / INCH)
            self.lay()

    def add_key(self, entries: Sequence[Entry]) -> float:
        """Put names below the axes, and return how many inches they need; nothing moves now."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        self.figure.set_layout_engine("none")
        if not entries:
            return 0.0
        small, edge = self.sheet.small, 1.0 if self.sheet.title else 0.2
        room = self.sheet.width * INCH - 2 * edge * small
        texts = [text for text, _ in entries]
        key = self.figure.legend(
            [Patch(**x) if "facecolor" in x else Line2D([], [], **x) for _, x in entries],
            texts,
            loc="lower left",
            ncols=columns_of(texts, small, room),
            fontsize=small,
            borderaxespad=edge,
            borderpad=0.0,
            handlelength=_HANDLE,
            handletextpad=_PAD,
            columnspacing=_BETWEEN,
            labelspacing=LEADING - 1,
        )
        for text in key.get_texts():
            text.set_parse_math(False)
        return float(key.get_window_extent().y1 / self.sheet.dpi + _AIR)


def columns_of(texts: Sequence[str], points: float, room: float) -> int:
    """Return in how many columns names find room side by side."""
    for count in range(min(_COLUMNS, len(texts)), 1, -1):
        # As matplotlib divides them.
        columns = np.array_split(np.array([width_of(text, points) for text in texts]), count)
        names = sum(column.max() for column in columns)
        if names + points * ((_HANDLE + _PAD + _BETWEEN) * count - _BETWEEN) <= room:
            return count
    return 1
