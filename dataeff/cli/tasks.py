"""The command that lists the keys of a task."""

import json
import re

import click

from dataeff import catalogue
from dataeff.cli.listed import for_people
from dataeff.cli.options import json_option


@click.command()
@json_option
def tasks(as_json):
    """List the keys of a task, for [tasks.NAME] of a suite or --set: default and meaning."""
    found = for_people(catalogue.task_keys(), as_json)
    lines = [(key["name"], default_of(key), meaning_of(key)) for key in found]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, default, meaning in lines:
        key = click.style(name, bold=True) + " " * (widths[0] - len(name))
        click.echo(f"{key}  {default:{widths[1]}}  {meaning}")


def default_of(key: catalogue.Offer) -> str:
    """Return a default as a suite file has it; nothing can be written there for None."""
    if key["required"]:
        return "required"
    return "none" if key["default"] is None else json.dumps(key["default"])


def meaning_of(key: catalogue.Offer) -> str:
    """Return what a key means, and which values it may take where these have names."""
    choices = re.findall(r"'([\w-]+)'", key["type"])
    return key["meaning"] + (f" ({', '.join(choices)})" if choices else "")
