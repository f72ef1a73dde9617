"""What was measured: answers and tables of published runs, read off their files."""

import csv
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import pandas as pd

from dataeff.report.board import Board, read_board
from dataeff.report.screen import screen
from dataeff.report.stats import interval_of
from dataeff.report.words import gained, percent, points, saved
from generator import markdown
from generator.places import PUBLISHED

Line = dict[str, Any]

ROWS = 5
"""Methods that the README shows of an answer."""
# What the README quotes beside the quickstart; the runs of the review are of clocks alone.
_OTHERS = (
    "selection-zoo-mini",
    "mixtrain-digits",
    "mixtrain-mini",
    "comparison-mini",
    "diet-sb-mini",
)


def _claimed(speedup: float) -> str:
    return "" if math.isnan(speedup) else f"{speedup:.2f}x"


def _gain(line: Line) -> str:
    return "" if math.isnan(line["gain"]) else gained(interval_of(line, "gain"))


_FORMS = {
    "task": "{task}".format_map,
    "strategy": "`{strategy}`".format_map,
    "accuracy": "{accuracy:.2f}".format_map,
    "F1": "{macro_f1:.2f}".format_map,
    "test loss": "{test_loss:.2f}".format_map,
    "against the baseline": lambda line: points(interval_of(line, "difference")),
    "speed-up": "{speedup:.2f}x".format_map,
    "counted": "{ideal_speedup:.2f}x".format_map,
    "without preparation": "{train_speedup:.2f}x".format_map,
    "paper": lambda line: _claimed(line["published_speedup"]),
    "over training less": _gain,
    "verdict": "{verdict}".format_map,
}
"""How the columns of tables are written."""
_TEXTS = ("task", "strategy", "over training less", "verdict")
_USUAL = ("strategy", "accuracy", "against the baseline", "speed-up", "counted")
_JUDGED = ("over training less", "verdict")
_COLUMNS = {
    "mixtrain-mini": ("task", *_USUAL, *_JUDGED),
    "diet-sb-mini": (*_USUAL[:-1], "without preparation", "paper", *_JUDGED),
    "review-mini": (
        *("task", "strategy", "accuracy", "F1", "test loss", "against the baseline", "speed-up"),
        *("paper", "verdict"),
    ),
}


@cache
def board(suite: str) -> Board:
    """Return the tables of a published run."""
    return read_board(PUBLISHED / suite)


@cache
def lines(suite: str) -> list[Line]:
    """Return the table of a published run, as it was published."""
    found = pd.read_csv(PUBLISHED / suite / "leaderboard.csv").fillna({"verdict": ""})
    return found.to_dict("records")


def answer(suite: str) -> str:
    """Return the answer of a run with its first methods, as a terminal shows it."""
    shown = [line.text.rstrip() for line in screen(board(suite))]
    head = next(place for place, text in enumerate(shown) if text.startswith("method"))
    return markdown.fenced("\n".join(shown[: head + 1 + ROWS]))


def answers() -> str:
    """Return what each published run has answered, in one sentence."""

    def told() -> Iterator[tuple[str, str]]:
        for suite in _OTHERS:
            found = board(suite).answers
            for one in found:
                name = f"[{suite}](published/{suite}/README.md)"
                task = f", {one.key[0]}" if len(found) > 1 else ""
                yield f"{name}{task}", one.headline

    return markdown.table(("run", "what it says"), told())


def table(suite: str) -> str:
    """Return the table of a run, all of its lines."""
    columns = _COLUMNS.get(suite, (*_USUAL, *_JUDGED))
    body = [[_FORMS[name](line) for name in columns] for line in lines(suite)]
    return markdown.table(columns, body, set(columns) - set(_TEXTS))


def claims(suite: str) -> str:
    """Return what became of the claims that a suite carries."""
    found = pd.read_csv(PUBLISHED / suite / "claims.csv").to_dict("records")
    body = [(line["text"], line["measured"], line["verdict"]) for line in found]
    return markdown.table(("the paper's claim", "measured", "verdict"), body, ["measured"])


def plain(place: str) -> str:
    """Return a CSV file below the published results as a table."""
    with (PUBLISHED / place).open(encoding="utf-8", newline="") as file:
        header, *body = csv.reader(file)
    return markdown.table(header, body, header[1:])


def of_strategy(name: str) -> list[tuple[str, ...]]:
    """Return what published runs say of one strategy alone, whatever its parameters."""
    found = []
    for path in sorted(PUBLISHED.glob("*/leaderboard.csv")):
        suite = path.parent.name
        for line in lines(suite):
            alone, _, rest = line["strategy"].partition("[")
            is_one = alone == name and "]+" not in rest and "verdict" in line
            if is_one and line["verdict"] not in ("", "control"):
                found.append((_where(suite, line), *_told(line)))
    return found


def _where(suite: str, line: Line) -> str:
    tasks = {other["task"] for other in lines(suite)}
    return f"[{suite}](../results/published/{suite}/README.md)" + (
        f", {line['task']}" if len(tasks) > 1 else ""
    )


def _told(line: Line) -> tuple[str, ...]:
    time = percent(saved(interval_of(line, "speedup")).mean)
    return (
        markdown.code(line["strategy"]),
        time,
        points(interval_of(line, "difference")),
        _gain(line) or "-",
        line["verdict"],
    )
