"""The command that hands out what training made of each sample."""

from __future__ import annotations

import click

from dataeff.cli.echo import echo
from dataeff.cli.options import PATH, results_option
from dataeff.cli.show import console, say
from dataeff.plural import counted
from dataeff.report.found import results_folder


@click.command()
@click.argument("suite")
@click.argument("cells", metavar="[CELL]...", nargs=-1)
@click.option("--out", type=PATH, required=True, help="Folder of the tables.")
@results_option
def export(suite, cells, out, results):
    """Write one table per cell of SUITE, as .parquet and .csv: one line per training sample.

    It says which samples were kept, how often each was trained, with what weight and loss at last,
    and the scores that the strategy went by. CELL is the name of a cell's folder, which may have
    wildcards, or a strategy; without, it is all cells that tables are made of. cells.csv lists
    them.

    \b
    dataeff export quickstart --out samples
    dataeff export quickstart infobatch '*-s0-*' --out samples
    """
    from dataeff.exchange.exporting import INDEX
    from dataeff.exchange.exporting import export as exported

    folder = results_folder(results, suite)
    with console.status("Writing tables"):
        done = exported(folder, cells, out)
    for note in done.notes:
        echo(note, err=True)
    if done.lines:
        say(f"Written: {out / INDEX}, {counted(len(done.lines), 'cell')} as .parquet and .csv")
