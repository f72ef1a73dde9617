"""The command that brings results of several machines together."""

from __future__ import annotations

import click

from dataeff.cli.echo import echo
from dataeff.cli.options import PATH
from dataeff.cli.show import console, say
from dataeff.plural import counted


@click.command()
@click.argument("into", type=PATH)
@click.argument("sources", metavar="FROM...", nargs=-1, type=PATH, required=True)
def merge(into, sources):
    """Bring the cells of the results FROM into INTO, where tables are then made of all of them.

    Each is a folder of results, or that of one suite. Every file is held to its checksum. What is
    there already is skipped; of two runs of one cell that differ, that in INTO stays, and the other
    is named. What FROM holds is only read; merging twice changes nothing.

    \b
    dataeff merge results server/results
    dataeff merge results/quickstart laptop/quickstart server/quickstart
    """
    from dataeff.exchange.merging import merge as merged
    from dataeff.exchange.merging import pairs_of

    refused = []
    pairs = pairs_of(into, sources)
    with console.status("Merging") as status:
        found = [merged(pair, lambda text: status.update(f"Merging {text}")) for pair in pairs]
    for pair, done in zip(pairs, found, strict=True):
        taken, there = done.cells["taken"], done.cells["there"]
        was = "was" if there == 1 else "were"
        say(f"{pair.source}: {counted(taken, 'cell')} taken, {there} {was} there already.")
        for note in [*done.notes, *done.refused]:
            echo(note, err=True)
        refused += done.refused
    for target in dict.fromkeys(pair.target for pair in pairs):
        say(f"Type: dataeff leaderboard {target}")
    if refused:
        raise click.exceptions.Exit(1)
