"""The command that explains the loop, its hooks, and what a strategy is given there."""

import inspect
import textwrap
from collections.abc import Iterable
from typing import Any

import click

from dataeff import catalogue, hookspecs, members
from dataeff.cli.listed import print_json
from dataeff.cli.options import listing_options
from dataeff.errors import DataeffError, did_you_mean

_WIDTH = 96


@click.command()
@click.argument("name", metavar="[NAME|run|batch|strategy]", required=False)
@listing_options
def hooks(name, as_json, plugin_dirs):
    """Print the loop and its hooks, one hook and its users, or all that Run or Batch offer."""
    # Whether or not anything of it is needed: a misspelt folder is a mistake.
    offered = catalogue.offers(plugin_dirs)["strategies"] if plugin_dirs else None
    if name is None:
        found, text = _loop()
    elif name in members.HOMES:
        found, text = _class(name)
    elif name in hookspecs.HOOKS:
        offered = offered or catalogue.offers()["strategies"]
        found, text = _hook(name, [offer["name"] for offer in offered if name in offer["hooks"]])
    else:
        hint = did_you_mean(name, [*hookspecs.HOOKS, *members.HOMES])
        raise DataeffError(f"There is no hook {name!r}.{hint} See: dataeff hooks")
    if as_json:
        print_json(found)
    else:
        click.echo(text)


def _loop() -> tuple[Any, str]:
    found = [_about(hook) for hook in hookspecs.HOOKS]
    calls = _aligned((hook["kind"], _call(hook)) for hook in found)
    kinds = _aligned(hookspecs.KINDS.items())
    return found, f"{inspect.getdoc(hookspecs)}\n\nHooks:\n{calls}\n\nKinds:\n{kinds}"


def _aligned(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"  {kind:8} {text}" for kind, text in pairs)


def _hook(name: str, users: list[str]) -> tuple[Any, str]:
    about = _about(name)
    used = f"Kind: {about['kind']}\nUsed by: {', '.join(users) or 'no installed strategy'}"
    return about | {"used_by": users}, f"{_call(about)}\n\n{about['text']}\n\n{used}"


def _about(name: str) -> dict[str, Any]:
    spec = getattr(hookspecs, name)
    return {
        "name": name,
        "kind": hookspecs.HOOKS[name],
        "arguments": list(inspect.signature(spec).parameters),
        "text": inspect.getdoc(spec),
    }


def _call(about: dict[str, Any]) -> str:
    return f"{about['name']}({', '.join(about['arguments'])})"


def _class(word: str) -> tuple[Any, str]:
    described = members.describe(word)
    lines = [f"{click.style(described.name, bold=True)}: {described.text}\n"]
    for member in described.members:
        form = textwrap.fill(member.form, _WIDTH, subsequent_indent=" " * 8)
        lines.append(click.style(member.name, bold=True).join(form.split(member.name, 1)))
        lines.append(textwrap.indent(member.text, " " * 4))
    return [vars(member) for member in described.members], "\n".join(lines)
