"""The command that explains the loop, its hooks, and what a strategy is given there."""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path
from typing import Any

import click

from dataeff import catalogue, hookspecs, members
from dataeff.cli.listed import print_json
from dataeff.cli.shared import json_option, plugins_dir_option
from dataeff.errors import DataeffError, did_you_mean

_WIDTH = 96


@click.command()
@click.argument("name", metavar="[NAME|run|batch|strategy]", required=False)
@json_option
@plugins_dir_option
def hooks(name: str | None, as_json: bool, plugin_dirs: tuple[Path, ...]) -> None:
    """Print the loop and its hooks, one hook and its users, or all that Run or Batch offer."""
    if name is None:
        _loop(as_json)
    elif name in members.HOMES:
        _class(name, as_json)
    elif name in hookspecs.HOOKS:
        _hook(name, as_json, plugin_dirs)
    else:
        hint = did_you_mean(name, [*hookspecs.HOOKS, *members.HOMES])
        raise DataeffError(f"There is no hook {name!r}.{hint} See: dataeff hooks")


def _loop(as_json: bool) -> None:
    if as_json:
        print_json([_about(hook) for hook in hookspecs.HOOKS])
        return
    click.echo(inspect.getdoc(hookspecs))
    click.echo("\nHooks:")
    for hook, kind in hookspecs.HOOKS.items():
        click.echo(f"  {kind:8} {hook}{_arguments(hook)}")
    click.echo("\nKinds:")
    for kind, rule in hookspecs.KINDS.items():
        click.echo(f"  {kind:8} {rule}")


def _hook(name: str, as_json: bool, plugin_dirs: tuple[Path, ...]) -> None:
    offered = catalogue.offers(plugin_dirs)["strategies"]
    users = [offer["name"] for offer in offered if name in offer["hooks"]]
    about = _about(name)
    if as_json:
        print_json({**about, "used_by": users})
        return
    click.echo(f"{name}{_arguments(name)}\n\n{about['text']}")
    click.echo(f"\nKind: {about['kind']}")
    click.echo(f"Used by: {', '.join(users) or 'no installed strategy'}")


def _about(name: str) -> dict[str, Any]:
    spec = getattr(hookspecs, name)
    return {
        "name": name,
        "kind": hookspecs.HOOKS[name],
        "arguments": list(inspect.signature(spec).parameters),
        "text": inspect.getdoc(spec),
    }


def _arguments(name: str) -> str:
    return f"({', '.join(_about(name)['arguments'])})"


def _class(word: str, as_json: bool) -> None:
    described = members.describe(word)
    if as_json:
        print_json([vars(member) for member in described.members])
        return
    click.echo(f"{click.style(described.name, bold=True)}: {described.text}\n")
    for member in described.members:
        form = textwrap.fill(member.form, _WIDTH, subsequent_indent=" " * 8)
        click.echo(click.style(member.name, bold=True).join(form.split(member.name, 1)))
        click.echo(textwrap.indent(member.text, " " * 4))
