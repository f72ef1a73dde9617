"""The commands about plugins: list, install, write and check them."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.text import Text

from dataeff.cli import plugin_tools
from dataeff.cli.shared import Commands, console, detail, heading, json_option, with_plugins
from dataeff.errors import DataeffError


@click.group(cls=Commands)
def plugins() -> None:
    """List, install, write and check plugins."""


@plugins.command("list")
@json_option
@with_plugins
def plugins_list(as_json, installed, plugin_dirs):
    """List plugins: version, strategies, hooks, and why one did not load."""
    lines = plugin_tools.describe(installed)
    if as_json:
        click.echo(json.dumps(lines, indent=1))
        return
    for line in lines:
        heading(line["name"], f"{line['version']} ({line['source']})".lstrip())
        detail("strategies", ", ".join(line["strategies"]))
        detail("hooks", ", ".join(line["hooks"]))
        if line["error"]:
            console.print(Text(f"    did not load: {line['error']}", "red"), soft_wrap=True)


@plugins.command("new")
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), default=Path(), help="Parent folder.")
@with_plugins
def plugins_new(name, into, installed, plugin_dirs):
    """Write a plugin package whose test passes at once."""
    folder = plugin_tools.new(name, into, taken=installed.strategies)
    click.echo(f"Written: {folder}/")
    for path in sorted(folder.iterdir()):
        click.echo(f"  {path.name}")
    click.echo(f"Next: dataeff plugins install -e {folder}")


@plugins.command("install")
@click.argument("packages", nargs=-1)
@click.option(
    "-e", "--editable", multiple=True, type=click.Path(), help="Install a folder in place."
)
@click.option("-U", "--upgrade", is_flag=True)
def plugins_install(packages, editable, upgrade):
    """Install plugins with the pip of this environment."""
    if not packages and not editable:
        raise DataeffError(
            "Name a package, or a folder with -e: dataeff plugins install -e dataeff-my-idea"
        )
    flags = ["--upgrade"] if upgrade else []
    plugin_tools.pip(
        "install",
        *flags,
        *packages,
        *[part for folder in editable for part in ("--editable", folder)],
    )


@plugins.command("uninstall")
@click.argument("packages", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def plugins_uninstall(packages, yes):
    """Uninstall plugins with the pip of this environment."""
    plugin_tools.pip("uninstall", *(["--yes"] if yes else []), *packages)


@plugins.command("check")
@click.argument("name")
@click.option("--model", default="tiny", show_default=True, help="A small network that it is for.")
@with_plugins
def plugins_check(name, model, installed, plugin_dirs):
    """Run the conformance kit on the strategy NAME, or name[key=value]."""
    from dataeff import testing

    for line in testing.check_strategy(name, installed=installed, model=model):
        click.echo(f"ok  {line}")
    click.echo(f"{name} conforms.")
