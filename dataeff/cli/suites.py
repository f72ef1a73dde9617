"""The command that lists suites."""

import click

from dataeff import catalogue
from dataeff.cli.listed import for_people, heading
from dataeff.cli.options import listing_options
from dataeff.plural import counted
from dataeff.seeds import in_words


@click.command()
@listing_options
def suites(as_json, plugin_dirs):
    """List suites by name."""
    for suite in for_people(catalogue.suites(plugin_dirs), as_json):
        if suite["error"]:
            heading(suite["name"], f"cannot be run: {suite['error']}")
            continue
        counts = {"task": suite["tasks"], "strategy": suite["strategies"]}
        size = " x ".join(counted(number, word) for word, number in counts.items())
        heading(suite["name"], f"{suite['title']} ({size}, {in_words(suite['seeds'])})")
