"""The command that lists strategies."""

from __future__ import annotations

from pathlib import Path

import click

from dataeff import catalogue
from dataeff.cli.listed import matching, print_json
from dataeff.cli.shared import detail, heading, json_option, plugins_dir_option


@click.command()
@click.argument("pattern", default="*")
@json_option
@plugins_dir_option
def strategies(pattern: str, as_json: bool, plugin_dirs: tuple[Path, ...]) -> None:
    """List strategies with their parameters and paper; of a single one, all there is to say."""
    known = {offer["name"]: offer for offer in catalogue.offers(plugin_dirs)["strategies"]}
    found = [known[name] for name in matching(known, pattern, "strategies")]
    if as_json:
        print_json(found)
        return
    for offer in found:
        note = " Reads one number per batch back." if offer["reads_back"] else ""
        heading(offer["name"], offer["summary"] + note)
        detail("parameters", ", ".join(offer["parameters"]))
        detail("paper", offer["paper"])
    if len(found) == 1:
        for paragraph in found[0]["about"][1:]:
            click.echo(f"\n{paragraph}")
