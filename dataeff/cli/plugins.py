"""The commands about plugins: list, install, write and check them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dataeff import catalogue
from dataeff.cli.listed import print_json
from dataeff.cli.shared import (
    Commands,
    detail,
    heading,
    json_option,
    plugins_dir_option,
    with_plugins,
)
from dataeff.errors import DataeffError

if TYPE_CHECKING:
    from dataeff.plugins import Installed


@click.group(cls=Commands)
def plugins() -> None:
    """List, install, write and check plugins."""


@plugins.command("list")
@json_option
@plugins_dir_option
def plugins_list(as_json: bool, plugin_dirs: tuple[Path, ...]) -> None:
    """List plugins: version, strategies, hooks, and why one did not load."""
    found = catalogue.offers(plugin_dirs)["plugins"]
    if as_json:
        print_json(found)
        return
    for plugin in found:
        heading(plugin["name"], f"{plugin['version']} ({plugin['source']})".lstrip())
        detail("strategies", ", ".join(plugin["strategies"]))
        detail("hooks", ", ".join(plugin["hooks"]))
        for note in plugin["notes"]:
            detail("note", note)
        if plugin["error"]:
            click.secho(f"    did not load: {plugin['error']}", fg="red")


@plugins.command("install")
@click.argument("packages", nargs=-1)
@click.option(
    "-e", "--editable", multiple=True, type=click.Path(), help="Install a folder in place."
)
@click.option("-U", "--upgrade", is_flag=True, help="Also take newer versions of what is there.")
def plugins_install(packages: tuple[str, ...], editable: tuple[str, ...], upgrade: bool) -> None:
    """Install plugins with the pip of this environment."""
    if not packages and not editable:
        raise DataeffError(
            "Name a package, or a folder with -e: dataeff plugins install -e dataeff-my-idea"
        )
    flags = ["--upgrade"] if upgrade else []
    folders = [part for folder in editable for part in ("--editable", folder)]
    _pip("install", *flags, *packages, *folders)


@plugins.command("uninstall")
@click.argument("packages", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def plugins_uninstall(packages: tuple[str, ...], yes: bool) -> None:
    """Uninstall plugins with the pip of this environment."""
    _pip("uninstall", *(["--yes"] if yes else []), *packages)


@plugins.command("new")
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), default=Path(), help="Parent folder.")
@plugins_dir_option
def plugins_new(name: str, into: Path, plugin_dirs: tuple[Path, ...]) -> None:
    """Write a plugin package whose test passes at once."""
    from dataeff.template import write_package

    taken = [offer["name"] for offer in catalogue.offers(plugin_dirs)["strategies"]]
    folder = write_package(name, into, taken)
    click.echo(f"Written: {folder}/")
    for path in sorted(folder.iterdir()):
        click.echo(f"  {path.name}")
    click.echo(f"Next: dataeff plugins install -e {folder}")


@plugins.command("check")
@click.argument("name")
@click.option("--model", default="tiny", show_default=True, help="A small network that it is for.")
@with_plugins
def plugins_check(
    name: str, model: str, installed: Installed, plugin_dirs: tuple[Path, ...]
) -> None:
    """Run the conformance kit on the strategy NAME, or name[key=value]."""
    from dataeff import testing

    for line in testing.check_strategy(name, installed=installed, model=model):
        click.echo(f"ok  {line}")
    click.echo(f"{name} conforms.")


def _pip(*arguments: str) -> None:
    """Run the pip of this environment (or uv's, where there is no pip), saying what is run."""
    command = [sys.executable, "-m", "pip", *arguments]
    if subprocess.run([*command[:3], "--version"], capture_output=True, check=False).returncode:
        if not shutil.which("uv"):
            raise DataeffError(f"This environment has no pip; type: {sys.executable} -m ensurepip")
        uv_arguments = [part for part in arguments if part != "--yes"]
        command = ["uv", "pip", uv_arguments[0], "--python", sys.executable, *uv_arguments[1:]]
    click.echo(f"$ {shlex.join(command)}")
    code = subprocess.run(command, check=False).returncode
    if code:
        raise DataeffError(f"pip ended with code {code}; its own message is above.")
