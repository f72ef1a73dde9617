"""Sheets: what figures are drawn on, by where they are shown, and files that do not change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dataeff.files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Sheet(NamedTuple):
    """Inches of a figure, and points of what is drawn on it.

    `text` is for names and axes, `small` for the smallest letters; a `title` of no points is none:
    in a paper the caption says it. `most` lines can be told apart, and `keys` marks may have their
    names below the axes.
    """

    width: float
    height: float
    text: float
    small: float
    title: float
    line: float
    mark: float
    dpi: int
    most: int
    keys: int


SHEETS = {
    "column": Sheet(3.3, 2.6, 7.5, 7.0, 0.0, 1.0, 4.0, 300, 8, 24),
    "page": Sheet(7.0, 4.2, 8.5, 8.0, 0.0, 1.3, 5.0, 300, 12, 40),
    "slide": Sheet(40 / 3, 7.5, 18.0, 16.0, 26.0, 3.0, 12.0, 144, 8, 12),
}
"""One column of a paper of two, all of a page, and a slide of 16:9."""

STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    # Publishers refuse type 3; letters stay letters, which can be edited and found.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "dataeff",
}
"""What all figures have in common, for matplotlib."""

# No date, no version: the same numbers give the same file.
_UNSAID = {
    "png": ("Software",),
    "svg": ("Date", "Creator", "Format", "Type"),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
_DESCRIPTION = {"png": "Description", "svg": "Description", "pdf": "Subject"}
FORMATS = tuple(_UNSAID)
"""The forms of files."""


def style_of(sheet: Sheet) -> dict[Any, Any]:
    """Return what matplotlib is told of a sheet."""
    thin, pad = sheet.line / 2, 0.2 if sheet.title else 0.02
    return STYLE | {
        "axes.labelsize": sheet.text,
        "axes.linewidth": thin,
        "figure.constrained_layout.h_pad": pad,
        "figure.constrained_layout.w_pad": pad,
        "figure.titlesize": sheet.title or sheet.text,
        "font.size": sheet.text,
        "grid.linewidth": thin,
        "lines.linewidth": sheet.line,
        "lines.markersize": sheet.mark,
        "xtick.labelsize": sheet.small,
        "ytick.labelsize": sheet.small,
        "xtick.major.size": sheet.mark / 2,
        "ytick.major.size": sheet.mark / 2,
        "xtick.major.width": thin,
        "ytick.major.width": thin,
    }


def save(figure: Figure, path: Path, title: str = "", caption: str = "") -> None:
    """Write a figure in the form that the path names; it carries its title and caption."""
    form = path.suffix.removeprefix(".")
    about: Mapping[str, str | None] = dict.fromkeys(_UNSAID[form])
    told = {"Title": title, _DESCRIPTION[form]: caption}
    with written_whole(path) as partial:
        figure.savefig(
            partial, format=form, metadata={**about, **{k: v for k, v in told.items() if v}}
        )
