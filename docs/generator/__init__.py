"""The parts of the documentation that are made: of code, docstrings and published results.

A part stands between two comments, of which the first one says which it is, such as
`<!-- made: columns -->`, and the second is `<!-- end -->`. All else is written by hand.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from generator import drives, hooks, keys, measured, strategies
from generator.places import DOCS, ROOT

MAKERS: dict[str, Callable[..., str]] = {
    "answer": measured.answer,
    "answers": measured.answers,
    "claims": measured.claims,
    "csv": measured.plain,
    "table": measured.table,
    "columns": keys.columns,
    "datasets": keys.datasets,
    "driven": drives.driven,
    "keys": keys.keys,
    "margins": keys.margins,
    "example": hooks.example,
    "hooks": hooks.hooks,
    "kinds": hooks.kinds,
    "loop": hooks.loop,
    "members": hooks.members_of,
    "offers": drives.offers,
    "cards": strategies.cards,
    "families": strategies.families,
    "index": strategies.index,
    "undriven": drives.undriven,
}
"""What makes each part, by its name; the words after it are arguments."""

_PART = re.compile(r"^(<!-- made: ([\w ./-]+) -->\n).*?^<!-- end -->", flags=re.M | re.S)


def documents() -> list[Path]:
    """Return every page that people read: the README, docs/, and what stands beside results."""
    found = [*DOCS.glob("*.md"), *(ROOT / "results").rglob("README.md")]
    return [ROOT / "README.md", *sorted(found)]


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page that has a part which is made, with its text as it should be."""
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if _PART.search(text):
            yield path, _PART.sub(_made, text)


def _made(part: re.Match[str]) -> str:
    name, *arguments = part[2].split()
    return f"{part[1]}\n{MAKERS[name](*arguments)}\n\n<!-- end -->"
