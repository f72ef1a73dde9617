"""Pictures: one clean style for every figure, drawn without a screen and without global state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataeff.sheet import STYLE, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which the colour-blind tell apart; the palest is left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LOOKS: dict[Any, Any] = {
    "axes.labelsize": 10,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "font.size": 9.5,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
}
# How many letters of the legend stand side by side.
_LINE = 80


def broken(label: str, width: int) -> str:
    """Return a long label in several lines, broken where its parts or parameters end."""
    lines = [""]
    for part in re.findall(r"[^\[,+]*[\[,+]?", label):
        if lines[-1].strip() and len(lines[-1]) + len(part) > width:
            lines.append("  ")
        lines[-1] += part
    return "\n".join(lines)


@contextmanager
def picture(path: Path, title: str, note: str) -> Iterator[Axes]:
    """Yield axes to draw on; they appear as a file once complete, the note in small print below.

    The path says whether it is a PNG or an SVG. What carries a label enters the legend, which
    stands between title and axes; labels are texts, not formulas.
    """
    # Slow to import, and only here needed.
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE | _LOOKS | {"axes.prop_cycle": cycler(color=COLOURS)}):
        figure = Figure(figsize=(6.4, 4.6), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        yield axes
        marks, labels = axes.get_legend_handles_labels()
        if labels:
            columns = max(1, _LINE // (max(map(len, labels)) + 7))
            labels = [broken(label, _LINE - 7) for label in labels]
            # Legend and names of bars make the picture higher, not the axes lower.
            lines = sum(label.count("\n") for label in labels) - (-len(labels) // columns)
            names = [1 + text.get_text().count("\n") for text in axes.get_yticklabels()]
            figure.set_figheight(max(4.3, 0.16 * max(names, default=0) * len(names)) + 0.19 * lines)
            # The title is the legend's own: beside a title of the figure, both would overlap.
            style: dict[str, Any] = {"ncols": columns, "title": title, "title_fontsize": 11.5}
            style |= {"borderaxespad": 0.2, "alignment": "left"}
            legend = figure.legend(marks, labels, loc="outside upper left", **style)
            for text in [*legend.get_texts(), *axes.get_yticklabels()]:
                text.set_parse_math(False)
        else:
            figure.suptitle(title, fontsize=11.5, x=0.015, ha="left")
        small = figure.supxlabel(note, fontsize=7, color="#666666", x=0.015, ha="left")
        small.set_parse_math(False)
        save(figure, path)
