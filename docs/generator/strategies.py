"""Strategies: a line for each family, a line for each strategy, and a card for each."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

from dataeff.plugins import load_plugins
from dataeff.registry import Entry
from dataeff.strategy import hooks_of
from generator import markdown, measured
from generator.places import DOCS

_KNOWN = "paper"


@cache
def told() -> dict[str, Any]:
    """Return what docs/strategies.toml says."""
    return tomllib.loads((DOCS / "strategies.toml").read_text(encoding="utf-8"))


@cache
def bundled() -> dict[str, Entry]:
    """Return the bundled strategies by name, other names left out."""
    installed = load_plugins()
    ours = {plugin.name for plugin in installed.plugins if plugin.source == "bundled"}
    entries = installed.strategies.entries()
    return {one.name: one for one in entries if one.source in ours and not one.alias_of}


def _by_family() -> Iterator[tuple[dict[str, str], list[str]]]:
    found = told()["strategies"]
    for name, family in told()["families"].items():
        yield family, [one for one in found if found[one]["family"] == name]


def families() -> str:
    """Return one line for each family: who belongs to it, what it leaves out, the papers."""
    body = []
    for family, names in _by_family():
        # Where there is little room: each card leads to its paper.
        papers = dict.fromkeys(re.sub(r"\[(.*?)\]\(.*?\)", r"\1", _paper(name)) for name in names)
        papers.pop("", None)
        strategies = ", ".join(map(markdown.code, names))
        body.append((strategies, family["leaves_out"], ", ".join(papers)))
    return markdown.table(("strategies", "what they leave out", "papers"), body)


def index() -> str:
    """Return one line for each strategy: what it leaves out, and its paper."""
    body = [
        (f"[`{name}`](#{name})", told()["strategies"][name]["leaves_out"], _paper(name))
        for _, names in _by_family()
        for name in names
    ]
    return markdown.table(("strategy", "what it leaves out", "paper"), body)


def cards() -> str:
    """Return a card for each strategy, by family."""
    parts = []
    for family, names in _by_family():
        parts.append(f"## {family['title']}")
        for name in names:
            parts += _card(bundled()[name], told()["strategies"][name])
    return "\n\n".join(parts)


def _card(entry: Entry, said: dict[str, Any]) -> Iterator[str]:
    yield f"### {entry.name}"
    yield entry.summary
    yield (
        f"**Leaves out** {said['leaves_out']}. **Costs.** {said['cost']} "
        f"**Paper.** {_linked(entry.paper) or 'none.'}"
    )
    if parameters := entry.parameters.values():
        body = [
            (markdown.code(str(one)), said.get(_KNOWN, {}).get(one.name, "-")) for one in parameters
        ]
        yield markdown.table(("parameter, with our default", "the paper's"), body)
    yield from entry.about[1:]
    if fidelity := said.get("fidelity"):
        yield "**Fidelity.**\n\n" + "\n".join(f"- {sentence}" for sentence in fidelity)
    if published := said.get("published"):
        yield f"**Published.** {published}"
    if lines := measured.of_strategy(entry.name):
        header = ("run", "strategy", "time saved", "points", "over training less", "verdict")
        yield "**Measured.**\n\n" + markdown.table(header, lines, ["time saved", "points"])
    yield _declared(entry)


def _declared(entry: Entry) -> str:
    kind = entry.factory
    said = [f"Source: `{kind.__module__.replace('dataeff_', '').replace('.', '/')}.py`"]
    if saves := kind(**entry.read({})).saves:
        said.append(f"saves {saves}")
    if kind.reserves:
        said.append(f"reserves {', '.join(kind.reserves)}")
    if hooks := hooks_of(kind):
        said.append("hooks: " + ", ".join(f"[{hook}](hooks.md#{hook})" for hook in hooks))
    return f"{'; '.join(said)}."


def _linked(text: str) -> str:
    """Return what a module says of its paper, with its address as a link."""
    return re.sub(r"https?://[^\s)]+?(?=[.,]?(?:[\s)]|$))", lambda found: f"<{found[0]}>", text)


def _paper(name: str) -> str:
    """Return the short name of a strategy's paper with its address; nothing where it has none."""
    cite = told()["strategies"][name].get("cite", "")
    address = re.search(r"https?://[^\s)]+", bundled()[name].paper)
    return f"[{cite}]({address[0].rstrip('.')})" if cite and address else cite
