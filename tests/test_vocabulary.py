"""One word, one meaning: names of modules, classes and columns against the table of words."""

import ast
import functools
import re
from pathlib import Path

import pytest

from dataeff.report.columns import NAMES

ROOT = Path(__file__).parent.parent

# Each word with its meaning, and all names that may hold it; a new name is added on purpose.
WORDS = {
    "sample": ("an item of the training set", {"Samples"}),
    "row": ("an input that the network sees", {"Rows", "rows_trained"}),
    "batch": (
        "rows that go through the network together",
        {"batch", "Batch", "InfoBatch", "selective_backprop_batch", "SelectiveBackpropBatch"},
    ),
    "plan": ("the rows of an epoch", {"plan", "Plan", "_Plans"}),
    "task": ("what every strategy is given alike", {"task", "Task", "tasks"}),
    "cell": ("task x strategy x seed", {"cell", "cells", "Cell", "Cells"}),
    "suite": ("tasks and the strategies to compare", {"suite", "suites", "Suite"}),
    # Of a network it is its authors' word.
    "block": ("task x seed", {"blocks", "Block", "BasicBlock", "ResidualBlock"}),
    "lane": ("a place where one block runs at a time", {"lanes", "Lane"}),
    "turn": ("some batches of one cell", {"turns"}),
    "heat": ("cells that are alive together", {"Heat"}),
    "reference": ("what others are compared with", {"reference_at_same_time", "AgainstReference"}),
    "line": ("the accuracy of just training less", {"line", "Line", "AgainstLine", "against_line"}),
    "budget": ("a share of the reference's time", {"Budgets"}),
    "gain": (
        "accuracy less that of the line",
        {"gain", "gain_low", "gain_high", "gains", "Gains"},
    ),
    "look": ("a judging at a planned number of seeds", {"look", "looks", "Looks"}),
    "answer": ("what a table allows us to recommend", {"answer", "Answer"}),
    "conditions": ("device, versions, threads, flags", {"conditions"}),
    "claim": ("what a paper says", {"claims", "Claim"}),
    "verdict": ("what statistics give", {"verdict", "verdicts", "Verdicts"}),
}


@functools.cache
def named():
    """Return the names of modules, classes and columns, each with where it stands."""
    found = [(name, "leaderboard.csv") for name in NAMES]
    for room in ("dataeff", "plugins"):
        for path in sorted((ROOT / room).rglob("*.py")):
            where = str(path.relative_to(ROOT))
            tree = ast.parse(path.read_text(encoding="utf-8"))
            classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
            found += [(name, where) for name in [path.stem, *classes]]
    return found


def holds(name, word):
    """Say whether one of the words of a name is this one, or several of it."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return any(part.lower() in (word, f"{word}s") for part in parts)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_has_one_meaning(word):
    meaning, known = WORDS[word]
    strays = {f"{name} ({where})" for name, where in named() if holds(name, word)}
    strays = {stray for stray in strays if stray.split()[0] not in known}
    assert not strays, f"{word} means: {meaning}"


@pytest.mark.parametrize("word", WORDS)
def test_no_name_is_allowed_that_nobody_has(word):
    _, known = WORDS[word]
    assert known <= {name for name, _ in named()}
