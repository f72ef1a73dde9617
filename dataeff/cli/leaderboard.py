"""The command that prints the table of a suite."""

import click

from dataeff.cli.options import PATH, json_option, judging_options, results_folder, results_option
from dataeff.cli.show import show_board
from dataeff.errors import DataeffError


@click.command()
@click.argument("suite")
@judging_options
@click.option("--csv", "csv_file", type=PATH, help="Also write the table here.")
@click.option("--markdown", "form", flag_value="markdown", help="Print Markdown.")
@click.option("--latex", "form", flag_value="latex", help="Print LaTeX (booktabs).")
@json_option
@results_option
def leaderboard(suite, results, csv_file, form, **options):
    """Print the table of SUITE and write leaderboard.csv, runs.csv and classes.csv.

    Where the suite has claims, also claims.csv.
    """
    from dataeff.files import write_csv
    from dataeff.report.board import read_board

    if options["as_json"] and form:
        raise DataeffError(f"--json and --{form} exclude each other; leave one out.")
    folder = results_folder(results, suite)
    board = read_board(folder, options["margin"], options["target"])
    if csv_file:
        write_csv(csv_file, board.table)
    show_board(folder, board, "json" if options["as_json"] else form)
