"""The command that lists suites."""

from __future__ import annotations

from pathlib import Path

import click

from dataeff import catalogue
from dataeff.cli.listed import count, print_json
from dataeff.cli.shared import heading, json_option, plugins_dir_option


@click.command()
@json_option
@plugins_dir_option
def suites(as_json: bool, plugin_dirs: tuple[Path, ...]) -> None:
    """List suites by name."""
    found = catalogue.suites(plugin_dirs)
    if as_json:
        print_json(found)
        return
    for suite in found:
        if suite["error"]:
            heading(suite["name"], f"cannot be run: {suite['error']}")
            continue
        counts = {"task": suite["tasks"], "strategy": suite["strategies"], "seed": suite["seeds"]}
        size = " x ".join(count(number, word) for word, number in counts.items())
        heading(suite["name"], f"{suite['title']} ({size})")
