"""The leaderboard for papers: LaTeX tables with booktabs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dataeff.report.terminal import cells, groups

if TYPE_CHECKING:
    from dataeff.report.board import Board

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    # In brackets of their own: LaTeX would take them for an option, or a quotation mark.
    **{sign: f"{{{sign}}}" for sign in "[]\"'`"},
    **{
        sign: f"\\text{name}{{}}"
        for sign, name in {"<": "less", ">": "greater", "|": "bar"}.items()
    },
}
# The columns that a page has room for.
_SHOWN = (
    *("strategy", "rank", "n", "accuracy %", "vs reference (95%)", "speed-up", "(95%)", "ideal"),
    *("verdict", "paper %", "paper speed-up"),
)


def latex(board: Board) -> str:
    """Return one table environment per task and conditions; needs \\usepackage{booktabs}."""
    parts = []
    for title, part in groups(board.table):
        header, lines = cells(part)
        kept = [header.index(name) for name in _SHOWN if name in header]
        rows = [" & ".join(escape(line[i]) for i in kept) + r" \\" for line in [header, *lines]]
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    r"\centering",
                    rf"\caption{{{escape(title)}}}",
                    rf"\begin{{tabular}}{{l{'r' * (len(kept) - 1)}}}",
                    r"\toprule",
                    rows[0],
                    r"\midrule",
                    *rows[1:],
                    r"\bottomrule",
                    r"\end{tabular}",
                    r"\end{table}",
                ]
            )
        )
    notes = [f"% {note}" for note in board.notes]
    return "\n\n".join(["% needs \\usepackage{booktabs}", *notes, *parts])


def escape(text: str) -> str:
    """Return a text that LaTeX prints as it is, on one line."""
    return "".join(_SPECIAL.get(sign, sign) for sign in re.sub(r"\s+", " ", text))
