"""The command that lists the keys of a task."""

from __future__ import annotations

import json
import re

import click

from dataeff import catalogue
from dataeff.catalogue import Offer
from dataeff.cli.listed import print_json
from dataeff.cli.shared import json_option


@click.command()
@json_option
def tasks(as_json: bool) -> None:
    """List the keys of a task, for [tasks.NAME] of a suite or --set: default and meaning."""
    found = catalogue.task_keys()
    if as_json:
        print_json(found)
        return
    lines = [(key["name"], _default(key), _meaning(key)) for key in found]
    name, default = (max(len(line[place]) for line in lines) for place in (0, 1))
    for line in lines:
        key = click.style(line[0], bold=True) + " " * (name - len(line[0]))
        click.echo(f"{key}  {line[1]:{default}}  {line[2]}")


def _default(key: Offer) -> str:
    """Return a default as a suite file has it; nothing can be written there for None."""
    if key["required"]:
        return "required"
    return "none" if key["default"] is None else json.dumps(key["default"])


def _meaning(key: Offer) -> str:
    """Return what a key means, and which values it may take where these have names."""
    choices = re.findall(r"'(\w+)'", key["type"])
    return key["meaning"] + (f" ({', '.join(choices)})" if choices else "")
