"""The command that lists models."""

from __future__ import annotations

from pathlib import Path

import click

from dataeff import catalogue
from dataeff.cli.listed import matching, print_json
from dataeff.cli.shared import json_option, plugins_dir_option


@click.command()
@click.argument("pattern", default="*")
@json_option
@plugins_dir_option
def models(pattern: str, as_json: bool, plugin_dirs: tuple[Path, ...]) -> None:
    """List models: ours, torchvision:NAME, and every timm name."""
    found = matching(catalogue.models(plugin_dirs), pattern, "models")
    if as_json:
        print_json(found)
    else:
        click.echo("\n".join(found))
