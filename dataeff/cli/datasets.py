"""The command that lists datasets, and downloads them."""

import click

from dataeff import catalogue
from dataeff.cli.echo import echo
from dataeff.cli.listed import detail, for_people, heading
from dataeff.cli.options import data_root_option, listing_options
from dataeff.errors import DataeffError


@click.command()
@click.option("--download", "name", metavar="NAME", help="Download this one into --data-root.")
@data_root_option
@listing_options
def datasets(name, data_root, as_json, plugin_dirs):
    """List datasets and their parameters, or download one."""
    if name is None:
        for offer in for_people(catalogue.offers(plugin_dirs)["datasets"], as_json):
            heading(offer["name"], offer["summary"])
            detail("parameters", ", ".join(offer["parameters"]))
        return
    if data_root is None:
        raise DataeffError("Say where to: --data-root FOLDER, or set DATAEFF_DATA.")
    from dataeff.data.datasets import download

    download(name, data_root)
    echo(f"{name} is in {data_root}.")
