"""The command that draws pictures of a suite."""

import click

from dataeff.cli.echo import echo
from dataeff.cli.options import PATH, judging_options, results_folder, results_option
from dataeff.errors import DataeffError


@click.command()
@click.argument("suite")
@click.option("--figure", "figures", multiple=True, help="Only this figure; repeatable.")
@click.option(
    "--format",
    "formats",
    type=click.Choice(["png", "svg"]),
    multiple=True,
    default=("png",),
    show_default=True,
    help="The form of the pictures; repeatable.",
)
@click.option("--out", type=PATH, help="Their folder (default: RESULTS/SUITE/figures).")
@judging_options
@results_option
def plot(suite, results, out, **options):
    """Draw the main figures of SUITE as pictures, for papers and slides.

    They are: tradeoff, time, epochs, phases, shares.
    """
    from dataeff.report.board import read_board
    from dataeff.report.plots import draw

    folder = results_folder(results, suite)
    board = read_board(folder, options["margin"], options["target"])
    paths = list(draw(board, out or folder / "figures", options["figures"], options["formats"]))
    if not paths:
        raise DataeffError(f"There is nothing to draw in {folder} yet: no finished cell has it.")
    for path in paths:
        echo(f"Written: {path}")
