"""Figures of a board as files for papers and slides: which there are, and how one is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dataeff.errors import UnknownName, did_you_mean
from dataeff.files import slug
from dataeff.plural import counted
from dataeff.report.board import Board
from dataeff.report.frames import Key, tables
from dataeff.report.plots.layout import Ground
from dataeff.report.plots.learning import learning, shares
from dataeff.report.plots.stacks import phases
from dataeff.report.plots.subject import Drawn, Shown
from dataeff.report.plots.trade_off import trade_off
from dataeff.sheet import SHEETS, save, style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, tuple[str, Callable[[Shown, Ground], Drawn | None]]] = {
    "tradeoff": ("Time saved against accuracy", trade_off),
    "time": ("Accuracy against time", partial(learning, x="seconds")),
    "epochs": ("Accuracy against epochs", partial(learning, x="epoch")),
    "phases": ("Where the time went", phases),
    "shares": ("What each epoch trained", shares),
}
"""Title and painter of each figure, by name."""


class Made(NamedTuple):
    """A figure with its title and with what its caption may say."""

    figure: Figure
    title: str
    caption: str


def draw(
    board: Board,
    folder: Path,
    wanted: Sequence[str] = (),
    formats: Sequence[str] = ("png",),
    sheet: str = "page",
) -> Iterator[tuple[list[Path], str]]:
    """Draw these figures of every table, or all; yield the files of each, and its caption."""
    import matplotlib

    for name in wanted:
        check_figure(name)
    keys = [key for key, _ in tables(board.table[board.table["n"] > 0])]
    for key, name in product(keys, wanted or FIGURES):
        where = [] if len(keys) == 1 else [slug(key[0]), key[1]]
        stem = "-".join([name, *where, *([sheet] if sheet != "page" else [])])
        paths = [folder / f"{stem}.{form}" for form in formats]
        with matplotlib.rc_context(style_of(SHEETS[sheet])):
            if (made := figure_of(board, key, name, sheet)) is None:
                continue
            for path in paths:
                save(made.figure, path, made.title, made.caption)
        yield paths, made.caption


def check_figure(name: str) -> None:
    """Refuse a figure that there is not."""
    if name not in FIGURES:
        hint = did_you_mean(name, FIGURES) or f" There are: {', '.join(FIGURES)}."
        raise UnknownName(f"There is no figure {name!r}.{hint}")


def figure_of(board: Board, key: Key, name: str, sheet: str) -> Made | None:
    """Return a figure of one table; None where it has nothing to show."""
    title, paint = FIGURES[name]
    shown = Shown(board, key, SHEETS[sheet])
    seeds = counted(int(shown.table["n"].max()), "seed")
    note, below = f"{board.suite['name']}: {key[0]}, {seeds}", 0.0
    while True:
        ground = Ground(shown.sheet, title, note, below)
        if (drawn := paint(shown, ground)) is None:
            return None
        # What has no name on the axes is known now: where there is no room for it, draw again.
        if (needed := ground.add_key(drawn.entries)) <= below:
            break
        below = needed
    return Made(ground.figure, title, f"{title}, {key[0]}, {seeds}. {drawn.says}".rstrip())
