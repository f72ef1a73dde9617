"""Loops of one's own: which strategies go there and with what, and what a drive offers."""

from collections.abc import Sequence
from inspect import getdoc

from dataeff.training.demands import OURS, Demands, demands, whose
from dataeff.training.driven import Drive
from generator import markdown, strategies


def driven() -> str:
    """Return which strategies a loop of one's own can have, by what they need."""
    groups: dict[str, list[str]] = {}
    for name, entry in strategies.bundled().items():
        if not whose(entry.factory):
            groups.setdefault(_needs(demands(entry.factory)), []).append(name)
    order = sorted(groups, key=lambda needs: (needs.count("`"), needs))
    return markdown.table(
        ("what it needs beside losses", "strategies"),
        [(needs or "nothing", _names(groups[needs])) for needs in order],
    )


def undriven() -> str:
    """Return which strategies need our loop, by the hook that they need it for."""
    groups: dict[str, list[str]] = {}
    for name, entry in strategies.bundled().items():
        if hook := whose(entry.factory):
            groups.setdefault(hook, []).append(name)
    lines = [
        (markdown.code(hook), f"it {does}", _names(groups.get(hook, [])) or "-")
        for hook, does in OURS.items()
    ]
    return markdown.table(("hook", "what a strategy does there", "strategies"), lines)


def offers() -> str:
    """Return what a drive offers, each with its meaning."""
    names = [name for name in vars(Drive) if not name.startswith("_")]
    lines = []
    for name in names:
        member = getattr(Drive, name)
        called = "" if isinstance(member, property) else "()"
        lines.append(
            (markdown.code(f"drive.{name}{called}"), (getdoc(member) or "").split("\n")[0])
        )
    return markdown.table(("name", "meaning"), lines)


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(markdown.code, names))


def _needs(needs: Demands) -> str:
    said = []
    if needs.children:
        said.append("a `model` that makes networks")
    elif needs.network:
        said.append("`model`")
    if needs.logits:
        said.append("`logits` in `step`")
    if needs.rate:
        said.append("`lr_factor`")
    return ", ".join(said)
