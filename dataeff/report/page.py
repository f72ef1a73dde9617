"""The page: one self-contained HTML file with the tables, two figures and how to reproduce them."""

from __future__ import annotations

import importlib.resources
import io
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from dataeff.bench.results import read_runs, write_text
from dataeff.report.leaderboard import read_suite
from dataeff.report.terminal import cells, groups

# Okabe and Ito's colours: told apart by colour-blind readers too.
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#666666")


def write_report(folder: Path, table: pd.DataFrame) -> Path:
    """Write report.html beside the tables; return its path."""
    suite, runs = read_suite(folder), read_runs(folder)
    sections = [_section(title, part, folder) for title, part in groups(table)]
    page = Template(importlib.resources.files("dataeff.report").joinpath("page.html").read_text())
    text = page.substitute(
        title=escape(suite["title"] or suite["name"]),
        name=escape(suite["name"]),
        sections="\n".join(sections),
        conditions=_conditions(runs),
        command=escape(suite["command"]),
        reference=escape(suite["reference"]),
    )
    write_text(folder / "report.html", text)
    return folder / "report.html"


def _section(title: str, part: pd.DataFrame, folder: Path) -> str:
    header, lines = cells(part)
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>" for line in lines
    )
    figures = _svg(_trade_off(part)) + _svg(_curves(part, folder))
    return (
        f"<section><h2>{escape(title)}</h2><div class=scroll><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div><div class=figures>{figures}</div></section>"
    )


def _trade_off(part: pd.DataFrame) -> Figure:
    """Draw accuracy against speed-up, with the spread over seeds."""
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.add_subplot(xlabel="speed-up (times)", ylabel="test accuracy (%)")
    for number, row in enumerate(part.to_dict("records")):
        axes.errorbar(
            row["speedup"],
            row["accuracy"],
            yerr=row["accuracy_std"],
            fmt="o",
            capsize=3,
            color=_COLOURS[number % len(_COLOURS)],
            label=row["strategy"],
        )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def _curves(part: pd.DataFrame, folder: Path) -> Figure:
    """Draw test accuracy against prepare and train seconds, averaged over seeds."""
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.add_subplot(xlabel="prepare + train seconds", ylabel="test accuracy (%)")
    curves = _epochs(folder, set(part["conditions"]), set(part["task"]))
    for number, strategy in enumerate(part["strategy"]):
        if strategy in curves:
            mean = curves[strategy]
            seconds = mean["prepare_seconds"] + mean["train_seconds"]
            colour = _COLOURS[number % len(_COLOURS)]
            axes.plot(seconds, mean["test_top1"], color=colour, label=strategy)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def _epochs(folder: Path, conditions: set[str], tasks: set[str]) -> dict[str, pd.DataFrame]:
    parts: dict[str, list[pd.DataFrame]] = {}
    for path in sorted(folder.glob("*/epochs.csv")):
        run = pd.read_json(path.with_name("run.json"), typ="series")
        if run["conditions_id"] in conditions and run["task_name"] in tasks:
            parts.setdefault(run["strategy"], []).append(pd.read_csv(path))
    return {name: pd.concat(part).groupby("epoch").mean() for name, part in parts.items()}


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    # Text as text keeps the file small; a fixed salt keeps it the same for the same numbers.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dataeff"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=False)
    text = buffer.getvalue()
    return f"<figure>{text[text.index('<svg') :]}</figure>"


def _conditions(runs: list[dict[str, Any]]) -> str:
    known = {run["conditions_id"]: run["conditions"] for run in runs}
    parts = []
    for name, values in known.items():
        lines = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in values.items())
        parts.append(f"<h3>{escape(name)}</h3><dl>{lines}</dl>")
    return "".join(parts)
