"""The command line, one function per command."""

from __future__ import annotations

import click

from dataeff.cli import analyzing, comparing, listing, plugins, reading, running
from dataeff.cli.shared import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dataeff")
def main() -> None:
    """Measure which ways to train on less data really save time, and at what accuracy."""


for _command in (
    running.run,
    reading.leaderboard,
    reading.report,
    reading.plot,
    comparing.compare,
    analyzing.analyze,
    listing.strategies,
    listing.datasets,
    listing.models,
    listing.suites,
    listing.hooks,
    plugins.plugins,
):
    main.add_command(_command)
