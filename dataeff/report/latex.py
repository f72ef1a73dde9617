"""The leaderboard for papers: LaTeX tables with booktabs."""

import re
from string import Template

from dataeff.report.board import Board
from dataeff.report.columns import LATEX
from dataeff.report.frames import tables, title
from dataeff.report.terminal import across, texts

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    # In brackets of their own: LaTeX would take them for an option, or a quotation mark.
    **{sign: f"{{{sign}}}" for sign in "[]\"'`"},
}

_TABLE = Template(r"""\begin{table}
\centering
\caption{$title}
\begin{tabular}{$columns}
\toprule
$header
\midrule
$lines
\bottomrule
\end{tabular}
\end{table}""")


def latex(board: Board) -> str:
    """Return one table environment per task and conditions; needs \\usepackage{booktabs}."""
    parts = []
    for key, part in tables(board.table):
        header, lines = across(texts(part, LATEX))
        first, *rest = (" & ".join(map(escape, line)) + r" \\" for line in [header, *lines])
        columns = "l" + "r" * (len(header) - 1)
        filled = {"title": escape(title(key)), "columns": columns, "header": first}
        parts.append(_TABLE.substitute(filled, lines="\n".join(rest)))
    notes = [f"% {note}" for note in board.notes]
    return "\n\n".join(["% needs \\usepackage{booktabs}", *notes, *parts])


def escape(text: str) -> str:
    """Return a text that LaTeX prints as it is, on one line."""
    return "".join(_SPECIAL.get(sign, sign) for sign in re.sub(r"\s+", " ", text))
