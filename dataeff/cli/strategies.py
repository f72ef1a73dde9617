"""The command that lists strategies."""

import click

from dataeff import catalogue
from dataeff.cli.echo import echo
from dataeff.cli.listed import detail, for_people, heading, matching
from dataeff.cli.options import listing_options


@click.command()
@click.argument("pattern", default="*")
@listing_options
def strategies(pattern, as_json, plugin_dirs):
    """List strategies with their parameters and paper; of a single one, all there is to say."""
    known = {offer["name"]: offer for offer in catalogue.offers(plugin_dirs)["strategies"]}
    found = [known[name] for name in matching(known, pattern, "strategies")]
    for offer in for_people(found, as_json):
        note = " Reads one number per batch back." if offer["reads_back"] else ""
        heading(offer["name"], offer["summary"] + note)
        detail("parameters", ", ".join(offer["parameters"]))
        detail("paper", offer["paper"])
        if len(found) == 1:
            for paragraph in offer["about"][1:]:
                echo(f"\n{paragraph}")
