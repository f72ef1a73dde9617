"""The command that lists models."""

import click

from dataeff import catalogue
from dataeff.cli.echo import echo
from dataeff.cli.listed import for_people, matching
from dataeff.cli.options import listing_options


@click.command()
@click.argument("pattern", default="*")
@listing_options
def models(pattern, as_json, plugin_dirs):
    """List models: ours, torchvision:NAME, and every timm name."""
    found = matching(catalogue.models(plugin_dirs), pattern, "models")
    if names := for_people(found, as_json):
        echo("\n".join(names))
