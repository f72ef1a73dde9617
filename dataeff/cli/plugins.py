"""The commands about plugins: list, install, write and check them."""

import importlib.metadata
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click

from dataeff import catalogue
from dataeff.cli.echo import echo
from dataeff.cli.group import Commands
from dataeff.cli.listed import detail, for_people, heading
from dataeff.cli.options import PATH, listing_options, plugins_dir_option
from dataeff.errors import DataeffError, UnknownName, did_you_mean

# Seconds that a strategy has to be checked.
_CHECKING = 1800.0


@click.group(cls=Commands)
def plugins() -> None:
    """List, install, write and check plugins."""


@plugins.command("list")
@listing_options
def plugins_list(as_json, plugin_dirs):
    """List plugins: version, strategies, hooks, and why one did not load."""
    for plugin in for_people(catalogue.offers(plugin_dirs)["plugins"], as_json):
        heading(plugin["name"], f"{plugin['version']} ({plugin['source']})".lstrip())
        detail("strategies", ", ".join(plugin["strategies"]))
        detail("hooks", ", ".join(plugin["hooks"]))
        for note in plugin["notes"]:
            detail("note", note)
        if plugin["error"]:
            echo(f"    did not load: {plugin['error']}", fg="red")


@plugins.command("install")
@click.argument("packages", nargs=-1)
@click.option(
    "-e", "--editable", multiple=True, type=click.Path(), help="Install a folder in place."
)
@click.option("-U", "--upgrade", is_flag=True, help="Also take newer versions of what is there.")
def plugins_install(packages, editable, upgrade):
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
def plugins_uninstall(packages, yes):
    """Uninstall plugins with the pip of this environment."""
    for name in packages:
        _check_installed(name)
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise DataeffError(
            "There is no terminal to answer in; add -y: "
            f"{shlex.join(['dataeff', 'plugins', 'uninstall', '-y', *packages])}"
        )
    _pip("uninstall", *(["--yes"] if yes else []), *packages)


@plugins.command("new")
@click.argument("name")
@click.option("--into", type=PATH, default=Path(), help="Parent folder.")
@plugins_dir_option
def plugins_new(name, into, plugin_dirs):
    """Write a plugin package whose test passes at once."""
    from dataeff.template import write_package

    taken = [offer["name"] for offer in catalogue.offers(plugin_dirs)["strategies"]]
    folder = write_package(name, into, taken)
    echo(f"Written: {folder}/")
    for path in sorted(folder.iterdir()):
        echo(f"  {path.name}")
    echo(f"Next: dataeff plugins install -e {folder}")


@plugins.command("check")
@click.argument("name")
@click.option("--model", default="tiny", show_default=True, help="A small network that it is for.")
@plugins_dir_option
def plugins_check(name, model, plugin_dirs):
    """Run the conformance kit on the strategy NAME, or name[key=value]."""
    from dataeff.bench.checking import Checking
    from dataeff.bench.service import PluginService

    with PluginService(Checking, plugin_dirs, limit=_CHECKING) as service:
        for line in service.call("check", name, model):
            echo(f"ok  {line}")
    echo(f"{name} conforms.")


def _check_installed(name: str) -> None:
    """Refuse what pip would pass over in silence, and what is no plugin but something it needs."""
    points = importlib.metadata.entry_points(group="dataeff")
    known = sorted({point.dist.name for point in points if point.dist} - {"dataeff"})
    if _normal(name) not in map(_normal, known):
        hint = did_you_mean(name, known) or f" Installed: {', '.join(known) or 'none'}."
        raise UnknownName(f"No plugin package {name!r} is installed.{hint}")


def _normal(name: str) -> str:
    """Return the name of a package as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _pip(*arguments: str) -> None:
    """Run the pip of this environment (or uv's, where there is no pip), saying what is run."""
    command = [sys.executable, "-m", "pip", *arguments]
    if subprocess.run([*command[:3], "--version"], capture_output=True, check=False).returncode:
        if not shutil.which("uv"):
            raise DataeffError(f"This environment has no pip; type: {sys.executable} -m ensurepip")
        uv_arguments = [part for part in arguments if part != "--yes"]
        command = ["uv", "pip", uv_arguments[0], "--python", sys.executable, *uv_arguments[1:]]
    echo(f"$ {shlex.join(command)}")
    code = subprocess.run(command, check=False).returncode
    if code:
        raise DataeffError(f"pip ended with code {code}; its own message is above.")
