"""Tables of keys: of tasks, of suites and what stands in them, of data sets, and columns."""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dataeff import catalogue
from dataeff.bench.suite import Claim, Published, Suite
from dataeff.cli.tasks import default_of, meaning_of
from dataeff.members import described
from dataeff.plugins import load_plugins
from dataeff.report.columns import COLUMNS
from dataeff.report.verdicts import smallest_margin
from generator import markdown

_TABLES: dict[str, type[BaseModel]] = {"suite": Suite, "published": Published, "claims": Claim}
# Said here where the code has nothing to say but the name.
_MEANINGS = {
    "suite title": "What it is, in one line.",
    "suite strategies": "What to compare; the first one is the reference.",
    "suite tasks": "One table `[tasks.NAME]` for each task, with the keys of a task.",
    "suite published": "One table `[[published]]` for each line of a paper's table.",
    "suite claims": "One table `[[claims]]` for each claim of a paper.",
    "published strategy": "One of the suite's.",
    "published task": "The task that the figures are of; every task, where nothing is said.",
    "published accuracy": "In percent.",
    "published speedup": "As the paper has it.",
    "published macro_f1": "In percent.",
    "published hours": "Of the whole training.",
    "published train_loss": "At the end.",
    "published test_loss": "At the end.",
    "published source": "The paper, and where in it.",
    "claims text": "What is claimed, in a sentence.",
    "claims source": "The paper.",
    "claims strategy": "The strategy that it is about, one of the suite's.",
    "claims accuracy": "`better`, `no worse`, `equal` or `worse`.",
}
# A name is that of the file.
_NOT_WRITTEN = {"suite name"}


def keys(table: str) -> str:
    """Return the keys of a task, or of a table of a suite: default and meaning."""
    if table == "task":
        found = [(key["name"], default_of(key), meaning_of(key)) for key in catalogue.task_keys()]
    else:
        found = _keys_of(table, _TABLES[table])
    body = [(markdown.code(name), default, meaning) for name, default, meaning in found]
    return markdown.table(("key", "default", "meaning"), body)


def _keys_of(table: str, model: type[BaseModel]) -> list[tuple[str, str, str]]:
    place = Path(sys.modules[model.__module__].__file__ or "")
    told = {member.name: member.text for member in described(model.__name__, place).members}
    found = []
    for name, field in model.model_fields.items():
        key = f"{table} {name}"
        if key not in _NOT_WRITTEN:
            if not (meaning := told.get(name) or _MEANINGS.get(key)):
                raise LookupError(f"{key}: write what it means below it in {place.name}.")
            found.append((name, _default(field), meaning))
    return found


def _default(field: Any) -> str:
    """Return a default as a suite file has it."""
    if field.is_required():
        return "required"
    return json.dumps(field.default) if field.default else str(field.default or "none").lower()


def datasets() -> str:
    """Return every data set that is bundled, with its parameters."""
    found = load_plugins().datasets.entries()
    body = [
        (
            markdown.code(entry.name),
            entry.summary,
            ", ".join(markdown.code(str(one)) for one in entry.parameters.values()),
        )
        for entry in found
    ]
    return markdown.table(("dataset", "what it is", "parameters"), body)


def columns() -> str:
    """Return what the columns of leaderboard.csv mean."""
    body = [(column.name, column.meaning) for column in COLUMNS]
    return markdown.table(("column of leaderboard.csv", "meaning"), body)


def margins() -> str:
    """Return the margins that so many seeds can show, by the spread of differences."""
    counts = (2, 3, 5, 10, 20)
    body = [
        (f"{spread:g}", *(f"{float(smallest_margin(spread, n, 6)):.1f}" for n in counts))
        for spread in (0.2, 0.3, 0.5, 0.7, 1.0, 1.5)
    ]
    return markdown.table(("spread, points", *(f"{n} seeds" for n in counts)), body)
