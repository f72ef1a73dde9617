"""The command that draws pictures of a suite."""

import click

from dataeff.cli.echo import echo
from dataeff.cli.options import PATH, judging_options, results_option
from dataeff.errors import DataeffError
from dataeff.report.found import results_folder


@click.command()
@click.argument("suite")
@click.option(
    "--for",
    "sheet",
    type=click.Choice(["column", "page", "slide"]),
    default="page",
    show_default=True,
    help="Where they go: a column of a paper (3.3 inches), its page (7), or a slide of 16:9.",
)
@click.option("--figure", "figures", multiple=True, help="Only this figure; repeatable.")
@click.option(
    "--format",
    "formats",
    type=click.Choice(["pdf", "svg", "png"]),
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

    They are: tradeoff, time, epochs, phases, shares. Strategies bear the short names of the suite
    (`names`). What a caption should say is printed, and kept in the file.

    \b
    dataeff plot quickstart --for column --format pdf
    """
    from dataeff.report.board import read_board
    from dataeff.report.plots.draw import draw

    folder = results_folder(results, suite)
    board = read_board(folder, options["margin"], options["target"])
    order = options["figures"], options["formats"], options["sheet"]
    made = list(draw(board, out or folder / "figures", *order))
    if not made:
        raise DataeffError(f"There is nothing to draw in {folder} yet: no finished cell has it.")
    for paths, caption in made:
        for path in paths:
            echo(f"Written: {path}")
        echo(f"  {caption}")
