"""Cards: the answer of a table with its figure, as a picture to be shared."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dataeff.report.board import Board
from dataeff.report.frames import Key
from dataeff.report.plots.layout import Ground
from dataeff.report.plots.lettering import INCH, INK, LEADING, SOFT, Looks, width_of
from dataeff.report.plots.subject import Shown
from dataeff.report.plots.trade_off import trade_off
from dataeff.sheet import Sheet, save, style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CARD = Sheet(12.0, 6.3, 15.0, 13.0, 26.0, 2.4, 10.0, 100, 8, 0)
"""1,200 by 630 pixels, as networks show what is shared. Marks without room bear no name."""
# Shares of the width: where words begin and end, and where the figure begins.
_LEFT, _WORDS, _FIGURE = 0.03, 0.43, 0.46
_MOST_LINES = 8
_SMALLEST = 17.0


class Words(NamedTuple):
    """What stands on a card: whose it is, what it says, on what, and what to type."""

    kicker: str
    headline: str
    facts: str
    command: str


class _CardGround(Ground):
    """Axes that stand beside the words of a card."""

    def __init__(self) -> None:
        super().__init__(CARD._replace(title=0.0), "", "")

    def lay(self, right: float | None = None) -> None:
        engine: Any = self.figure.get_layout_engine()
        engine.set(rect=(_FIGURE, 0.02, 0.98 - _FIGURE, 0.95))
        self.figure.draw_without_rendering()


def save_card(board: Board, key: Key, words: Words, paths: Iterable[Path]) -> None:
    """Draw the card of a table; where there is nothing to compare it has words alone."""
    import matplotlib

    with matplotlib.rc_context(style_of(CARD)):
        figure = _drawn(Shown(board, key, CARD))
        _write(figure, words)
        for path in paths:
            save(figure, path, words.headline, words.facts)


def _drawn(shown: Shown) -> Figure:
    ground = _CardGround()
    if trade_off(shown, ground) is None:
        ground.axes.remove()
    ground.figure.set_layout_engine("none")
    return ground.figure


def _write(figure: Figure, words: Words) -> None:
    room = (_WORDS - _LEFT) * CARD.width * INCH
    size = CARD.title
    while len(wrapped(words.headline, size, room)) > _MOST_LINES and size > _SMALLEST:
        size -= 1
    headline = "\n".join(wrapped(words.headline, size, room))
    facts = "\n".join(wrapped(words.facts, CARD.small, room))
    command = "\n".join(wrapped(words.command, CARD.small, 0.9 * room))
    told: Looks = {"x": _LEFT, "ha": "left", "parse_math": False, "linespacing": LEADING}
    figure.text(y=0.93, s=words.kicker, va="top", size=CARD.small, color=SOFT, **told)
    figure.text(y=0.85, s=headline, va="top", size=size, color=INK, weight="bold", **told)
    low = 0.05 + (1 + command.count("\n")) * LEADING * CARD.small / INCH / CARD.height
    figure.text(y=low + 0.03, s=facts, va="bottom", size=CARD.small, color=SOFT, **told)
    family: Looks = {"family": "monospace", "size": 0.9 * CARD.small}
    figure.text(y=0.05, s=command, va="bottom", color=INK, **family, **told)


def wrapped(text: str, points: float, room: float) -> list[str]:
    """Return a text in lines that fit; a word that does not is broken."""
    lines = [""]
    # Bold letters are wider than these by less than a tenth.
    room /= 1.1
    for word in text.split():
        while width_of(word, points) > room:
            kept = next(
                n for n in range(len(word) - 1, 0, -1) if width_of(word[:n], points) <= room
            )
            lines += [word[:kept]]
            word = word[kept:]
        if width_of(f"{lines[-1]} {word}".strip(), points) > room:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [line for line in lines if line]
