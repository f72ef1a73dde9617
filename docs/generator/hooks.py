"""The loop, its hooks, and what a strategy is given there."""

import inspect
import re
import tomllib

from dataeff import hookspecs, members
from dataeff.plugins import load_plugins
from dataeff.strategy import hooks_of
from generator import markdown
from generator.places import DOCS

_SECTION = re.compile(r"^# ([A-Z][^-:]+)[^-]*-{5,}$|^def (\w+)\(", flags=re.M)


def loop() -> str:
    """Return the loop as pseudocode, as `dataeff hooks` prints it."""
    found = re.findall(r"^ {4}.*$", inspect.getdoc(hookspecs) or "", flags=re.M)
    return markdown.fenced(inspect.cleandoc("\n".join(found)), "python")


def kinds() -> str:
    """Return the four kinds of hooks, with the rule of each."""
    body = [
        (kind, rule, ", ".join(f"`{name}`" for name, its in hookspecs.HOOKS.items() if its == kind))
        for kind, rule in hookspecs.KINDS.items()
    ]
    return markdown.table(("kind", "rule", "hooks"), body)


def hooks() -> str:
    """Return all hooks: signature, when, meaning, kind, users and an example each."""
    told = tomllib.loads((DOCS / "hooks.toml").read_text(encoding="utf-8"))
    parts, shown = [], set()
    for section, name in _SECTION.findall(inspect.getsource(hookspecs)):
        if section:
            parts.append(f"## {section.strip()}")
        elif name in hookspecs.HOOKS:
            file = told[name]["example"]
            parts += [*_hook(name, told[name]["when"]), _example(file, file in shown)]
            shown.add(file)
    return "\n\n".join(parts)


def _hook(name: str, when: str) -> list[str]:
    spec = getattr(hookspecs, name)
    kind = hookspecs.HOOKS[name]
    form = str(inspect.signature(spec)).replace("'", "")
    text = (inspect.getdoc(spec) or "").removesuffix(hookspecs.KINDS[kind]).strip()
    users = [
        f"[`{entry.name}`](strategies.md#{entry.name})"
        for entry in load_plugins().strategies.entries()
        if name in hooks_of(entry.factory) and not entry.alias_of
    ]
    used = f" Used by {', '.join(users)}." if users else ""
    return [
        f"### {name}",
        markdown.fenced(f"{name}{form}", "python"),
        text,
        f"**When.** {when} **Kind.** {kind}: {hookspecs.KINDS[kind]}{used}",
    ]


def _example(name: str, is_shown: bool) -> str:
    if is_shown:
        return f"**Example.** `docs/examples/{name}.py`, which is shown above."
    return f"**Example.** `docs/examples/{name}.py`:\n\n{example(name)}"


def example(name: str) -> str:
    """Return a file of docs/examples."""
    source = (DOCS / "examples" / f"{name}.py").read_text(encoding="utf-8").strip()
    return markdown.fenced(source, "python")


def members_of(word: str) -> str:
    """Return all public names of Run, Batch or Strategy."""
    found = members.describe(word)
    called = [member for member in found.members if "(" in member.form.partition(":")[0]]
    names = [member for member in found.members if member not in called]
    body = [
        (markdown.code(one.name), markdown.code(one.form.partition(": ")[2]), _in_line(one.text))
        for one in names
    ]
    parts = [found.text, markdown.table(("name", "type", "meaning"), body)]
    for member in called:
        parts += [f"### {word}.{member.name}", markdown.fenced(member.form, "python"), member.text]
    return "\n\n".join(parts)


def _in_line(text: str) -> str:
    return " ".join(text.split())
