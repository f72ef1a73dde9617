"""The page: one self-contained HTML file with the tables, two figures and how to reproduce them."""

from __future__ import annotations

import importlib.resources
import io
import re
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from dataeff.bench.results import write_text
from dataeff.report.leaderboard import current_runs, read_suite
from dataeff.report.terminal import cells, groups, remarks

# Okabe and Ito's colours: told apart by colour-blind readers too. Markers tell the rest apart.
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#666666")
_MARKERS = "osD^vXP*"


def write_report(folder: Path, table: pd.DataFrame) -> Path:
    """Write report.html beside the tables; return its path."""
    suite, runs = read_suite(folder), current_runs(folder)
    curves = _curves(folder, runs)
    sections = [_section(title, part, curves) for title, part in groups(table)]
    page = importlib.resources.files("dataeff.report").joinpath("page.html")
    text = Template(page.read_text(encoding="utf-8")).substitute(
        title=escape(suite["title"] or suite["name"]),
        sections="\n".join(sections),
        conditions=_conditions(runs),
        command=escape(suite["command"]),
        reference=escape(suite["reference"]),
    )
    write_text(folder / "report.html", text)
    return folder / "report.html"


Curves = dict[tuple[str, str, str], pd.DataFrame]
"""Mean lines of epochs.csv by task, conditions and strategy."""


def _curves(folder: Path, runs: list[dict[str, Any]]) -> Curves:
    parts: dict[tuple[str, str, str], list[pd.DataFrame]] = {}
    columns = ["epoch", "prepare_seconds", "train_seconds", "test_top1"]
    for run in runs:
        if run["status"] == "finished":
            key = (run["task_name"], run["conditions_id"], run["strategy"])
            lines = pd.read_csv(folder / run["folder"] / "epochs.csv", usecols=columns)
            parts.setdefault(key, []).append(lines.dropna())
    return {key: pd.concat(part).groupby("epoch").mean() for key, part in parts.items()}


def _section(title: str, part: pd.DataFrame, curves: Curves) -> str:
    header, lines = cells(part)
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{_breakable(text)}</td>" for text in line) + "</tr>"
        for line in lines
    )
    said = "".join(f"<p>{_breakable(remark)}</p>" for remark in remarks(part))
    return (
        f"<section><h2>{escape(title)}</h2><div class=scroll><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{said}{_figure(part, curves)}</section>"
    )


def _breakable(text: str) -> str:
    """Escape a text; a long strategy may break between its parts."""
    return re.sub(r"([,+])(?=[a-z])", r"\1<wbr>", escape(text))


def _figure(part: pd.DataFrame, curves: Curves) -> str:
    """Draw accuracy against speed-up, and against the seconds of training, with one legend."""
    part = part[part["n"] > 0]
    if part.empty:
        return ""
    longest = part["strategy"].str.len().max()
    columns = max(1, int(140 // (longest + 8)))
    figure = Figure(figsize=(11, 4.4 + 0.2 * -(-len(part) // columns)), layout="constrained")
    points, lines = figure.subplots(1, 2)
    points.set(xlabel="speed-up (times)", ylabel="test accuracy (%), ± 1 sd over seeds")
    lines.set(xlabel="prepare + train seconds", ylabel="test accuracy (%), mean over seeds")
    for number, row in enumerate(part.to_dict("records")):
        colour = _COLOURS[number % len(_COLOURS)]
        marker = _MARKERS[(number + number // len(_COLOURS)) % len(_MARKERS)]
        style = {"color": colour, "marker": marker}
        points.errorbar(
            row["speedup"],
            row["accuracy"],
            yerr=row["accuracy_std"],
            linestyle="",
            capsize=3,
            label=row["strategy"],
            **style,
        )
        mean = curves[row["task"], row["conditions"], row["strategy"]]
        seconds = mean["prepare_seconds"] + mean["train_seconds"]
        style["markevery"] = max(1, len(mean) // 12)
        lines.plot(seconds, mean["test_top1"], markersize=4, linewidth=1.2, **style)
    points.axvline(1, color="#999999", linewidth=0.8, zorder=0)
    for axes in (points, lines):
        axes.grid(alpha=0.3)
    # Not by figure.legend's own labels: it leaves out names that begin with an underscore.
    legend = figure.legend(
        points.containers, part["strategy"], loc="outside lower left", ncols=columns, fontsize=8
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return _svg(figure)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    # Text as text keeps the file small; a fixed salt keeps it the same for the same numbers.
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dataeff"}):
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=False)
    text = buffer.getvalue()
    return f"<figure>{text[text.index('<svg') :]}</figure>"


def _conditions(runs: list[dict[str, Any]]) -> str:
    known = {run["conditions_id"]: run["conditions"] for run in runs}
    parts = []
    for name, values in known.items():
        lines = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in values.items())
        parts.append(f"<h3>{escape(name)}</h3><dl>{lines}</dl>")
    return "".join(parts)
