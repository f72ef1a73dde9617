"""The commands that list what there is: strategies, datasets, models, suites, hooks."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import click

from dataeff.cli.shared import data_root_option, detail, heading, json_option, with_plugins
from dataeff.errors import DataeffError, did_you_mean

if TYPE_CHECKING:
    from dataeff.registry import Entry


def _some(found: list[Any], pattern: str, command: str) -> None:
    if not found:
        wider = f"dataeff {command} '*{pattern.strip('*')}*'"
        raise DataeffError(f"Nothing matches {pattern!r}; a wider pattern may help: {wider}")


@click.command()
@click.argument("pattern", default="*")
@json_option
@with_plugins
def strategies(pattern, as_json, installed, plugin_dirs):
    """List strategies with their parameters and paper; of a single one, all there is to say."""
    from dataeff.plugins import hooks_of

    entries = installed.strategies.entries(pattern)
    _some(entries, pattern, "strategies")
    if as_json:
        lines = [
            {
                "name": entry.name,
                "summary": entry.summary,
                "parameters": [str(parameter) for parameter in entry.parameters.values()],
                "paper": entry.paper,
                "hooks": hooks_of(entry.factory),
                "reads_back": getattr(entry.factory, "reads_back", False),
            }
            for entry in entries
        ]
        click.echo(json.dumps(lines, indent=1))
        return
    for entry in entries:
        reads_back = getattr(entry.factory, "reads_back", False)
        note = " Reads one number per batch back." if reads_back else ""
        heading(entry.name, entry.summary + note)
        detail("parameters", _parameters(entry))
        detail("paper", entry.paper)
    if len(entries) == 1:
        for paragraph in entries[0].about[1:]:
            click.echo(f"\n{paragraph}")


def _parameters(entry: Entry) -> str:
    return ", ".join(str(parameter) for parameter in entry.parameters.values())


@click.command()
@click.option("--download", metavar="NAME", help="Download this one into --data-root.")
@data_root_option
@with_plugins
def datasets(download, data_root, installed, plugin_dirs):
    """List datasets and their parameters, or download one."""
    if download:
        from dataeff.data.datasets import download as fetch

        if data_root is None:
            raise DataeffError("Say where to: --data-root FOLDER, or set DATAEFF_DATA.")
        fetch(download, data_root)
        click.echo(f"{download} is in {data_root}.")
        return
    for entry in installed.datasets.entries():
        heading(entry.name, entry.summary)
        detail("parameters", _parameters(entry))


@click.command()
@click.argument("pattern", default="*")
@with_plugins
def models(pattern, installed, plugin_dirs):
    """List models: ours, torchvision:NAME, and every timm name."""
    from dataeff.models import model_names

    names = model_names(installed.models, pattern)
    _some(names, pattern, "models")
    click.echo("\n".join(names))


@click.command()
@with_plugins
def suites(installed, plugin_dirs):
    """List suites by name."""
    from dataeff.bench.suite import load_suite

    for entry in installed.suites.entries():
        try:
            suite = load_suite(entry.name, installed)
        except DataeffError as error:
            heading(entry.name, f"cannot be run: {error}")
            continue
        counts = {"task": len(suite.tasks), "strategy": len(suite.strategies), "seed": suite.seeds}
        size = " x ".join(_count(number, word) for word, number in counts.items())
        heading(entry.name, f"{suite.title} ({size})")


def _count(number: int, word: str) -> str:
    plural = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{number} {word if number == 1 else plural}"


@click.command()
@click.argument("name", required=False)
@with_plugins
def hooks(name, installed, plugin_dirs):
    """Print the loop and its hooks, or one hook and the strategies that use it."""
    from dataeff import hookspecs
    from dataeff.plugins import hook_kind, hooks_of

    known = [hook for hook, spec in vars(hookspecs).items() if hasattr(spec, "dataeff_spec")]
    if name is None:
        click.echo(inspect.getdoc(hookspecs))
        click.echo("\nHooks:")
        for hook in known:
            click.echo(f"  {hook_kind(hook):8} {hook}{_arguments(getattr(hookspecs, hook))}")
        return
    if name not in known:
        raise DataeffError(
            f"There is no hook {name!r}.{did_you_mean(name, known)} See: dataeff hooks"
        )
    spec = getattr(hookspecs, name)
    click.echo(f"{name}{_arguments(spec)}\n\n{inspect.getdoc(spec)}")
    users = [
        entry.name for entry in installed.strategies.entries() if name in hooks_of(entry.factory)
    ]
    click.echo(f"\nUsed by: {', '.join(users) or 'no installed strategy'}")


def _arguments(hook: Any) -> str:
    return f"({', '.join(inspect.signature(hook).parameters)})"
