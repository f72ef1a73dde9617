"""The command that lists datasets, and downloads them."""

from __future__ import annotations

from pathlib import Path

import click

from dataeff import catalogue
from dataeff.cli.listed import print_json
from dataeff.cli.shared import (
    data_root_option,
    detail,
    heading,
    json_option,
    plugins_dir_option,
)
from dataeff.errors import DataeffError


@click.command()
@click.option("--download", metavar="NAME", help="Download this one into --data-root.")
@data_root_option
@json_option
@plugins_dir_option
def datasets(
    download: str | None, data_root: Path | None, as_json: bool, plugin_dirs: tuple[Path, ...]
) -> None:
    """List datasets and their parameters, or download one."""
    if download:
        _download(download, data_root)
        return
    found = catalogue.offers(plugin_dirs)["datasets"]
    if as_json:
        print_json(found)
        return
    for offer in found:
        heading(offer["name"], offer["summary"])
        detail("parameters", ", ".join(offer["parameters"]))


def _download(name: str, data_root: Path | None) -> None:
    from dataeff.data.datasets import download

    if data_root is None:
        raise DataeffError("Say where to: --data-root FOLDER, or set DATAEFF_DATA.")
    download(name, data_root)
    click.echo(f"{name} is in {data_root}.")
